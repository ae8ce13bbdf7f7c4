"""x[B, N, N], wT[B, N, N] with x = wT r[B, N, N] and orthogonal rows in x: one-sided Jacobi on the rows of r.

Singular values are the lengths of x's rows. A step makes all disjoint pairs (i, i + half) orthogonal at once. Partners
come by a product with a permutation; inner products are those of the rows themselves, never of a Gram matrix, so
small singular values keep their digits. Rotations, seats and blocks are those of `eigh`. Bound by the Vector Engine:
two passes over all rows a step.
"""

from trnsci.nki import (
    N_TILE,
    P_MAX,
    QUEUES,
    SPARE,
    Axis,
    even,
    filled,
    keep_up,
    load_each,
    mine,
    my_indices,
    nisa,
    nki,
    nl,
    store,
    tiles,
    transpose_into,
)
from trnsolver.kernels._jacobi import (
    GROUP,
    NEGLIGIBLE,
    _multiply,
    _polish,
    _polish_large,
    _rotation,
    _seats,
    _square,
    _turn_rows,
)

N_MAX = 8 * P_MAX
AXES = (Axis(1, {"r_hbm": 0}, (0, 0)),)
# What a search may choose: columns of products that keep the clock up, queues.
CHOICES = {"spare": SPARE, "loads": QUEUES}


@nki.jit
def svd(r_hbm, masks_hbm, sweeps=10, spare=0, loads="compiler"):
    B, N, _ = r_hbm.shape
    x_hbm = nl.ndarray((B, N, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, N]
    wT_hbm = nl.ndarray((B, N, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, N]
    masks_sb = load_each(masks_hbm, loads)
    keep_up(masks_sb[0], masks_sb[7], 8 * spare)
    if N <= P_MAX:
        for b in mine(tiles(B, even(B, GROUP))):
            _small(x_hbm, wT_hbm, r_hbm, masks_sb, b=b, sweeps=sweeps, spare=spare)
    else:
        for b in my_indices(B):
            _large(x_hbm, wT_hbm, r_hbm, masks_sb, b=b, sweeps=sweeps, spare=spare)
    return x_hbm, wT_hbm


def _small(x_hbm, wT_hbm, r_hbm, masks_sb, *, b, sweeps, spare):
    """A few matrices side by side."""
    N = r_hbm.shape[1]
    size = masks_sb[0].shape[0]
    work = _workspace(size, b.size, N)
    w_sb = work[0]
    x_sb = []
    for g in range(b.size):
        tile_sb = filled((size, N), 0.0)  # [n, N]
        nisa.dma_copy(dst=tile_sb[0:N, 0:N], src=r_hbm[b.start + g, 0:N, 0:N])
        x_sb.append(tile_sb)
        nisa.tensor_copy(dst=w_sb[0:size, g, 0:size], src=masks_sb[0])
    for _sweep in range(sweeps):
        for _step in range(size - 1):
            _rotate(x_sb, work, masks_sb, 3, spare)
    for g in range(b.size):
        store(x_hbm[b.start + g, 0:N, 0:N], x_sb[g][0:N, 0:N])
        _polish(wT_hbm, w_sb[0:size, g, 0:size], masks_sb, b.start + g)


def _large(x_hbm, wT_hbm, r_hbm, masks_sb, *, b, sweeps, spare):
    """Tiles of two blocks of 64 rows each; after a round, blocks move."""
    N = r_hbm.shape[1]
    rows = tiles(N, P_MAX)
    T = len(rows)
    work = _workspace(P_MAX, T, T * P_MAX)
    w_sb = work[0]
    x_sb = _square(T)
    v_sb = _square(T)
    b_sb = _square(T)
    eyes_sb = nl.ndarray((P_MAX, T, P_MAX), dtype=nl.float32, buffer=nl.sbuf)  # [n, g, n]
    transposed_sb = nl.ndarray((P_MAX, T, P_MAX), dtype=nl.float32, buffer=nl.sbuf)  # [n, g, n]
    for m in rows:
        nisa.memset(dst=x_sb[m.index], value=0.0)
        nisa.memset(dst=v_sb[m.index], value=0.0)
        nisa.dma_copy(dst=x_sb[m.index][0 : m.size, 0:N], src=r_hbm[b, m.span, 0:N])
        nisa.tensor_copy(dst=v_sb[m.index][0:P_MAX, m.start : m.start + P_MAX], src=masks_sb[0])
        nisa.tensor_copy(dst=eyes_sb[0:P_MAX, m.index, 0:P_MAX], src=masks_sb[0])
    seats = _seats(2 * T)
    for _sweep in range(sweeps):
        for rnd in range(2 * T - 1):
            for g in range(T):
                nisa.tensor_copy(dst=w_sb[0:P_MAX, g, 0:P_MAX], src=masks_sb[0])
            # Rows of one block meet once a sweep, in its first round; after that only those of different blocks.
            if rnd == 0:
                for _step in range(P_MAX - 1):
                    _rotate(x_sb, work, masks_sb, 3, spare)
            else:
                for _step in range(P_MAX // 2):
                    _rotate(x_sb, work, masks_sb, 5, spare)
            for g in range(T):
                transpose_into(transposed_sb[0:P_MAX, g, 0:P_MAX], w_sb[0:P_MAX, g, 0:P_MAX])
            _move(v_sb, b_sb, transposed_sb, seats)
            _move(x_sb, b_sb, eyes_sb, seats)
    for m in rows:
        store(x_hbm[b, m.span, 0:N], x_sb[m.index][0 : m.size, 0:N])
    _polish_large(wT_hbm, v_sb, b_sb, x_sb, masks_sb[0], index=b)


def _move(rows_sb, room_sb, w_sb, seats):
    """Turn the rows of every tile by w.T, and bring blocks to their next seats."""
    for g in range(len(rows_sb)):
        nisa.tensor_copy(dst=room_sb[g], src=rows_sb[g])
    _turn_rows(rows_sb, room_sb, w_sb, seats)


def _workspace(size, groups, M):
    """Rotations collected so far, the present ones, and room for a step."""
    shape = (size, groups, size)
    w_sb = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)  # [n, g, n]
    q_sb = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)  # [n, g, n]
    half_sb = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)  # [n, g, n]
    each_sb = nl.ndarray((size, groups, M), dtype=nl.float32, buffer=nl.sbuf)  # [n, g, M]
    square_sb = nl.ndarray((size, M), dtype=nl.float32, buffer=nl.sbuf)  # [n, M]
    d_sb = nl.ndarray((size, groups), dtype=nl.float32, buffer=nl.sbuf)  # [n, g]
    small_sb = []
    for _i in range(8):
        small_sb.append(nl.ndarray((size, groups), dtype=nl.float32, buffer=nl.sbuf))  # [n, g]
    return w_sb, q_sb, half_sb, each_sb, square_sb, d_sb, small_sb


def _rotate(x_sb, work, masks_sb, pattern, spare):
    """One step: rows x become q.T x and w becomes q.T w, for every group."""
    w_sb, q_sb, half_sb, each_sb, square_sb, d_sb, small_sb = work
    size = w_sb.shape[0]
    groups = w_sb.shape[1]
    M = x_sb[0].shape[1]
    e_sb, kept_sb, size_sb = small_sb[0:3]
    for g in range(groups):
        nisa.activation_reduce(
            dst=square_sb, op=nl.square, data=x_sb[g], reduce_op=nl.add, reduce_res=d_sb[0:size, g : g + 1]
        )
        for c in tiles(M, N_TILE):
            # Twice the partner's row.
            other_ps = nl.ndarray((size, c.size), dtype=nl.float32, buffer=nl.psum)  # [n, c]
            nisa.nc_matmul(dst=other_ps, stationary=masks_sb[1], moving=x_sb[g][0:size, c.span], accumulate=False)
            nisa.tensor_tensor(
                dst=each_sb[0:size, g, c.span], data1=x_sb[g][0:size, c.span], data2=other_ps, op=nl.multiply
            )
    nisa.tensor_reduce(dst=e_sb, op=nl.add, data=each_sb, axis=2)
    mean_ps = nl.ndarray((size, groups), dtype=nl.float32, buffer=nl.psum)  # [n, g]
    nisa.nc_matmul(dst=mean_ps, stationary=masks_sb[7], moving=d_sb, accumulate=False)
    delta_ps = nl.ndarray((size, groups), dtype=nl.float32, buffer=nl.psum)  # [n, g]
    nisa.nc_matmul(dst=delta_ps, stationary=masks_sb[2], moving=d_sb, accumulate=False)
    # Inner products that are negligible beside the mean of the pair's squares are 0.
    nisa.tensor_scalar(dst=size_sb, data=e_sb, op0=nl.abs, operand0=None)
    nisa.scalar_tensor_tensor(
        dst=kept_sb, data=mean_ps, op0=nl.multiply, operand0=2 * NEGLIGIBLE, op1=nl.less, operand1=size_sb
    )
    nisa.tensor_tensor(dst=kept_sb, data1=kept_sb, data2=e_sb, op=nl.multiply)
    _rotation(
        q_sb, half_sb, e_sb, kept_sb, delta_ps, masks_sb=masks_sb, pattern=pattern, small_sb=small_sb, spare=spare
    )
    for g in range(groups):
        for c in tiles(M, N_TILE):
            rotated_ps = nl.ndarray((size, c.size), dtype=nl.float32, buffer=nl.psum)  # [n, c]
            nisa.nc_matmul(
                dst=rotated_ps, stationary=q_sb[0:size, g, 0:size], moving=x_sb[g][0:size, c.span], accumulate=False
            )
            nisa.activation(dst=x_sb[g][0:size, c.span], op=nl.copy, data=rotated_ps)
    _multiply(w_sb, q_sb, w_sb)
