"""y[B, M] = a[B, M, N] x[B, N], or a.T x, with the matrix read as it lies.  Bound by DMA.

Transposed, the contraction is over partitions: x is stationary, a single column, and the matrix moves past it. As it
is, rows are multiplied by x on the Vector Engine and added up on the Scalar Engine.
"""

from trnsci.nki import (
    K_TILE,
    N_TILE,
    P_MAX,
    QUEUES,
    Axis,
    elementwise,
    load,
    mine,
    my_indices,
    nisa,
    nki,
    nl,
    store,
    tiles,
)

WIDTH = 4 * N_TILE
AXES = (
    Axis(1, {"a_hbm": 0, "x_hbm": 0}, (0,), broadcasts=False),
    Axis(P_MAX, {"a_hbm": 1}, (1,), when=("trans", False)),
    Axis(WIDTH, {"a_hbm": 2}, (2,), when=("trans", True)),
    Axis(K_TILE, {"a_hbm": 1, "x_hbm": 1}, (1,), last=True, when=("trans", True)),
)
CHOICES = {"width": (N_TILE, 2 * N_TILE, 4 * N_TILE), "loads": QUEUES, "stores": QUEUES}


@nki.jit
def gemv(a_hbm, x_hbm, trans=False, width=WIDTH, loads="compiler", stores="compiler"):
    B, M, N = a_hbm.shape
    shape = (B, 1, N) if trans else (B, M, 1)
    y_hbm = nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm)  # [B, 1, N] or [B, M, 1]
    for i in my_indices(B, B > 1):
        if trans:
            _by_columns(y_hbm, a_hbm, x_hbm, i, width=width, loads=loads, stores=stores)
        else:
            _by_rows(y_hbm, a_hbm, x_hbm, i, width=width, loads=loads, stores=stores)
    return y_hbm


def _by_columns(y_hbm, a_hbm, x_hbm, i, *, width, loads, stores):
    M, N = a_hbm.shape[1], a_hbm.shape[2]
    x_sb = []
    for k in tiles(M, K_TILE):
        x_sb.append(load(x_hbm[i, k.span, 0:1], loads))  # [k, 1]
    for wide in mine(tiles(N, width), a_hbm.shape[0] == 1):
        y_ps = []
        for n in tiles(wide.size, N_TILE):
            y_ps.append(nl.ndarray((1, n.size), dtype=nl.float32, buffer=nl.psum))  # [1, n]
        for k in tiles(M, K_TILE):
            a_sb = load(a_hbm[i, k.span, wide.span], loads)  # [k, wide]
            for n in tiles(wide.size, N_TILE):
                nisa.nc_matmul(
                    dst=y_ps[n.index], stationary=x_sb[k.index], moving=a_sb[:, n.span], accumulate=k.index > 0
                )
        for n in tiles(wide.size, N_TILE):
            here = slice(wide.start + n.start, wide.start + n.stop)
            store(y_hbm[i, 0:1, here], y_ps[n.index], stores)


def _by_rows(y_hbm, a_hbm, x_hbm, i, *, width, loads, stores):
    M, N = a_hbm.shape[1], a_hbm.shape[2]
    parts = tiles(N, width)
    x_sb = []
    for n in parts:
        x_sb.append(load(x_hbm[i, 0:P_MAX, n.span], loads))  # [P, n]
    for m in mine(tiles(M, P_MAX), a_hbm.shape[0] == 1):
        sums_sb = nl.ndarray((m.size, len(parts)), dtype=nl.float32, buffer=nl.sbuf)  # [m, T]
        for n in parts:
            a_sb = load(a_hbm[i, m.span, n.span], loads)  # [m, n]
            product_sb = elementwise(a_sb, x_sb[n.index][0 : m.size, :], nl.multiply)  # [m, n]
            scratch_sb = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.sbuf)  # [m, n]
            nisa.activation_reduce(
                dst=scratch_sb,
                op=nl.copy,
                data=product_sb,
                reduce_op=nl.add,
                reduce_res=sums_sb[:, n.index : n.index + 1],
            )
        y_sb = nl.ndarray((m.size, 1), dtype=nl.float32, buffer=nl.sbuf)  # [m, 1]
        nisa.tensor_reduce(dst=y_sb, op=nl.add, data=sums_sb, axis=1)
        store(y_hbm[i, m.span, 0:1], y_sb, stores)
