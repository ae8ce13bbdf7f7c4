"""l[B, N, N] with a[B, N, N] = l l.T, for batches of small matrices: a matrix in each partition, column by column.

A column is what is left of a's after the products of its rows with those above: one multiplication and one sum along
the free dimension for all matrices at once, on two engines. What lies above the diagonal is neither read nor cleared.
"""

from trnsci.nki import P_MAX, QUEUES, even, mine, nisa, nki, nl, tiles
from trnsolver.kernels._batches import _at, _cut, _read, _tile, _write

N_MAX = P_MAX
# What a search may choose: parts of a chunk that take turns on two engines, queues.
CHOICES = {"parts": (1, 2, 4, 8), "loads": QUEUES, "stores": QUEUES}


@nki.jit
def batched_cholesky(a_hbm, group=8, parts=2, loads="compiler", stores="compiler"):
    B, N, _ = a_hbm.shape
    l_hbm = nl.ndarray((B, N, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, N]
    for b in mine(tiles(B, even(B, P_MAX * group))):
        a_sb = _tile(b, N * N)  # [p, g, NN]
        products_sb = _tile(b, N * N)  # [p, g, NN]
        column_sb = _tile(b, N)  # [p, g, N]
        root_sb = _tile(b, 1)  # [p, g, 1]
        _read(a_sb, a_hbm, b, loads)
        for k in range(N):
            for g in _cut(a_sb.shape[1], parts):
                _column(a_sb, products_sb, column_sb, root_sb, g=g, k=k, N=N)
        _write(l_hbm, a_sb, b, stores)
    return l_hbm


def _column(a_sb, products_sb, column_sb, root_sb, *, g, k, N):
    """Return column k of the factors at the positions g, in place of the matrices'."""
    left = N - k
    below = _at(a_sb, g, k * N + k, [[N, left]])
    rest = _at(column_sb, g, 0, [[1, left]])
    if k > 0:
        products = _at(products_sb, g, 0, [[k, left], [1, k]])
        nisa.tensor_tensor(
            dst=products,
            data1=_at(a_sb, g, k * N, [[N, left], [1, k]]),
            data2=_at(a_sb, g, k * N, [[0, left], [1, k]]),
            op=nl.multiply,
            engine=nisa.engine.gpsimd if a_sb.shape[1] > 1 else nisa.engine.vector,
        )
        nisa.tensor_reduce(dst=rest, op=nl.add, data=products, axis=3)
        nisa.tensor_tensor(dst=rest, data1=below, data2=rest, op=nl.subtract)
    else:
        nisa.tensor_copy(dst=rest, src=below)
    # A pivot that is not positive leaves NaN here, in every column that follows, and in no other matrix.
    nisa.tensor_scalar(
        dst=_at(root_sb, g, 0, [[1, 1]]),
        data=_at(column_sb, g, 0, [[1, 1]]),
        op0=nl.power,
        operand0=-0.5,
    )
    nisa.tensor_tensor(dst=below, data1=rest, data2=_at(root_sb, g, 0, [[0, left]]), op=nl.multiply)
