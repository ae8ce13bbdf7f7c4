"""Rows of two factors with twiddles folded into the first tables: a row stays on its partition from load to store.

Each of N2 residues has a table of its own for the first product, with the twiddles in it, so that only the Tensor
Engine multiplies. What a product sums over is transposed onto the partitions before it. Where half of a spectrum is the
conjugate of the other, reversed orders are columns of tables and positions of products, which cost nothing.
Below 170 KiB a partition.
"""

from trnfft.kernels._common import _free, _leave, _load_repeated, _planes, _table, _times
from trnsci.nki import N_TILE, P_MAX, load, move, nisa, nl, store, tiles

# Transposed tiles that leave PSUM together.
TOGETHER = N_TILE // P_MAX


def _transform_folded(out_re_hbm, out_im_hbm, re_hbm, im_hbm, matrices_hbm, twiddles_hbm, given_hbm, sizes):
    """Compute out[A, k1 + N1 k2] = sum_n2 W^(N1 n2 k2) sum_n1 W^((N2 n1 + n2) k1) x[A, N2 n1 + n2].

    ``half`` is -1 where rows are half a spectrum, 1 where they become one, 0 otherwise. ``width`` elements of a row are
    read and ``written`` are written. ``group`` values of k1 share a second product. ``unpaired`` is the table for those
    k1 of a half spectrum that have no partner; ``after`` is what whole rows are multiplied by in the end, if anything.
    ``loaded`` and ``stored`` are factors of rows on the way in and out, in ``given_hbm``: (planes of the rows, parts
    of the factor, table), whose table has one row for all of them or one for each. Rows that are ``frames`` of signals
    overlap in HBM, see `_cut`, and are multiplied by a window where they have a factor.
    """
    A, width, written, N1, N2, half, group, first, second, unpaired, after, loaded, stored, frames = sizes
    planes = [] if len(frames) > 0 else _planes(re_hbm, im_hbm, (A, width))
    outs = _planes(out_re_hbm, out_im_hbm, (A, written))
    held = _load_tables(matrices_hbm, first, second, unpaired)
    # A chirp takes no factors beside its own.
    factor = stored if len(after) == 0 else (2, 2, after)
    factors_hbm = given_hbm if len(after) == 0 else twiddles_hbm
    parts = factor[0] if len(factor) > 0 else len(outs)
    blocks = tiles(A, P_MAX)
    before_sb, after_sb = [], []
    ahead_sb = None
    for index in range(len(blocks) + 1):
        a_sb = ahead_sb
        if index < len(blocks):
            before_sb = _factor(given_hbm, loaded, blocks[index], width, before_sb)
            if len(frames) > 0:
                x_sb = _cut(re_hbm, given_hbm, blocks[index], width, before_sb, frames)
            else:
                x_sb = _load_rows(planes, blocks[index], before_sb, matrices_hbm.dtype, (N1, N2, half))
            ahead_sb = _first_product(_slots(x_sb, N1, N2, half), _widths(N1, N2, half), held[0])
        if index > 0:
            b = blocks[index - 1]
            dtype = nl.float32 if len(factor) > 0 else out_re_hbm.dtype
            y_sb = _second_product(a_sb, held, (parts, N1, N2, half, group), dtype)
            if len(factor) > 0:
                after_sb = _factor(factors_hbm, factor, b, written, after_sb)
                y_sb = _multiply_elements(y_sb[:, :, 0:written], after_sb, len(outs), out_re_hbm.dtype)
            for o in range(len(outs)):
                store(outs[o][b.span], y_sb[:, o, 0:written])


def _cut(re_hbm, given_hbm, b, width, window_sb, frames):
    """Load [b, 1, n]: a block of frames, in one load for each signal and piece that it meets, and window them.

    Frames are (how many of a signal, samples from one to the next, pieces), pieces (whether from ``given_hbm``, which
    has the padded ends of signals, length of its signals, first frame, frames, where the first one starts).
    """
    T, hop, pieces = frames
    x_sb = nl.ndarray((b.size, 1, width), dtype=re_hbm.dtype, buffer=nl.sbuf)  # [b, p, n]
    for a in range(b.start // T, (b.stop - 1) // T + 1):
        for piece in pieces:
            aside, length, begin, count, at = piece
            low = max(b.start, a * T + begin)
            high = min(b.stop, a * T + begin + count)
            if low < high:
                start = a * length + at + (low - a * T - begin) * hop
                source = given_hbm if aside else re_hbm
                move(x_sb[low - b.start : high - b.start, 0], source.ap([[hop, high - low], [1, width]], offset=start))
    if len(window_sb) > 0:
        nisa.tensor_tensor(dst=x_sb[:, 0], data1=x_sb[:, 0], data2=window_sb[0][0 : b.size], op=nl.multiply)
    return x_sb


def _load_tables(matrices_hbm, first, second, unpaired):
    """Load the tables of both products."""
    unpaired_sb = load(_table(matrices_hbm, unpaired)) if len(unpaired) > 0 else None
    return [_load_wide(matrices_hbm, first), load(_table(matrices_hbm, second)), unpaired_sb]


def _factor(tables_hbm, factor, b, width, held_sb):
    """Return [b, k] of each part of a factor: what is held already, where all share one row."""
    if len(factor) == 0:
        return held_sb
    _, parts, t = factor
    offset, rows, columns = t
    if rows == 1 and len(held_sb) > 0:
        return held_sb
    parts_sb = []
    for part in range(parts):
        if rows == 1:
            parts_sb.append(_load_repeated(tables_hbm, t, part, b.size, 0, width))  # [b, k]
        else:
            start = offset + (part * rows + b.start) * columns
            parts_sb.append(load(tables_hbm.ap([[columns, b.size], [1, width]], offset=start)))  # [b, k]
    return parts_sb


def _multiply_elements(y_sb, by_sb, parts, dtype):
    """Return [b, part, k]: rows times one row, or each times its own."""
    rows, planes, width = y_sb.shape
    z_sb = nl.ndarray((rows, parts, width), dtype=dtype, buffer=nl.sbuf)  # [b, part, k]
    _times(_each(z_sb, parts, width), _each(y_sb, planes, width), _first_rows(by_sb, rows))
    return z_sb


def _each(tile_sb, planes, width):
    """Return the first elements of every plane of [b, plane, k]."""
    planes_sb = []
    for p in range(planes):
        planes_sb.append(tile_sb[:, p, 0:width])
    return planes_sb


def _first_rows(tiles_sb, rows):
    """Return the first rows of every tile."""
    rows_sb = []
    for i in range(len(tiles_sb)):
        rows_sb.append(tiles_sb[i][0:rows])
    return rows_sb


def _load_wide(matrices_hbm, t):
    """Load a table in pieces, so that the first product can start before all of it has come."""
    offset, rows, columns = t
    table_sb = nl.ndarray((rows, columns), dtype=matrices_hbm.dtype, buffer=nl.sbuf)  # [k, w]
    for w in tiles(columns, TOGETHER * N_TILE):
        here = matrices_hbm.ap([[columns, rows], [1, w.size]], offset=offset + w.start)
        move(table_sb[:, w.span], here)
    return table_sb


def _load_rows(planes, b, by_sb, dtype, sizes):
    """Load [b, plane, n], with zeros after short rows, or where an odd N1 looks beyond half a spectrum.

    Rows are multiplied by a factor, if there is one, and converted to ``dtype``.
    """
    N1, N2, half = sizes
    width, count = planes[0].shape[1], max(len(planes), len(by_sb))
    padded = (N1 + 1) // 2 * N2 + 1 if half == -1 else N1 * N2
    x_sb = nl.ndarray((b.size, count, padded), dtype=dtype, buffer=nl.sbuf)  # [b, p, n]
    if padded > width:
        nisa.memset(dst=x_sb[:, :, width:padded], value=0.0)
    raw_sb = []
    for p in range(len(planes)):
        if len(by_sb) > 0:
            raw_sb.append(load(planes[p][b.span]))  # [b, n]
        else:
            move(x_sb[:, p, 0:width], planes[p][b.span])
    if len(by_sb) > 0:
        _times(_each(x_sb, count, width), raw_sb, _first_rows(by_sb, b.size))
    return x_sb


def _slots(x_sb, N1, N2, half):
    """Return what each table of the first product multiplies: [b, plane, n1], one view per residue of N2.

    For half a spectrum there are N2 // 2 + 1 of [b, mirrored, plane, n1]: the other residues are their conjugates.
    """
    rows, planes, width = x_sb.shape
    views = []
    if half == -1:
        for s in range(N2 // 2 + 1):
            pattern = [[planes * width, rows], [N2 - 2 * s, 2], [width, planes], [N2, (N1 + 1) // 2]]
            views.append(x_sb.ap(pattern, offset=s))
    else:
        for s in range(N2):
            views.append(x_sb.ap([[planes * width, rows], [width, planes], [N2, N1]], offset=s))
    return views


def _widths(N1, N2, half):
    """Return the columns of each table of the first product."""
    widths = []
    if half == -1:
        for s in range(N2 // 2 + 1):
            widths.append(N1 if 2 * s % N2 == 0 else 2 * N1)
    else:
        for _ in range(N2):
            widths.append(N1 if half == 1 else 2 * N1)
    return widths


def _first_product(slots, widths, table_sb):
    """Return [b, w]: every slot, transposed, times its columns of the table."""
    rows = slots[0].shape[0]
    a_sb = nl.ndarray((rows, table_sb.shape[1]), dtype=table_sb.dtype, buffer=nl.sbuf)  # [b, w]
    done, start = 0, 0
    for s in tiles(len(slots), TOGETHER):
        xT_sb = _transpose_views(slots[s.start : s.stop], s.index % 2 == 1)  # [k, s, b]
        a_ps = nl.ndarray((rows, N_TILE), dtype=nl.float32, buffer=nl.psum)  # [b, w]
        for j in range(s.size):
            width = widths[s.start + j]
            if done + width - start > N_TILE:
                _leave(a_sb[:, start:done], a_ps[:, 0 : done - start], s.index % 2 == 1)
                start = done
                a_ps = nl.ndarray((rows, N_TILE), dtype=nl.float32, buffer=nl.psum)  # [b, w]
            nisa.nc_matmul(
                dst=a_ps[:, done - start : done - start + width],
                stationary=xT_sb[:, j, :],
                moving=table_sb[:, done : done + width],
                accumulate=False,
            )
            done += width
        _leave(a_sb[:, start:done], a_ps[:, 0 : done - start], s.index % 2 == 0)
        start = done
    return a_sb


def _transpose_views(views, odd):
    """Return [k, view, b] of views [b, ...] of k elements each."""
    first = views[0]
    rows, k = first.shape[0], _free(first)
    xT_ps = nl.ndarray((k, len(views), rows), dtype=first.dtype, buffer=nl.psum)  # [k, s, b]
    for j in range(len(views)):
        nisa.nc_transpose(dst=xT_ps[:, j, :], data=views[j])
    xT_sb = nl.ndarray((k, len(views), rows), dtype=first.dtype, buffer=nl.sbuf)  # [k, s, b]
    _leave(xT_sb, xT_ps, odd)
    return xT_sb


def _second_product(a_sb, held, sizes, dtype):
    """Return [b, part, k]: groups of k1, transposed, times one table for all of them."""
    parts, N1, N2, half, group = sizes
    unit = 1 if half == -1 else 2
    high = N2 // 2 if half == 1 else 0
    low = N2 - high
    # Of a half spectrum k1 = 0 and N1 / 2 are left to the end, and k1 stands for N1 - k1 as well.
    first, count = (1, (N1 - 1) // 2) if half == 1 else (0, N1)
    rows, width = a_sb.shape
    y_sb = nl.ndarray((rows, parts, low * N1 + first), dtype=dtype, buffer=nl.sbuf)  # [b, part, k]
    runs = _equal(count, group)
    for index in range(len(runs)):
        start, size, many = runs[index]
        views = []
        for j in range(many):
            # [b, k1, n2] of [b, n2, k1]
            pattern = [[width, rows], [1, unit * size], [width // N2, N2]]
            views.append(a_sb.ap(pattern, offset=unit * (start + j * size)))
        aT_sb = _transpose_views(views, index % 2 == 1)  # [k, j, b]
        _multiply_groups(y_sb, aT_sb, held[1], (first + start, low, N1, 0, group, size), False, index % 2 == 0)
        if half == 1:
            at, columns = N1 - start - many * size, parts * low * group + group - size
            _multiply_groups(y_sb, aT_sb, held[1], (at, high, N1, columns, group, size), True, index % 2 == 1)
    if half == 1:
        view = a_sb.ap([[width, rows], [1, N1 - 2 * count], [width // N2, N2]], offset=2 * count)
        _multiply_unpaired(y_sb, view, held[2], N1, N2)
    return y_sb


def _equal(count, group):
    """List (start, size, many): ``many`` groups of ``size`` transposed together; the last may be smaller."""
    groups = []
    for g in tiles(count // group, TOGETHER):
        groups.append((g.start * group, group, g.size))
    if count % group > 0:
        groups.append((count // group * group, count % group, 1))
    return groups


def _multiply_groups(y_sb, aT_sb, table_sb, sizes, mirrored, odd):
    """Write y[b, part, k2, at + (j i)] = aT[k, j, b].T @ table[k, (part k2), i]; ``mirrored`` reverses j.

    Columns of the table are ``first`` + (part k2) ``group`` + i.
    """
    at, K2, N1, first, group, size = sizes
    k, many, rows = aT_sb.shape
    _, parts, width = y_sb.shape
    y_ps = nl.ndarray((rows, many, parts * K2, size), dtype=nl.float32, buffer=nl.psum)  # [b, j, part k2, i]
    moving = table_sb.ap([[table_sb.shape[1], k], [group, parts * K2], [1, size]], offset=first)
    for j in range(many):
        to = many - 1 - j if mirrored else j
        nisa.nc_matmul(dst=y_ps[:, to], stationary=aT_sb[:, j, :], moving=moving, accumulate=False)
    one = parts * K2 * size
    src = y_ps.ap([[many * one, rows], [K2 * size, parts], [size, K2], [one, many], [1, size]], offset=0)
    dst = y_sb.ap([[parts * width, rows], [width, parts], [N1, K2], [size, many], [1, size]], offset=at)
    _leave(dst, src, odd)


def _multiply_unpaired(y_sb, view, table_sb, N1, N2):
    """Compute k1 = 0, and N1 / 2 where there is one, which have no partner."""
    aT_sb = _transpose_views([view], False)
    low, whole = (N2 + 1) // 2, N2 // 2 + 1
    rows, parts, width = y_sb.shape
    y_ps = nl.ndarray((rows, 2, table_sb.shape[1] // 2), dtype=nl.float32, buffer=nl.psum)  # [b, part, k2]
    nisa.nc_matmul(dst=y_ps, stationary=aT_sb[:, 0, :], moving=table_sb, accumulate=False)
    dst = y_sb.ap([[parts * width, rows], [width, 2], [N1, whole]], offset=0)
    _leave(dst, y_ps[:, :, 0:whole], False)
    if N1 % 2 == 0:
        dst = y_sb.ap([[parts * width, rows], [width, 2], [N1, low]], offset=N1 // 2)
        _leave(dst, y_ps[:, :, whole : whole + low], True)
