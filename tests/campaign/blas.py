"""trnblas: products in extended precision as oracles, within the bounds the docstrings state."""

import numpy as np
import torch

from tests.campaign.draw import COMPLEX, HALF, REAL, Draw
from tests.campaign.oracles import TRANSPOSED, narrow, summed, unit, unread, wide, within_range
from tests.campaign.trial import EXEMPT, Trial, public, spec
from trnsci.testing import unit_roundoff

EXEMPT.update(
    {
        "trnblas.error_bound": "a formula: results of policies are compared with it",
        "trnblas.get_backend": "a setting",
        "trnblas.set_backend": "a setting",
        "trnblas.probe": "runs on a device only",
    }
)
DTYPES = (*REAL, *REAL, *COMPLEX, *HALF)
FINITE = "sums of magnitudes inside the dtype's range"


def triangle(a: np.ndarray, lower: bool, unit_diagonal: bool = False) -> np.ndarray:
    part = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        part = part - part * np.eye(a.shape[-1]) + np.eye(a.shape[-1])
    return part


def mirrored(a: np.ndarray, lower: bool, hermitian: bool) -> np.ndarray:
    part = np.tril(a, -1) if lower else np.triu(a, 1)
    diagonal = a * np.eye(a.shape[-1])
    other = np.swapaxes(part, -1, -2)
    return part + (np.conj(other) if hermitian else other) + (diagonal.real if hermitian else diagonal)


def unbanded(a: np.ndarray, m: int, n: int, kl: int, ku: int) -> np.ndarray:
    full = np.zeros((m, n), a.dtype)
    for i in range(m):
        for j in range(max(0, i - kl), min(n, i + ku + 1)):
            full[i, j] = a[ku + i - j, j]
    return full


def unpacked(ap: np.ndarray, n: int, lower: bool) -> np.ndarray:
    full, position = np.zeros((n, n), ap.dtype), 0
    for j in range(n):
        rows = range(j, n) if lower else range(j + 1)
        for i in rows:
            full[i, j] = ap[position]
            position += 1
    return full


def packed(full: np.ndarray, lower: bool) -> np.ndarray:
    n = full.shape[0]
    parts = [full[j:, j] if lower else full[: j + 1, j] for j in range(n)]
    return np.concatenate(parts) if parts else full.reshape(-1)


def product(name, dtype, args, a, b, c=None, alpha=1.0, beta=0.0, *, terms, kwargs=None, **options) -> Trial:
    """``alpha * a @ b + beta * c`` with everything in the layout the mathematics has."""
    beta = 0.0 if c is None else beta
    addend = 0 if beta == 0 else beta * c
    exact = (alpha * (a @ b) if alpha != 0 else 0 * (np.abs(a) @ np.abs(b))) + addend
    size = abs(alpha) * (np.abs(a) @ np.abs(b)) + np.abs(addend)
    within_range(dtype, size)
    bound = summed(terms, size, exact, dtype)
    options["magnitudes"] = terms, size, torch.finfo(dtype).smallest_normal
    return Trial(public(name), args, kwargs or {}, lambda: narrow(exact), lambda _: bound, **options)


@spec("trnblas.gemm", "trnblas.grouped_gemm", promise="`g(K + 2)` of `|alpha| |a| |b| + |beta| |c|`", when=FINITE)
def gemm(draw: Draw, name: str) -> Trial:
    dtype = draw.dtype(*DTYPES)
    grouped = name.endswith("grouped_gemm")
    m, n, k, batch = draw.size(), draw.size(), draw.size(0, 257), () if grouped else draw.batch()
    ta, tb = draw.among("n", "n", "t", "c"), draw.among("n", "n", "t", "c")
    a_shape = (*draw.broadcastable(batch), *((m, k) if ta == "n" else (k, m)))
    b_shape = (*batch, *((k, n) if tb == "n" else (n, k)))
    a, b = draw.tensor(a_shape, dtype), draw.tensor(b_shape, dtype)
    alpha, beta = draw.number(dtype), draw.number(dtype)
    c = draw.tensor((*batch, m, n), dtype) if beta != 0 or draw.chance(0.1) else None
    left, right, addend = TRANSPOSED[ta](wide(a)), TRANSPOSED[tb](wide(b)), None if c is None else wide(c)
    kwargs = {"trans_a": ta, "trans_b": tb}
    if grouped:
        other = draw.tensor((3, 2), dtype, kind="integers")
        pairs = ([a, other if ta == "n" else other.mT], [b, other.mT if tb == "n" else other])
        sums = None if c is None else [c, torch.zeros(3, 3, dtype=dtype)]
        args = (alpha, *pairs, beta, sums)
        view = {"view": lambda result: result[0]}
        return product(name, dtype, args, left, right, addend, alpha, beta, terms=k, kwargs=kwargs, **view)
    rows = bool(batch) and len(a_shape) == len(b_shape) and a_shape[0] == batch[0] > 1
    args = (alpha, a, b, beta, c)
    return product(name, dtype, args, left, right, addend, alpha, beta, terms=k, kwargs=kwargs, rows=rows)


@spec("trnblas.gemv", promise="that of gemm, K the length of x", when=FINITE)
def gemv(draw: Draw) -> Trial:
    dtype, m, n = draw.dtype(*DTYPES), draw.size(), draw.size(0, 513)
    trans = draw.among("n", "t", "c")
    a = draw.tensor((m, n), dtype)
    x = draw.tensor((n if trans == "n" else m,), dtype)
    alpha, beta = draw.number(dtype), draw.number(dtype)
    y = draw.tensor((m if trans == "n" else n,), dtype) if beta != 0 else None
    full, addend = TRANSPOSED[trans](wide(a)), None if y is None else wide(y)
    args, kwargs = (alpha, a, x, beta, y), {"trans": trans}
    return product("trnblas.gemv", dtype, args, full, wide(x), addend, alpha, beta, terms=len(x), kwargs=kwargs)


@spec(
    "trnblas.symv", "trnblas.hemv", "trnblas.symm", "trnblas.hemm",
    promise="that of gemm with the whole matrix", when=FINITE,
)  # fmt: skip
def symmetric(draw: Draw, name: str) -> Trial:
    dtype, n, hermitian = draw.dtype(*DTYPES), draw.size(), ".he" in name
    lower, right, columns = draw.chance(0.5), draw.chance(0.5), draw.size(0, 33)
    a = draw.tensor((n, n), dtype)
    alpha, beta = draw.number(dtype), draw.number(dtype)
    shape = (n,) if name.endswith("v") else (columns, n) if right else (n, columns)
    b, c = draw.tensor(shape, dtype), draw.tensor(shape, dtype) if beta != 0 else None
    full, addend = mirrored(wide(a), lower, hermitian), None if c is None else wide(c)
    unread(draw, a, lower)
    kwargs = {"lower": lower} if name.endswith("v") else {"lower": lower, "side": right}
    sides = (wide(b), full) if right and not name.endswith("v") else (full, wide(b))
    return product(name, dtype, (alpha, a, b, beta, c), *sides, addend, alpha, beta, terms=n, kwargs=kwargs)


@spec("trnblas.gbmv", "trnblas.sbmv", "trnblas.hbmv", promise="that of gemm with K the diagonals", when=FINITE)
def banded(draw: Draw, name: str) -> Trial:
    dtype, lower, trans = draw.dtype(*DTYPES), draw.chance(0.5), draw.among("n", "t", "c")
    n = draw.size()
    m = draw.size() if name.endswith("gbmv") else n
    kl, ku = (min(draw.size(0, 9), max(size - 1, 0)) for size in (m, n))
    alpha, beta = draw.number(dtype), draw.number(dtype)
    if name.endswith("gbmv"):
        a = draw.tensor((kl + ku + 1, n), dtype)
        full = TRANSPOSED[trans](unbanded(wide(a), m, n, kl, ku))
        head, kwargs, terms = (m, n, kl, ku), {"trans": trans}, kl + ku + 1
    else:
        a = draw.tensor((ku + 1, n), dtype)
        stored = unbanded(wide(a), n, n, ku if lower else 0, 0 if lower else ku)
        full = mirrored(stored, lower, name.endswith("hbmv"))
        head, kwargs, terms = (ku,), {"lower": lower}, 2 * ku + 1
    x = draw.tensor((full.shape[1],), dtype)
    y = draw.tensor((full.shape[0],), dtype) if beta != 0 else None
    args, addend = (*head, alpha, a, x, beta, y), None if y is None else wide(y)
    options = {"terms": terms, "kwargs": kwargs, "kernels": "maybe"}
    return product(name, dtype, args, full, wide(x), addend, alpha, beta, **options)


@spec("trnblas.spmv", "trnblas.hpmv", promise="that of symv", when=FINITE)
def packed_product(draw: Draw, name: str) -> Trial:
    dtype, n, lower = draw.dtype(*DTYPES), draw.size(0, 65), draw.chance(0.5)
    ap, x = draw.tensor((n * (n + 1) // 2,), dtype), draw.tensor((n,), dtype)
    alpha, beta = draw.number(dtype), draw.number(dtype)
    y = draw.tensor((n,), dtype) if beta != 0 else None
    full = mirrored(unpacked(wide(ap), n, lower), lower, name.endswith("hpmv"))
    args, addend = (n, alpha, ap, x, beta, y), None if y is None else wide(y)
    return product(name, dtype, args, full, wide(x), addend, alpha, beta, terms=n, kwargs={"lower": lower})


@spec("trnblas.ger", "trnblas.geru", "trnblas.gerc", promise="`g(3) (|alpha| |x| |y| + |a|)`", when=FINITE)
def outer(draw: Draw, name: str) -> Trial:
    dtype, m, n = draw.dtype(*DTYPES), draw.size(), draw.size(0, 257)
    x, y, alpha = draw.tensor((m,), dtype), draw.tensor((n,), dtype), draw.number(dtype)
    a = draw.tensor((m, n), dtype) if draw.chance(0.6) else None
    row = np.conj(wide(y)) if name.endswith("gerc") else wide(y)
    addend = None if a is None else wide(a)
    return product(name, dtype, (alpha, x, y, a), wide(x)[:, None], row[None], addend, alpha, 1.0, terms=1)


@spec(
    *(f"trnblas.{stem}" for stem in ["syr", "syr2", "her", "her2", "spr", "spr2", "hpr", "hpr2"]),
    promise="`g(4)` of the sum of magnitudes on the triangle; the other is exact", when=FINITE,
)  # fmt: skip
def rank_one(draw: Draw, name: str) -> Trial:
    stem = name.split(".")[1]
    twice, hermitian, is_packed = stem.endswith("2"), stem[0] == "h", stem[1] == "p"
    dtype, n, lower = draw.dtype(*DTYPES), draw.size(0, 65), draw.chance(0.5)
    alpha = draw.number(dtype)
    alpha = alpha.real if hermitian and not twice else alpha
    x, y = draw.tensor((n,), dtype), draw.tensor((n,), dtype)
    if is_packed:
        ap = draw.tensor((n * (n + 1) // 2,), dtype)
        given, a = unpacked(wide(ap), n, lower), ap
    else:
        a = draw.tensor((n, n), dtype) if draw.chance(0.6) else None
        given = np.zeros((n, n), wide(x).dtype) if a is None else wide(a)
    vectors = (x, y) if twice else (x,)
    args = (n, alpha, *vectors, a, lower) if is_packed else (alpha, *vectors, lower, a)
    return ranks(name, dtype, args, {}, wide(x)[:, None], wide(y if twice else x)[:, None], given, alpha, 1.0, lower)


def ranks(name, dtype, args, kwargs, x, y, given, alpha, beta, lower) -> Trial:
    """One triangle of ``alpha x y^T + beta c``, or of that and its mirror image; ``c`` outside."""
    stem = name.split(".")[1]
    hermitian, twice, is_packed = stem[0] == "h", "2" in stem, stem[1] == "p"
    other = np.conj(y) if hermitian else y
    exact, size = alpha * (x @ other.T), abs(alpha) * (np.abs(x) @ np.abs(y).T)
    if twice:
        second = (np.conj(alpha) * (y @ np.conj(x).T)) if hermitian else alpha * (y @ x.T)
        exact, size = exact + second, size + size.T
    addend = given * beta if beta != 0 else 0 * given
    if hermitian:
        addend = addend - 1j * addend.imag * np.eye(len(given)) if np.iscomplexobj(addend) else addend
    exact, size = exact + addend, size + np.abs(addend)
    within_range(dtype, size)
    inside = np.tril(np.ones(exact.shape, bool)) if lower else np.triu(np.ones(exact.shape, bool))
    if hermitian and np.iscomplexobj(exact):
        exact = exact - 1j * exact.imag * np.eye(len(exact))
    terms = (2 if twice else 1) * x.shape[1]
    bound = np.where(inside, summed(terms + 1, size, exact, dtype), 0.0)
    exact = np.where(inside, exact, given)
    if is_packed:
        exact, bound = packed(exact, lower), packed(bound, lower)
    # the other triangle of given memory is left as it is
    least = torch.finfo(dtype).smallest_normal * inside
    options = {"outs": is_packed, "magnitudes": (terms, np.where(inside, size, 0.0), least)}
    return Trial(public(name), args, kwargs, lambda: narrow(exact), lambda _: bound, **options)


@spec(
    *(f"trnblas.{stem}" for stem in ["syrk", "herk", "syr2k", "her2k", "syrkx"]),
    promise="that of gemm on the triangle; the other is exact", when=FINITE,
)  # fmt: skip
def rank_k(draw: Draw, name: str) -> Trial:
    stem = name.split(".")[1]
    hermitian, pair = stem[0] == "h", stem not in ("syrk", "herk")
    dtype, n, k, lower = draw.dtype(*DTYPES), draw.size(), draw.size(), draw.chance(0.5)
    trans = draw.among("n", "c" if hermitian else "t")
    shape = (n, k) if trans == "n" else (k, n)
    a, b = draw.tensor(shape, dtype), draw.tensor(shape, dtype)
    alpha, beta = draw.number(dtype), draw.number(dtype)
    alpha, beta = alpha.real if stem == "herk" else alpha, beta.real if hermitian else beta
    c = draw.tensor((n, n), dtype) if beta != 0 or draw.chance(0.2) else None
    x, y = (TRANSPOSED[trans](wide(z)) for z in (a, b if pair else a))
    given = np.zeros((n, n), x.dtype) if c is None else wide(c)
    args, kwargs = (alpha, a, *((b,) if pair else ()), beta, c), {"trans": trans, "lower": lower}
    return ranks(name, dtype, args, kwargs, x, y, given, alpha, beta, lower)


def solvable(values: np.ndarray) -> np.ndarray:
    """A triangle whose inverse stays of moderate size: its diagonal is at least as large as rows of the rest."""
    n = values.shape[-1]
    largest = np.max(np.abs(values), initial=1e-30)
    return values / (largest * max(n, 1)) + np.eye(n) * np.where(np.arange(n) % 3, 1.0, -1.5)


@spec(
    "trnblas.trmm", "trnblas.trmv", "trnblas.tbmv", "trnblas.tpmv",
    promise="that of gemm with the triangle", when=FINITE,
)  # fmt: skip
def triangular_product(draw: Draw, name: str) -> Trial:
    return _triangular(draw, name, solve=False)


@spec(
    "trnblas.trsm", "trnblas.trsv", "trnblas.tbsv", "trnblas.tpsv",
    promise="`g(N) |inv(a)| |a| |x|`; the kernel `g(2 N + 128) |inv(a)| |a| |inv(a)| |b|`, complex `4 g(4 N + 128)`",
    when="diagonals without zeros, " + FINITE,
)  # fmt: skip
def triangular_solve(draw: Draw, name: str) -> Trial:
    return _triangular(draw, name, solve=True)


def _triangular(draw: Draw, name: str, *, solve: bool) -> Trial:
    stem = name.split(".")[1]
    dtype, n, columns = draw.dtype(*DTYPES), draw.size(0, 65 if stem[1] == "p" else 129), draw.size(0, 33)
    lower, right, ones = draw.chance(0.5), draw.chance(0.5) and stem[-1] == "m", draw.chance(0.3)
    trans, alpha = draw.among("n", "t", "c"), draw.number(dtype) if stem[-1] == "m" else 1.0
    change = solvable if solve else None
    flags: dict = {"lower": lower, "diag": ones, "trans_a" if stem[-1] == "m" else "trans": trans}
    k = min(draw.size(0, 9), max(n - 1, 0))
    if stem[1] == "b":
        main = 0 if lower else k
        a = draw.tensor((k + 1, n), dtype, change=(lambda v: _main(v, main)) if solve else None)
        full = unbanded(wide(a), n, n, k if lower else 0, 0 if lower else k)
        head: tuple = (k, a)
    elif stem[1] == "p":
        source = draw.tensor((n, n), dtype, change=change)
        a = draw.laid_out(torch.from_numpy(narrow(packed(wide(source), lower))).to(dtype))
        full, head = unpacked(wide(a), n, lower), (n, a)
    else:
        a = draw.tensor((n, n), dtype, change=change)
        full, head = wide(a), (a,)
        unread(draw, a, lower, diagonal=ones)
    full = TRANSPOSED[trans](triangle(full, lower, ones))
    shape = (n,) if stem[-1] == "v" else (columns, n) if right else (n, columns)
    b = draw.tensor(shape, dtype)
    args = (alpha, *head, b) if stem[-1] == "m" else (*head, b)
    if stem[-1] == "m":
        flags["side"] = right
    if solve:
        return _solution(name, dtype, args, flags, full, wide(b), alpha, right)
    sides = (wide(b), full) if right else (full, wide(b))
    return product(name, dtype, args, *sides, None, alpha, terms=n, kwargs=flags, kernels="maybe")


def _main(values: np.ndarray, row: int) -> np.ndarray:
    values = values / (np.max(np.abs(values), initial=1e-30) * values.shape[0])
    values[row] = np.where(np.arange(values.shape[1]) % 3, 1.0, -1.5)
    return values


def _solution(name, dtype, args, flags, full, b, alpha, right) -> Trial:
    if right:
        full, b = full.T, b.T
    n = full.shape[0]
    inverse = substituted(full, np.eye(n, dtype=full.dtype))
    exact = substituted(full, alpha * b)
    u, terms, factor = unit(dtype), n + 4, 1.0
    if dtype.is_complex:
        terms, factor = 4 * n + 8, 2.0
    depth = np.abs(inverse) @ np.abs(full)
    within_range(dtype, depth @ np.abs(exact), depth @ np.abs(inverse) @ np.abs(alpha * b))
    stored = unit_roundoff(dtype) if dtype in HALF else 0.0
    tiny = torch.finfo(dtype).smallest_normal * (1 + depth @ np.ones_like(np.abs(b)) * 8 * max(n, 1))
    host = factor * terms * u * (depth @ np.abs(exact)) * 1.01 + stored * np.abs(exact) + tiny
    terms, factor = (4 * n + 136, 4.0) if dtype.is_complex else (2 * n + 132, 1.0)
    size = depth @ np.abs(inverse) @ np.abs(alpha * b)
    kernel = factor * terms * u / (1 - terms * u) * size + stored * np.abs(exact) + tiny
    flip = (lambda x: narrow(x.T)) if right else narrow
    options = {"kernels": "maybe", "magnitudes": (2 * n + 128, flip(size), flip(tiny))}
    return Trial(
        public(name), args, flags, lambda: flip(exact), lambda _: flip(host), lambda _: flip(kernel), **options
    )


def substituted(full: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Solve a triangular system row by row in extended precision."""
    n, x = full.shape[0], np.array(b)
    is_lower = not np.any(np.triu(full, 1))
    for i in range(n) if is_lower else reversed(range(n)):
        rest = slice(0, i) if is_lower else slice(i + 1, n)
        x[i] = (x[i] - full[i, rest] @ x[rest]) / full[i, i]
    return x


@spec("trnblas.dot", "trnblas.dotu", "trnblas.dotc", promise="`g(N) |x| . |y|`", when=FINITE)
def dot(draw: Draw, name: str) -> Trial:
    dtype, n = draw.dtype(*DTYPES), draw.size(0, 513)
    x, y = draw.tensor((n,), dtype), draw.tensor((n,), dtype)
    left = np.conj(wide(x)) if name == "trnblas.dotc" else wide(x)
    return product(name, dtype, (x, y), left, wide(y), terms=max(n, 1))


@spec("trnblas.nrm2", "trnblas.asum", promise="`g(2 N)` relative", when="a result inside the dtype's range")
def norms(draw: Draw, name: str) -> Trial:
    dtype, n = draw.dtype(*REAL, *COMPLEX), draw.size(0, 513)
    x = draw.tensor((n,), dtype)
    values = wide(x)
    parts = np.concatenate([values.real, values.imag]) if dtype.is_complex else values
    exact = np.sqrt(np.sum(np.abs(values) ** 2)) if name.endswith("nrm2") else np.sum(np.abs(parts))
    bound = summed(2 * n, np.abs(exact), exact, dtype)
    options = {
        "kernels": "maybe",
        "carries": True,
        "magnitudes": (n, np.abs(exact), torch.finfo(dtype).smallest_normal),
    }
    return Trial(public(name), (x,), {}, lambda: narrow(exact), lambda _: bound, **options)
