"""x[B, N, N], wT[B, N, N] with x = wT r[B, N, N] and orthogonal rows in x: one-sided Jacobi on the rows of r.

Singular values are the lengths of x's rows. A step makes all disjoint pairs (i, i + half) orthogonal at once. Partners
come by a product with a permutation; inner products are those of the rows themselves, never of a Gram matrix, so
small singular values keep their digits. Position i of the upper half meets i of the lower half; after a step everybody
moves one seat on, as in a tournament, and above 128 rows blocks of 64 do so after a round. Bound by the Vector Engine:
two passes over all rows a step.
"""

from trnsci.nki import (
    M_TILE,
    N_TILE,
    P_MAX,
    QUEUES,
    SPARE,
    Axis,
    elementwise,
    even,
    full,
    keep_up,
    load_each,
    mine,
    multiply_add,
    my_indices,
    nisa,
    nki,
    nl,
    store,
    tiles,
    transpose_into,
    transpose_tile,
)
from trnsolver.kernels._tiles import _accumulate

N_MAX = 8 * P_MAX
GROUP = N_TILE // M_TILE
# Added to squares of which roots and reciprocals are taken.
TINY = 1e-37
# Inner products of so many units of roundoff, relative to the larger squares, are taken for zero.
NEGLIGIBLE = 8 * 2.0**-24
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
    """Rotate a few matrices side by side."""
    N = r_hbm.shape[1]
    size = masks_sb[0].shape[0]
    work = _workspace(size, b.size, N)
    w_sb = work[0]
    x_sb = []
    for g in range(b.size):
        tile_sb = full((size, N), 0.0)  # [n, N]
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
    """Return tiles of two blocks of 64 rows each; after a round, blocks move."""
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
    """Return rotations collected so far, the present ones, and room for a step."""
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


def _rotation(q_sb, half_sb, e_sb, kept_sb, delta_sb, *, masks_sb, pattern, small_sb, spare):
    """Set q to the rotations that make all pairs orthogonal, and the moves to the next seats, for every group.

    e holds twice the inner product of each pair, delta the square of the lower one less that of the upper one; kept is
    e, and 0 for pairs that stay: turning rounding errors by large angles would only make more of them.
    """
    size = q_sb.shape[0]
    groups = q_sb.shape[1]
    ee_sb, sum_sb, root_sb, sign_sb, t_sb, c_sb = small_sb[2:8]
    nisa.tensor_scalar(dst=ee_sb, data=e_sb, op0=nl.power, operand0=2.0, op1=nl.add, operand1=TINY)
    keep_up(masks_sb[0], ee_sb, spare)
    # t = 2e sign(delta) / (abs(delta) + sqrt(delta**2 + 4e**2)), the smaller root; both halves compute the same.
    nisa.scalar_tensor_tensor(dst=sum_sb, data=delta_sb, op0=nl.power, operand0=2.0, op1=nl.add, operand1=ee_sb)
    nisa.tensor_scalar(dst=c_sb, data=delta_sb, op0=nl.abs, operand0=None)
    nisa.tensor_scalar(dst=sign_sb, data=delta_sb, op0=nl.greater_equal, operand0=0.0, op1=nl.subtract, operand1=0.5)
    nisa.scalar_tensor_tensor(dst=root_sb, data=sum_sb, op0=nl.power, operand0=0.5, op1=nl.add, operand1=c_sb)
    nisa.scalar_tensor_tensor(
        dst=sign_sb, data=sign_sb, op0=nl.multiply, operand0=2.0, op1=nl.multiply, operand1=kept_sb
    )
    nisa.scalar_tensor_tensor(dst=t_sb, data=root_sb, op0=nl.power, operand0=-1.0, op1=nl.multiply, operand1=sign_sb)
    nisa.tensor_scalar(dst=sum_sb, data=t_sb, op0=nl.power, operand0=2.0, op1=nl.add, operand1=1.0)
    nisa.tensor_scalar(dst=c_sb, data=sum_sb, op0=nl.power, operand0=-0.5)
    for g in range(groups):
        # q = cos (one pattern + tan the other)
        half = half_sb[0:size, g, 0:size]
        multiply_add(half, masks_sb[pattern + 1], t_sb[0:size, g : g + 1], masks_sb[pattern])
        nisa.tensor_scalar(dst=q_sb[0:size, g, 0:size], data=half, op0=nl.multiply, operand0=c_sb[0:size, g : g + 1])


def _multiply(dst_sb, stationary_sb, moving_sb):
    """Set dst to stationary.T moving, group by group."""
    size = dst_sb.shape[0]
    for c in tiles(dst_sb.shape[1], GROUP):
        product_ps = nl.ndarray((size, c.size, size), dtype=nl.float32, buffer=nl.psum)  # [n, g, n]
        for g in range(c.size):
            nisa.nc_matmul(
                dst=product_ps[0:size, g, 0:size],
                stationary=stationary_sb[0:size, c.start + g, 0:size],
                moving=moving_sb[0:size, c.start + g, 0:size],
                accumulate=False,
            )
        nisa.tensor_copy(dst=dst_sb[0:size, c.span, 0:size], src=product_ps)


def _square(T):
    rows_sb = []
    for _g in range(T):
        rows_sb.append(nl.ndarray((P_MAX, T * P_MAX), dtype=nl.float32, buffer=nl.sbuf))  # [n, N]
    return rows_sb


def _seats(size):
    """Where each block goes after a round; blocks 0 to T - 1 are the upper halves of tiles, the others the lower."""
    half = size // 2
    if half == 1:
        return [0, 1]
    seats = [0]
    for i in range(2, half):
        seats.append(i)
    seats.append(size - 1)
    seats.append(1)
    for i in range(half, size - 1):
        seats.append(i)
    return seats


def _turn_rows(dst_sb, src_sb, w_sb, seats):
    """Set dst to w.T src, rows moved to their next seats: two products a tile, one for each half of its rows."""
    T = len(src_sb)
    half = P_MAX // 2
    came = []
    for seat in range(2 * T):
        for block in range(2 * T):
            if seats[block] == seat:
                came.append(block)
    for m in range(T):
        upper_sb = nl.ndarray((P_MAX, P_MAX), dtype=nl.float32, buffer=nl.sbuf)  # [n, n]
        lower_sb = nl.ndarray((P_MAX, P_MAX), dtype=nl.float32, buffer=nl.sbuf)  # [n, n]
        nisa.memset(dst=upper_sb, value=0.0)
        nisa.memset(dst=lower_sb, value=0.0)
        up = came[m]
        down = came[m + T]
        up_at = 0 if up < T else half
        down_at = 0 if down < T else half
        nisa.tensor_copy(dst=upper_sb[0:P_MAX, 0:half], src=w_sb[0:P_MAX, up % T, up_at : up_at + half])
        nisa.tensor_copy(dst=lower_sb[0:P_MAX, half:P_MAX], src=w_sb[0:P_MAX, down % T, down_at : down_at + half])
        for n in tiles(T * P_MAX, N_TILE):
            product_ps = nl.ndarray((P_MAX, n.size), dtype=nl.float32, buffer=nl.psum)  # [n, cN]
            nisa.nc_matmul(
                dst=product_ps, stationary=upper_sb, moving=src_sb[up % T][0:P_MAX, n.span], accumulate=False
            )
            nisa.nc_matmul(
                dst=product_ps, stationary=lower_sb, moving=src_sb[down % T][0:P_MAX, n.span], accumulate=True
            )
            nisa.tensor_copy(dst=dst_sb[m][0:P_MAX, n.span], src=product_ps)


def _polish(vT_hbm, vT_sb, masks_sb, index):
    """Restore by one Newton-Schulz step the little orthogonality that thousands of rotations cost."""
    size = vT_sb.shape[0]
    N = vT_hbm.shape[1]
    v_sb = transpose_tile(vT_sb)  # [n, n]
    gram_ps = nl.ndarray((size, size), dtype=nl.float32, buffer=nl.psum)  # [n, n]
    nisa.nc_matmul(dst=gram_ps, stationary=v_sb, moving=v_sb, accumulate=False)
    fix_sb = elementwise(masks_sb[0], gram_ps, nl.subtract)  # [n, n]
    step_ps = nl.ndarray((size, size), dtype=nl.float32, buffer=nl.psum)  # [n, n]
    nisa.nc_matmul(dst=step_ps, stationary=fix_sb, moving=vT_sb, accumulate=False)
    out_sb = nl.ndarray((size, size), dtype=nl.float32, buffer=nl.sbuf)  # [n, n]
    multiply_add(out_sb, step_ps, 0.5, vT_sb)
    store(vT_hbm[index, 0:N, 0:N], out_sb[0:N, 0:N])


def _polish_large(vT_hbm, v_sb, transposed_sb, fix_sb, eye_sb, *, index):
    """As `_polish`, for tiles of rows; the last two squares are room to work in."""
    N = vT_hbm.shape[1]
    T = len(v_sb)
    size = T * P_MAX
    for m in range(T):
        for g in range(T):
            there_sb = transposed_sb[g][0:P_MAX, m * P_MAX : (m + 1) * P_MAX]
            transpose_into(there_sb, v_sb[m][0:P_MAX, g * P_MAX : (g + 1) * P_MAX])
    for m in range(T):
        here = slice(m * P_MAX, (m + 1) * P_MAX)
        for n in tiles(size, N_TILE):
            gram_ps = nl.ndarray((P_MAX, n.size), dtype=nl.float32, buffer=nl.psum)  # [n, cN]
            _accumulate(gram_ps, transposed_sb, transposed_sb, here, n.span)
            nisa.tensor_scalar(dst=fix_sb[m][0:P_MAX, n.span], data=gram_ps, op0=nl.multiply, operand0=-1.0)
        nisa.tensor_tensor(dst=fix_sb[m][0:P_MAX, here], data1=fix_sb[m][0:P_MAX, here], data2=eye_sb, op=nl.add)
    for m in tiles(N, P_MAX):
        for n in tiles(N, N_TILE):
            step_ps = nl.ndarray((P_MAX, n.size), dtype=nl.float32, buffer=nl.psum)  # [n, cN]
            _accumulate(step_ps, fix_sb, v_sb, slice(m.start, m.start + P_MAX), n.span)
            out_sb = nl.ndarray((P_MAX, n.size), dtype=nl.float32, buffer=nl.sbuf)  # [n, cN]
            multiply_add(out_sb, step_ps, 0.5, v_sb[m.index][0:P_MAX, n.span])
            store(vT_hbm[index, m.span, n.span], out_sb[0 : m.size, 0 : n.size])
