"""w[B, N, 1], vT[B, N, N] with a[B, N, N] = vT.T diag(w) vT, and what is left, for batches of small matrices.

The rows of a + shift, with a shift that makes it positive definite and well conditioned, are rotated until they are
orthogonal; they are then multiples of the eigenvectors, so that rotations need not be collected. The eigenvalues are
Rayleigh quotients; what is left are the squares of a v - v w, and of inner products of different v. Bound by two
engines that share the rotations.
"""

from trnsci.nki import P_MAX, QUEUES, even, mine, nisa, nki, nl, tiles
from trnsolver.kernels._batches import _all, _at, _engine, _multiply_elements, _read, _tile, _write
from trnsolver.kernels._rotations import _room, _shares, _squares, _sweep

N_MAX = 64
# The shift, in Frobenius norms of the matrix.
SHIFT = 1.2
CHOICES = {"loads": QUEUES, "stores": QUEUES}


@nki.jit
def batched_eigh(a_hbm, sweeps=8, group=8, loads="compiler", stores="compiler"):
    B, N, _ = a_hbm.shape
    w_hbm = nl.ndarray((B, N, 1), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, 1]
    vT_hbm = nl.ndarray((B, N, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, N]
    left_hbm = nl.ndarray((B, 2, 1), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, 2, 1]
    for b in mine(tiles(B, even(B, P_MAX * group))):
        a_sb = _tile(b, N * N)  # [p, g, NN]
        x_sb = _tile(b, N * N)  # [p, g, NN]
        left_sb = _tile(b, 2)  # [p, g, 2]
        room = _room(b, N, N)
        _read(a_sb, a_hbm, b, loads)
        _shift_diagonal(x_sb, a_sb, room[0], left_sb, N)
        for index in range(sweeps):
            _sweep(room, x_sb, N=N, length=N, width=N, index=index)
        _quotients(room, x_sb, a_sb, left_sb, N)
        _write(w_hbm, room[1], b, stores)
        _write(vT_hbm, x_sb, b, stores)
        _write(left_hbm, left_sb, b, stores)
    return w_hbm, vT_hbm, left_hbm


def _shift_diagonal(x_sb, a_sb, products_sb, shift_sb, N):
    """Set x to a with the shift added to its diagonal."""
    whole = _all(a_sb)
    squares = _at(products_sb, whole, 0, [[1, N * N]])
    shift = _at(shift_sb, whole, 0, [[1, 1]])
    diagonal = _at(x_sb, whole, 0, [[N + 1, N]])
    nisa.tensor_tensor(dst=squares, data1=a_sb, data2=a_sb, op=nl.multiply)
    nisa.tensor_reduce(dst=shift, op=nl.add, data=squares, axis=2)
    nisa.tensor_scalar(dst=shift, data=shift, op0=nl.power, operand0=0.5, op1=nl.multiply, operand1=SHIFT)
    # Entries come scaled to near 1, but for matrices of zeros.
    nisa.tensor_scalar(dst=shift, data=shift, op0=nl.maximum, operand0=0.5)
    nisa.tensor_copy(dst=x_sb, src=a_sb)
    nisa.tensor_tensor(dst=diagonal, data1=diagonal, data2=_at(shift_sb, whole, 0, [[0, N]]), op=nl.add)


def _quotients(room, x_sb, a_sb, left_sb, N):
    """Return rows of length 1 in x, v.T a v in the place of squares, and what is left of a v - v w."""
    products_sb, values_sb = room[0], room[1]
    whole = _all(x_sb)
    _squares(room, x_sb, N, N, N)
    nisa.tensor_scalar(dst=values_sb, data=values_sb, op0=nl.power, operand0=-0.5)
    for g in _shares(x_sb):
        rows = _at(x_sb, g, 0, [[N, N], [1, N]])
        _multiply_elements(rows, rows, _at(values_sb, g, 0, [[1, N], [0, N]]), _engine(g))
    _orthogonality(left_sb, x_sb, products_sb, N)
    for g in _shares(x_sb):
        for i in range(N):
            _inner(products_sb, N * N + i, x_sb=x_sb, y_sb=a_sb, g=g, i=i, first=0, N=N)
    products = _at(products_sb, whole, 0, [[N, N], [1, N]])
    rows = _at(x_sb, whole, 0, [[N, N], [1, N]])
    images = _at(products_sb, whole, N * N, [[N, N], [1, N]])
    nisa.tensor_tensor(dst=products, data1=rows, data2=images, op=nl.multiply)
    nisa.tensor_reduce(dst=values_sb, op=nl.add, data=products, axis=3)
    nisa.tensor_tensor(dst=products, data1=rows, data2=_at(values_sb, whole, 0, [[1, N], [0, N]]), op=nl.multiply)
    nisa.tensor_tensor(dst=products, data1=images, data2=products, op=nl.subtract)
    _square_sum(left_sb, 0, products_sb, 0, N * N)


def _orthogonality(left_sb, x_sb, products_sb, N):
    """Return the squares of inner products of different rows, each twice."""
    nisa.memset(dst=_at(products_sb, _all(x_sb), N * N, [[1, N * N]]), value=0.0)
    for g in _shares(x_sb):
        for i in range(N - 1):
            _inner(products_sb, N * N + (i + 1) * N + i, x_sb=x_sb, y_sb=x_sb, g=g, i=i, first=i + 1, N=N)
    _square_sum(left_sb, 1, products_sb, N * N, N * N)
    left = _at(left_sb, _all(x_sb), 1, [[1, 1]])
    nisa.tensor_tensor(dst=left, data1=left, data2=left, op=nl.add)


def _inner(products_sb, offset, *, x_sb, y_sb, g, i, first, N):
    """Return inner products of the rows of x, from ``first`` on, with row i of y: a column from ``offset`` on."""
    count = N - first
    products = _at(products_sb, g, 0, [[N, count], [1, N]])
    rows = _at(x_sb, g, first * N, [[N, count], [1, N]])
    _multiply_elements(products, rows, _at(y_sb, g, i * N, [[0, count], [1, N]]), _engine(g))
    nisa.tensor_reduce(dst=_at(products_sb, g, offset, [[N, count]]), op=nl.add, data=products, axis=3)


def _square_sum(left_sb, at, products_sb, offset, count):
    """Return the sum of squares of what stands in products from ``offset`` on."""
    whole = _all(left_sb)
    squares = _at(products_sb, whole, offset, [[1, count]])
    nisa.tensor_tensor(dst=squares, data1=squares, data2=squares, op=nl.multiply)
    nisa.tensor_reduce(dst=_at(left_sb, whole, at, [[1, 1]]), op=nl.add, data=squares, axis=2)
