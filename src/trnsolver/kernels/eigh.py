"""w[B, N], vT[B, N, N] with a[B, N, N] = vT.T diag(w) vT: spectral divide and conquer, products alone.

Rows carry labels, and rows of one label are a block that no other couples to. A level splits every block at a point
between its eigenvalues: s is the sign of the blocks, shifted; j a diagonal of signs, as many of each as s has; and
u = sign(s + j), symmetric and orthogonal, turns s into j, so that u a u couples no rows of different signs. How many
rows get which sign depends on the data, but only through masks; shapes do not. Levels are fixed. vT starts from the
rotation given, a random one, or the rows of an earlier program, or from the identity. With a basis [B, N, W], vT times
it is returned; core[B, N, N] is vT a vT.T. The first half of a level returns s for vT and the core it started from, and
the second half begins with s. Bound by the Tensor Engine.
"""

from trnsci.nki import (
    M_TILE,
    N_TILE,
    P_MAX,
    QUEUES,
    WARM,
    Axis,
    even,
    full,
    load,
    mine,
    multiply_add,
    nisa,
    nki,
    nl,
    store,
    tiles,
    warm_up,
)
from trnsolver.kernels._divide import (
    _add_diagonal,
    _column,
    _diagonal,
    _multiply,
    _row_squares,
    _sign,
    _square,
    _symmetric,
    _total,
    _turn,
)
from trnsolver.kernels._tiles import _accumulate

N_MAX = 8 * P_MAX
# Matrices of one tile that go side by side.
GROUP = 4
# Steps that lift small values: to a sign of what is 5e-6 of a block's norm, and of s + j down to 1e-4. What is nearer
# to the split couples the two blocks by no more than that, which the correction at the end takes off.
LIFTS = 9
TURNS = 7
# The most rows of which one level is a program that compiles; up to N_MAX it is two, of one sign each.
ONE_LEVEL = 4 * P_MAX
# Blocks of this norm, relative to the matrix's, are left.
DONE = 4 * 2.0**-24
# The mean is between the smallest and the largest eigenvalue, but may be one; so far off it, in units of the norm over
# the number of rows, is still between.
OFF = 0.3
TINY = 1e-37
# Entries of so many units of roundoff are noise, and angles of more than this are not small.
NOISE = 8 * 2.0**-24
SMALL = 2.0**-9
AXES = (
    Axis(
        GROUP,
        {"a_hbm": 0, "start_hbm": 0, "labels_hbm": 0, "basis_hbm": 0, "sign_hbm": 0},
        (0, 0, 0, 0, 0),
        broadcasts=False,
    ),
)
CHOICES = {"warm": WARM, "loads": QUEUES, "stores": QUEUES}


@nki.jit
def eigh(
    a_hbm,
    start_hbm,
    labels_hbm,
    eye_hbm,
    order_hbm,
    basis_hbm=None,
    sign_hbm=None,
    levels=8,
    half=False,
    warm=0,
    loads="compiler",
    stores="compiler",
):
    B, N, _ = a_hbm.shape
    W = N if basis_hbm == None else basis_hbm.shape[2]
    w_hbm = nl.ndarray((B, N, 1), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, 1]
    vT_hbm = nl.ndarray((B, N, W), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, W]
    core_hbm = nl.ndarray((B, N, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, N]
    out_hbm = nl.ndarray((B, N, 1), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, 1]
    left_hbm = nl.ndarray((B, 1, 2), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, 1, 2]
    warm_up(warm)
    eye_sb = load(eye_hbm[0:P_MAX, 0:P_MAX], loads)  # [k, m]
    ones_sb = full((P_MAX, P_MAX), 1.0)  # [k, m]
    order_sb = _column(N)
    _load_column(order_sb, order_hbm, N)
    for b in mine(tiles(B, even(B, GROUP) if N <= P_MAX else 1)):
        a_sb, v_sb, x_sb, y_sb, q_sb, label_sb, row_sb, floor_sb = [], [], [], [], [], [], [], []
        for g in range(b.size):
            for square_sb in (a_sb, v_sb, x_sb, y_sb, q_sb):
                square_sb.append(_square(N))
            label_sb.append(_column(N))
            row_sb.append(nl.ndarray((P_MAX, N), dtype=nl.float32, buffer=nl.sbuf))  # [n, N]
            _load_column(label_sb[g], labels_hbm[b.start + g], N)
            _broadcast_column(row_sb[g], label_sb[g], eye_sb, ones_sb)
            if start_hbm == None:
                _load_rows(a_sb[g], a_hbm[b.start + g])
                _set_identity(v_sb[g], eye_sb)
            else:
                _load_rows(v_sb[g], start_hbm[b.start + g])
                _core(a_sb[g], v_sb[g], y_sb[g], q_sb[g], a_hbm[b.start + g])
            floor_sb.append(_floor(a_sb[g], ones_sb))
        for _level in range(levels):
            counts_sb = []
            for g in range(b.size):
                counts_sb.append(
                    _blocks(x_sb[g], a_sb[g], y_sb[g], label_sb[g], row_sb[g], floor_sb=floor_sb[g], eye_sb=eye_sb)
                )
            if sign_hbm == None:
                x_sb, y_sb, q_sb = _sign(x_sb, y_sb, q_sb, eye_sb, LIFTS)
            else:
                for g in range(b.size):
                    _load_rows(x_sb[g], sign_hbm[b.start + g])
            if half:
                continue
            for g in range(b.size):
                _choose(x_sb[g], y_sb[g], counts_sb[g], label_sb[g], row_sb[g], constants=(order_sb, eye_sb, ones_sb))
            x_sb, y_sb, q_sb = _sign(x_sb, y_sb, q_sb, eye_sb, TURNS)
            for g in range(b.size):
                _multiply(y_sb[g], a_sb[g], x_sb[g])
                _symmetric(a_sb[g], x_sb[g], y_sb[g], 1.0, True)
                _multiply(q_sb[g], x_sb[g], v_sb[g])
            v_sb, q_sb = q_sb, v_sb
        for g in range(b.size):
            if half:
                _store_rows(vT_hbm[b.start + g], x_sb[g], stores)
                _store_rows(core_hbm[b.start + g], a_sb[g], stores)
                continue
            _correct(v_sb[g], a_sb[g], x_sb[g], y_sb[g], eye_sb, ones_sb=ones_sb)
            _polish(left_hbm[b.start + g], v_sb[g], x_sb[g], y_sb[g], eye_sb, ones_sb=ones_sb)
            _core(a_sb[g], v_sb[g], y_sb[g], q_sb[g], a_hbm[b.start + g])
            _store_rows(core_hbm[b.start + g], a_sb[g], stores)
            _finish(w_hbm[b.start + g], left_hbm[b.start + g], a_sb[g], eye_sb, ones_sb)
            if basis_hbm == None:
                _store_rows(vT_hbm[b.start + g], v_sb[g], stores)
            else:
                _turn(x_sb[g], v_sb[g])
                _through(vT_hbm[b.start + g], x_sb[g], basis_hbm[b.start + g], stores)
            for m in tiles(N, M_TILE):
                store(out_hbm[b.start + g, m.span, 0:1], label_sb[g][0 : m.size, m.index : m.index + 1], stores)
    if half:
        return vT_hbm, core_hbm
    return w_hbm, vT_hbm, out_hbm, left_hbm, core_hbm


def _load_column(dst_sb, src_hbm, N):
    for m in tiles(N, M_TILE):
        nisa.dma_copy(dst=dst_sb[0 : m.size, m.index : m.index + 1], src=src_hbm[m.span, 0:1])


def _load_rows(dst_sb, src_hbm):
    for m in tiles(src_hbm.shape[0], M_TILE):
        nisa.dma_copy(dst=dst_sb[m.index], src=src_hbm[m.span, 0 : src_hbm.shape[1]])


def _store_rows(dst_hbm, src_sb, stores):
    for m in tiles(dst_hbm.shape[0], M_TILE):
        store(dst_hbm[m.span, 0 : dst_hbm.shape[1]], src_sb[m.index], stores)


def _set_identity(x_sb, eye_sb):
    N = x_sb[0].shape[1]
    for m in tiles(N, M_TILE):
        nisa.memset(dst=x_sb[m.index], value=0.0)
    _add_diagonal(x_sb, eye_sb, 1.0)


def _through(out_hbm, v_sb, basis_hbm, stores):
    """Store v.T basis, of a basis [N, W] that is read a few columns at a time."""
    N, W = basis_hbm.shape
    for w in tiles(W, N_TILE):
        basis_sb = []
        for k in tiles(N, M_TILE):
            basis_sb.append(load(basis_hbm[k.span, w.span]))  # [k, w]
        for m in tiles(N, M_TILE):
            rows_ps = nl.ndarray((m.size, w.size), dtype=nl.float32, buffer=nl.psum)  # [m, w]
            _accumulate(rows_ps, v_sb, basis_sb, m.span, slice(0, w.size))
            store(out_hbm[m.span, w.span], rows_ps, stores)


def _core(a_sb, v_sb, y_sb, q_sb, a_hbm):
    """Set a to vT a v, of the matrix as it was given."""
    _load_rows(a_sb, a_hbm)
    _turn(y_sb, v_sb)
    _multiply(q_sb, a_sb, y_sb)
    _symmetric(a_sb, y_sb, q_sb, 1.0, True)


def _floor(a_sb, ones_sb):
    """Return the square of the norm below which a block is left, in every partition."""
    rows_sb = _row_squares(a_sb)
    total_ps = _total(rows_sb, ones_sb, a_sb[0].shape[1])
    floor_sb = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)  # [n, 1]
    nisa.tensor_scalar(dst=floor_sb, data=total_ps, op0=nl.multiply, operand0=DONE**2, op1=nl.add, operand1=TINY)
    return floor_sb


def _broadcast_column(row_sb, column_sb, eye_sb, ones_sb):
    """Set every partition of row [P, N] to the column's numbers."""
    N = row_sb.shape[1]
    for n in tiles(N, N_TILE):
        row_ps = nl.ndarray((P_MAX, n.size), dtype=nl.float32, buffer=nl.psum)  # [n, N]
        for m in tiles(n.size, M_TILE):
            t = (n.start + m.start) // M_TILE
            own_sb = nl.ndarray((m.size, m.size), dtype=nl.float32, buffer=nl.sbuf)  # [m, m]
            nisa.tensor_scalar(
                dst=own_sb,
                data=eye_sb[0 : m.size, 0 : m.size],
                op0=nl.multiply,
                operand0=column_sb[0 : m.size, t : t + 1],
            )
            nisa.nc_matmul(
                dst=row_ps[0:P_MAX, m.span], stationary=ones_sb[0 : m.size, 0:P_MAX], moving=own_sb, accumulate=False
            )
        nisa.tensor_copy(dst=row_sb[0:P_MAX, n.span], src=row_ps)


def _same(same_sb, label_sb, row_sb):
    """Return ones where two rows have the same label, zeros elsewhere."""
    N = row_sb.shape[1]
    for m in tiles(N, M_TILE):
        label = label_sb[0 : m.size, m.index : m.index + 1]
        nisa.tensor_scalar(dst=same_sb[m.index], data=row_sb[0 : m.size, 0:N], op0=nl.equal, operand0=label)


def _within(column_sb, same_sb):
    """Sum a column over blocks, one sum for every row: a product."""
    N = same_sb[0].shape[1]
    sums_sb = _column(N)
    for m in tiles(N, M_TILE):
        sums_ps = nl.ndarray((m.size, 1), dtype=nl.float32, buffer=nl.psum)  # [m, 1]
        for k in tiles(N, M_TILE):
            nisa.nc_matmul(
                dst=sums_ps,
                stationary=same_sb[k.index][0 : k.size, m.span],
                moving=column_sb[0 : k.size, k.index : k.index + 1],
                accumulate=k.index > 0,
            )
        nisa.activation(dst=sums_sb[0 : m.size, m.index : m.index + 1], op=nl.copy, data=sums_ps)
    return sums_sb


def _blocks(x_sb, a_sb, same_sb, label_sb, row_sb, *, floor_sb, eye_sb):
    """Set x to the blocks of a, shifted between their eigenvalues and scaled to norm 1; return the sizes of blocks.

    A block that is done becomes the identity, whose sign splits nothing. ``same`` is room for a matrix.
    """
    N = row_sb.shape[1]
    count_sb, diagonal_sb, shift_sb, done_sb = _column(N), _column(N), _column(N), _column(N)
    _same(same_sb, label_sb, row_sb)
    for m in tiles(N, M_TILE):
        nisa.tensor_reduce(dst=count_sb[0 : m.size, m.index : m.index + 1], op=nl.add, data=same_sb[m.index], axis=1)
        nisa.tensor_tensor(dst=x_sb[m.index], data1=same_sb[m.index], data2=a_sb[m.index], op=nl.multiply)
    _diagonal(diagonal_sb, a_sb, eye_sb)
    sums_sb = _within(diagonal_sb, same_sb)
    inverse_sb = _column(N)
    nisa.reciprocal(dst=inverse_sb, data=count_sb)
    nisa.scalar_tensor_tensor(
        dst=shift_sb, data=sums_sb, op0=nl.multiply, operand0=-1.0, op1=nl.multiply, operand1=inverse_sb
    )
    _add_diagonal(x_sb, eye_sb, shift_sb)
    norm_sb = _within(_row_squares(x_sb), same_sb)
    nisa.tensor_scalar(dst=done_sb, data=norm_sb, op0=nl.less_equal, operand0=floor_sb)
    # norm becomes what a row is multiplied by: nothing where the block is done.
    nisa.tensor_scalar(dst=norm_sb, data=norm_sb, op0=nl.add, operand0=TINY, op1=nl.power, operand1=-0.5)
    nisa.tensor_scalar(dst=shift_sb, data=done_sb, op0=nl.multiply, operand0=-1.0, op1=nl.add, operand1=1.0)
    nisa.tensor_tensor(dst=norm_sb, data1=norm_sb, data2=shift_sb, op=nl.multiply)
    for m in tiles(N, M_TILE):
        nisa.tensor_scalar(
            dst=x_sb[m.index],
            data=x_sb[m.index],
            op0=nl.multiply,
            operand0=norm_sb[0 : m.size, m.index : m.index + 1],
        )
    nisa.scalar_tensor_tensor(
        dst=shift_sb, data=shift_sb, op0=nl.multiply, operand0=-OFF, op1=nl.multiply, operand1=inverse_sb
    )
    nisa.tensor_tensor(dst=shift_sb, data1=shift_sb, data2=done_sb, op=nl.add)
    _add_diagonal(x_sb, eye_sb, shift_sb)
    return count_sb


def _choose(x_sb, same_sb, count_sb, label_sb, row_sb, *, constants):
    """From s in x: the rows of each block with the largest diagonal of s get a plus; x becomes (s + j) / 2.

    The trace of s says how many, and labels are renewed. A little of the position settles ties.
    """
    order_sb, eye_sb, ones_sb = constants
    N = row_sb.shape[1]
    key_sb, rank_sb, plus_sb = _column(N), _column(N), _column(N)
    _diagonal(key_sb, x_sb, eye_sb)
    _same(same_sb, label_sb, row_sb)
    trace_sb = _within(key_sb, same_sb)
    nisa.tensor_tensor(dst=key_sb, data1=key_sb, data2=order_sb, op=nl.add)
    keys_sb = nl.ndarray((P_MAX, N), dtype=nl.float32, buffer=nl.sbuf)  # [n, N]
    _broadcast_column(keys_sb, key_sb, eye_sb, ones_sb)
    for m in tiles(N, M_TILE):
        one = slice(m.index, m.index + 1)
        more_sb = nl.ndarray((m.size, N), dtype=nl.float32, buffer=nl.sbuf)  # [m, N]
        nisa.scalar_tensor_tensor(
            dst=more_sb,
            data=keys_sb[0 : m.size, 0:N],
            op0=nl.greater,
            operand0=key_sb[0 : m.size, one],
            op1=nl.multiply,
            operand1=same_sb[m.index],
        )
        nisa.tensor_reduce(dst=rank_sb[0 : m.size, one], op=nl.add, data=more_sb, axis=1)
    # Plus where 2 rank + 1 <= count + trace.
    nisa.scalar_tensor_tensor(
        dst=rank_sb, data=rank_sb, op0=nl.multiply, operand0=2.0, op1=nl.subtract, operand1=trace_sb
    )
    nisa.scalar_tensor_tensor(dst=plus_sb, data=rank_sb, op0=nl.add, operand0=1.0, op1=nl.less_equal, operand1=count_sb)
    multiply_add(label_sb, label_sb, 2.0, plus_sb)
    _broadcast_column(row_sb, label_sb, eye_sb, ones_sb)
    nisa.tensor_scalar(dst=plus_sb, data=plus_sb, op0=nl.subtract, operand0=0.5)
    for m in tiles(N, M_TILE):
        nisa.tensor_scalar(dst=x_sb[m.index], data=x_sb[m.index], op0=nl.multiply, operand0=0.5)
    _add_diagonal(x_sb, eye_sb, plus_sb)


def _correct(v_sb, a_sb, x_sb, y_sb, eye_sb, *, ones_sb):
    """Turn vT by what perturbation theory says of the couplings left in a.

    Where an s + j was nearly singular, its u has rotated by a small angle too much. Every such angle is a coupling
    divided by the gap between two eigenvalues.
    """
    N = a_sb[0].shape[1]
    own_sb = _column(N)
    _diagonal(own_sb, a_sb, eye_sb)
    values_sb = nl.ndarray((P_MAX, N), dtype=nl.float32, buffer=nl.sbuf)  # [n, N]
    _broadcast_column(values_sb, own_sb, eye_sb, ones_sb)
    for m in tiles(N, M_TILE):
        e_sb = x_sb[m.index]
        gap_sb = nl.ndarray((m.size, N), dtype=nl.float32, buffer=nl.sbuf)  # [m, N]
        nisa.tensor_scalar(
            dst=gap_sb,
            data=values_sb[0 : m.size, 0:N],
            op0=nl.subtract,
            operand0=own_sb[0 : m.size, m.index : m.index + 1],
        )
        # e = a / gap where gap is not zero.
        nisa.tensor_tensor(dst=e_sb, data1=gap_sb, data2=gap_sb, op=nl.multiply)
        nisa.tensor_scalar(dst=e_sb, data=e_sb, op0=nl.add, operand0=TINY)
        nisa.reciprocal(dst=e_sb, data=e_sb)
        nisa.tensor_tensor(dst=gap_sb, data1=gap_sb, data2=a_sb[m.index], op=nl.multiply)
        nisa.tensor_tensor(dst=e_sb, data1=e_sb, data2=gap_sb, op=nl.multiply)
        nisa.tensor_tensor(dst=gap_sb, data1=e_sb, data2=e_sb, op=nl.multiply)
        nisa.scalar_tensor_tensor(
            dst=e_sb, data=gap_sb, op0=nl.less_equal, operand0=SMALL**2, op1=nl.multiply, operand1=e_sb
        )
        nisa.tensor_tensor(dst=gap_sb, data1=a_sb[m.index], data2=a_sb[m.index], op=nl.multiply)
        nisa.scalar_tensor_tensor(
            dst=e_sb, data=gap_sb, op0=nl.greater, operand0=NOISE**2, op1=nl.multiply, operand1=e_sb
        )
    _multiply(y_sb, x_sb, v_sb)
    for m in tiles(N, M_TILE):
        nisa.tensor_tensor(dst=v_sb[m.index], data1=v_sb[m.index], data2=y_sb[m.index], op=nl.add)


def _polish(left_hbm, v_sb, x_sb, y_sb, eye_sb, *, ones_sb):
    """One Newton-Schulz step restores the orthogonality lost on the way; what was lost is stored, squared."""
    N = v_sb[0].shape[1]
    _turn(y_sb, v_sb)
    _symmetric(x_sb, y_sb, y_sb, -1.0, False)
    _add_diagonal(x_sb, eye_sb, 1.0)
    total_ps = _total(_row_squares(x_sb), ones_sb, N)
    store(left_hbm[0:1, 1:2], total_ps[0:1, 0:1])
    _multiply(y_sb, x_sb, v_sb)
    for m in tiles(N, M_TILE):
        multiply_add(v_sb[m.index], y_sb[m.index], 0.5, v_sb[m.index])


def _finish(w_hbm, left_hbm, a_sb, eye_sb, ones_sb):
    """Store the diagonal, and the sum of the squares of what is off it."""
    N = a_sb[0].shape[1]
    w_sb, minus_sb = _column(N), _column(N)
    _diagonal(w_sb, a_sb, eye_sb)
    for m in tiles(N, M_TILE):
        store(w_hbm[m.span, 0:1], w_sb[0 : m.size, m.index : m.index + 1])
    nisa.tensor_scalar(dst=minus_sb, data=w_sb, op0=nl.multiply, operand0=-1.0)
    _add_diagonal(a_sb, eye_sb, minus_sb)
    total_ps = _total(_row_squares(a_sb), ones_sb, N)
    store(left_hbm[0:1, 0:1], total_ps[0:1, 0:1])
