"""x[B, N, K] with a[B, N, N] x = b[B, N, K] for a triangle of a, for batches of small matrices: substitution.

A matrix in each partition. A row of x is divided by its diagonal entry, then its multiples leave the rows that follow:
one multiplication and one subtraction for all matrices at once, shared between two engines. Only the triangle is read.
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
    _write,
)

N_MAX = 64
# Columns of the right-hand side that stay on chip beside a matrix of 64 rows.
K_MAX = P_MAX


@nki.jit
def batched_triangular(a_hbm, b_hbm, lower=True, unit=False, group=8):
    B, N, K = b_hbm.shape
    x_hbm = nl.ndarray((B, N, K), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, K]
    for b in tiles(B, P_MAX * group):
        a_sb = _tile(b, N * N)  # [p, g, NN]
        x_sb = _tile(b, N * K)  # [p, g, NK]
        products_sb = _tile(b, N * K)  # [p, g, NK]
        inverse_sb = _tile(b, N)  # [p, g, N]
        _read(a_sb, a_hbm, b)
        _read(x_sb, b_hbm, b)
        if not unit:
            nisa.reciprocal(dst=_at(inverse_sb, _all(a_sb), 0, [[1, N]]), data=_at(a_sb, _all(a_sb), 0, [[N + 1, N]]))
        for step in range(N):
            k = step if lower else N - 1 - step
            _row(x_sb, a_sb, products_sb, inverse_sb, k, lower, unit)
        _write(x_hbm, x_sb, b)
    return x_hbm


def _row(x_sb, a_sb, products_sb, inverse_sb, k, lower, unit):
    """Row k of x, and what follows from it for the rows to come."""
    N = inverse_sb.shape[2]
    K = x_sb.shape[2] // N
    for g in _parts(x_sb, 4, 9):
        engine = _engine(g)
        if not unit:
            row = _at(x_sb, g, k * K, [[1, K]])
            _multiplied(row, row, _at(inverse_sb, g, k, [[0, K]]), engine)
        first = k + 1 if lower else 0
        count = N - k - 1 if lower else k
        if count > 0:
            products = _at(products_sb, g, 0, [[K, count], [1, K]])
            column = _at(a_sb, g, first * N + k, [[N, count], [0, K]])
            _multiplied(products, column, _at(x_sb, g, k * K, [[0, count], [1, K]]), engine)
            _subtracted(_at(x_sb, g, first * K, [[K, count], [1, K]]), products, engine)
