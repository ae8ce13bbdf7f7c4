"""qT[B, N, R], rT[B, N, W] with a[B, R, N] = q r, R rows >= W, for batches of small matrices: Householder reflections.

A matrix in each partition, by columns. A reflection is one multiplication and one sum for the inner products with all
columns that follow, one multiplication and one subtraction to reflect them: for all matrices at once, shared between
two engines. Reflections are then applied to columns of the identity, last first. Complex matrices have two planes:
real and imaginary parts alternate, R = 2 M and W = 2 N, and a complex reflection is two real ones, by v and by i v.
"""

from trnsci.nki import P_MAX, QUEUES, even, mine, nisa, nki, nl, tiles
from trnsolver.kernels._batches import (
    _all,
    _at,
    _engine,
    _multiply_elements,
    _parts,
    _read,
    _subtract_products,
    _tile,
    _transpose_each,
    _write,
)

M_MAX = 64
# Squares of columns below this are rounding: columns come scaled to entries near 1.
NOTHING = 1e-30
# A complex first entry with a smaller square has no direction.
LEAST_SQUARE = 1e-36
CHOICES = {"loads": QUEUES, "stores": QUEUES}


@nki.jit
def batched_qr(a_hbm, planes=1, group=8, loads="compiler", stores="compiler"):
    B, R, N = a_hbm.shape
    W = planes * N
    qT_hbm = nl.ndarray((B, N, R), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, R]
    rT_hbm = nl.ndarray((B, N, W), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, W]
    for b in mine(tiles(B, even(B, P_MAX * group))):
        a_sb = _tile(b, N * R)  # [p, g, NR]
        q_sb = _tile(b, N * R)  # [p, g, NR]
        r_sb = _tile(b, N * W)  # [p, g, NW]
        products_sb = _tile(b, N * R)  # [p, g, NR]
        inner_sb = _tile(b, N)  # [p, g, N]
        diagonal_sb = _tile(b, W)  # [p, g, W]
        scale_sb = _tile(b, N)  # [p, g, N]
        small_sb = _tile(b, 8)  # [p, g, 8]
        rotated_sb = _tile(b, R)  # [p, g, R]
        room = (products_sb, inner_sb, scale_sb, rotated_sb)
        _read(q_sb, a_hbm, b, loads)
        _transpose_each(a_sb, q_sb, R, N)
        whole = _all(a_sb)
        for k in range(N):
            _reflection(a_sb, products_sb, diagonal_sb, scale_sb, small_sb, k=k, planes=planes)
            _reflect(a_sb, a_sb, room, k=k, start=k + 1, planes=planes)
        nisa.tensor_copy(dst=_at(r_sb, whole, 0, [[W, N], [1, W]]), src=_at(a_sb, whole, 0, [[R, N], [1, W]]))
        nisa.tensor_copy(
            dst=_at(r_sb, whole, 0, [[W + planes, N], [1, planes]]),
            src=_at(diagonal_sb, whole, 0, [[planes, N], [1, planes]]),
        )
        _write(rT_hbm, r_sb, b, stores)
        nisa.memset(dst=q_sb, value=0.0)
        nisa.memset(dst=_at(q_sb, whole, 0, [[R + planes, N]]), value=1.0)
        for step in range(N):
            _reflect(q_sb, a_sb, room, k=N - 1 - step, start=N - 1 - step, planes=planes)
        _write(qT_hbm, q_sb, b, stores)
    return qT_hbm, rT_hbm


def _reflection(a_sb, products_sb, diagonal_sb, scale_sb, small_sb, *, k, planes):
    """Return the vector v of column k, in its place, 2 / (v.T v), and what stands on the diagonal after it."""
    whole = _all(a_sb)
    R = a_sb.shape[2] // scale_sb.shape[2]
    left = R - planes * k
    at = k * R + planes * k
    column = _at(a_sb, whole, at, [[1, left]])
    first = _at(a_sb, whole, at, [[1, planes]])
    square = _at(small_sb, whole, 0, [[1, 1]])
    kept = _at(small_sb, whole, 1, [[1, 1]])
    size = _at(small_sb, whole, 2, [[1, 1]])
    length = _at(small_sb, whole, 3, [[1, 1]])
    phase = _at(small_sb, whole, 4, [[1, planes]])
    diagonal = _at(diagonal_sb, whole, planes * k, [[1, planes]])
    scale = _at(scale_sb, whole, k, [[1, 1]])
    squares = _at(products_sb, whole, 0, [[1, left]])
    _multiply_elements(squares, column, column, nisa.engine.vector)
    nisa.tensor_reduce(dst=square, op=nl.add, data=squares, axis=2)
    nisa.tensor_reduce(dst=size, op=nl.add, data=_at(products_sb, whole, 0, [[1, planes]]), axis=2)
    _direction(phase, first, size, small_sb, planes)
    nisa.tensor_scalar(dst=kept, data=square, op0=nl.greater, operand0=NOTHING)
    nisa.tensor_scalar(dst=length, data=square, op0=nl.power, operand0=0.5)
    # 1 / (square + size of the first entry times length), both positive: no cancellation.
    nisa.scalar_tensor_tensor(dst=scale, data=size, op0=nl.power, operand0=0.5, op1=nl.multiply, operand1=length)
    nisa.tensor_tensor(dst=scale, data1=scale, data2=square, op=nl.add)
    nisa.tensor_scalar(dst=scale, data=scale, op0=nl.maximum, operand0=NOTHING, op1=nl.power, operand1=-1.0)
    nisa.tensor_tensor(dst=scale, data1=scale, data2=kept, op=nl.multiply)
    # The diagonal entry is the length, opposite to the first entry; what is too short to reflect stays as it is.
    _multiply_elements(phase, phase, _at(small_sb, whole, 3, [[0, planes]]), nisa.engine.vector)
    nisa.tensor_tensor(dst=diagonal, data1=phase, data2=first, op=nl.add)
    _multiply_elements(diagonal, diagonal, _at(small_sb, whole, 1, [[0, planes]]), nisa.engine.vector)
    nisa.tensor_tensor(dst=diagonal, data1=first, data2=diagonal, op=nl.subtract)
    nisa.tensor_tensor(dst=first, data1=first, data2=phase, op=nl.add)


def _direction(phase, first, size, small_sb, planes):
    """Return the first entry over its size, of which the square is given; 1 for zero."""
    whole = _all(small_sb)
    if planes == 1:
        # from a half with the sign
        nisa.tensor_scalar(dst=phase, data=first, op0=nl.greater_equal, operand0=0.0, op1=nl.subtract, operand1=0.5)
        nisa.tensor_scalar(dst=phase, data=phase, op0=nl.multiply, operand0=2.0)
        return
    inverse = _at(small_sb, whole, 6, [[1, 1]])
    nisa.tensor_scalar(dst=inverse, data=size, op0=nl.maximum, operand0=LEAST_SQUARE, op1=nl.power, operand1=-0.5)
    _multiply_elements(phase, first, _at(small_sb, whole, 6, [[0, planes]]), nisa.engine.vector)
    none = _at(small_sb, whole, 7, [[1, 1]])
    real = _at(small_sb, whole, 4, [[1, 1]])
    nisa.tensor_scalar(dst=none, data=size, op0=nl.less, operand0=LEAST_SQUARE)
    nisa.tensor_tensor(dst=real, data1=real, data2=none, op=nl.add)


def _reflect(x_sb, a_sb, room, *, k, start, planes):
    """Reflect the columns of x from ``start`` on by the vector in column k of a, and by i times it."""
    scale_sb, rotated_sb = room[2], room[3]
    N = scale_sb.shape[2]
    R = rotated_sb.shape[2]
    left = R - planes * k
    if start == N:
        return
    for g in _parts(x_sb, 3, 8):
        _reflect_by(x_sb, a_sb, at=k * R + planes * k, room=room, g=g, k=k, start=start, planes=planes)
        if planes == 2:
            at = k * R + planes * k
            half = left // 2
            nisa.tensor_scalar(
                dst=_at(rotated_sb, g, 0, [[2, half]]),
                data=_at(a_sb, g, at + 1, [[2, half]]),
                op0=nl.multiply,
                operand0=-1.0,
            )
            nisa.tensor_copy(dst=_at(rotated_sb, g, 1, [[2, half]]), src=_at(a_sb, g, at, [[2, half]]))
            _reflect_by(x_sb, rotated_sb, at=0, room=room, g=g, k=k, start=start, planes=planes)


def _reflect_by(x_sb, v_sb, *, at, room, g, k, start, planes):
    """Reflect by the vector in v from ``at`` on."""
    products_sb, inner_sb, scale_sb, rotated_sb = room
    R = rotated_sb.shape[2]
    left = R - planes * k
    count = scale_sb.shape[2] - start
    engine = _engine(g)
    columns = _at(x_sb, g, start * R + planes * k, [[R, count], [1, left]])
    vector = _at(v_sb, g, at, [[0, count], [1, left]])
    products = _at(products_sb, g, 0, [[left, count], [1, left]])
    inner = _at(inner_sb, g, 0, [[1, count]])
    _multiply_elements(products, columns, vector, engine)
    nisa.tensor_reduce(dst=inner, op=nl.add, data=products, axis=3)
    _multiply_elements(inner, inner, _at(scale_sb, g, k, [[0, count]]), engine)
    _multiply_elements(products, _at(inner_sb, g, 0, [[1, count], [0, left]]), vector, engine)
    _subtract_products(columns, products, engine)
