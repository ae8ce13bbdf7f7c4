"""Passes over rows that lie together: one matrix, or two with twiddles between them."""

from trnfft.kernels._common import _leave, _load_lanes, _load_table, _product, _rotate
from trnsci.nki import K_TILE, N_TILE, P_MAX, load, nisa, nl, store, tiles

# Elements of one plane that a partition takes per load: 8 KiB of fp32.
LOAD = 4 * N_TILE
# A matrix is kept in SBUF up to this many bytes per partition.
KEPT = 96 * 1024


def _rows(out_re_hbm, out_im_hbm, re_hbm, im_hbm, tables, sizes):
    """out[A, K] = x[A, N] @ T[N, K]; T is [2N, 2K] for complex data. Working set below 160 KiB a partition."""
    A, N, K, t = sizes
    planes = [re_hbm.reshape((A, N))]
    if im_hbm is not None:
        planes.append(im_hbm.reshape((A, N)))
    outs = [out_re_hbm.reshape((A, K))]
    if out_im_hbm is not None:
        outs.append(out_im_hbm.reshape((A, K)))
    kept = []
    if len(planes) * len(outs) * ((N + K_TILE - 1) // K_TILE) * K * 4 <= KEPT:
        for p in range(len(planes)):
            for k in tiles(N, K_TILE):
                kept.append(load(tables[t][p * N + k.start : p * N + k.stop, 0 : len(outs) * K]))
    for a in tiles(A, P_MAX):
        xT_sb = _transposed(planes, a, N)
        for o in range(len(outs)):
            for n in tiles(K, N_TILE):
                moving = []
                columns = slice(o * K + n.start, o * K + n.stop)
                for p in range(len(planes)):
                    for k in tiles(N, K_TILE):
                        if len(kept) > 0:
                            moving.append(kept[len(moving)][:, columns])
                        else:
                            moving.append(load(tables[t][p * N + k.start : p * N + k.stop, columns]))  # [k, n]
                out_ps = nl.ndarray((a.size, n.size), dtype=nl.float32, buffer=nl.psum)  # [a, n]
                _product(out_ps, xT_sb, moving)
                store(outs[o][a.span, n.span], out_ps)


def _transposed(planes, a, N):
    """Tiles [k, a] of all planes."""
    found = []
    for p in range(len(planes)):
        x_sb = load(planes[p][a.span])  # [a, N]
        for k in tiles(N, K_TILE):
            xT_ps = nl.ndarray((k.size, a.size), dtype=x_sb.dtype, buffer=nl.psum)  # [k, a]
            nisa.nc_transpose(dst=xT_ps, data=x_sb[:, k.span])
            xT_sb = nl.ndarray((k.size, a.size), dtype=x_sb.dtype, buffer=nl.sbuf)  # [k, a]
            _leave(xT_sb, xT_ps, k.index % 2 == 1)
            found.append(xT_sb)
    return found


def _fused(out_re_hbm, out_im_hbm, re_hbm, im_hbm, tables, sizes):
    """out[A, k2, k1] = sum_n2 T2[n2, k2] w[n2, k1] sum_n1 T1[n1, k1] x[A, n1, n2].

    The first product has data stationary, so that n2 of ``packed`` rows comes out on the partitions; the second matrix
    has one block per packed row. ``J`` rows of n1 are read and ``K2`` of k2 written. Few rows are loaded with n1 on the
    partitions, ``lanes`` groups above each other to fill them; many (``turned``) as they lie, and transposed on chip,
    because DMA moves long runs faster. Below 150 KiB a partition.
    """
    A, N1, N2, J, K2, packed, lanes, turned, t1, tw, t2 = sizes
    planes = [re_hbm.reshape((A, J, N2))]
    if im_hbm is not None:
        planes.append(im_hbm.reshape((A, J, N2)))
    outs = [out_re_hbm.reshape((A, K2, N1)), None if out_im_hbm is None else out_im_hbm.reshape((A, K2, N1))]
    t1_sb = []
    if turned:
        for p in range(len(planes)):
            t1_sb.append(load(tables[t1][p * J : (p + 1) * J]))  # [J, 2 N1]
    else:
        t1_sb = _load_table(tables[t1], J, im_hbm is not None)
    held = [
        t1_sb,
        [load(tables[tw][0]), load(tables[tw][1])],
        [load(tables[t2][0 : packed * N2]), load(tables[t2][packed * N2 : 2 * packed * N2])],
    ]
    if turned:
        for b in tiles(A, P_MAX):
            x_sb = _turned(planes, b)
            _groups(outs, x_sb, held, (b.start, 0, b.size, 1, packed, N1, N2, K2))
    else:
        together = lanes * packed
        whole = A // together * together
        for b in tiles(whole, max(together, LOAD // (N2 * packed) * together)):
            x_sb = _stacked(planes, b.start, b.size // lanes, lanes)
            _groups(outs, x_sb, held, (b.start, 0, b.size // lanes, lanes, packed, N1, N2, K2))
        if whole < A:
            x_sb = _stacked(planes, whole, A - whole, 1)
            _groups(outs, x_sb, held, (whole, 0, A - whole, 1, packed, N1, N2, K2))


def _stacked(planes, start, rows, lanes):
    """Tiles [s p n1, row, n2] of ``lanes`` times ``rows`` rows, straight from HBM."""
    views = []
    for p in range(len(planes)):
        lane = []
        for s in range(lanes):
            lane.append(planes[p][start + s * rows : start + (s + 1) * rows].permute((1, 0, 2)))
        views.append(lane)
    return _load_lanes(views[0], views[1] if len(planes) > 1 else None, lanes)


def _turned(planes, b):
    """Views [n1, row, n2] of tiles that were loaded row by row and transposed on the Tensor Engine."""
    J, N2 = planes[0].shape[1], planes[0].shape[2]
    found = []
    for p in range(len(planes)):
        x_sb = load(planes[p][b.span])  # [b, J, N2]
        xT_sb = nl.ndarray((J, N2, b.size), dtype=x_sb.dtype, buffer=nl.sbuf)  # [J, N2, b]
        for n in tiles(N2, N_TILE // P_MAX):
            xT_ps = nl.ndarray((J, n.size, b.size), dtype=x_sb.dtype, buffer=nl.psum)  # [J, n, b]
            for j in range(n.size):
                nisa.nc_transpose(dst=xT_ps[:, j, :], data=x_sb[:, :, n.start + j])
            _leave(xT_sb[:, n.span, :], xT_ps, n.index % 2 == 1)
        found.append(xT_sb.permute((0, 2, 1)))
    return found


def _groups(outs, x_sb, held, sizes):
    """Rows of one load, ``packed`` at a time, and what is left of them."""
    start, offset, rows, lanes, packed, N1, N2, K2 = sizes
    whole = rows // packed
    if whole > 0:
        _block(outs, x_sb, held, (start, offset, lanes, whole, packed, packed, N1, N2, K2))
    tail = rows - whole * packed
    if tail > 0:
        done = whole * packed
        _block(outs, x_sb, held, (start + done, offset + done, 1, 1, tail, packed, N1, N2, K2))


def _block(outs, x_sb, held, sizes):
    """Rows from ``start``: ``lanes`` times Q groups of ``g`` rows packed into the partitions."""
    start, offset, lanes, Q, g, packed, N1, N2, K2 = sizes
    t1_sb, w_sb, t2_sb = held
    P, K, count = g * N2, g * K2, lanes * Q * g
    wide = lanes * 2 * N1
    moving = []
    for i in range(len(x_sb)):
        moving.append(t1_sb[i][0 : x_sb[i].shape[0], 0:wide])
    a_sb = []
    for _ in range(2):
        a_sb.append(nl.ndarray((P, lanes, Q, N1), dtype=t1_sb[0].dtype, buffer=nl.sbuf))  # [p, s, q, k1]
    for q in tiles(Q, N_TILE // wide):
        a_ps = nl.ndarray((P, q.size, lanes, 2 * N1), dtype=nl.float32, buffer=nl.psum)  # [p, q, s, 2 k1]
        for j in range(q.size):
            first = offset + (q.start + j) * g
            stationary = []
            for i in range(len(x_sb)):
                stationary.append(x_sb[i][:, first : first + g, :])
            _product(a_ps[:, j], stationary, moving)
        w_re = w_sb[0][0:P].expand_dim(1).broadcast(1, q.size).expand_dim(2).broadcast(2, lanes)
        w_im = w_sb[1][0:P].expand_dim(1).broadcast(1, q.size).expand_dim(2).broadcast(2, lanes)
        _rotate(
            a_sb[0][:, :, q.span].permute((0, 2, 1, 3)),
            a_sb[1][:, :, q.span].permute((0, 2, 1, 3)),
            a_ps[:, :, :, 0:N1],
            a_ps[:, :, :, N1 : 2 * N1],
            w_re,
            w_im,
        )
    a_re_sb, a_im_sb = a_sb[0].flatten_dims(1, 2), a_sb[1].flatten_dims(1, 2)  # [p, sq, k1]
    for o in range(2):
        if outs[o] is not None:
            y_sb = nl.ndarray((K, lanes * Q, N1), dtype=outs[o].dtype, buffer=nl.sbuf)  # [k, sq, k1]
            columns = slice(o * packed * K2, o * packed * K2 + K)
            for q in tiles(lanes * Q, N_TILE // N1):
                y_ps = nl.ndarray((K, q.size, N1), dtype=nl.float32, buffer=nl.psum)  # [k, q, k1]
                _product(
                    y_ps,
                    [t2_sb[0][0:P, columns], t2_sb[1][0:P, columns]],
                    [a_re_sb[:, q.span, :], a_im_sb[:, q.span, :]],
                )
                _leave(y_sb[:, q.span, :], y_ps, True)
            here = outs[o][start : start + count].reshape((lanes * Q, K, N1))
            store(here.permute((1, 0, 2)), y_sb)
