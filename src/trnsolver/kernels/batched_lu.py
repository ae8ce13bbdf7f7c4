"""luT[B, W, M], pivots[B, K, 1] with rows of a[B, M, W] exchanged = l u, for batches of small matrices; K = min(M, N).

A matrix in each partition, by columns. The pivot of a column is its largest magnitude, the first of equal ones: two
maxima along the free dimension. The pivot's row is a sum over products with a row of zeros with a one; the exchange is
a predicated copy. Several streams of matrices keep two engines busy: sums and copies on one, products on the other.
Complex matrices have two planes, W = 2 N: behind the real columns stand the imaginary ones, and a pivot is the largest
sum of magnitudes, as in LAPACK.
"""

from trnsci.nki import P_MAX, QUEUES, Tile, even, mine, nisa, nki, nl, tiles
from trnsolver.kernels._batches import (
    _all,
    _at,
    _complex_inverse,
    _cut,
    _multiply_elements,
    _read,
    _subtract_products,
    _tile,
    _times_i,
    _transpose_each,
    _write,
)

N_MAX = 64
# The least number whose reciprocal is finite, as a power of two; matrices come scaled to entries near 1.
SMALLEST = 2.0**-126
# What a search may choose: parts of a chunk that take turns on two engines, queues.
CHOICES = {"parts": (1, 2, 4, 8), "loads": QUEUES, "stores": QUEUES}


@nki.jit
def batched_lu(a_hbm, planes=1, group=8, parts=2, loads="compiler", stores="compiler"):
    B, M, W = a_hbm.shape
    N = W // planes
    K = min(M, N)
    luT_hbm = nl.ndarray((B, W, M), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, W, M]
    pivots_hbm = nl.ndarray((B, K, 1), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, K, 1]
    for b in mine(tiles(B, even(B, P_MAX * group))):
        streams = []
        for half in _streams(b, parts):
            streams.append(_start(a_hbm, half, K, loads))
        for k in range(K):
            for s in streams:
                _search(s, k, M, N, planes)
            for s in streams:
                _select(s, k, M, W)
            for s in streams:
                _exchange(s, k, M, N, planes)
            for s in streams:
                _update(s, k, M, N, planes)
        at = 0
        for half in _streams(b, parts):
            _write(luT_hbm, streams[at][0], half, stores)
            _write(pivots_hbm, streams[at][6], half, stores)
            at = at + 1
    return luT_hbm, pivots_hbm


def _streams(b, parts):
    """Cut a chunk of the batch into parts, as far as it has several matrices to a partition."""
    streams = []
    for g in _cut((b.size + P_MAX - 1) // P_MAX, parts):
        start = b.start + g.start * P_MAX
        streams.append(Tile(g.index, start, min(g.size * P_MAX, b.stop - start)))
    return streams


def _start(a_hbm, b, K, loads):
    """Return the matrices by columns, and room for a step."""
    M = a_hbm.shape[1]
    W = a_hbm.shape[2]
    a_sb = _tile(b, W * M)  # [p, g, WM]
    products_sb = _tile(b, W * M)  # [p, g, WM]
    score_sb = _tile(b, max(3, M))  # [p, g, M]
    pick_sb = _tile(b, M)  # [p, g, M]
    flag_sb = nl.ndarray((a_sb.shape[0], a_sb.shape[1], M), dtype=nl.uint8, buffer=nl.sbuf)  # [p, g, M]
    row_sb = _tile(b, 2 * W)  # [p, g, 2W]
    pivots_sb = _tile(b, K)  # [p, g, K]
    small_sb = _tile(b, 8)  # [p, g, 8]
    rank_sb = nl.ndarray((a_sb.shape[0], 1, M), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1, M]
    # Rows count down from M: of equal magnitudes the first row wins.
    nisa.iota(dst=rank_sb, pattern=[[-1, M]], offset=M, channel_multiplier=0)
    _read(products_sb, a_hbm, b, loads)
    _transpose_each(a_sb, products_sb, M, W)
    return a_sb, products_sb, score_sb, pick_sb, flag_sb, row_sb, pivots_sb, small_sb, rank_sb


def _search(s, k, M, N, planes):
    """Return which row of column k is the pivot, as a one among zeros; and its rank."""
    a_sb, score_sb, pick_sb, flag_sb, pivots_sb, small_sb, rank_sb = s[0], s[2], s[3], s[4], s[6], s[7], s[8]
    whole = _all(a_sb)
    left = M - k
    score = _at(score_sb, whole, 0, [[1, left]])
    pick = _at(pick_sb, whole, 0, [[1, left]])
    best = _at(pivots_sb, whole, k, [[0, left]])
    rank = rank_sb.ap([[M, a_sb.shape[0]], [0, a_sb.shape[1]], [1, left]], offset=k)
    nisa.tensor_scalar(dst=score, data=_at(a_sb, whole, k * M + k, [[1, left]]), op0=nl.abs, operand0=None)
    if planes == 2:
        nisa.tensor_scalar(dst=pick, data=_at(a_sb, whole, (N + k) * M + k, [[1, left]]), op0=nl.abs, operand0=None)
        nisa.tensor_tensor(dst=score, data1=score, data2=pick, op=nl.add)
    nisa.tensor_reduce(dst=_at(small_sb, whole, 0, [[1, 1]]), op=nl.maximum, data=score, axis=2)
    nisa.tensor_tensor(dst=pick, data1=score, data2=_at(small_sb, whole, 0, [[0, left]]), op=nl.equal)
    nisa.tensor_tensor(dst=score, data1=pick, data2=rank, op=nl.multiply)
    nisa.tensor_reduce(dst=_at(pivots_sb, whole, k, [[1, 1]]), op=nl.maximum, data=score, axis=2)
    nisa.tensor_tensor(dst=pick, data1=rank, data2=best, op=nl.equal)
    nisa.tensor_copy(dst=_at(flag_sb, whole, 0, [[1, left]]), src=pick)


def _select(s, k, M, W):
    """Return the row of the pivot."""
    a_sb, products_sb, pick_sb, row_sb = s[0], s[1], s[3], s[5]
    whole = _all(a_sb)
    left = M - k
    products = _at(products_sb, whole, 0, [[left, W], [1, left]])
    _multiply_elements(
        products,
        _at(a_sb, whole, k, [[M, W], [1, left]]),
        _at(pick_sb, whole, 0, [[0, W], [1, left]]),
        nisa.engine.gpsimd,
    )
    nisa.tensor_reduce(dst=_at(row_sb, whole, 0, [[1, W]]), op=nl.add, data=products, axis=3)


def _exchange(s, k, M, N, planes):
    """Exchange row k and the pivot's row, and divide its multipliers by the pivot."""
    a_sb, flag_sb, row_sb = s[0], s[4], s[5]
    whole = _all(a_sb)
    W = planes * N
    below = M - k - 1
    if below > 0:
        nisa.tensor_copy_predicated(
            dst=_at(a_sb, whole, k + 1, [[M, W], [1, below]]),
            src=_at(a_sb, whole, k, [[M, W], [0, below]]),
            predicate=_at(flag_sb, whole, 1, [[0, W], [1, below]]),
        )
        _multipliers(s, k, M, N, planes)
    nisa.tensor_copy(dst=_at(a_sb, whole, k, [[M, W]]), src=_at(row_sb, whole, 0, [[1, W]]))


def _multipliers(s, k, M, N, planes):
    """Divide column k below the diagonal by the pivot."""
    a_sb, score_sb, pick_sb, row_sb, small_sb = s[0], s[2], s[3], s[5], s[7]
    whole = _all(a_sb)
    below = M - k - 1
    zero = _at(small_sb, whole, 2, [[1, 1]])
    re = _at(small_sb, whole, 1, [[1, 1]])
    column = _at(a_sb, whole, k * M + k + 1, [[1, below]])
    # A column without a pivot, or with one that has no reciprocal, is left as it is.
    nisa.tensor_scalar(dst=zero, data=_at(small_sb, whole, 0, [[1, 1]]), op0=nl.less, operand0=SMALLEST)
    nisa.tensor_tensor(dst=re, data1=_at(row_sb, whole, k, [[1, 1]]), data2=zero, op=nl.add)
    if planes == 1:
        nisa.reciprocal(dst=re, data=re)
        _multiply_elements(column, column, _at(small_sb, whole, 1, [[0, below]]), nisa.engine.vector)
        return
    im = _at(small_sb, whole, 3, [[1, 1]])
    nisa.tensor_copy(dst=im, src=_at(row_sb, whole, N + k, [[1, 1]]))
    _complex_inverse(re, im, score_sb, whole, 1)
    other = _at(a_sb, whole, (N + k) * M + k + 1, [[1, below]])
    first = _at(score_sb, whole, 0, [[1, below]])
    second = _at(pick_sb, whole, 0, [[1, below]])
    real = _at(small_sb, whole, 1, [[0, below]])
    imaginary = _at(small_sb, whole, 3, [[0, below]])
    _multiply_elements(first, other, imaginary, nisa.engine.vector)
    _multiply_elements(second, column, imaginary, nisa.engine.vector)
    _multiply_elements(column, column, real, nisa.engine.vector)
    _multiply_elements(other, other, real, nisa.engine.vector)
    _subtract_products(column, first, nisa.engine.vector)
    nisa.tensor_tensor(dst=other, data1=other, data2=second, op=nl.add)


def _update(s, k, M, N, planes):
    """Subtract the multiples of the pivot's row from the rows below."""
    a_sb, products_sb, row_sb = s[0], s[1], s[5]
    whole = _all(a_sb)
    below = M - k - 1
    right = N - k - 1
    if below == 0 or right == 0:
        return
    if planes == 2:
        _times_i(row_sb, 2 * N, src_sb=row_sb, src_at=0, g=whole, count=N)
    products = _at(products_sb, whole, 0, [[right * below, planes], [below, right], [1, below]])
    rest = _at(a_sb, whole, (k + 1) * M + k + 1, [[N * M, planes], [M, right], [1, below]])
    for plane in range(planes):
        column = _at(a_sb, whole, (plane * N + k) * M + k + 1, [[0, planes], [0, right], [1, below]])
        row = _at(row_sb, whole, plane * 2 * N + k + 1, [[N, planes], [1, right], [0, below]])
        _multiply_elements(products, column, row, nisa.engine.gpsimd)
        _subtract_products(rest, products, nisa.engine.gpsimd)
