"""luT[B, N, M], pivots[B, K, 1] with rows of a[B, M, N] exchanged = l u, for batches of small matrices; K = min(M, N).

A matrix in each partition, by columns. The pivot of a column is its largest magnitude, the first of equal ones: two
maxima along the free dimension. The pivot's row is a sum over products with a row of zeros with a one; the exchange is
a predicated copy. Several streams of matrices keep two engines busy: sums and copies on one, products on the other.
"""

from trnsci.nki import P_MAX, Tile, nisa, nki, nl, tiles
from trnsolver.kernels._batches import (
    _all,
    _at,
    _multiplied,
    _read,
    _subtracted,
    _tile,
    _turned,
    _write,
)

N_MAX = 64
# The least number whose reciprocal is finite, as a power of two; matrices come scaled to entries near 1.
SMALLEST = 2.0**-126


@nki.jit
def batched_lu(a_hbm, group=8):
    B, M, N = a_hbm.shape
    K = min(M, N)
    luT_hbm = nl.ndarray((B, N, M), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, M]
    pivots_hbm = nl.ndarray((B, K, 1), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, K, 1]
    for b in tiles(B, P_MAX * group):
        streams = []
        for half in _streams(b):
            streams.append(_start(a_hbm, half))
        for k in range(K):
            for s in streams:
                _search(s, k, M)
            for s in streams:
                _select(s, k, M, N)
            for s in streams:
                _exchange(s, k, M, N)
            for s in streams:
                _update(s, k, M, N)
        at = 0
        for half in _streams(b):
            _write(luT_hbm, streams[at][0], half)
            _write(pivots_hbm, streams[at][6], half)
            at = at + 1
    return luT_hbm, pivots_hbm


def _streams(b):
    """A chunk of the batch in two, where it has more than one matrix to a partition."""
    groups = (b.size + P_MAX - 1) // P_MAX
    if groups == 1:
        return [b]
    first = (groups - groups // 2) * P_MAX
    return [Tile(0, b.start, first), Tile(1, b.start + first, b.size - first)]


def _start(a_hbm, b):
    """The matrices by columns, and room for a step."""
    M = a_hbm.shape[1]
    N = a_hbm.shape[2]
    a_sb = _tile(b, N * M)  # [p, g, NM]
    products_sb = _tile(b, N * M)  # [p, g, NM]
    score_sb = _tile(b, M)  # [p, g, M]
    pick_sb = _tile(b, M)  # [p, g, M]
    flag_sb = nl.ndarray((a_sb.shape[0], a_sb.shape[1], M), dtype=nl.uint8, buffer=nl.sbuf)  # [p, g, M]
    row_sb = _tile(b, N)  # [p, g, N]
    pivots_sb = _tile(b, min(M, N))  # [p, g, K]
    small_sb = _tile(b, 4)  # [p, g, 4]
    rank_sb = nl.ndarray((a_sb.shape[0], 1, M), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1, M]
    # Rows count down from M: of equal magnitudes the first row wins.
    nisa.iota(dst=rank_sb, pattern=[[-1, M]], offset=M, channel_multiplier=0)
    _read(products_sb, a_hbm, b)
    _turned(a_sb, products_sb, M, N)
    return a_sb, products_sb, score_sb, pick_sb, flag_sb, row_sb, pivots_sb, small_sb, rank_sb


def _search(s, k, M):
    """Which row of column k is the pivot, as a one among zeros; and its rank."""
    a_sb, score_sb, pick_sb, flag_sb, pivots_sb, small_sb, rank_sb = s[0], s[2], s[3], s[4], s[6], s[7], s[8]
    whole = _all(a_sb)
    left = M - k
    score = _at(score_sb, whole, 0, [[1, left]])
    pick = _at(pick_sb, whole, 0, [[1, left]])
    best = _at(pivots_sb, whole, k, [[0, left]])
    rank = rank_sb.ap([[M, a_sb.shape[0]], [0, a_sb.shape[1]], [1, left]], offset=k)
    nisa.tensor_scalar(dst=score, data=_at(a_sb, whole, k * M + k, [[1, left]]), op0=nl.abs, operand0=None)
    nisa.tensor_reduce(dst=_at(small_sb, whole, 0, [[1, 1]]), op=nl.maximum, data=score, axis=2)
    nisa.tensor_tensor(dst=pick, data1=score, data2=_at(small_sb, whole, 0, [[0, left]]), op=nl.equal)
    nisa.tensor_tensor(dst=score, data1=pick, data2=rank, op=nl.multiply)
    nisa.tensor_reduce(dst=_at(pivots_sb, whole, k, [[1, 1]]), op=nl.maximum, data=score, axis=2)
    nisa.tensor_tensor(dst=pick, data1=rank, data2=best, op=nl.equal)
    nisa.tensor_copy(dst=_at(flag_sb, whole, 0, [[1, left]]), src=pick)


def _select(s, k, M, N):
    """The row of the pivot."""
    a_sb, products_sb, pick_sb, row_sb = s[0], s[1], s[3], s[5]
    whole = _all(a_sb)
    left = M - k
    products = _at(products_sb, whole, 0, [[left, N], [1, left]])
    _multiplied(
        products,
        _at(a_sb, whole, k, [[M, N], [1, left]]),
        _at(pick_sb, whole, 0, [[0, N], [1, left]]),
        nisa.engine.gpsimd,
    )
    nisa.tensor_reduce(dst=_at(row_sb, whole, 0, [[1, N]]), op=nl.add, data=products, axis=3)


def _exchange(s, k, M, N):
    """Row k goes where the pivot's row was, and that to row k; its multipliers are divided by the pivot."""
    a_sb, flag_sb, row_sb, small_sb = s[0], s[4], s[5], s[7]
    whole = _all(a_sb)
    below = M - k - 1
    pivot = _at(row_sb, whole, k, [[1, 1]])
    inverse = _at(small_sb, whole, 1, [[1, 1]])
    if below > 0:
        nisa.tensor_copy_predicated(
            dst=_at(a_sb, whole, k + 1, [[M, N], [1, below]]),
            src=_at(a_sb, whole, k, [[M, N], [0, below]]),
            predicate=_at(flag_sb, whole, 1, [[0, N], [1, below]]),
        )
        # A column without a pivot, or with one that has no reciprocal, is left as it is.
        zero = _at(small_sb, whole, 2, [[1, 1]])
        nisa.tensor_scalar(
            dst=zero,
            data=_at(small_sb, whole, 0, [[1, 1]]),
            op0=nl.less,
            operand0=SMALLEST,
        )
        nisa.tensor_tensor(dst=inverse, data1=pivot, data2=zero, op=nl.add)
        nisa.reciprocal(dst=inverse, data=inverse)
        column = _at(a_sb, whole, k * M + k + 1, [[1, below]])
        _multiplied(column, column, _at(small_sb, whole, 1, [[0, below]]), nisa.engine.vector)
    nisa.tensor_copy(dst=_at(a_sb, whole, k, [[M, N]]), src=_at(row_sb, whole, 0, [[1, N]]))


def _update(s, k, M, N):
    """Subtract the multiples of the pivot's row from the rows below."""
    a_sb, products_sb, row_sb = s[0], s[1], s[5]
    whole = _all(a_sb)
    below = M - k - 1
    right = N - k - 1
    if below > 0 and right > 0:
        products = _at(products_sb, whole, 0, [[below, right], [1, below]])
        _multiplied(
            products,
            _at(a_sb, whole, k * M + k + 1, [[0, right], [1, below]]),
            _at(row_sb, whole, k + 1, [[1, right], [0, below]]),
            nisa.engine.gpsimd,
        )
        _subtracted(_at(a_sb, whole, (k + 1) * M + k + 1, [[M, right], [1, below]]), products, nisa.engine.gpsimd)
