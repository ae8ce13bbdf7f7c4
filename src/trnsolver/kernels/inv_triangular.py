"""x[B, N, N], the inverse of the upper triangle u[B, N, N].

Diagonal tiles are inverted by doubling. Column n of the result follows from its last tile upwards,
x[m, n] = -x[m, m] sum over k of u[m, k] x[k, n]. Bound by that chain, and by the Tensor Engine for many tiles.
"""

from trnsci.nki import (
    M_TILE,
    P_MAX,
    QUEUES,
    WARM,
    Axis,
    full,
    load,
    load_each,
    my_indices,
    nisa,
    nki,
    nl,
    product,
    store,
    tiles,
    transpose_tile,
    upper_inverse,
    warm_up,
)

N_MAX = 16 * P_MAX
AXES = (Axis(1, {"u_hbm": 0}, (0,)),)
CHOICES = {"warm": WARM, "loads": QUEUES}


@nki.jit
def inv_triangular(u_hbm, masks_hbm, unit=False, warm=0, loads="compiler"):
    B, N, _ = u_hbm.shape
    x_hbm = nl.ndarray((B, N, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, N]
    warm_up(warm)
    masks_sb = load_each(masks_hbm, loads)
    zero_sb = full((P_MAX, P_MAX), 0.0)  # [k, m]
    for b in my_indices(B):
        transposed_sb = []
        inverses_sb = []
        for m in tiles(N, M_TILE):
            rows_sb = load(u_hbm[b, m.span, m.start : N], loads)  # [m, N - m]
            x_sb, y_sb = upper_inverse(rows_sb[0 : m.size, 0 : m.size], masks_sb, unit)
            inverses_sb.append((x_sb, y_sb))
            across_sb = []
            for n in tiles(N, M_TILE):
                if n.index > m.index:
                    start = n.start - m.start
                    across_sb.append(transpose_tile(rows_sb[0 : m.size, start : start + n.size]))
            transposed_sb.append(across_sb)
        for n in tiles(N, M_TILE):
            _column(x_hbm, transposed_sb, inverses_sb, zero_sb, b=b, n=n)
    return x_hbm


def _column(x_hbm, transposed_sb, inverses_sb, zero_sb, *, b, n):
    """One block column, from the diagonal up; what lies below is zero."""
    N = x_hbm.shape[1]
    rows = tiles(N, M_TILE)
    column_sb = [inverses_sb[n.index][0]]
    store(x_hbm[b, n.span, n.span], column_sb[0])
    for m in rows:
        if m.index > n.index:
            store(x_hbm[b, m.span, n.span], zero_sb[0 : m.size, 0 : n.size])
    for up in range(n.index):
        m = rows[n.index - 1 - up]
        sum_ps = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum)  # [m, n]
        for k in range(m.index + 1, n.index + 1):
            nisa.nc_matmul(
                dst=sum_ps,
                stationary=transposed_sb[m.index][k - m.index - 1],
                moving=column_sb[n.index - k],
                accumulate=k > m.index + 1,
            )
        sum_sb = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.sbuf)  # [m, n]
        nisa.tensor_scalar(dst=sum_sb, data=sum_ps, op0=nl.multiply, operand0=-1.0)
        solved_sb = product(inverses_sb[m.index][1], sum_sb)  # [m, n]
        column_sb.append(solved_sb)
        store(x_hbm[b, m.span, n.span], solved_sb)
