"""qT[B, N, M], rT[B, N, N] with a[B, M, N] = q r, M >= N, for batches of small matrices: Householder reflections.

A matrix in each partition, by columns. A reflection is one multiplication and one sum for the inner products with all
columns that follow, one multiplication and one subtraction to reflect them: for all matrices at once, shared between
two engines. Reflections are then applied to columns of the identity, last first.
"""

from trnsci.nki import P_MAX, nisa, nki, nl, tiles
from trnsolver.kernels._batches import (
    _all,
    _at,
    _engine,
    _multiplied,
    _parts,
    _read,
    _subtracted,
    _tile,
    _turned,
    _write,
)

M_MAX = 64
# Squares of columns below this are rounding: columns come scaled to entries near 1.
NOTHING = 1e-30


@nki.jit
def batched_qr(a_hbm, group=8):
    B, M, N = a_hbm.shape
    qT_hbm = nl.ndarray((B, N, M), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, M]
    rT_hbm = nl.ndarray((B, N, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, N]
    for b in tiles(B, P_MAX * group):
        a_sb = _tile(b, N * M)  # [p, g, NM]
        q_sb = _tile(b, N * M)  # [p, g, NM]
        r_sb = _tile(b, N * N)  # [p, g, NN]
        products_sb = _tile(b, N * M)  # [p, g, NM]
        inner_sb = _tile(b, N)  # [p, g, N]
        diagonal_sb = _tile(b, N)  # [p, g, N]
        scale_sb = _tile(b, N)  # [p, g, N]
        small_sb = _tile(b, 4)  # [p, g, 4]
        _read(q_sb, a_hbm, b)
        _turned(a_sb, q_sb, M, N)
        whole = _all(a_sb)
        for k in range(N):
            _reflection(a_sb, products_sb, diagonal_sb, scale_sb, small_sb, k, M)
            _reflect(a_sb, a_sb, products_sb, inner_sb, scale_sb, k, k + 1, M)
        nisa.tensor_copy(
            dst=_at(r_sb, whole, 0, [[N, N], [1, N]]),
            src=_at(a_sb, whole, 0, [[M, N], [1, N]]),
            engine=nisa.engine.vector,
        )
        nisa.tensor_copy(dst=_at(r_sb, whole, 0, [[N + 1, N]]), src=_at(diagonal_sb, whole, 0, [[1, N]]))
        _write(rT_hbm, r_sb, b)
        nisa.memset(dst=q_sb, value=0.0)
        nisa.memset(dst=_at(q_sb, whole, 0, [[M + 1, N]]), value=1.0)
        for step in range(N):
            _reflect(q_sb, a_sb, products_sb, inner_sb, scale_sb, N - 1 - step, N - 1 - step, M)
        _write(qT_hbm, q_sb, b)
    return qT_hbm, rT_hbm


def _reflection(a_sb, products_sb, diagonal_sb, scale_sb, small_sb, k, M):
    """The vector v of column k, in its place, 2 / (v.T v), and what stands on the diagonal after it."""
    whole = _all(a_sb)
    left = M - k
    column = _at(a_sb, whole, k * M + k, [[1, left]])
    first = _at(a_sb, whole, k * M + k, [[1, 1]])
    square = _at(small_sb, whole, 0, [[1, 1]])
    length = _at(small_sb, whole, 1, [[1, 1]])
    sign = _at(small_sb, whole, 2, [[1, 1]])
    kept = _at(small_sb, whole, 3, [[1, 1]])
    diagonal = _at(diagonal_sb, whole, k, [[1, 1]])
    scale = _at(scale_sb, whole, k, [[1, 1]])
    squares = _at(products_sb, whole, 0, [[1, left]])
    _multiplied(squares, column, column, nisa.engine.vector)
    nisa.tensor_reduce(dst=square, op=nl.add, data=squares, axis=2)
    # Twice a sign, -1 or 1; the length with the sign opposite to the first entry's.
    nisa.tensor_scalar(dst=sign, data=first, op0=nl.greater_equal, operand0=0.0, op1=nl.subtract, operand1=0.5)
    nisa.tensor_scalar(dst=kept, data=square, op0=nl.greater, operand0=NOTHING)
    nisa.tensor_scalar(dst=length, data=square, op0=nl.power, operand0=0.5)
    nisa.scalar_tensor_tensor(dst=length, data=length, op0=nl.multiply, operand0=-2.0, op1=nl.multiply, operand1=sign)
    # 1 / (square - first length), where length has the other sign: no cancellation.
    nisa.tensor_tensor(dst=scale, data1=first, data2=length, op=nl.multiply)
    nisa.tensor_tensor(dst=scale, data1=square, data2=scale, op=nl.subtract)
    nisa.tensor_scalar(dst=scale, data=scale, op0=nl.maximum, operand0=NOTHING)
    nisa.reciprocal(dst=scale, data=scale)
    nisa.tensor_tensor(dst=scale, data1=scale, data2=kept, op=nl.multiply)
    # What is too short to reflect stays as it is.
    nisa.tensor_tensor(dst=diagonal, data1=length, data2=first, op=nl.subtract)
    nisa.tensor_tensor(dst=diagonal, data1=diagonal, data2=kept, op=nl.multiply)
    nisa.tensor_tensor(dst=diagonal, data1=diagonal, data2=first, op=nl.add)
    nisa.tensor_tensor(dst=first, data1=first, data2=length, op=nl.subtract)


def _reflect(x_sb, a_sb, products_sb, inner_sb, scale_sb, k, start, M):
    """Reflect the columns of x from ``start`` on by the vector in column k of a."""
    N = scale_sb.shape[2]
    left = M - k
    count = N - start
    if count == 0:
        return
    for g in _parts(x_sb, 3, 8):
        engine = _engine(g)
        columns = _at(x_sb, g, start * M + k, [[M, count], [1, left]])
        vector = _at(a_sb, g, k * M + k, [[0, count], [1, left]])
        products = _at(products_sb, g, 0, [[left, count], [1, left]])
        inner = _at(inner_sb, g, 0, [[1, count]])
        _multiplied(products, columns, vector, engine)
        nisa.tensor_reduce(dst=inner, op=nl.add, data=products, axis=3)
        _multiplied(inner, inner, _at(scale_sb, g, k, [[0, count]]), engine)
        _multiplied(products, _at(inner_sb, g, 0, [[1, count], [0, left]]), vector, engine)
        _subtracted(columns, products, engine)
