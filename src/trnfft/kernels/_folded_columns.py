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
    """out[A, k1 + N1 k2, C] = sum_n2 W^(N1 n2 k2) sum_n1 W^((N2 n1 + n2) k1) x[A, N2 n1 + n2, C]."""
    A, C, N1, N2, group, first, second = sizes
    planes = [re_hbm.reshape((A, N1, N2, C))]
    if im_hbm is not None:
        planes.append(im_hbm.reshape((A, N1, N2, C)))
    outs = [out_re_hbm.reshape((A, N2, N1, C)), out_im_hbm.reshape((A, N2, N1, C))]
    first_sb = _load_wide(tables[first])  # [p n1, n2 k1 part]
    second_sb = load(tables[second]).reshape_dim(1, (2 * N2, group))  # [i p n2, part k2, i]
    most = max(P_MAX, min(N_TILE, LOAD // (N2 * 4)))
    at_c = min(C, most)
    at_a = min(A, most // at_c) if at_c == C else 1
    blocks = []
    for a in tiles(A, at_a):
        for c in tiles(C, at_c):
            blocks.append((a, c))
    ahead = None
    for index in range(len(blocks) + 1):
        made = ahead
        if index < len(blocks):
            ahead = _first_of(planes, blocks[index], first_sb)
        if index > 0:
            _second_of(outs, blocks[index - 1], made, second_sb)


def _folded_turned(out_re_hbm, out_im_hbm, re_hbm, im_hbm, tables, sizes):
    """out[A, k, R] = sum_n W^(n k) w[R, n] x[A, R, n], n and k being split as above: rows, turned, become columns."""
    A, R, N1, N2, group, first, second, turn = sizes
    planes = [re_hbm.reshape((A, R, N1 * N2)), im_hbm.reshape((A, R, N1 * N2))]
    outs = [out_re_hbm.reshape((A, N2, N1, R)), out_im_hbm.reshape((A, N2, N1, R))]
    first_sb = _load_wide(tables[first])  # [p n1, n2 k1 part]
    second_sb = load(tables[second]).reshape_dim(1, (2 * N2, group))  # [i p n2, part k2, i]
    blocks = []
    for a in tiles(A, 1):
        for r in tiles(R, max(P_MAX, min(N_TILE, LOAD // (N1 * N2 * 4) * P_MAX))):
            blocks.append((a, r))
    ahead = None
    for index in range(len(blocks) + 1):
        made = ahead
        if index < len(blocks):
            a, r = blocks[index]
            ahead = []
            for v in tiles(r.size, P_MAX):
                rows = slice(r.start + v.start, r.start + v.stop)
                x_sb = _twisted(planes, a.start, rows, tables[turn])
                a_sb = _first_product(_slots(x_sb, N1, N2, 0), _widths(N1, N2, 0), first_sb)
                ahead.append(a_sb.reshape_dim(1, (N2, 2 * N1)))
        if index > 0:
            _second_of(outs, blocks[index - 1], made, second_sb)


def _twisted(planes, a, rows, w_hbm):
    """[b, part, n]: rows times twiddles that differ from row to row."""
    x_sb, w_sb = [], []
    for p in range(2):
        x_sb.append(load(planes[p][a, rows]))  # [b, n]
        w_sb.append(load(w_hbm[p, rows]))  # [b, n]
    z_sb = nl.ndarray((x_sb[0].shape[0], 2, x_sb[0].shape[1]), dtype=x_sb[0].dtype, buffer=nl.sbuf)  # [b, part, n]
    _rotate(z_sb[:, 0], z_sb[:, 1], x_sb[0], x_sb[1], w_sb[0], w_sb[1])
    return z_sb


def _first_of(planes, block, table_sb):
    """Tiles [ac, w] of up to 128 columns each, twiddles included."""
    a, c = block
    N1, N2 = planes[0].shape[1], planes[0].shape[2]
    x_sb = nl.ndarray((len(planes) * N1, a.size, N2, c.size), dtype=planes[0].dtype, buffer=nl.sbuf)  # [p n1, a, n2, c]
    for p in range(len(planes)):
        here = planes[p][a.span, :, :, c.span].permute((1, 0, 2, 3))  # [n1, a, n2, c]
        nisa.dma_copy(dst=x_sb[p * N1 : (p + 1) * N1], src=here)
    found = []
    width = 2 * N1
    # Columns of one product: several of A where C is short.
    for u in tiles(a.size, max(1, P_MAX // c.size)):
        for v in tiles(c.size, P_MAX):
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


def _second_of(outs, block, made, table_sb):
    """Groups of k1 of all columns of a block, transposed, under one table."""
    a, c = block
    N1, group = outs[0].shape[2], table_sb.shape[2]
    columns, parts = a.size * c.size, table_sb.shape[1]
    for run in _equal(N1, group):
        start, size, many = run
        y_sb = nl.ndarray((parts * size, many, columns), dtype=outs[0].dtype, buffer=nl.sbuf)  # [part k2 i, j, ac]
        for j in range(many):
            aT_sb = _beside(made, start + j * size, size, columns, j % 2 == 1)  # [i p n2, ac]
            y_ps = nl.ndarray((parts * size, columns), dtype=nl.float32, buffer=nl.psum)  # [part k2 i, ac]
            nisa.nc_matmul(dst=y_ps, stationary=table_sb[0 : aT_sb.shape[0], :, 0:size], moving=aT_sb, accumulate=False)
            _leave(y_sb[:, j, :], y_ps, j % 2 == 0)
        half = parts * size // 2
        for o in range(2):
            here = outs[o][a.span, :, start : start + many * size, c.span].reshape_dim(2, (many, size))
            store(here.permute((1, 3, 2, 0, 4)), y_sb[o * half : (o + 1) * half])  # [k2, i, j, a, c]


def _beside(made, at, size, columns, odd):
    """[i p n2, ac]: one group of k1 of several tiles of columns, transposed, beside each other."""
    k = 2 * size * made[0].shape[1]
    aT_ps = nl.ndarray((k, columns), dtype=made[0].dtype, buffer=nl.psum)  # [i p n2, ac]
    done = 0
    for a_sb in made:
        view = a_sb[:, :, 2 * at : 2 * (at + size)].permute((0, 2, 1))  # [ac, i p, n2]
        nisa.nc_transpose(dst=aT_ps[:, done : done + a_sb.shape[0]], data=view)
        done += a_sb.shape[0]
    aT_sb = nl.ndarray((k, columns), dtype=made[0].dtype, buffer=nl.sbuf)  # [i p n2, ac]
    _leave(aT_sb, aT_ps, odd)
    return aT_sb
