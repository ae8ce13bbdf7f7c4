"""Parts that several kernels share: products of matrices of several tiles of rows, and inner products."""

from trnsci.nki import M_TILE, P_MAX, elementwise, full, load, nisa, nl, store, tiles


def _accumulate(dst_ps, left_sb, right_sb, rows, columns, onto=False):
    """Set dst to rows and columns of left.T right, matrices of several tiles of rows; or add them ``onto`` it."""
    for k in range(len(left_sb)):
        size = left_sb[k].shape[0]
        nisa.nc_matmul(
            dst=dst_ps,
            stationary=left_sb[k][0:size, rows],
            moving=right_sb[k][0:size, columns],
            accumulate=onto or k > 0,
        )


def _subtract_in_place(x_sb, stationary_sb, moving_sb):
    """Subtract stationary.T moving of one tile each from x."""
    part_ps = nl.ndarray(x_sb.shape, dtype=nl.float32, buffer=nl.psum)  # [m, n]
    nisa.nc_matmul(dst=part_ps, stationary=stationary_sb, moving=moving_sb, accumulate=False)
    nisa.tensor_tensor(dst=x_sb, data1=x_sb, data2=part_ps, op=nl.subtract)


def _load_state(a_hbm, x_hbm, r_hbm, d_hbm, columns, loads):
    """Load a matrix and columns of three blocks of vectors, as lists of tiles, and make a tile of ones for `_inner`."""
    N = x_hbm.shape[0]
    a_sb, x_sb, r_sb, d_sb = [], [], [], []
    for m in tiles(N, M_TILE):
        a_sb.append(load(a_hbm[m.span, 0:N], loads))  # [m, N]
        x_sb.append(load(x_hbm[m.span, columns.span], loads))  # [m, K]
        r_sb.append(load(r_hbm[m.span, columns.span], loads))  # [m, K]
        d_sb.append(load(d_hbm[m.span, columns.span], loads))  # [m, K]
    return a_sb, x_sb, r_sb, d_sb, full((P_MAX, P_MAX), 1.0)


def _three_results(N, K):
    """Allocate three blocks of vectors [N, K]."""
    outs_hbm = []
    for _ in range(3):
        outs_hbm.append(nl.ndarray((N, K), dtype=nl.float32, buffer=nl.shared_hbm))  # [N, K]
    return outs_hbm


def _store_state(outs_hbm, x_sb, r_sb, d_sb, columns, stores):
    """Store columns of three blocks of vectors."""
    x_hbm = outs_hbm[0]
    for m in tiles(x_hbm.shape[0], M_TILE):
        store(outs_hbm[0][m.span, columns.span], x_sb[m.index], stores)
        store(outs_hbm[1][m.span, columns.span], r_sb[m.index], stores)
        store(outs_hbm[2][m.span, columns.span], d_sb[m.index], stores)


def _inner(x_sb, y_sb, ones_sb):
    """Return inner products of columns, in every partition, in PSUM."""
    K = x_sb[0].shape[1]
    sum_ps = nl.ndarray((P_MAX, K), dtype=nl.float32, buffer=nl.psum)  # [n, K]
    for i in range(len(x_sb)):
        m = x_sb[i].shape[0]
        each_sb = elementwise(x_sb[i], y_sb[i], nl.multiply)  # [m, K]
        nisa.nc_matmul(dst=sum_ps, stationary=ones_sb[0:m, 0:P_MAX], moving=each_sb, accumulate=i > 0)
    return sum_ps
