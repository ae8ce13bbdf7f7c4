"""w[B, N], vT[B, N, N] with a[B, N, N] = vT.T diag(w) vT: Jacobi, rotations as Tensor-Engine products.

A step rotates all disjoint pairs (i, i + half) at once: q holds the rotations and the move to the next seats, so
every step is the same program. Up to 128 rows, matrices of a batch share the free dimension. Above, tiles hold two
blocks of 64 rows each; a round diagonalises all pairs of blocks on chip, then turns the whole matrix by three
products, and blocks move as positions do. Bound by the chain of a step: about 20 dependent instructions.
"""

from trnsci.nki import (
    P_MAX,
    QUEUES,
    SPARE,
    Axis,
    even,
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
    _total,
    _turn_rows,
)

N_MAX = 8 * P_MAX
AXES = (Axis(1, {"a_hbm": 0}, (0, 0, 0)),)
# What a search may choose: columns of products that keep the clock up, queues.
CHOICES = {"spare": SPARE, "loads": QUEUES}


@nki.jit
def jacobi(a_hbm, masks_hbm, sweeps=10, spare=0, loads="compiler"):
    B, N, _ = a_hbm.shape
    w_hbm = nl.ndarray((B, N, 1), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, 1]
    vT_hbm = nl.ndarray((B, N, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, N]
    left_hbm = nl.ndarray((B, 1, 1), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, 1, 1]
    masks_sb = load_each(masks_hbm, loads)
    keep_up(masks_sb[0], masks_sb[7], 8 * spare)
    if N <= P_MAX:
        for b in mine(tiles(B, even(B, GROUP))):
            _small(w_hbm, vT_hbm, left_hbm, a_hbm, masks_sb, b=b, sweeps=sweeps, spare=spare)
    else:
        for b in my_indices(B):
            _large(w_hbm, vT_hbm, left_hbm, a_hbm, masks_sb, b=b, sweeps=sweeps, spare=spare)
    return w_hbm, vT_hbm, left_hbm


def _small(w_hbm, vT_hbm, left_hbm, a_hbm, masks_sb, *, b, sweeps, spare):
    """A few matrices side by side in the free dimension."""
    N = a_hbm.shape[1]
    size = masks_sb[0].shape[0]
    work = _workspace(masks_sb, b.size)
    s_sb = work[0]
    wT_sb = work[1]
    nisa.memset(dst=s_sb, value=0.0)
    for g in range(b.size):
        nisa.dma_copy(dst=s_sb[0:N, g, 0:N], src=a_hbm[b.start + g, 0:N, 0:N])
        nisa.tensor_copy(dst=wT_sb[0:size, g, 0:size], src=masks_sb[0])
    for _sweep in range(sweeps):
        for _step in range(size - 1):
            _rotate(work, masks_sb, 3, spare)
    _finish(w_hbm, vT_hbm, left_hbm, work, masks_sb, b=b)


def _finish(w_hbm, vT_hbm, left_hbm, work, masks_sb, *, b):
    """Diagonals, vectors, and the squares of what is left off the diagonal."""
    s_sb, wT_sb, scratch_sb, d_sb = work[0], work[1], work[3], work[4]
    N = w_hbm.shape[1]
    size = s_sb.shape[0]
    nisa.tensor_tensor(dst=scratch_sb, data1=s_sb, data2=work[2], op=nl.multiply)
    nisa.tensor_reduce(dst=d_sb, op=nl.add, data=scratch_sb, axis=2)
    nisa.tensor_tensor(dst=s_sb, data1=s_sb, data2=scratch_sb, op=nl.subtract)
    nisa.tensor_tensor(dst=s_sb, data1=s_sb, data2=s_sb, op=nl.multiply)
    rows_sb = nl.ndarray((size, b.size), dtype=nl.float32, buffer=nl.sbuf)  # [n, g]
    nisa.tensor_reduce(dst=rows_sb, op=nl.add, data=s_sb, axis=2)
    for g in range(b.size):
        store(w_hbm[b.start + g, 0:N, 0:1], d_sb[0:N, g : g + 1])
        _polish(vT_hbm, wT_sb[0:size, g, 0:size], masks_sb, b.start + g)
        _total(left_hbm, rows_sb[0:size, g : g + 1], b.start + g)


def _workspace(masks_sb, groups):
    """Matrices, rotations collected so far, masks repeated for every group, and room for a step."""
    size = masks_sb[0].shape[0]
    shape = (size, groups, size)
    s_sb = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)  # [n, g, n]
    wT_sb = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)  # [n, g, n]
    eyes_sb = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)  # [n, g, n]
    scratch_sb = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)  # [n, g, n]
    d_sb = nl.ndarray((size, groups), dtype=nl.float32, buffer=nl.sbuf)  # [n, g]
    pairs_sb = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)  # [n, g, n]
    other_sb = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)  # [n, g, n]
    q_sb = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)  # [n, g, n]
    half_sb = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)  # [n, g, n]
    small_sb = []
    for _i in range(8):
        small_sb.append(nl.ndarray((size, groups), dtype=nl.float32, buffer=nl.sbuf))  # [n, g]
    for g in range(groups):
        nisa.tensor_copy(dst=eyes_sb[0:size, g, 0:size], src=masks_sb[0])
        nisa.tensor_copy(dst=pairs_sb[0:size, g, 0:size], src=masks_sb[1])
    return s_sb, wT_sb, eyes_sb, scratch_sb, d_sb, pairs_sb, other_sb, q_sb, half_sb, small_sb


def _rotate(work, masks_sb, pattern, spare):
    """One step: s becomes q.T s q and wT becomes q.T wT, for every group."""
    s_sb, wT_sb, eyes_sb, scratch_sb, d_sb, pairs_sb, other_sb, q_sb, half_sb, small_sb = work
    size = s_sb.shape[0]
    groups = s_sb.shape[1]
    e_sb, kept_sb = small_sb[0:2]
    nisa.tensor_tensor(dst=other_sb, data1=s_sb, data2=pairs_sb, op=nl.multiply)
    nisa.tensor_reduce(dst=e_sb, op=nl.add, data=other_sb, axis=2)
    # Rounding leaves s not quite symmetric; both halves of a pair must see one angle.
    e_ps = nl.ndarray((size, groups), dtype=nl.float32, buffer=nl.psum)  # [n, g]
    nisa.nc_matmul(dst=e_ps, stationary=masks_sb[7], moving=e_sb, accumulate=False)
    nisa.tensor_tensor(dst=scratch_sb, data1=s_sb, data2=eyes_sb, op=nl.multiply)
    nisa.tensor_reduce(dst=d_sb, op=nl.add, data=scratch_sb, axis=2)
    delta_ps = nl.ndarray((size, groups), dtype=nl.float32, buffer=nl.psum)  # [n, g]
    nisa.nc_matmul(dst=delta_ps, stationary=masks_sb[2], moving=d_sb, accumulate=False)
    # Entries are at most 1.
    nisa.tensor_scalar(dst=kept_sb, data=e_ps, op0=nl.abs, operand0=None, op1=nl.greater, operand1=2 * NEGLIGIBLE)
    nisa.tensor_tensor(dst=kept_sb, data1=kept_sb, data2=e_ps, op=nl.multiply)
    _rotation(
        q_sb, half_sb, e_ps, kept_sb, delta_ps, masks_sb=masks_sb, pattern=pattern, small_sb=small_sb, spare=spare
    )
    _multiply(other_sb, s_sb, q_sb)
    _multiply(s_sb, other_sb, q_sb)
    _multiply(wT_sb, q_sb, wT_sb)


def _large(w_hbm, vT_hbm, left_hbm, a_hbm, masks_sb, *, b, sweeps, spare):
    """Blocks of 64 rows play the part of rows."""
    N = a_hbm.shape[1]
    rows = tiles(N, P_MAX)
    T = len(rows)
    work = _workspace(masks_sb, T)
    s_sb = work[0]
    wT_sb = work[1]
    a_sb = _square(T)
    v_sb = _square(T)
    b_sb = _square(T)
    for m in rows:
        nisa.memset(dst=a_sb[m.index], value=0.0)
        nisa.memset(dst=v_sb[m.index], value=0.0)
        nisa.dma_copy(dst=a_sb[m.index][0 : m.size, 0:N], src=a_hbm[b, m.span, 0:N])
        nisa.tensor_copy(dst=v_sb[m.index][0:P_MAX, m.start : m.start + P_MAX], src=masks_sb[0])
    seats = _seats(2 * T)
    w_sb = nl.ndarray((P_MAX, T, P_MAX), dtype=nl.float32, buffer=nl.sbuf)  # [n, g, n]
    for _sweep in range(sweeps):
        for rnd in range(2 * T - 1):
            for g in range(T):
                nisa.tensor_copy(dst=s_sb[0:P_MAX, g, 0:P_MAX], src=a_sb[g][0:P_MAX, g * P_MAX : (g + 1) * P_MAX])
                nisa.tensor_copy(dst=wT_sb[0:P_MAX, g, 0:P_MAX], src=masks_sb[0])
            # Rows of one block meet once a sweep, in its first round; after that only those of different blocks.
            if rnd == 0:
                for _step in range(P_MAX - 1):
                    _rotate(work, masks_sb, 3, spare)
            else:
                for _step in range(P_MAX // 2):
                    _rotate(work, masks_sb, 5, spare)
            for g in range(T):
                transpose_into(w_sb[0:P_MAX, g, 0:P_MAX], wT_sb[0:P_MAX, g, 0:P_MAX])
            _turn_columns(b_sb, a_sb, w_sb, seats)
            _turn_rows(a_sb, b_sb, w_sb, seats)
            for g in range(T):
                nisa.tensor_copy(dst=b_sb[g], src=v_sb[g])
            _turn_rows(v_sb, b_sb, w_sb, seats)
    _finish_large(w_hbm, vT_hbm, left_hbm, a_sb, v_sb, b_sb=b_sb, work=work, index=b)


def _start(block, T):
    """First column of a block."""
    return block * P_MAX if block < T else (block - T) * P_MAX + P_MAX // 2


def _turn_columns(dst_sb, a_sb, w_sb, seats):
    """Set dst to a w, columns moved to their next seats. a is symmetric, so its rows serve as its columns."""
    T = len(a_sb)
    half = P_MAX // 2
    for m in range(T):
        for c in tiles(T, GROUP):
            product_ps = nl.ndarray((P_MAX, c.size * P_MAX), dtype=nl.float32, buffer=nl.psum)  # [n, cN]
            for i in range(c.size):
                nisa.nc_matmul(
                    dst=product_ps[0:P_MAX, i * P_MAX : (i + 1) * P_MAX],
                    stationary=a_sb[c.start + i][0:P_MAX, m * P_MAX : (m + 1) * P_MAX],
                    moving=w_sb[0:P_MAX, c.start + i, 0:P_MAX],
                    accumulate=False,
                )
            for i in range(c.size):
                up = _start(seats[c.start + i], T)
                down = _start(seats[c.start + i + T], T)
                nisa.tensor_copy(
                    dst=dst_sb[m][0:P_MAX, up : up + half], src=product_ps[0:P_MAX, i * P_MAX : i * P_MAX + half]
                )
                nisa.tensor_copy(
                    dst=dst_sb[m][0:P_MAX, down : down + half],
                    src=product_ps[0:P_MAX, i * P_MAX + half : (i + 1) * P_MAX],
                )


def _finish_large(w_hbm, vT_hbm, left_hbm, a_sb, v_sb, *, b_sb, work, index):
    """Diagonals, the squares of what is left off them, and vectors polished as in `_polish`."""
    N = w_hbm.shape[1]
    T = len(a_sb)
    eye_sb = work[2][0:P_MAX, 0, 0:P_MAX]
    rows_sb = nl.ndarray((P_MAX, T), dtype=nl.float32, buffer=nl.sbuf)  # [n, g]
    d_sb = nl.ndarray((P_MAX, T), dtype=nl.float32, buffer=nl.sbuf)  # [n, g]
    own_sb = nl.ndarray((P_MAX, P_MAX), dtype=nl.float32, buffer=nl.sbuf)  # [n, n]
    for m in tiles(N, P_MAX):
        here = slice(m.start, m.start + P_MAX)
        nisa.tensor_tensor(dst=own_sb, data1=a_sb[m.index][0:P_MAX, here], data2=eye_sb, op=nl.multiply)
        nisa.tensor_reduce(dst=d_sb[0:P_MAX, m.index : m.index + 1], op=nl.add, data=own_sb, axis=1)
        nisa.tensor_tensor(
            dst=a_sb[m.index][0:P_MAX, here], data1=a_sb[m.index][0:P_MAX, here], data2=own_sb, op=nl.subtract
        )
        nisa.tensor_tensor(dst=a_sb[m.index], data1=a_sb[m.index], data2=a_sb[m.index], op=nl.multiply)
        nisa.tensor_reduce(dst=rows_sb[0:P_MAX, m.index : m.index + 1], op=nl.add, data=a_sb[m.index], axis=1)
        store(w_hbm[index, m.span, 0:1], d_sb[0 : m.size, m.index : m.index + 1])
    total_sb = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)  # [n, 1]
    nisa.tensor_reduce(dst=total_sb, op=nl.add, data=rows_sb, axis=1)
    _total(left_hbm, total_sb, index)
    _polish_large(vT_hbm, v_sb, b_sb, a_sb, eye_sb, index=index)
