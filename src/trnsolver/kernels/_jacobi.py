"""Parts that both Jacobi kernels share: rotations of disjoint pairs, their products, and the moves between rounds.

Position i of the upper half meets i of the lower half. After a step everybody moves one seat on, as in a tournament;
above 128 rows, blocks of 64 do so after a round.
"""

from trnsci.nki import (
    M_TILE,
    N_TILE,
    P_MAX,
    elementwise,
    filled,
    keep_up,
    multiply_add,
    nisa,
    nl,
    store,
    tiles,
    transpose_into,
    transposed,
)
from trnsolver.kernels._tiles import _accumulate

GROUP = N_TILE // M_TILE
# Added to squares of which roots and reciprocals are taken.
TINY = 1e-37
# Inner products of so many units of roundoff, relative to the larger squares, are taken for zero.
NEGLIGIBLE = 8 * 2.0**-24


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


def _total(left_hbm, rows_sb, index):
    """Sum over partitions."""
    size = rows_sb.shape[0]
    ones_sb = filled((size, 1), 1.0)  # [n, 1]
    total_ps = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.psum)  # [1, 1]
    nisa.nc_matmul(dst=total_ps, stationary=ones_sb, moving=rows_sb, accumulate=False)
    store(left_hbm[index, 0:1, 0:1], total_ps)


def _polish(vT_hbm, vT_sb, masks_sb, index):
    """Thousands of rotations cost a little orthogonality; one Newton-Schulz step restores it."""
    size = vT_sb.shape[0]
    N = vT_hbm.shape[1]
    v_sb = transposed(vT_sb)  # [n, n]
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
