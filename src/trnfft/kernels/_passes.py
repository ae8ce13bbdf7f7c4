"""Passes of longer programs: one multiplication each, from HBM to HBM."""

from trnfft.kernels._common import _leave, _load_lanes, _load_repeated, _load_table, _planes, _product, _rotate, _times
from trnsci.nki import N_TILE, P_MAX, load, move, nisa, nl, store, tiles

# Tiles of a turn that share their transfers, and tiles of columns of one load of rows.
SHARED = 8
# From this many rows on they are multiplied as rows.
MANY = 32


def _turn(out_re_hbm, out_im_hbm, re_hbm, im_hbm, matrices_hbm, twiddles_hbm, sizes):
    """Compute out[A, m, k] = w[m, k] sum_n T[n, k] x[A, n, m]: stationary data leaves m on the partitions."""
    A, J, M, K, t, tw = sizes
    planes = _planes(re_hbm, im_hbm, (A, J, M))
    outs = _planes(out_re_hbm, out_im_hbm, (A, M, K))
    t_sb = _load_table(matrices_hbm, t, J, len(planes) == 2)
    whole = M // P_MAX * P_MAX
    for m in tiles(whole, SHARED * P_MAX):
        _strip(outs, planes, t_sb, twiddles_hbm, tw, (m.start, P_MAX, m.size // P_MAX))
    if whole < M:
        _strip(outs, planes, t_sb, twiddles_hbm, tw, (whole, M - whole, 1))


def _strip(outs, planes, t_sb, twiddles_hbm, tw, sizes):
    """Compute ``count`` tiles of ``rows`` values of m from ``start`` on."""
    start, rows, count = sizes
    offset, M, K = tw
    A = outs[0].shape[0]
    w_sb = []
    for part in range(2):
        pattern = [[K, rows], [rows * K, count], [1, K]]
        w_sb.append(load(twiddles_hbm.ap(pattern, offset=offset + (part * M + start) * K)))  # [m, c, k]
    for a in range(A):
        lanes = []
        for p in range(len(planes)):
            lanes.append([planes[p][a, :, start : start + rows * count]])
        x_sb = _load_lanes(lanes)
        y_sb = []
        for _ in range(2):
            y_sb.append(nl.ndarray((rows, count, K), dtype=outs[0].dtype, buffer=nl.sbuf))  # [m, c, k]
        for c in range(count):
            stationary = []
            for i in range(len(x_sb)):
                stationary.append(x_sb[i][:, c * rows : (c + 1) * rows])
            y_ps = nl.ndarray((rows, 2 * K), dtype=nl.float32, buffer=nl.psum)  # [m, 2 k]
            _product(y_ps, stationary, t_sb)
            _rotate(y_sb[0][:, c], y_sb[1][:, c], y_ps[:, 0:K], y_ps[:, K : 2 * K], w_sb[0][:, c], w_sb[1][:, c])
        for part in range(2):
            store(outs[part].ap([[K, rows], [rows * K, count], [1, K]], offset=(a * M + start) * K), y_sb[part])


def _columns(out_re_hbm, out_im_hbm, re_hbm, im_hbm, matrices_hbm, twiddles_hbm, sizes):
    """Compute out[A, m, k, B] = w[k, m] sum_n T[n, k] x[A, n, m, B]: all beside n streams past the table.

    Up to ``lanes`` tiles of columns lie above each other; the table has one block for each.
    """
    A, J, M, B, K, lanes, t, tw = sizes
    planes = _planes(re_hbm, im_hbm, (A, J, M, B))
    outs = _planes(out_re_hbm, out_im_hbm, (A, M, K, B))
    t_sb = _load_table(matrices_hbm, t, J, len(planes) == 2)
    at_b = min(B, N_TILE)
    at_m = min(M, N_TILE // at_b)
    at_a = min(A, N_TILE // (at_b * at_m)) if at_m == M else 1
    for m in tiles(M, at_m):
        w_sb = []
        if len(tw) > 0:
            offset, rows, columns = tw
            for part in range(2):
                start = offset + part * rows * columns + m.start
                w_sb.append(load(twiddles_hbm.ap([[columns, rows], [1, m.size]], offset=start)))  # [sk, m]
        group, size_a, size_b = [], 0, 0
        for a in tiles(A, at_a):
            for b in tiles(B, at_b):
                # Tiles share a product as long as their sizes agree; the last ones may be smaller.
                if len(group) == lanes or a.size != size_a or b.size != size_b:
                    if len(group) > 0:
                        _stream(outs, planes, t_sb, w_sb, lanes, m, group)
                    group, size_a, size_b = [], a.size, b.size
                group.append((a, b))
        _stream(outs, planes, t_sb, w_sb, lanes, m, group)


def _stream(outs, planes, t_sb, w_sb, lanes, m, group):
    """Stream tiles of columns, one per lane, through the table."""
    _, J, M, B = planes[0].shape
    K, count = outs[0].shape[2], len(group)
    x_hbm = []
    for p in range(len(planes)):
        views = []
        for s in range(count):
            a, b = group[s]
            pattern = [[M * B, J], [J * M * B, a.size], [B, m.size], [1, b.size]]  # [n, a, m, b]
            views.append(planes[p].ap(pattern, offset=(a.start * J * M + m.start) * B + b.start))
        x_hbm.append(views)
    x_sb = _load_lanes(x_hbm)
    a, b = group[0]
    shape = (count * K, a.size, m.size, b.size)
    y_ps, y_sb = [], []
    for o in range(2 if len(w_sb) > 0 else len(outs)):
        y_ps.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum))  # [sk, a, m, b]
        stationary = []
        for i in range(len(t_sb)):
            stationary.append(t_sb[i][0 : x_sb[i].shape[0], o * lanes * K : o * lanes * K + count * K])
        _product(y_ps[o], stationary, x_sb)
    for o in range(len(outs)):
        y_sb.append(nl.ndarray(shape, dtype=outs[o].dtype, buffer=nl.sbuf))  # [sk, a, m, b]
        if len(w_sb) == 0:
            _leave(y_sb[o], y_ps[o], o == 1)
    if len(w_sb) > 0:
        pattern = [[m.size, count * K], [0, a.size], [1, m.size], [0, b.size]]  # [sk, a, m, b]
        w_re, w_im = w_sb[0].ap(pattern, offset=0), w_sb[1].ap(pattern, offset=0)
        _rotate(y_sb[0], y_sb[1] if len(outs) > 1 else None, y_ps[0], y_ps[1], w_re, w_im)
    for o in range(len(outs)):
        for s in range(count):
            a, b = group[s]
            pattern = [[B, K], [M * K * B, a.size], [K * B, m.size], [1, b.size]]  # [k, a, m, b]
            dst = outs[o].ap(pattern, offset=(a.start * M + m.start) * K * B + b.start)
            store(dst, y_sb[o][s * K : (s + 1) * K])


def _multiply(out_re_hbm, out_im_hbm, re_hbm, im_hbm, tables_hbm, sizes):
    """Compute out[A, j, C] = w[j] x[A, j, C] for j < min(N, K), and 0 up to K; w has ``parts``, or none and is 1."""
    A, N, K, C, parts, tw = sizes
    planes = _planes(re_hbm, im_hbm, (A, N, C))
    outs = _planes(out_re_hbm, out_im_hbm, (A, K, C))
    if C == 1 and A >= MANY:
        _multiply_rows(outs, planes, tables_hbm, tw, (parts, min(N, K)))
        return
    for c in tiles(C, N_TILE):
        for j in tiles(K, P_MAX * max(1, N_TILE // c.size)):
            _elements(outs, planes, tables_hbm, tw, (j, c, parts, min(N, K)))


def _multiply_rows(outs, planes, tables_hbm, tw, sizes):
    """Multiply rows on the partitions, where there are many: the multiplier is the same for all of them."""
    parts, valid = sizes
    A, K = outs[0].shape[0], outs[0].shape[1]
    for j in tiles(K, SHARED * N_TILE):
        have = max(0, min(valid, j.stop) - j.start)
        here = slice(j.start, j.start + have)
        w_sb = []
        if have > 0:
            for part in range(parts):
                w_sb.append(_load_repeated(tables_hbm, tw, part, min(A, P_MAX), j.start, have))  # [b, j]
        for b in tiles(A, P_MAX):
            y_sb, x_sb = [], []
            for o in range(len(outs)):
                y_sb.append(nl.ndarray((b.size, j.size), dtype=outs[o].dtype, buffer=nl.sbuf))  # [b, j]
                if have < j.size:
                    nisa.memset(dst=y_sb[o][:, have : j.size], value=0.0)
            if have > 0:
                for p in range(len(planes)):
                    x_sb.append(load(planes[p][b.span, here, 0]))  # [b, j]
                dst, by = [], []
                for o in range(len(outs)):
                    dst.append(y_sb[o][:, 0:have])
                for part in range(parts):
                    by.append(w_sb[part][0 : b.size])
                _times(dst, x_sb, by)
            for o in range(len(outs)):
                store(outs[o][b.span, j.span, 0], y_sb[o])


def _elements(outs, planes, tables_hbm, tw, sizes):
    """Multiply a block of j, dealt to the partitions in runs of ``run``."""
    j, c, parts, valid = sizes
    run = (j.size + P_MAX - 1) // P_MAX
    have = max(0, min(valid, j.stop) - j.start)
    rows = (j.size + run - 1) // run
    w_sb = []
    if have > 0:
        for part in range(parts):
            offset, _, columns = tw
            tile_sb = nl.ndarray((rows, run, 1), dtype=tables_hbm.dtype, buffer=nl.sbuf)  # [p, run, 1]
            nisa.memset(dst=tile_sb, value=0.0)
            _runs(tile_sb, tables_hbm, (offset + part * columns + j.start, 1, run, have, 1), True)
            w_sb.append(tile_sb.ap([[run, rows], [1, run], [0, c.size]], offset=0))
    A, N, C = planes[0].shape
    K = outs[0].shape[1]
    for a in range(A):
        x_sb, y_sb = [], []
        for p in range(len(planes)):
            if have > 0:
                tile_sb = nl.ndarray((rows, run, c.size), dtype=planes[p].dtype, buffer=nl.sbuf)  # [p, run, c]
                if have < rows * run:
                    nisa.memset(dst=tile_sb, value=0.0)
                _runs(tile_sb, planes[p], ((a * N + j.start) * C + c.start, C, run, have, c.size), True)
                x_sb.append(tile_sb)
        for o in range(len(outs)):
            y_sb.append(nl.ndarray((rows, run, c.size), dtype=outs[o].dtype, buffer=nl.sbuf))  # [p, run, c]
            if have == 0:
                nisa.memset(dst=y_sb[o], value=0.0)
        if have > 0:
            _times(y_sb, x_sb, w_sb)
        for o in range(len(outs)):
            _runs(y_sb[o], outs[o], ((a * K + j.start) * C + c.start, C, run, j.size, c.size), False)


def _runs(tile_sb, hbm, sizes, inward):
    """Move ``count`` elements of ``width`` at distance ``step`` between HBM and a tile [p, run, width]."""
    offset, step, run, count, width = sizes
    full = count // run
    if full > 0:
        view = hbm.ap([[run * step, full], [step, run], [1, width]], offset=offset)
        if inward:
            move(tile_sb[0:full], view)
        else:
            nisa.dma_copy(dst=view, src=tile_sb[0:full])
    # The last run may be shorter.
    rest = count - full * run
    if rest > 0:
        view = hbm.ap([[run * step, 1], [step, rest], [1, width]], offset=offset + full * run * step)
        if inward:
            move(tile_sb[full : full + 1, 0:rest], view)
        else:
            nisa.dma_copy(dst=view, src=tile_sb[full : full + 1, 0:rest])
