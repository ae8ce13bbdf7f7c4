"""Passes of longer programs: one multiplication each, from HBM to HBM."""

from trnfft.kernels._common import _leave, _load_lanes, _load_table, _product, _rotate
from trnsci.nki import N_TILE, P_MAX, load, nisa, nl, store, tiles

# Tiles of a turn that share their transfers.
TOGETHER = 8
# From this many rows on they are multiplied as rows.
MANY = 32


def _turn(out_re_hbm, out_im_hbm, re_hbm, im_hbm, tables, sizes):
    """out[A, m, k] = w[m, k] sum_n T[n, k] x[A, n, m]: data is stationary, so m comes out on the partitions."""
    A, J, M, K, t, tw = sizes
    planes = [re_hbm.reshape((A, J, M)), None if im_hbm is None else im_hbm.reshape((A, J, M))]
    outs = [out_re_hbm.reshape((A, M, K)), out_im_hbm.reshape((A, M, K))]
    t_sb = _load_table(tables[t], J, im_hbm is not None)
    whole = M // P_MAX * P_MAX
    for m in tiles(whole, TOGETHER * P_MAX):
        _strip(outs, planes, t_sb, tables[tw], (m.start, P_MAX, m.size // P_MAX))
    if whole < M:
        _strip(outs, planes, t_sb, tables[tw], (whole, M - whole, 1))


def _strip(outs, planes, t_sb, w_hbm, sizes):
    """``count`` tiles of ``rows`` values of m from ``start`` on."""
    start, rows, count = sizes
    here = slice(start, start + rows * count)
    A, K = outs[0].shape[0], outs[0].shape[2]
    w_re_sb = load(w_hbm[0, here].reshape_dim(0, (count, rows)).permute((1, 0, 2)))  # [m, c, k]
    w_im_sb = load(w_hbm[1, here].reshape_dim(0, (count, rows)).permute((1, 0, 2)))  # [m, c, k]
    for a in range(A):
        x_sb = _load_lanes([planes[0][a, :, here]], None if planes[1] is None else [planes[1][a, :, here]], 1)
        y_re_sb = nl.ndarray((rows, count, K), dtype=outs[0].dtype, buffer=nl.sbuf)  # [m, c, k]
        y_im_sb = nl.ndarray((rows, count, K), dtype=outs[0].dtype, buffer=nl.sbuf)  # [m, c, k]
        for c in range(count):
            stationary = []
            for i in range(len(x_sb)):
                stationary.append(x_sb[i][:, c * rows : (c + 1) * rows])
            y_ps = nl.ndarray((rows, 2 * K), dtype=nl.float32, buffer=nl.psum)  # [m, 2 k]
            _product(y_ps, stationary, t_sb)
            _rotate(y_re_sb[:, c], y_im_sb[:, c], y_ps[:, 0:K], y_ps[:, K : 2 * K], w_re_sb[:, c], w_im_sb[:, c])
        store(outs[0][a, here].reshape_dim(0, (count, rows)).permute((1, 0, 2)), y_re_sb)
        store(outs[1][a, here].reshape_dim(0, (count, rows)).permute((1, 0, 2)), y_im_sb)


def _columns(out_re_hbm, out_im_hbm, re_hbm, im_hbm, tables, sizes):
    """out[A, m, k, B] = w[k, m] sum_n T[n, k] x[A, n, m, B]: the table is stationary, everything beside n streams past.

    Up to ``lanes`` tiles of columns lie above each other; the table has one block for each.
    """
    A, J, M, B, K, lanes, t, tw = sizes
    planes = [re_hbm.reshape((A, J, M, B)), None if im_hbm is None else im_hbm.reshape((A, J, M, B))]
    outs = [out_re_hbm.reshape((A, M, K, B))]
    if out_im_hbm is not None:
        outs.append(out_im_hbm.reshape((A, M, K, B)))
    t_sb = _load_table(tables[t], J, im_hbm is not None)
    at_b = min(B, N_TILE)
    at_m = min(M, N_TILE // at_b)
    at_a = min(A, N_TILE // (at_b * at_m)) if at_m == M else 1
    for m in tiles(M, at_m):
        w_sb = []
        if tw >= 0:
            w_sb = [load(tables[tw][0, :, m.span]), load(tables[tw][1, :, m.span])]
        group = []
        for a in tiles(A, at_a):
            for b in tiles(B, at_b):
                # Tiles share a product as long as their sizes agree; the last ones may be smaller.
                fits = len(group) == 0 or (group[0][0].size == a.size and group[0][1].size == b.size)
                if len(group) == lanes or not fits:
                    _stream(outs, planes, t_sb, w_sb, lanes, m, group)
                    group = []
                group.append((a, b))
        _stream(outs, planes, t_sb, w_sb, lanes, m, group)


def _stream(outs, planes, t_sb, w_sb, lanes, m, group):
    """Tiles of columns, one per lane, through the table."""
    K, count = outs[0].shape[2], len(group)
    x_hbm = []
    for p in range(2):
        views = []
        if planes[p] is not None:
            for s in range(count):
                a, b = group[s]
                views.append(planes[p][a.span, :, m.span, b.span].permute((1, 0, 2, 3)))
        x_hbm.append(views)
    x_sb = _load_lanes(x_hbm[0], None if planes[1] is None else x_hbm[1], count)
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
        w_re = w_sb[0][0 : count * K].expand_dim(1).broadcast(1, a.size).expand_dim(3).broadcast(3, b.size)
        w_im = w_sb[1][0 : count * K].expand_dim(1).broadcast(1, a.size).expand_dim(3).broadcast(3, b.size)
        _rotate(y_sb[0], y_sb[1] if len(outs) > 1 else None, y_ps[0], y_ps[1], w_re, w_im)
    for o in range(len(outs)):
        for s in range(count):
            a, b = group[s]
            store(outs[o][a.span, m.span, :, b.span].permute((2, 0, 1, 3)), y_sb[o][s * K : (s + 1) * K])


def _multiply(out_re_hbm, out_im_hbm, re_hbm, im_hbm, tables, sizes):
    """out[A, j, C] = w[j] x[A, j, C] for j < min(N, K), and 0 up to K."""
    A, N, K, C, tw = sizes
    planes = [re_hbm.reshape((A, N, C))]
    if im_hbm is not None:
        planes.append(im_hbm.reshape((A, N, C)))
    outs = [out_re_hbm.reshape((A, K, C))]
    if out_im_hbm is not None:
        outs.append(out_im_hbm.reshape((A, K, C)))
    if C == 1 and A >= MANY:
        _multiply_rows(outs, planes, tables[tw], min(N, K))
        return
    for c in tiles(C, N_TILE):
        for j in tiles(K, P_MAX * max(1, N_TILE // c.size)):
            _elements(outs, planes, tables[tw], j, c, min(N, K))


def _multiply_rows(outs, planes, w_hbm, valid):
    """Rows on the partitions, where there are many: the multiplier is the same for all of them."""
    A, K = outs[0].shape[0], outs[0].shape[1]
    for j in tiles(K, TOGETHER * N_TILE):
        have = max(0, min(valid, j.stop) - j.start)
        here = slice(j.start, j.start + have)
        w_sb = []
        if have > 0:
            for part in range(2):
                w_sb.append(load(w_hbm[part, here].expand_dim(0).broadcast(0, min(A, P_MAX))))  # [b, j]
        for b in tiles(A, P_MAX):
            y_sb, x_sb = [], []
            for o in range(len(outs)):
                y_sb.append(nl.ndarray((b.size, j.size), dtype=outs[o].dtype, buffer=nl.sbuf))  # [b, j]
                if have < j.size:
                    nisa.memset(dst=y_sb[o][:, have : j.size], value=0.0)
            if have > 0:
                for p in range(len(planes)):
                    x_sb.append(load(planes[p][b.span, here, 0]))  # [b, j]
                im_sb = x_sb[1] if len(planes) > 1 else None
                y_im = y_sb[1][:, 0:have] if len(outs) > 1 else None
                _rotate(y_sb[0][:, 0:have], y_im, x_sb[0], im_sb, w_sb[0][0 : b.size], w_sb[1][0 : b.size])
            for o in range(len(outs)):
                store(outs[o][b.span, j.span, 0], y_sb[o])


def _elements(outs, planes, w_hbm, j, c, valid):
    """A block of j, dealt to the partitions in runs of ``run``."""
    run = (j.size + P_MAX - 1) // P_MAX
    have = max(0, min(valid, j.stop) - j.start)
    rows = (j.size + run - 1) // run
    w_sb = []
    if have > 0:
        for part in range(2):
            tile_sb = nl.ndarray((rows, run), dtype=w_hbm.dtype, buffer=nl.sbuf)  # [p, run]
            nisa.memset(dst=tile_sb, value=0.0)
            _runs(tile_sb.expand_dim(2), w_hbm[part, j.start : j.start + have].expand_dim(1), run, have, True)
            w_sb.append(tile_sb.expand_dim(2).broadcast(2, c.size))
    for a in range(planes[0].shape[0]):
        x_sb, y_sb = [], []
        for p in range(len(planes)):
            if have > 0:
                tile_sb = nl.ndarray((rows, run, c.size), dtype=planes[p].dtype, buffer=nl.sbuf)  # [p, run, c]
                if have < rows * run:
                    nisa.memset(dst=tile_sb, value=0.0)
                _runs(tile_sb, planes[p][a, j.start : j.start + have, c.span], run, have, True)
                x_sb.append(tile_sb)
        for o in range(len(outs)):
            y_sb.append(nl.ndarray((rows, run, c.size), dtype=outs[o].dtype, buffer=nl.sbuf))  # [p, run, c]
            if have == 0:
                nisa.memset(dst=y_sb[o], value=0.0)
        if have > 0:
            im_sb = x_sb[1] if len(planes) > 1 else None
            _rotate(y_sb[0], y_sb[1] if len(outs) > 1 else None, x_sb[0], im_sb, w_sb[0], w_sb[1])
        for o in range(len(outs)):
            _runs(y_sb[o], outs[o][a, j.span, c.span], run, j.size, False)


def _runs(tile_sb, hbm, run, count, inward):
    """Move ``count`` elements between HBM [count, c] and a tile [p, run, c], the last run perhaps shorter."""
    full = count // run
    if full > 0:
        view = hbm[0 : full * run].reshape_dim(0, (full, run))
        if inward:
            nisa.dma_copy(dst=tile_sb[0:full], src=view)
        else:
            nisa.dma_copy(dst=view, src=tile_sb[0:full])
    if count > full * run:
        rest = count - full * run
        view = hbm[full * run : count].expand_dim(0)
        if inward:
            nisa.dma_copy(dst=tile_sb[full : full + 1, 0:rest], src=view)
        else:
            nisa.dma_copy(dst=view, src=tile_sb[full : full + 1, 0:rest])
