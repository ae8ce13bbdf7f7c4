"""x[B, N, W] with a[B, N, V] x = b[B, N, W] for a triangle of a, for batches of small matrices: substitution.

A matrix in each partition. A row of x is divided by its diagonal entry, then its multiples leave the rows that follow:
one multiplication and one subtraction for all matrices at once, shared between two engines. Only the triangle is read.
Complex matrices have two planes: behind the real parts of a row stand the imaginary ones.
"""

from trnsci.nki import P_MAX, QUEUES, even, mine, nisa, nki, nl, tiles
from trnsolver.kernels._batches import (
    _at,
    _engine,
    _inverses,
    _multiply_elements,
    _parts,
    _read,
    _subtract_products,
    _tile,
    _times_i,
    _write,
)

N_MAX = 64
# Columns of the right-hand side that stay on chip beside a matrix of 64 rows.
K_MAX = P_MAX
CHOICES = {"loads": QUEUES, "stores": QUEUES}


@nki.jit
def batched_triangular(a_hbm, b_hbm, lower=True, unit=False, planes=1, group=8, loads="compiler", stores="compiler"):
    B, N, W = b_hbm.shape
    x_hbm = nl.ndarray((B, N, W), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, W]
    for b in mine(tiles(B, even(B, P_MAX * group))):
        a_sb = _tile(b, N * N * planes)  # [p, g, NV]
        x_sb = _tile(b, N * W)  # [p, g, NW]
        products_sb = _tile(b, N * max(3, W))  # [p, g, NW]
        inverse_sb = _tile(b, N * planes)  # [p, g, V]
        rotated_sb = _tile(b, W)  # [p, g, W]
        _read(a_sb, a_hbm, b, loads)
        _read(x_sb, b_hbm, b, loads)
        if not unit:
            _inverses(inverse_sb, a_sb, products_sb, N, planes)
        for step in range(N):
            k = step if lower else N - 1 - step
            for g in _parts(x_sb, 4, 9):
                if not unit:
                    _divide(x_sb, inverse_sb, rotated_sb, products_sb, g=g, k=k, planes=planes)
                first = k + 1 if lower else 0
                count = N - k - 1 if lower else k
                if count > 0:
                    _leave(x_sb, a_sb, rotated_sb, products_sb, g=g, k=k, first=first, count=count, planes=planes)
        _write(x_hbm, x_sb, b, stores)
    return x_hbm


def _divide(x_sb, inverse_sb, rotated_sb, products_sb, *, g, k, planes):
    """Return row k of x times the inverse of its diagonal entry."""
    N = inverse_sb.shape[2] // planes
    W = rotated_sb.shape[2]
    row = _at(x_sb, g, k * W, [[1, W]])
    if planes == 2:
        _times_i(rotated_sb, 0, src_sb=x_sb, src_at=k * W, g=g, count=W // 2)
    _multiply_elements(row, row, _at(inverse_sb, g, k, [[0, W]]), _engine(g))
    if planes == 2:
        product = _at(products_sb, g, 0, [[1, W]])
        _multiply_elements(product, _at(rotated_sb, g, 0, [[1, W]]), _at(inverse_sb, g, N + k, [[0, W]]), _engine(g))
        nisa.tensor_tensor(dst=row, data1=row, data2=product, op=nl.add, engine=_engine(g))


def _leave(x_sb, a_sb, rotated_sb, products_sb, *, g, k, first, count, planes):
    """Subtract multiples of row k from the rows to come."""
    W = rotated_sb.shape[2]
    N = x_sb.shape[2] // W
    V = planes * N
    rows = _at(x_sb, g, first * W, [[W, count], [1, W]])
    products = _at(products_sb, g, 0, [[W, count], [1, W]])
    for plane in range(planes):
        row = _at(x_sb, g, k * W, [[0, count], [1, W]])
        if plane == 1:
            _times_i(rotated_sb, 0, src_sb=x_sb, src_at=k * W, g=g, count=W // 2)
            row = _at(rotated_sb, g, 0, [[0, count], [1, W]])
        column = _at(a_sb, g, first * V + plane * N + k, [[V, count], [0, W]])
        _multiply_elements(products, column, row, _engine(g))
        _subtract_products(rows, products, _engine(g))
