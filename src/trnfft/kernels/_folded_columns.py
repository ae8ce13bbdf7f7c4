"""Two factors along an inner axis, on chip, with the tables of `_folded`: columns stay columns.

Loaded as it lies, an inner axis already has n1 on the partitions, and the second product has its table stationary, so
that k comes out on the partitions, beside the columns. Below 190 KiB a partition.
"""

from trnfft.kernels._common import _leave, _rotate
from trnfft.kernels._folded import _equal, _first_product, _load_wide, _slots, _widths
from trnsci.nki import N_TILE, P_MAX, load, nisa, nl, store, tiles

# Bytes of a partition that one load takes.
LOAD = 16 * 1024


def _folded_columns(out_re_hbm, out_im_hbm, re_hbm, im_hbm, tables, sizes):
    """out[A, k1 + kept k2, C] = sum_n2 W^(N1 n2 k2) sum_n1 W^((N2 n1 + n2) k1) x[A, N2 n1 + n2, C].

    The first ``kept`` values of k1 are computed: all N1, or those that stand for the others as well where x is real.
    """
    A, C, N1, N2, kept, group, first, second = sizes
    planes = [re_hbm.reshape((A, N1, N2, C))]
    if im_hbm is not None:
        planes.append(im_hbm.reshape((A, N1, N2, C)))
    outs = [out_re_hbm.reshape((A, N2, kept, C)), out_im_hbm.reshape((A, N2, kept, C))]
    first_sb = _load_wide(tables[first])  # [p n1, n2 k1 part]
    second_sb = load(tables[second]).reshape_dim(1, (2 * N2, group))  # [i p n2, part k2, i]
    most = max(P_MAX, min(N_TILE, LOAD // (N2 * 4)))
    at_c, at_v = _even(C, most)
    at_a = min(A, most // at_c) if at_c == C else 1
    blocks = []
    for a in tiles(A, at_a):
        for c in tiles(C, at_c):
            blocks.append((a, c))
    ahead = None
    for index in range(len(blocks) + 1):
        made = ahead
        if index < len(blocks):
            ahead = _first_of(planes, blocks[index], first_sb, (kept, at_v))
        if index > 0:
            a, c = blocks[index - 1]
            _second_of(outs, [(a, c.span, slice(0, a.size * c.size))], made, second_sb, 2)


def _even(count, most):
    """Columns of a load and of a product, where 128 of them, or all but a few, are as dear as 128."""
    products = (count + P_MAX - 1) // P_MAX
    at_v = (count + products - 1) // products
    return min(count, max(1, most // at_v) * at_v), at_v


def _folded_turned(out_re_hbm, out_im_hbm, re_hbm, im_hbm, tables, sizes):
    """out[A, k, R] = sum_n W^(n k) w[R, n] x[A, R, n], n and k being split as above: rows, turned, become columns.

    Twiddles w may be fewer than R, and are then repeated. Of half a spectrum (``half`` is -1) only n <= N1 N2 / 2 is
    given, as x[R, A, n], and the result is real.
    """
    A, R, N1, N2, half, group, first, second, turn = sizes
    width = N1 * N2 // 2 + 1 if half == -1 else N1 * N2
    # Rows of several A share a block where tiles do not meet two of them, or would be empty by more than a tenth.
    shared = half == 0 and (R % P_MAX == 0 or 10 * R < 9 * ((R + P_MAX - 1) // P_MAX * P_MAX))
    planes = []
    for x_hbm in (re_hbm, im_hbm):
        if half == -1:
            planes.append(x_hbm.reshape((R, A, width)).permute((1, 0, 2)))
        else:
            planes.append(x_hbm.reshape((1, A * R, width) if shared else (A, R, width)))
    outs = [out_re_hbm.reshape((A, N2, N1, R))]
    if half == 0:
        outs.append(out_im_hbm.reshape((A, N2, N1, R)))
    unit = 1 if half == -1 else 2
    first_sb = _load_wide(tables[first])  # [p n1, n2 k1 part]
    second_sb = load(tables[second]).reshape_dim(1, (len(outs) * N2, group))  # [i p n2, part k2, i]
    # Four blocks at least: the first product of one runs beside the second of another.
    quarter = (A * R + 4 * P_MAX - 1) // (4 * P_MAX) * P_MAX
    blocks = []
    for a in tiles(planes[0].shape[0], 1):
        for b in tiles(planes[0].shape[1], max(P_MAX, min(N_TILE, LOAD // (N1 * N2 * 4) * P_MAX, quarter))):
            blocks.append((a, b))
    ahead = None
    for index in range(len(blocks) + 1):
        made = ahead
        if index < len(blocks):
            a, b = blocks[index]
            ahead = []
            for v in tiles(b.size, P_MAX):
                rows = slice(b.start + v.start, b.start + v.stop)
                here = [planes[0][a.start, rows], planes[1][a.start, rows]]
                x_sb = _twisted(here, rows.start, tables[turn], (N1 + 1) // 2 * N2 + 1 if half == -1 else width)
                a_sb = _first_product(_slots(x_sb, N1, N2, half), _widths(N1, N2, half), first_sb)
                ahead.append(a_sb.reshape_dim(1, (N2, unit * N1)))
        if index > 0:
            a, b = blocks[index - 1]
            places = _places(b, A, R) if shared else [(a, b.span, slice(0, b.size))]
            _second_of(outs, places, made, second_sb, unit)


def _places(b, A, R):
    """(a, rows of R, columns of the block) of every part of a block of rows of [A, R]."""
    found = []
    for a in tiles(A, 1):
        low, high = max(b.start, a.start * R), min(b.stop, a.stop * R)
        if low < high:
            found.append((a, slice(low - a.start * R, high - a.start * R), slice(low - b.start, high - b.start)))
    return found


def _twisted(planes, start, w_hbm, padded):
    """[b, part, n]: rows times twiddles that differ from row to row, from ``start`` on and again from the first."""
    rows, width = planes[0].shape
    period = w_hbm.shape[1]
    x_sb, w_sb = [], []
    for p in range(2):
        x_sb.append(load(planes[p]))  # [b, n]
        tile_sb = nl.ndarray((rows, width), dtype=w_hbm.dtype, buffer=nl.sbuf)  # [b, n]
        done = 0
        while done < rows:
            at = (start + done) % period
            size = min(period - at, rows - done)
            nisa.dma_copy(dst=tile_sb[done : done + size], src=w_hbm[p, at : at + size])
            done += size
        w_sb.append(tile_sb)
    z_sb = nl.ndarray((rows, 2, padded), dtype=x_sb[0].dtype, buffer=nl.sbuf)  # [b, part, n]
    if padded > width:
        nisa.memset(dst=z_sb[:, :, width:padded], value=0.0)
    _rotate(z_sb[:, 0, 0:width], z_sb[:, 1, 0:width], x_sb[0], x_sb[1], w_sb[0], w_sb[1])
    return z_sb


def _first_of(planes, block, table_sb, sizes):
    """Tiles [ac, w] of up to 128 columns each, twiddles included."""
    a, c = block
    kept, at_v = sizes
    N1, N2 = planes[0].shape[1], planes[0].shape[2]
    x_sb = nl.ndarray((len(planes) * N1, a.size, N2, c.size), dtype=planes[0].dtype, buffer=nl.sbuf)  # [p n1, a, n2, c]
    for p in range(len(planes)):
        here = planes[p][a.span, :, :, c.span].permute((1, 0, 2, 3))  # [n1, a, n2, c]
        nisa.dma_copy(dst=x_sb[p * N1 : (p + 1) * N1], src=here)
    found = []
    width = 2 * kept
    # Columns of one product: several of A where C is short.
    for u in tiles(a.size, max(1, P_MAX // c.size)):
        for v in tiles(c.size, at_v):
            a_sb = nl.ndarray((u.size * v.size, N2, width), dtype=table_sb.dtype, buffer=nl.sbuf)  # [ac, n2, w]
            for s in tiles(N2, N_TILE // width):
                a_ps = nl.ndarray((u.size * v.size, s.size, width), dtype=nl.float32, buffer=nl.psum)  # [ac, s, w]
                for j in range(s.size):
                    n2 = s.start + j
                    nisa.nc_matmul(
                        dst=a_ps[:, j, :],
                        stationary=x_sb[:, u.span, n2, v.span],
                        moving=table_sb[:, n2 * width : (n2 + 1) * width],
                        accumulate=False,
                    )
                _leave(a_sb[:, s.span, :], a_ps, s.index % 2 == 1)
            found.append(a_sb)
    return found


def _second_of(outs, places, made, table_sb, unit):
    """Groups of k1 of all columns of a block, transposed, under one table; ``places`` are where columns belong."""
    kept, group, columns = outs[0].shape[2], table_sb.shape[2], 0
    for a_sb in made:
        columns += a_sb.shape[0]
    parts = table_sb.shape[1]
    for run in _equal(kept, group):
        start, size, many = run
        y_sb = nl.ndarray((parts * size, many, columns), dtype=outs[0].dtype, buffer=nl.sbuf)  # [part k2 i, j, ac]
        for j in range(many):
            at = start + j * size
            aT_sb = _beside(made, slice(unit * at, unit * (at + size)), columns, j % 2 == 1)  # [i p n2, ac]
            y_ps = nl.ndarray((parts * size, columns), dtype=nl.float32, buffer=nl.psum)  # [part k2 i, ac]
            nisa.nc_matmul(dst=y_ps, stationary=table_sb[0 : aT_sb.shape[0], :, 0:size], moving=aT_sb, accumulate=False)
            _leave(y_sb[:, j, :], y_ps, j % 2 == 0)
        share = parts * size // len(outs)
        for o in range(len(outs)):
            for place in places:
                a, c, here = place
                dst = outs[o][a.span, :, start : start + many * size, c].reshape_dim(2, (many, size))
                store(dst.permute((1, 3, 2, 0, 4)), y_sb[o * share : (o + 1) * share, :, here])  # [k2, i, j, a, c]


def _beside(made, here, columns, odd):
    """[i p n2, ac]: one group of k1 of several tiles of columns, transposed, beside each other."""
    k = (here.stop - here.start) * made[0].shape[1]
    aT_ps = nl.ndarray((k, columns), dtype=made[0].dtype, buffer=nl.psum)  # [i p n2, ac]
    done = 0
    for a_sb in made:
        view = a_sb[:, :, here].permute((0, 2, 1))  # [ac, i p, n2]
        nisa.nc_transpose(dst=aT_ps[:, done : done + a_sb.shape[0]], data=view)
        done += a_sb.shape[0]
    aT_sb = nl.ndarray((k, columns), dtype=made[0].dtype, buffer=nl.sbuf)  # [i p n2, ac]
    _leave(aT_sb, aT_ps, odd)
    return aT_sb
