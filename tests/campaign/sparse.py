"""trnsparse: the same arithmetic on dense arrays in extended precision; the calls store their dense operands."""

import operator
import tempfile
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import torch

import trnsparse
from tests.campaign.draw import COMPLEX, REAL, Draw
from tests.campaign.oracles import TRANSPOSED, narrow, summed, unit, unread, wide, within_range
from tests.campaign.solver import spectral
from tests.campaign.trial import EXEMPT, Outside, Trial, public, spec
from tests.samples import MASKS

EXEMPT.update(
    {
        "trnsparse.get_backend": "a setting",
        "trnsparse.set_backend": "a setting",
        "trnsparse.choose": "a prediction, not a result",
        "trnsparse.shard_rows": "needs ranks; tests/trnsparse/test_row_sharded.py runs them",
    }
)
DTYPES = (*REAL, *REAL, *COMPLEX)
FINITE = "sums of magnitudes inside the dtype's range"


def stored(draw: Draw, dense: torch.Tensor):
    """How to store a dense matrix: a function of it, so that operands stay tensors."""
    kind = draw.among("csr", "csr", "csc", "coo", "coo of parts", "bsr", "dia", "dia among others", "sell")
    block = draw.among((1, 1), (2, 3), (4, 4), (128, 128))
    draw.log.append(kind if kind != "bsr" else f"bsr {block}")
    if kind == "bsr":
        return lambda a: trnsparse.BSRMatrix.from_dense(a, block)
    others = {"coo of parts": in_parts, "dia among others": among_others}
    return others[kind] if kind in others else getattr(trnsparse, f"{kind.upper()}Matrix").from_dense


def in_parts(a: torch.Tensor) -> trnsparse.COOMatrix:
    """Coordinates with two entries at each position, in no order, whose sum is exact."""
    whole = trnsparse.COOMatrix.from_dense(a)
    row, col = (torch.cat([x.flip(0), x]) for x in (whole.row, whole.col))
    values, finite = whole.values, whole.values.isfinite()
    first, second = torch.where(finite, 2 * values, values), torch.where(finite, -values, 0)
    return trnsparse.COOMatrix(row, col, torch.cat([first.flip(0), second]), whole.shape)


def among_others(a: torch.Tensor) -> trnsparse.DIAMatrix:
    """Diagonals in memory that has NaN outside the matrix."""
    whole = trnsparse.DIAMatrix.from_dense(a)
    columns = torch.arange(a.shape[0]) + whole.offsets[:, None]
    inside = (columns >= 0) & (columns < a.shape[1])
    return whole.with_values(torch.where(inside, whole.values, float("nan")))


def sparse(draw: Draw, m: int, n: int, dtype: torch.dtype, *, diagonal: bool = False, kind: str | None = None):
    """A matrix with few entries: some rows none, sometimes all."""
    rng, density = np.random.default_rng(draw.seedling()), draw.among(0.0, 0.05, 0.3, 1.0)

    def change(values):
        kept = rng.random((m, n)) < density
        if m:
            kept[rng.integers(m)] = False
        made = np.where(kept, values, 0.0)
        if diagonal:
            largest = np.max(np.abs(made), initial=1e-30) * max(n, 1)
            made = made / largest + np.eye(n) * np.where(np.arange(n) % 3, 1.0, 1.5)
        return made

    return draw.tensor((m, n), dtype, kind=kind, change=change)


def per_row(a: np.ndarray) -> int:
    """Terms of the longest sum, counted as if every block of 128 were stored."""
    return int(min(a.shape[-1], max(int(np.max(np.count_nonzero(a, -1), initial=0)), 1) * 128))


def trial(run, args, exact, bound, **options) -> Trial:
    options = {"kernels": "maybe", "simulated": 0.1, "arrays": False, "compiles": False, **options}
    return Trial(run, args, {}, lambda: narrow(exact), lambda _: narrow(bound).real, **options)


@spec(
    "trnsparse.spmm",
    "trnsparse.spmv",
    promise="`g(r + 2) (|alpha| |a| |b| + |beta| |c|)`, r the entries of a row",
    when=FINITE,
)
def spmm(draw: Draw, name: str) -> Trial:
    dtype, m, k, n = draw.dtype(*DTYPES), draw.size(), draw.size(), draw.size(0, 33)
    trans, vector = draw.among("n", "n", "t", "c"), name.endswith("spmv")
    a = sparse(draw, *((m, k) if trans == "n" else (k, m)), dtype)
    build, function = stored(draw, a), public(name)
    b = draw.tensor((k,) if vector else (k, n), dtype)
    alpha, beta = draw.number(dtype), draw.number(dtype)
    c = draw.tensor((m,) if vector else (m, n), dtype) if beta != 0 else None
    form = draw.among("auto", "auto", "csr", "bsr", "dense", "stored")
    addend = {"beta": beta, "y" if vector else "c": c}

    def run(a, b):
        return function(build(a), b, alpha=alpha, trans=trans, format=form, **addend)

    left = TRANSPOSED[trans](wide(a))
    extra = 0 if c is None else beta * wide(c)
    size = abs(alpha) * (np.abs(left) @ np.abs(wide(b))) + np.abs(extra)
    exact = alpha * (left @ wide(b)) + extra
    within_range(dtype, size)
    return trial(run, (a, b), exact, summed(per_row(left), size, exact, dtype))


@spec("trnsparse.spgemm", promise="`g(r) |a| |b|`", when=FINITE)
def spgemm(draw: Draw) -> Trial:
    dtype, m, k, n = draw.dtype(*DTYPES), draw.size(0, 65), draw.size(0, 65), draw.size(0, 65)
    ta, tb = draw.among("n", "n", "t", "c"), draw.among("n", "n", "t", "c")
    a, b = (
        sparse(draw, *((m, k) if ta == "n" else (k, m)), dtype),
        sparse(draw, *((k, n) if tb == "n" else (n, k)), dtype),
    )
    build, other = stored(draw, a), stored(draw, b)
    left, right = TRANSPOSED[ta](wide(a)), TRANSPOSED[tb](wide(b))
    size, exact = np.abs(left) @ np.abs(right), left @ right
    within_range(dtype, size)

    def run(a, b):
        return trnsparse.spgemm(build(a), other(b), trans_a=ta, trans_b=tb).to_dense()

    return trial(run, (a, b), exact, summed(per_row(left), size, exact, dtype))


@spec("trnsparse.sddmm", promise="`g(D + 2) (|alpha| |a| |b| + |beta| |pattern|)`", when=FINITE)
def sddmm(draw: Draw) -> Trial:
    dtype, m, d, n = draw.dtype(*DTYPES), draw.size(0, 65), draw.size(0, 65), draw.size(0, 65)
    pattern, a, b = sparse(draw, m, n, dtype, kind="gaussian"), draw.tensor((m, d), dtype), draw.tensor((d, n), dtype)
    build, alpha, beta = stored(draw, pattern), draw.number(dtype), draw.number(dtype)
    # a BSR pattern is its blocks, zeros included
    kept = wide(build(pattern.abs().sign() + 0 * pattern).to_dense()) != 0
    product = alpha * (wide(a) @ wide(b)) + (beta * wide(pattern) if beta != 0 else 0)
    size = abs(alpha) * (np.abs(wide(a)) @ np.abs(wide(b))) + (abs(beta) * np.abs(wide(pattern)) if beta != 0 else 0)
    within_range(dtype, size)
    bound = summed(d, size, product, dtype)

    def run(pattern, a, b):
        made = trnsparse.sddmm(build(pattern), a, b, alpha=alpha, beta=beta)
        # of a block only the entries the pattern has are compared
        return torch.where(torch.from_numpy(np.asarray(kept)), made.to_dense(), 0)

    return trial(run, (pattern, a, b), np.where(kept, product, 0), np.where(kept, bound, 0))


@spec(
    "trnsparse.add", "trnsparse.multiply", "trnsparse.kron", "trnsparse.scale_rows", "trnsparse.scale_columns",
    "trnsparse.triangle", "trnsparse.eye", promise="`g(2)` of the terms; copies exact", when=FINITE,
)  # fmt: skip
def elementwise(draw: Draw, name: str) -> Trial:
    stem, dtype = name.split(".")[1], draw.dtype(*DTYPES)
    m, n = draw.size(0, 33), draw.size(0, 33)
    if stem == "eye":
        return trial(lambda: trnsparse.eye(n, dtype=dtype).to_dense(), (), np.eye(n), np.zeros((n, n)), kernels=False)
    a, b = sparse(draw, m, n, dtype), sparse(draw, m, n, dtype)
    build, other, function = stored(draw, a), stored(draw, b), public(name)
    x, y = wide(a), wide(b)
    if stem == "add":
        alpha, beta = draw.number(dtype), draw.number(dtype)
        exact, size = alpha * x + beta * y, abs(alpha) * np.abs(x) + abs(beta) * np.abs(y)
        run, args = lambda a, b: function(build(a), other(b), alpha=alpha, beta=beta).to_dense(), (a, b)
    elif stem in ("multiply", "kron"):
        exact = x * y if stem == "multiply" else np.kron(x, y)
        size = np.abs(exact)
        run, args = lambda a, b: function(build(a), other(b)).to_dense(), (a, b)
    elif stem == "triangle":
        lower, offset = draw.chance(0.5), draw.among(0, 0, 1, -2)
        exact = np.tril(x, offset) if lower else np.triu(x, offset)
        size = 0 * np.abs(x)
        run, args = lambda a: function(build(a), lower=lower, offset=offset).to_dense(), (a,)
    else:
        d = draw.tensor((m if stem.endswith("rows") else n,), dtype)
        exact = x * (wide(d)[:, None] if stem.endswith("rows") else wide(d))
        size = np.abs(exact)
        run, args = lambda a, d: function(build(a), d).to_dense(), (a, d)
    within_range(dtype, size)
    return trial(run, args, exact, summed(1, size, exact, dtype))


@spec("trnsparse.SparseMatrix with operators", promise="`g(2)` of the terms; SciPy's broadcasting", when=FINITE)
def operators(draw: Draw) -> Trial:
    dtype, sign, reverse = draw.dtype(*DTYPES), draw.among("+", "-", "*", "/", "**"), draw.chance(0.3)
    m, n = draw.size(1, 33), draw.size(1, 33)
    other_shape = draw.among((m, n), (1, n), (m, 1), (1, 1), (n,), ())
    a = sparse(draw, *((m, n) if sign != "*" or draw.chance(0.7) else draw.among((1, n), (m, 1))), dtype)
    b = draw.tensor(other_shape, dtype, kind="gaussian" if sign in "/**" else None)
    is_stored = other_shape == (m, n) == tuple(a.shape) or (sign == "*" and len(other_shape) == 2 and draw.chance(0.5))
    build, x, y = stored(draw, a), wide(a), wide(b)
    other = stored(draw, b) if is_stored else lambda b: b
    draw.log.append(f"{sign} {other_shape} stored {is_stored} reverse {reverse}")
    if sign in ("/", "**") or (sign in "+-" and not is_stored and other_shape == ()):
        reverse = False
    if sign == "**":
        exponent = draw.among(1, 2, 3)
        exact = x**exponent
        within_range(dtype, np.abs(exact))
        return trial(
            lambda a: (build(a) ** exponent).to_dense(), (a,), exact, summed(exponent, np.abs(exact), exact, dtype)
        )
    if sign in "+-" and other_shape == ():
        return trial(lambda a: (build(a) + 0.0).to_dense(), (a,), x, 0 * np.abs(x))
    compute = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[sign]
    operate = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}[sign]
    with np.errstate(all="ignore"):
        exact = compute(*((y, x) if reverse else (x, y)))
    size = np.abs(exact) if sign in "*/" else np.abs(x) + np.abs(y)
    if is_stored and sign == "/":
        # absent over absent is not a number, which a bound does not judge
        exact, size = np.where(y == 0, 0, exact), np.where(y == 0, 0, size)
    within_range(dtype, size)

    def run(a, b):
        made = operate(*((other(b), build(a)) if reverse else (build(a), other(b))))
        dense = made.to_dense() if isinstance(made, trnsparse.SparseMatrix) else made
        return torch.where(b == 0, 0, dense) if is_stored and sign == "/" else dense

    return trial(run, (a, b), exact, summed(1, size, exact, dtype))


@spec("trnsparse.norm", promise="`g(MN)` relative; spectral `1e-5`", when=FINITE)
def norm(draw: Draw) -> Trial:
    dtype, m, n, order = (
        draw.dtype(*DTYPES),
        draw.size(1, 49),
        draw.size(1, 49),
        draw.among("fro", "max", 1, float("inf")),
    )
    a = sparse(draw, m, n, dtype, kind=draw.among("gaussian", "integers", "graded"))
    build, size = stored(draw, a), np.abs(wide(a))
    exact = {"fro": np.sqrt(np.sum(size**2)), "max": size.max(), 1: size.sum(0).max(), float("inf"): size.sum(1).max()}
    value = exact[order]
    return trial(
        *(lambda a: trnsparse.norm(build(a), order), (a,), value, summed(m * n, value, value, dtype)),
        differentiable=False,
    )


@spec("trnsparse.solve_triangular", promise="`(a + e) x = b`, `|e| <= g(r + 4) |a|`", when="diagonals without zeros")
def triangular(draw: Draw) -> Trial:
    dtype, n, k = draw.dtype(*DTYPES), draw.size(0, 65), draw.size(0, 9)
    a, b = sparse(draw, n, n, dtype, diagonal=True), draw.tensor((n, k), dtype, kind="gaussian")
    build, lower, ones, trans = stored(draw, a), draw.chance(0.5), draw.chance(0.3), draw.among("n", "t", "c")
    part = np.tril(wide(a)) if lower else np.triu(wide(a))
    if ones:
        part = part - part * np.eye(n) + np.eye(n)
    whole = TRANSPOSED[trans](part)
    unread(draw, a, lower, diagonal=ones)

    def check(result, kernel):
        x = wide(torch.as_tensor(result))
        residual = np.abs(wide(b) - whole @ x)
        count = (2 if dtype.is_complex else 1) * (n + 4) + 4
        limit = 2 * count * unit(dtype) * (np.abs(whole) @ np.abs(x)) + torch.finfo(dtype).smallest_normal * (n + 1)
        assert np.all(residual <= limit), float(np.max(residual / limit))

    def run(a, b):
        return trnsparse.solve_triangular(build(a), b, lower=lower, unit_diagonal=ones, trans=trans)

    return Trial(run, (a, b), check=check, kernels="maybe", simulated=0.1, arrays=False, compiles=False)


@spec(
    "trnsparse.ilu0",
    "trnsparse.ic0",
    promise="the matrix on its pattern, to `g(r + 4) |l| |u|`",
    when="diagonally dominant",
)
def incomplete(draw: Draw, name: str) -> Trial:
    dtype, n = draw.dtype(*DTYPES), draw.size(1, 49)
    a = sparse(draw, n, n, dtype, diagonal=True)
    if name.endswith("ic0"):
        a = draw.laid_out((a + a.mH) / 2)
    build = stored(draw, a)

    def run(a):
        made = public(name)(build(a))
        return (made.to_dense(), made.to_dense().mH) if name.endswith("ic0") else tuple(x.to_dense() for x in made)

    def check(result, kernel):
        lower, upper = (wide(x) for x in result)
        kept = wide(a) != 0
        size = np.abs(lower) @ np.abs(upper)
        error = np.abs(lower @ upper - wide(a))
        assert np.all(np.where(kept, error, 0) <= 4 * (n + 8) * unit(dtype) * size + 1e-300)
        assert not np.any(np.triu(lower, 1))

    return Trial(run, (a,), check=check, kernels="maybe", differentiable=False, arrays=False, compiles=False)


@spec(
    "trnsparse.cg", "trnsparse.chebyshev", "trnsparse.richardson", "trnsparse.power_iteration",
    promise="the residual asked for, computed afresh, or `NotConverged`", when="real; symmetric where asked",
)  # fmt: skip
def iterations(draw: Draw, name: str) -> Trial:
    stem, dtype, n, tol = name.split(".")[1], draw.dtype(*REAL), draw.size(1, 49), draw.among(1e-2, 1e-4)
    a = sparse(draw, n, n, dtype, diagonal=True)
    a = draw.laid_out((a + a.mT) / 2)
    b, build = draw.tensor((n,), dtype), stored(draw, a)
    values = np.linalg.eigvalsh(narrow(wide(a)))
    options = {"chebyshev": {"smallest": float(values[0]) * 0.9, "largest": float(values[-1]) * 1.1}}
    options["richardson"] = {"omega": 1 / float(values[-1])}
    whole = wide(a)

    def run(a, b):
        if stem == "power_iteration":
            return trnsparse.power_iteration(build(a), tol=tol, max_iterations=20000)
        return public(name)(build(a), b, tol=tol, **options.get(stem, {}))

    def check(result, kernel):
        slack = 20 * n * unit(dtype) * spectral(whole)
        if stem == "power_iteration":
            value, x = float(torch.as_tensor(result.value)), wide(torch.as_tensor(result.vector))
            residual = float(np.linalg.norm(narrow(whole @ x - value * x)))
            assert residual <= 1.01 * tol * abs(value) + slack, residual
            return
        x = wide(torch.as_tensor(result.x))
        residual, size = (float(np.linalg.norm(narrow(v))) for v in (wide(b) - whole @ x, wide(b)))
        assert residual <= 1.01 * tol * size + slack * float(np.linalg.norm(narrow(x))), (residual, size)

    return Trial(
        *(run, (a, b)), check=check,
        kernels="maybe", simulated=0.02, differentiable=False, arrays=False, compiles=False, view=lambda r: r[0],
    )  # fmt: skip


KINDS = (*MASKS, "full", "blocks", "documents", "function")


@spec(
    "trnsparse.attention",
    promise="`g(2 D + 2 K + 8) (1 + 2 s) max|v|`, s the largest scaled score",
    when="finite scores",
)
def attention(draw: Draw) -> Trial:
    return _attention(draw, draw.among(*KINDS, None))


@spec(*(f"trnsparse.{name}" for name in KINDS), promise="exact: the pairs it says", when="under attention's bound")
def masks(draw: Draw, name: str) -> Trial:
    return _attention(draw, name.split(".")[1])


def _pairs(name: str, i: np.ndarray, j: np.ndarray, size: int):
    """A mask made from an integer, and the pairs its row says."""
    return public(f"trnsparse.{name}")(size), MASKS[name](i, j, size)


def _attention(draw: Draw, kind: str | None) -> Trial:
    dtype, heads, groups = draw.dtype(*REAL), *draw.among((1, 1), (2, 2), (4, 2))
    queries, keys, d, e = draw.size(1, 129), draw.size(1, 129), draw.size(1, 33), draw.size(1, 33)
    if kind == "documents":
        keys = queries
    kinds = ("gaussian", "constant", "ramp", "alternating", "integers")
    q = draw.tensor((heads, queries, d), dtype, kind=draw.among(*kinds))
    k, v = draw.tensor((groups, keys, d), dtype, kind=draw.among(*kinds)), draw.tensor((groups, keys, e), dtype)
    i, j = np.arange(queries)[:, None], np.arange(keys)[None]
    size, block = draw.among(1, 5, 32), draw.among(16, 128)
    pattern = draw.rng.random((-(-queries // size), -(-keys // size))) < 0.5
    ids = np.sort(draw.rng.integers(0, 3, queries))
    mask, kept = {
        None: lambda: (None, np.ones((queries, keys), bool)),
        "full": lambda: (trnsparse.full(), np.ones((queries, keys), bool)),
        **{name: partial(_pairs, name, i, j, size) for name in MASKS},
        "blocks": lambda: (trnsparse.blocks(torch.from_numpy(pattern), size), pattern[i // size, j // size]),
        "documents": lambda: (trnsparse.documents(torch.from_numpy(ids)), ids[i] == ids[j]),
        "function": lambda: (trnsparse.function(lambda q, k: (q + k) % 3 > 0), (i + j) % 3 > 0),
    }[kind]()
    draw.log.append(f"{kind} {size} blocks of {block}")
    repeat = heads // groups
    scores = wide(q) @ np.swapaxes(np.repeat(wide(k), repeat, 0), -1, -2) / np.sqrt(np.longdouble(d))
    largest = float(np.max(np.abs(scores), initial=0.0))
    if largest > 1e4:
        raise Outside
    kept = np.broadcast_to(kept, scores.shape)
    top = np.max(np.where(kept, scores, -np.inf), -1, keepdims=True)
    weights = np.where(kept, np.exp(np.where(kept, scores, 0) - np.where(np.isfinite(top), top, 0)), 0)
    total = weights.sum(-1, keepdims=True)
    values = np.repeat(wide(v), repeat, 0)
    exact = np.where(total > 0, weights @ values / np.where(total > 0, total, 1), 0)
    count = 2 * d + 2 * keys + 8
    bound = count * unit(dtype) * (1 + 2 * largest) * float(np.max(np.abs(values), initial=0.0))
    bound = np.full(exact.shape, bound + torch.finfo(dtype).smallest_normal)
    run = lambda q, k, v: trnsparse.attention(q, k, v, mask, block=block)  # noqa: E731
    return trial(run, (q, k, v), exact, bound)


@spec("trnsparse.bandwidth", "trnsparse.reverse_cuthill_mckee", "trnsparse.load", promise="exact")
def structure(draw: Draw, name: str) -> Trial:
    dtype, n = draw.dtype(*DTYPES), draw.size(1, 65)
    a = sparse(draw, n, n, dtype)
    build, stem = stored(draw, a), name.split(".")[1]
    rows, columns = np.nonzero(narrow(wide(a)))

    def run(a):
        if stem != "load":
            return public(name)(trnsparse.CSRMatrix.from_dense(a))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.npz"
            build(a).save(path)
            return trnsparse.load(path).to_dense()

    def check(result, kernel):
        if stem == "bandwidth":
            assert int(result) == int(np.max(np.abs(rows - columns), initial=0))
        elif stem == "load":
            assert np.array_equal(wide(result), wide(a), equal_nan=True)
        else:
            assert sorted(torch.as_tensor(result).tolist()) == list(range(n))

    return Trial(run, (a,), check=check, kernels="maybe", differentiable=False, arrays=False, compiles=False)


@spec(
    "trnsparse.schwarz_bounds", "trnsparse.density_screen", "trnsparse.screen_quartets", "trnsparse.screened_spmm",
    promise="nothing above the threshold is lost; products as spmm", when="finite bounds that are not negative",
)  # fmt: skip
def screens(draw: Draw, name: str) -> Trial:
    stem, dtype, n = name.split(".")[1], draw.dtype(*REAL), draw.size(1, 13)
    options = {"kernels": "maybe", "arrays": False, "compiles": False, "differentiable": False}
    bounds = draw.tensor((n, n), dtype, change=lambda v: np.abs(v + v.T))
    exact = wide(bounds)
    if stem == "schwarz_bounds":
        return Trial(
            *(trnsparse.schwarz_bounds, (bounds,), {}, lambda: narrow(np.sqrt(exact))),
            *(lambda e: 2 * (unit(dtype) + 2.0**-53) * np.abs(e) + torch.finfo(dtype).smallest_normal,), **options,
        )  # fmt: skip
    if stem == "screened_spmm":
        u, w = (draw.tensor((n,), dtype, kind="gaussian", change=np.abs) for _ in range(2))
        b, threshold = draw.tensor((n, 3), dtype, kind="gaussian"), 0.3
        product = np.outer(wide(u), wide(w))
        if np.any(np.abs(product - threshold) < 1e-5):
            raise Outside
        a = np.where(product > threshold, exact, 0)
        size = np.abs(a) @ np.abs(wide(b))
        run = lambda a, u, w, b: trnsparse.screened_spmm(a, u, w, b, threshold)  # noqa: E731
        return trial(run, (bounds, u, w, b), a @ wide(b), summed(n, size, size, dtype), differentiable=False)
    threshold = float(draw.among(np.median(narrow(exact)) ** 2, 1e-3, 1.0))
    if stem == "density_screen":
        density = draw.tensor((n, n), dtype, kind="gaussian")
        kept = exact * np.abs(wide(density)) * exact.max()
        margin = 8 * unit(dtype) * threshold

        def check(result, kernel):
            got = wide(result.to_dense())
            assert np.all((got != 0) | (kept <= threshold + margin) | (wide(density) == 0))
            assert np.all((got == 0) | (got == wide(density)))
            assert np.all((got == 0) | (kept > threshold - margin))

        return Trial(trnsparse.density_screen, (bounds, density, threshold), check=check, **options)
    pairs = [(i, j) for i in range(n) for j in range(i + 1)]
    values = [Fraction(float(bounds[i, j])) for i, j in pairs]
    limit = Fraction(threshold)
    count = sum(1 for x in range(len(pairs)) for y in range(x + 1) if values[x] * values[y] > limit)

    def check(result, kernel):
        assert int(torch.as_tensor(result.counts).sum()) == count, (int(result.counts.sum()), count)

    return Trial(trnsparse.screen_quartets, (bounds, threshold), check=check, **options)
