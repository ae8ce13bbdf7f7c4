"""trnsparse, the rest: formats of other libraries, colours, products over semirings, sparse vectors."""

import numpy as np
import torch

import trnsparse
from tests.campaign.draw import COMPLEX, REAL, Draw
from tests.campaign.oracles import TRANSPOSED, summed, wide, within_range
from tests.campaign.sparse import sparse, stored, trial
from tests.campaign.trial import Trial, spec

DTYPES = (*REAL, *REAL, *COMPLEX)
FINITE = "sums of magnitudes inside the dtype's range"


@spec("trnsparse.ELL", "trnsparse.HYB", "trnsparse.SELLMatrix", "trnsparse.BlockedELL", promise="exact: the entries")
def formats(draw: Draw, name: str) -> Trial:
    stem, dtype, m, n = name.split(".")[1], draw.dtype(*DTYPES), draw.size(0, 65), draw.size(0, 65)
    size, width = draw.among(1, 2, 7, 32), draw.among("auto", "max", 0, 3)
    if stem == "BlockedELL":
        m, n = m - m % size, n - n % size
    a = sparse(draw, m, n, dtype)
    build = stored(draw, a)
    draw.log.append(f"size {size} width {width}")

    def run(a):
        matrix = build(a)
        if stem == "ELL":
            return trnsparse.ELL.of(matrix).to_csr().to_dense()
        if stem == "HYB":
            return trnsparse.HYB.of(matrix, width=width).to_csr().to_dense()
        if stem == "SELLMatrix":
            return trnsparse.SELLMatrix._from(matrix).to_sell(size).to_dense()
        return trnsparse.BlockedELL.of(matrix, size).to_bsr().to_dense()

    return trial(run, (a,), wide(a), np.zeros((m, n)))


@spec("trnsparse.coloring", promise="exact: rows that an entry joins differ; at most one colour more than a row has")
def colors(draw: Draw) -> Trial:
    dtype, n, fraction = draw.dtype(*DTYPES), draw.size(0, 65), draw.among(1.0, 1.0, 0.0, 0.5, 0.8)
    a = sparse(draw, n, n, dtype)
    build = stored(draw, a)
    joined = entries(build(a)) & ~np.eye(n, dtype=bool)
    joined |= joined.T

    def check(result, kernel):
        colors, order = result.colors.numpy(), result.order.numpy()
        assert not np.any(joined & (colors[:, None] == colors[None]))
        assert sorted(order) == list(range(n))
        assert np.all(np.diff(colors[order]) >= 0)
        assert result.count == (colors.max() + 1 if n else 0)
        assert fraction < 1 or result.count <= 1 + max(joined.sum(1), default=0)

    def run(a):
        return trnsparse.coloring(build(a), fraction=fraction)

    return Trial(run, (a,), check=check, kernels="maybe", arrays=False, compiles=False, differentiable=False)


@spec("trnsparse.spmm_op", promise="sums `g(r)` of the terms' magnitudes; `amax` and `amin` exact", when=FINITE)
def semiring(draw: Draw) -> Trial:
    add = draw.among("sum", "sum", "prod", "amax", "amin")
    dtype = draw.dtype(*(DTYPES if add == "sum" else REAL))
    m, k, n, trans = draw.size(0, 33), draw.size(0, 33), draw.size(0, 9), draw.among("n", "t", "c")
    kind = "gaussian" if add == "prod" else None
    a = sparse(draw, *((m, k) if trans == "n" else (k, m)), dtype, kind=kind)
    vector, empty = draw.chance(0.3), draw.among(None, None, 7.0)
    b = draw.tensor((k,) if vector else (k, n), dtype, kind=kind)
    build, plus = stored(draw, a), draw.chance(0.5)
    multiply, close = (torch.add, np.add) if plus else (torch.mul, np.multiply)
    left, right = TRANSPOSED[trans](wide(a)), wide(b)[:, None] if vector else wide(b)
    kept = TRANSPOSED[trans](entries(build(a)))
    terms = close(left[:, :, None], right[None])
    neutral = {"sum": 0.0, "prod": 1.0, "amax": -np.inf, "amin": np.inf}[add]
    how = {"sum": np.sum, "prod": np.prod, "amax": np.max, "amin": np.min}[add]
    masked = np.where(kept[:, :, None], terms, neutral)
    exact = how(masked, axis=1) if k else np.full((m, right.shape[1]), neutral, terms.dtype)
    sizes = np.where(kept[:, :, None], np.abs(left)[:, :, None] + np.abs(right)[None] if plus else np.abs(terms), 0)
    size = np.sum(sizes, 1) if add != "prod" else np.abs(exact)
    within_range(dtype, size)
    if empty is not None:
        exact = np.where(kept.any(1)[:, None], exact, empty)
    count = int(kept.sum(1).max(initial=0)) + 3
    bound = summed(count, np.where(np.isfinite(size), size, 0), np.where(np.isfinite(exact), exact, 0), dtype)
    if add == "prod" and plus:
        bound = bound + summed(count, np.prod(np.where(kept[:, :, None], sizes, 1), 1) if k else 0 * size, exact, dtype)
    exact, bound = (x[:, 0] if vector else x for x in (exact, np.where(np.isfinite(exact), bound, 0)))
    options = {"multiply": multiply, "add": add, "empty": empty, "trans": trans}
    draw.log.append(f"{add} plus {plus} {trans}")

    def run(a, b):
        made = trnsparse.spmm_op(build(a), b, **options)
        assert not torch.isnan(made).any() or not (torch.isfinite(a).all() and torch.isfinite(b).all())
        return torch.where(made.isinf(), 0, made) if add in ("amax", "amin") else made

    exact = np.where(np.isinf(exact), 0, exact) if add in ("amax", "amin") else exact
    return trial(run, (a, b), exact, bound, differentiable=False)


def entries(matrix) -> np.ndarray:
    """Where something is stored: blocks store zeros too."""
    ones = matrix.detach().to_csr()
    return trnsparse.CSRMatrix(ones.indptr, ones.indices, torch.ones(ones.nnz), ones.shape).to_dense().numpy() != 0


@spec("trnsparse.vectors", promise="`g(r + 2)` of the terms; copies exact", when=FINITE)
def vectors(draw: Draw) -> Trial:
    stem, dtype, n = draw.among("gather", "scatter", "axpby", "rot", "dot"), draw.dtype(*DTYPES), draw.size(1, 129)
    count = draw.size(0, n)
    repeated = stem == "axpby" and draw.chance(0.5)
    rng = np.random.default_rng(draw.seedling())
    index = rng.integers(0, n, count) if repeated else rng.permutation(n)[:count]
    x, y, indices = draw.tensor((count,), dtype), draw.tensor((n,), dtype), torch.from_numpy(index.astype(np.int64))
    alpha, beta = draw.number(dtype), draw.number(dtype)
    c, s = float(draw.rng.normal()), draw.number(dtype)
    wide_x, wide_y = wide(x), wide(y)
    draw.log.append(f"{stem} {count} of {n}")
    function = getattr(trnsparse.vectors, stem)
    if stem == "gather":
        return trial(lambda y: function(y, indices), (y,), wide_y[index], np.zeros(count))
    if stem == "dot":
        exact, size = np.sum(wide_x * wide_y[index]), np.sum(np.abs(wide_x * wide_y[index]))
        within_range(dtype, size)
        return trial(lambda x, y: function(x, indices, y), (x, y), exact, summed(count, size, exact, dtype))
    exact = wide_y.copy()
    if stem == "scatter":
        exact[index] = wide_x
        return trial(lambda x, y: function(x, indices, y), (x, y), exact, np.zeros(n))
    if stem == "axpby":
        exact, size = beta * wide_y, np.abs(beta * wide_y)
        np.add.at(exact, index, alpha * wide_x)
        np.add.at(size, index, np.abs(alpha * wide_x))
        within_range(dtype, size)
        bound = summed(count + 2, size, exact, dtype)
        return trial(lambda x, y: function(alpha, x, indices, beta, y), (x, y), exact, bound)
    first, size = c * wide_x + s * wide_y[index], abs(c) * np.abs(wide_x) + abs(s) * np.abs(wide_y[index])
    exact[index] = c * wide_y[index] - np.conj(s) * wide_x
    other = np.zeros(n)
    other[index] = abs(c) * np.abs(wide_y[index]) + abs(s) * np.abs(wide_x)
    within_range(dtype, size, other)
    return trial(
        lambda x, y: torch.cat(function(x, indices, y, c, s)), (x, y), np.concatenate([first, exact]),
        np.concatenate([summed(2, size, first, dtype), np.where(other > 0, summed(2, other, exact, dtype), 0)]),
    )  # fmt: skip
