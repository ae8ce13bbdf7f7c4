"""l[B, N, N] with a[B, N, N] = l l.T, for batches of small matrices: a matrix in each partition, column by column.

A column is what is left of a's after the products of its rows with those above: one multiplication and one sum along
the free dimension for all matrices at once, on two engines. What lies above the diagonal is neither read nor cleared.
"""

from trnsci.nki import P_MAX, Tile, nisa, nki, nl, tiles
from trnsolver.kernels._batches import _all, _at, _read, _tile, _write

N_MAX = P_MAX


@nki.jit
def batched_cholesky(a_hbm, group=8):
    B, N, _ = a_hbm.shape
    l_hbm = nl.ndarray((B, N, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, N]
    for b in tiles(B, P_MAX * group):
        a_sb = _tile(b, N * N)  # [p, g, NN]
        products_sb = _tile(b, N * N)  # [p, g, NN]
        column_sb = _tile(b, N)  # [p, g, N]
        root_sb = _tile(b, 1)  # [p, g, 1]
        _read(a_sb, a_hbm, b)
        for k in range(N):
            _column(a_sb, products_sb, column_sb, root_sb, k, N)
        _write(l_hbm, a_sb, b)
    return l_hbm


def _column(a_sb, products_sb, column_sb, root_sb, k, N):
    """Column k of the factor, in place of the matrix's."""
    whole = _all(a_sb)
    left = N - k
    below = _at(a_sb, whole, k * N + k, [[N, left]])
    rest = _at(column_sb, whole, 0, [[1, left]])
    if k > 0:
        for g in _halves(a_sb):
            products = _at(products_sb, g, 0, [[k, left], [1, k]])
            nisa.tensor_tensor(
                dst=products,
                data1=_at(a_sb, g, k * N, [[N, left], [1, k]]),
                data2=_at(a_sb, g, k * N, [[0, left], [1, k]]),
                op=nl.multiply,
                engine=nisa.engine.gpsimd if a_sb.shape[1] > 1 else nisa.engine.vector,
            )
            nisa.tensor_reduce(dst=_at(column_sb, g, 0, [[1, left]]), op=nl.add, data=products, axis=3)
        nisa.tensor_tensor(dst=rest, data1=below, data2=rest, op=nl.subtract)
    else:
        nisa.tensor_copy(dst=rest, src=below)
    # A pivot that is not positive leaves NaN here, in every column that follows, and in no other matrix.
    nisa.tensor_scalar(
        dst=_at(root_sb, whole, 0, [[1, 1]]),
        data=_at(column_sb, whole, 0, [[1, 1]]),
        op0=nl.power,
        operand0=-0.5,
    )
    nisa.tensor_tensor(dst=below, data1=rest, data2=_at(root_sb, whole, 0, [[0, left]]), op=nl.multiply)


def _halves(a_sb):
    """Positions in two parts, so that one engine sums while the other multiplies."""
    G = a_sb.shape[1]
    if G == 1:
        return [Tile(0, 0, 1)]
    return [Tile(0, 0, G // 2), Tile(1, G // 2, G - G // 2)]
