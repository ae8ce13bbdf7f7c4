"""Two factors along an inner axis, on chip, with the tables of `_transform_folded`: columns stay columns.

Loaded as it lies, an inner axis already has n1 on the partitions, and the second product has its table stationary, so
that k comes out on the partitions, beside the columns. Below 190 KiB a partition.
"""

from trnfft.kernels._common import _leave, _planes, _rotate, _table
from trnfft.kernels._folded import _equal, _first_product, _load_wide, _slots, _widths
from trnsci.nki import N_TILE, P_MAX, load, move, nisa, nl, store, tiles

# Bytes of a partition that one load of columns takes.
COLUMN_BYTES = 16 * 1024


def _folded_columns(out_re_hbm, out_im_hbm, re_hbm, im_hbm, matrices_hbm, sizes):
    """Compute out[A, k1 + kept k2, C] = sum_n2 W^(N1 n2 k2) sum_n1 W^((N2 n1 + n2) k1) x[A, N2 n1 + n2, C].

    The first ``kept`` values of k1 are computed: all N1, or those that stand for the others as well where x is real.
    """
    A, C, N1, N2, kept, group, first, second = sizes
    planes = _planes(re_hbm, im_hbm, (A, N1, N2, C))
    outs = _planes(out_re_hbm, out_im_hbm, (A, N2, kept, C))
    first_sb = _load_wide(matrices_hbm, first)  # [p n1, n2 k1 part]
    second_sb = load(_table(matrices_hbm, second))  # [i p n2, part k2 i]
    most = max(P_MAX, min(N_TILE, COLUMN_BYTES // (N2 * 4)))
    at_c, at_v = _even(C, most)
    at_a = min(A, most // at_c) if at_c == C else 1
    blocks = []
    for a in tiles(A, at_a):
        for c in tiles(C, at_c):
            blocks.append((a, c))
    ahead = None
    for index in range(len(blocks) + 1):
        ready = ahead
        if index < len(blocks):
            ahead = _first_of(planes, blocks[index], first_sb, (kept, at_v))
        if index > 0:
            a, c = blocks[index - 1]
            _second_of(outs, [(a, c.start, c.size, 0)], ready, second_sb, (2, N2, group))


def _even(count, most):
    """Return columns of a load and of a product: 128 of them, or all but a few, cost as much as 128."""
    products = (count + P_MAX - 1) // P_MAX
    at_v = (count + products - 1) // products
    return min(count, max(1, most // at_v) * at_v), at_v


def _folded_transposed(out_re_hbm, out_im_hbm, re_hbm, im_hbm, matrices_hbm, twiddles_hbm, sizes):
    """Compute out[A, k, R] = sum_n W^(n k) w[R, n] x[A, R, n], n and k split as above: rows become columns.

    Twiddles w may be fewer than R, and are then repeated. Of half a spectrum (``half`` is -1) only n <= N1 N2 / 2 is
    given, as x[R, A, n], and the result is real.
    """
    A, R, N1, N2, half, group, first, second, twiddles = sizes
    width = N1 * N2 // 2 + 1 if half == -1 else N1 * N2
    # Rows of several A share a block where tiles do not meet two of them, or would be empty by more than a tenth.
    shared = half == 0 and (R % P_MAX == 0 or 10 * R < 9 * ((R + P_MAX - 1) // P_MAX * P_MAX))
    outer, rows = (1, A * R) if shared else (A, R)
    outs = _planes(out_re_hbm, out_im_hbm, (A, N2, N1, R))
    unit = 1 if half == -1 else 2
    first_sb = _load_wide(matrices_hbm, first)  # [p n1, n2 k1 part]
    second_sb = load(_table(matrices_hbm, second))  # [i p n2, part k2 i]
    # Four blocks at least: the first product of one runs beside the second of another.
    quarter = (A * R + 4 * P_MAX - 1) // (4 * P_MAX) * P_MAX
    most = max(P_MAX, min(min(N_TILE, COLUMN_BYTES // (N1 * N2 * 4) * P_MAX), quarter))
    blocks = []
    for a in tiles(outer, 1):
        for b in tiles(rows, most):
            blocks.append((a, b))
    padded = (N1 + 1) // 2 * N2 + 1 if half == -1 else width
    ahead = None
    for index in range(len(blocks) + 1):
        ready = ahead
        if index < len(blocks):
            a, b = blocks[index]
            ahead = []
            for v in tiles(b.size, P_MAX):
                row = b.start + v.start
                at, step = (row * A + a.start, A) if half == -1 else (a.start * rows + row, 1)
                pattern = [[step * width, v.size], [1, width]]  # [b, n]
                here = [re_hbm.ap(pattern, offset=at * width), im_hbm.ap(pattern, offset=at * width)]
                x_sb = _load_twisted(here, row, twiddles_hbm, twiddles, padded)
                ahead.append(_first_product(_slots(x_sb, N1, N2, half), _widths(N1, N2, half), first_sb))
        if index > 0:
            a, b = blocks[index - 1]
            parts = _parts_of_block(b, A, R) if shared else [(a, b.start, b.size, 0)]
            _second_of(outs, parts, ready, second_sb, (unit, N2, group))


def _parts_of_block(b, A, R):
    """List (a, first row of R, rows, first column of the block) of every part of a block of rows of [A, R]."""
    parts = []
    for a in tiles(A, 1):
        low, high = max(b.start, a.start * R), min(b.stop, a.stop * R)
        if low < high:
            parts.append((a, low - a.start * R, high - low, low - b.start))
    return parts


def _load_twisted(planes, start, twiddles_hbm, t, padded):
    """Return [b, part, n]: rows times twiddles that differ by row, from ``start`` on, repeated where fewer."""
    rows, width = planes[0].shape
    offset, period, columns = t
    x_sb, w_sb = [], []
    for p in range(2):
        x_sb.append(load(planes[p]))  # [b, n]
        tile_sb = nl.ndarray((rows, width), dtype=twiddles_hbm.dtype, buffer=nl.sbuf)  # [b, n]
        done = 0
        while done < rows:
            at = (start + done) % period
            size = min(period - at, rows - done)
            here = twiddles_hbm.ap([[columns, size], [1, width]], offset=offset + (p * period + at) * columns)
            move(tile_sb[done : done + size], here, "compiler")
            done += size
        w_sb.append(tile_sb)
    z_sb = nl.ndarray((rows, 2, padded), dtype=x_sb[0].dtype, buffer=nl.sbuf)  # [b, part, n]
    if padded > width:
        nisa.memset(dst=z_sb[:, :, width:padded], value=0.0)
    _rotate(z_sb[:, 0, 0:width], z_sb[:, 1, 0:width], x_sb[0], x_sb[1], w_sb[0], w_sb[1])
    return z_sb


def _first_of(planes, block, table_sb, sizes):
    """Return tiles [ac, w] of up to 128 columns each, twiddles included."""
    a, c = block
    kept, at_v = sizes
    _, N1, N2, C = planes[0].shape
    x_sb = nl.ndarray((len(planes) * N1, a.size, N2, c.size), dtype=planes[0].dtype, buffer=nl.sbuf)  # [p n1, a, n2, c]
    for p in range(len(planes)):
        pattern = [[N2 * C, N1], [N1 * N2 * C, a.size], [C, N2], [1, c.size]]  # [n1, a, n2, c]
        here = planes[p].ap(pattern, offset=a.start * N1 * N2 * C + c.start)
        move(x_sb[p * N1 : (p + 1) * N1], here)
    products = []
    width = 2 * kept
    # Columns of one product: several of A where C is short.
    for u in tiles(a.size, max(1, P_MAX // c.size)):
        for v in tiles(c.size, at_v):
            a_sb = nl.ndarray((u.size * v.size, N2 * width), dtype=table_sb.dtype, buffer=nl.sbuf)  # [ac, n2 w]
            for s in tiles(N2, N_TILE // width):
                a_ps = nl.ndarray((u.size * v.size, s.size * width), dtype=nl.float32, buffer=nl.psum)  # [ac, s w]
                for j in range(s.size):
                    n2 = s.start + j
                    nisa.nc_matmul(
                        dst=a_ps[:, j * width : (j + 1) * width],
                        stationary=x_sb[:, u.span, n2, v.span],
                        moving=table_sb[:, n2 * width : (n2 + 1) * width],
                        accumulate=False,
                    )
                _leave(a_sb[:, s.start * width : s.stop * width], a_ps, s.index % 2 == 1)
            products.append(a_sb)
    return products


def _second_of(outs, parts_of_block, products, table_sb, sizes):
    """Multiply transposed groups of k1 of all columns by one table; store ``parts_of_block`` where they belong."""
    unit, N2, group = sizes
    _, _, kept, C = outs[0].shape
    columns = 0
    for a_sb in products:
        columns += a_sb.shape[0]
    parts = len(outs) * N2
    for run in _equal(kept, group):
        start, size, many = run
        y_sb = nl.ndarray((parts * size, many, columns), dtype=outs[0].dtype, buffer=nl.sbuf)  # [part k2 i, j, ac]
        for j in range(many):
            aT_sb = _beside(products, (unit * (start + j * size), unit * size, N2, columns), j % 2 == 1)  # [i p n2, ac]
            y_ps = nl.ndarray((parts * size, columns), dtype=nl.float32, buffer=nl.psum)  # [part k2 i, ac]
            pattern = [[parts * group, aT_sb.shape[0]], [group, parts], [1, size]]  # [i p n2, part k2, i]
            nisa.nc_matmul(dst=y_ps, stationary=table_sb.ap(pattern, offset=0), moving=aT_sb, accumulate=False)
            _leave(y_sb[:, j, :], y_ps, j % 2 == 0)
        share = N2 * size
        # small stores are many, and need a second queue
        queue = "static" if many > 2 else "compiler"
        for o in range(len(outs)):
            for part in parts_of_block:
                a, c, count, first = part
                pattern = [[kept * C, N2], [C, size], [size * C, many], [N2 * kept * C, a.size], [1, count]]
                dst = outs[o].ap(pattern, offset=(a.start * N2 * kept + start) * C + c)  # [k2, i, j, a, c]
                store(dst, y_sb[o * share : (o + 1) * share, :, first : first + a.size * count], queue)


def _beside(products, sizes, odd):
    """Return [i p n2, ac]: one group of k1 of several tiles of columns, transposed, side by side."""
    first, count, N2, columns = sizes
    dtype = products[0].dtype
    aT_ps = nl.ndarray((count * N2, columns), dtype=dtype, buffer=nl.psum)  # [i p n2, ac]
    done = 0
    for a_sb in products:
        rows, width = a_sb.shape
        view = a_sb.ap([[width, rows], [1, count], [width // N2, N2]], offset=first)  # [ac, i p, n2]
        nisa.nc_transpose(dst=aT_ps[:, done : done + rows], data=view)
        done += rows
    aT_sb = nl.ndarray((count * N2, columns), dtype=dtype, buffer=nl.sbuf)  # [i p n2, ac]
    _leave(aT_sb, aT_ps, odd)
    return aT_sb
