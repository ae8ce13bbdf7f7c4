"""Passes over rows that lie together: one matrix, or two with twiddles between them."""

from trnfft.kernels._common import (
    _leave,
    _load_lanes,
    _load_part,
    _load_table,
    _planes,
    _product,
    _rotate,
    _table_rows,
)
from trnsci.nki import K_TILE, N_TILE, P_MAX, load, nisa, nl, store, tiles

# Elements of one plane that a partition takes per load: 8 KiB of fp32.
ROW_ELEMENTS = 4 * N_TILE
# A matrix is kept in SBUF up to this many bytes per partition.
KEPT = 96 * 1024


def _rows(out_re_hbm, out_im_hbm, re_hbm, im_hbm, matrices_hbm, sizes):
    """Compute out[A, K] = x[A, N] @ T[N, K]; T is [2N, 2K] for complex data. Below 160 KiB a partition."""
    A, N, K, t = sizes
    planes = _planes(re_hbm, im_hbm, (A, N))
    outs = _planes(out_re_hbm, out_im_hbm, (A, K))
    offset, _, columns = t
    kept = []
    if len(planes) * len(outs) * ((N + K_TILE - 1) // K_TILE) * K * 4 <= KEPT:
        for p in range(len(planes)):
            for k in tiles(N, K_TILE):
                kept.append(load(_table_rows(matrices_hbm, t, p * N + k.start, k.size)))
    for a in tiles(A, P_MAX):
        xT_sb = _row_tiles(planes, a, N)
        for o in range(len(outs)):
            for n in tiles(K, N_TILE):
                moving = []
                at = o * K + n.start
                for p in range(len(planes)):
                    for k in tiles(N, K_TILE):
                        if len(kept) > 0:
                            moving.append(kept[len(moving)][:, at : at + n.size])
                        else:
                            start = offset + (p * N + k.start) * columns + at
                            moving.append(load(matrices_hbm.ap([[columns, k.size], [1, n.size]], offset=start)))
                out_ps = nl.ndarray((a.size, n.size), dtype=nl.float32, buffer=nl.psum)  # [a, n]
                _product(out_ps, xT_sb, moving)
                store(outs[o][a.span, n.span], out_ps)


def _row_tiles(planes, a, N):
    """Load tiles [k, a] of all planes."""
    tiles_sb = []
    for p in range(len(planes)):
        x_sb = load(planes[p][a.span])  # [a, N]
        for k in tiles(N, K_TILE):
            xT_ps = nl.ndarray((k.size, a.size), dtype=x_sb.dtype, buffer=nl.psum)  # [k, a]
            nisa.nc_transpose(dst=xT_ps, data=x_sb[:, k.span])
            xT_sb = nl.ndarray((k.size, a.size), dtype=x_sb.dtype, buffer=nl.sbuf)  # [k, a]
            _leave(xT_sb, xT_ps, k.index % 2 == 1)
            tiles_sb.append(xT_sb)
    return tiles_sb


def _transform_fused(out_re_hbm, out_im_hbm, re_hbm, im_hbm, matrices_hbm, twiddles_hbm, sizes):
    """Compute out[A, k2, k1] = sum_n2 T2[n2, k2] w[n2, k1] sum_n1 T1[n1, k1] x[A, n1, n2].

    The first product has data stationary, so that n2 of ``packed`` rows comes out on the partitions; the second matrix
    has one block per packed row. ``J`` rows of n1 are read and ``K2`` of k2 written. Few rows are loaded with n1 on the
    partitions, ``lanes`` groups above each other to fill them; many as they lie, and ``transposed`` on chip,
    because DMA moves long runs faster. Below 150 KiB a partition.
    """
    A, N1, N2, J, K2, packed, lanes, transposed, t1, tw, t2 = sizes
    planes = _planes(re_hbm, im_hbm, (A, J, N2))
    outs = _planes(out_re_hbm, out_im_hbm, (A, K2, N1))
    t1_sb = []
    if transposed:
        for p in range(len(planes)):
            t1_sb.append(load(_table_rows(matrices_hbm, t1, p * J, J)))  # [J, 2 N1]
    else:
        t1_sb = _load_table(matrices_hbm, t1, J, len(planes) == 2)
    held = [
        t1_sb,
        [_load_part(twiddles_hbm, tw, 0), _load_part(twiddles_hbm, tw, 1)],
        [
            load(_table_rows(matrices_hbm, t2, 0, packed * N2)),
            load(_table_rows(matrices_hbm, t2, packed * N2, packed * N2)),
        ],
    ]
    if transposed:
        for b in tiles(A, P_MAX):
            x_sb = _transposed_rows(planes, b)
            _groups(outs, x_sb, held, (transposed, b.start, b.size, 1, packed, N1, N2, K2))
    else:
        together = lanes * packed
        whole = A // together * together
        for b in tiles(whole, max(together, ROW_ELEMENTS // (N2 * packed) * together)):
            x_sb = _load_stacked(planes, b.start, b.size // lanes, lanes)
            _groups(outs, x_sb, held, (transposed, b.start, b.size // lanes, lanes, packed, N1, N2, K2))
        if whole < A:
            x_sb = _load_stacked(planes, whole, A - whole, 1)
            _groups(outs, x_sb, held, (transposed, whole, A - whole, 1, packed, N1, N2, K2))


def _load_stacked(planes, start, rows, lanes):
    """Load tiles [s p n1, row, n2] of ``lanes`` times ``rows`` rows, straight from HBM."""
    views = []
    for p in range(len(planes)):
        _, J, N2 = planes[p].shape
        lane = []
        for s in range(lanes):
            at = (start + s * rows) * J * N2
            lane.append(planes[p].ap([[N2, J], [J * N2, rows], [1, N2]], offset=at))  # [n1, row, n2]
        views.append(lane)
    return _load_lanes(views)


def _transposed_rows(planes, b):
    """Load tiles [n1, n2, row] row by row, and transpose them on the Tensor Engine."""
    _, J, N2 = planes[0].shape
    tiles_sb = []
    for p in range(len(planes)):
        x_sb = load(planes[p][b.span])  # [b, J, N2]
        xT_sb = nl.ndarray((J, N2, b.size), dtype=x_sb.dtype, buffer=nl.sbuf)  # [J, N2, b]
        for n in tiles(N2, N_TILE // P_MAX):
            xT_ps = nl.ndarray((J, n.size, b.size), dtype=x_sb.dtype, buffer=nl.psum)  # [J, n, b]
            for j in range(n.size):
                nisa.nc_transpose(dst=xT_ps[:, j, :], data=x_sb[:, :, n.start + j])
            _leave(xT_sb[:, n.span, :], xT_ps, n.index % 2 == 1)
        tiles_sb.append(xT_sb)
    return tiles_sb


def _groups(outs, x_sb, held, sizes):
    """Transform rows of one load, ``packed`` at a time, and what is left of them."""
    transposed, start, rows, lanes, packed, N1, N2, K2 = sizes
    whole = rows // packed
    if whole > 0:
        _block(outs, x_sb, held, (transposed, start, 0, lanes, whole, packed, packed, N1, N2, K2))
    tail = rows - whole * packed
    if tail > 0:
        done = whole * packed
        _block(outs, x_sb, held, (transposed, start + done, done, 1, 1, tail, packed, N1, N2, K2))


def _block(outs, x_sb, held, sizes):
    """Transform rows from ``start``: ``lanes`` times Q groups of ``g`` rows packed into the partitions."""
    transposed, start, first, lanes, Q, g, packed, N1, N2, K2 = sizes
    t1_sb, w_sb, t2_sb = held
    P, K, wide = g * N2, g * K2, lanes * 2 * N1
    moving = []
    for i in range(len(x_sb)):
        moving.append(t1_sb[i][0 : x_sb[i].shape[0], 0:wide])
    a_sb = []
    for _ in range(2):
        a_sb.append(nl.ndarray((P, lanes * Q, N1), dtype=t1_sb[0].dtype, buffer=nl.sbuf))  # [p, s q, k1]
    for q in tiles(Q, N_TILE // wide):
        a_ps = nl.ndarray((P, q.size, lanes, 2 * N1), dtype=nl.float32, buffer=nl.psum)  # [p, q, s, 2 k1]
        for j in range(q.size):
            row = first + (q.start + j) * g
            stationary = []
            for i in range(len(x_sb)):
                if transposed:
                    k, _, rows = x_sb[i].shape
                    stationary.append(x_sb[i].ap([[N2 * rows, k], [1, g], [rows, N2]], offset=row))  # [n1, g, n2]
                else:
                    stationary.append(x_sb[i][:, row : row + g, :])
            _product(a_ps[:, j], stationary, moving)
        dst, w = [], []
        for part in range(2):
            pattern = [[lanes * Q * N1, P], [N1, q.size], [Q * N1, lanes], [1, N1]]  # [p, q, s, k1]
            dst.append(a_sb[part].ap(pattern, offset=q.start * N1))
            w.append(w_sb[part].ap([[N1, P], [0, q.size], [0, lanes], [1, N1]], offset=0))
        _rotate(dst[0], dst[1], a_ps[:, :, :, 0:N1], a_ps[:, :, :, N1 : 2 * N1], w[0], w[1])
    for o in range(len(outs)):
        y_sb = nl.ndarray((K, lanes * Q, N1), dtype=outs[o].dtype, buffer=nl.sbuf)  # [k, sq, k1]
        at = o * packed * K2
        for q in tiles(lanes * Q, N_TILE // N1):
            y_ps = nl.ndarray((K, q.size, N1), dtype=nl.float32, buffer=nl.psum)  # [k, q, k1]
            stationary = [t2_sb[0][0:P, at : at + K], t2_sb[1][0:P, at : at + K]]
            _product(y_ps, stationary, [a_sb[0][:, q.span, :], a_sb[1][:, q.span, :]])
            _leave(y_sb[:, q.span, :], y_ps, True)
        store(outs[o].ap([[N1, K], [K * N1, lanes * Q], [1, N1]], offset=start * K2 * N1), y_sb)
