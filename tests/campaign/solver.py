"""trnsolver, direct: residuals in extended precision, in units of ``N u norm(a)``, at most the 20 that are stated."""

import numpy as np
import torch

import trnsolver
from tests.campaign.draw import COMPLEX, REAL, Draw
from tests.campaign.oracles import narrow, spectral, unit, unread, wide
from tests.campaign.trial import EXEMPT, Outside, Trial, public, spec

EXEMPT.update({"trnsolver.get_backend": "a setting", "trnsolver.set_backend": "a setting"})
DTYPES = (*REAL, *REAL, *COMPLEX)
MODERATE = ("gaussian", "gaussian", "integers", "ramp", "spike", "alternating", "constant")
REGULAR = "regular matrices; condition as stated"


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(x, -1, -2))


def within(error: np.ndarray, limit: float, what: str, dtype: torch.dtype) -> None:
    size = spectral(error)
    assert size <= limit + 1e3 * torch.finfo(dtype).smallest_normal, f"{what}: {size:.3g}, stated {limit:.3g}"


def parts(result) -> tuple[np.ndarray, ...]:
    return tuple(wide(torch.as_tensor(x)) for x in result)


def matrix(draw: Draw, m: int, n: int, dtype: torch.dtype, *kinds: str) -> torch.Tensor:
    """Any matrix, sometimes of low rank or with rows of very different sizes."""
    kind = draw.among(*(kinds or (*MODERATE, "graded", "scaled", "low rank")))
    if kind != "low rank":
        return draw.tensor((m, n), dtype, kind=kind)
    rank = max(0, min(m, n) // 2)
    factor = np.random.default_rng(draw.seedling()).normal(size=(rank, n))
    return draw.tensor((m, n), dtype, kind="gaussian", change=lambda v: v[:, :rank] @ factor)


def regular(draw: Draw, n: int, dtype: torch.dtype) -> torch.Tensor:
    """A matrix of moderate condition."""
    return draw.tensor((n, n), dtype, kind=draw.among(*MODERATE), change=lambda v: v / _largest(v) + 2 * _shifts(n))


def _largest(values: np.ndarray) -> float:
    return float(np.max(np.abs(values), initial=1e-30)) * max(1.0, values.shape[-1]) ** 0.5


def _shifts(n: int) -> np.ndarray:
    return np.eye(n) * np.where(np.arange(n) % 3, 1.0, -1.3) if n else np.eye(0)


def definite(draw: Draw, n: int, dtype: torch.dtype, ratio: float = 1e3) -> torch.Tensor:
    """Hermitian positive definite, with condition numbers up to about ``ratio``."""

    def change(v):
        v = v / _largest(v)
        return v @ adjoint(v) + np.eye(n) / draw.among(2.0, ratio)

    return draw.tensor((n, n), dtype, kind=draw.among("gaussian", "integers", "spike", "constant"), change=change)


def with_spectrum(draw: Draw, n: int, dtype: torch.dtype) -> torch.Tensor:
    """Hermitian, of drawn eigenvalues: in a random basis, or two by two, so that most of it is zero."""
    values, whole = draw.spectrum(n), draw.chance(0.5)

    def change(v):
        if n == 0 or whole:
            q = np.linalg.qr(v)[0] if n else v
        else:
            turn = np.kron(np.eye((n + 1) // 2), np.array([[0.8, -0.6], [0.6, 0.8]]))[:n, :n]
            q = np.linalg.qr(turn)[0][np.random.default_rng(n).permutation(n)]
        a = (q * values) @ adjoint(q)
        return 0.5 * (a + adjoint(a))

    return draw.tensor((n, n), dtype, kind="gaussian", change=change)


def hermitian(draw: Draw, n: int, dtype: torch.dtype) -> torch.Tensor:
    kind = draw.among(*MODERATE, "graded", "scaled", "spectrum", "spectrum")
    if kind == "spectrum":
        return with_spectrum(draw, n, dtype)
    return draw.tensor((n, n), dtype, kind=kind, change=lambda v: v + adjoint(v))


# functions of one matrix, and those whose trials read shapes of their own
ALONE = {"matrix_rank", "null_space", "orth", "cond", "cond_estimate", "solve_tridiagonal"}
ALONE |= {"cg", "block_cg", "bicgstab", "gmres", "minres", "chebyshev", "lsqr", "lsmr"}
ALONE |= {"lanczos", "arnoldi", "davidson", "lobpcg", "svd_randomized", "eigh_randomized", "trace"}


def judged(draw: Draw, name: str, args: tuple, check, kwargs=None, **options) -> Trial:
    """A trial whose result has to have a property; sometimes as both ends of a batch of three."""
    options = {"kernels": "maybe", "simulated": 0.05, **options}
    function, kwargs = public(name), kwargs or {}
    if name.split(".")[1] in ALONE or not draw.chance(0.25):
        return Trial(function, args, kwargs, check=lambda result, kernel: check(result), **options)
    draw.log.append("a batch of three")
    first = next(i for i, x in enumerate(args) if isinstance(x, torch.Tensor))
    stacked = [
        torch.stack([x, x * 2 if i == first else x, x]) if isinstance(x, torch.Tensor) else x
        for i, x in enumerate(args)
    ]

    def ends(result, kernel):
        for slot in (0, 2):
            if isinstance(result, torch.Tensor | np.ndarray):
                check(result[slot])
            else:
                check(type(result)(*(x[slot] if x.shape[:1] == (3,) else x for x in result)))

    return Trial(function, tuple(stacked), kwargs, check=ends, **{**options, "simulated": 0.2})


@spec("trnsolver.cholesky", promise="`norm(l l* - a) <= 20 N u norm(a)`", when="positive definite")
def cholesky(draw: Draw) -> Trial:
    dtype, n, upper = draw.dtype(*DTYPES), draw.size(0, 129), draw.chance(0.5)
    a = definite(draw, n, dtype)
    whole = wide(a)
    unread(draw, a, not upper)

    def check(result):
        (factor,) = parts((result,))
        lower = adjoint(factor) if upper else factor
        assert not np.any(np.triu(lower, 1)), "not triangular"
        within(lower @ adjoint(lower) - whole, 20 * n * unit(dtype) * spectral(whole), "l l* - a", dtype)

    # the gradient is that of Hermitian changes, as torch's is; differences of single entries are others
    return judged(draw, "trnsolver.cholesky", (a,), check, {"upper": upper}, differentiable=False)


@spec(
    *(f"trnsolver.{stem}" for stem in ("solve_spd", "inv_spd", "cholesky_solve", "cholesky_inverse", "inv_sqrt_spd")),
    promise="residual `20 N u (norm(a) norm(x) + norm(b))`; inverses `20 N u norm(x) norm(a)`; root `20 N u cond(a)`",
    when="positive definite",
)  # fmt: skip
def positive(draw: Draw, name: str) -> Trial:
    stem, dtype, n, k = name.split(".")[1], draw.dtype(*DTYPES), draw.size(0, 97), draw.size(0, 9)
    a, b, u = definite(draw, n, dtype, 100.0), draw.tensor((n, k), dtype, kind="gaussian"), unit(dtype)
    whole = wide(a)
    if stem.startswith("cholesky"):
        factor = torch.linalg.cholesky(a)
        whole = wide(factor) @ adjoint(wide(factor))
        args = (b, factor) if stem == "cholesky_solve" else (factor,)
    else:
        args = (a, b) if stem == "solve_spd" else (a,)
        if stem != "inv_sqrt_spd":
            unread(draw, a, True)

    def check(result):
        (x,) = parts((result,))
        if stem == "inv_sqrt_spd":
            condition = float(np.linalg.cond(narrow(whole))) if n else 1.0
            return within(x @ whole @ x - np.eye(n), 20 * n * u * condition, "x a x - 1", dtype)
        if stem in ("inv_spd", "cholesky_inverse"):
            return within(x @ whole - np.eye(n), 20 * n * u * spectral(x) * spectral(whole), "x a - 1", dtype)
        size = spectral(whole) * spectral(x) + spectral(wide(b))
        return within(wide(b) - whole @ x, 20 * n * u * size, "b - a x", dtype)

    return judged(draw, name, args, check, differentiable=False)


@spec("trnsolver.lu", "trnsolver.lu_factor", promise="`norm(l u - p.T a) <= 20 N u g norm(a)`, g the growth of entries")
def lu(draw: Draw, name: str) -> Trial:
    dtype, m, n = draw.dtype(*DTYPES), draw.size(0, 97), draw.size(0, 97)
    a = matrix(draw, m, n, dtype)
    k = min(m, n)

    def check(result):
        if name.endswith("factor"):
            factors, pivots = torch.as_tensor(result[0]), torch.as_tensor(result[1])
            p, lower, upper = parts(torch.lu_unpack(factors, pivots))
        else:
            p, lower, upper = parts(result)
        assert float(np.max(np.abs(lower), initial=0.0)) <= 1 + 1e-5 or dtype.is_complex
        growth = max(
            1.0, float(np.max(np.abs(upper), initial=0.0)) / max(float(np.max(np.abs(wide(a)), initial=0.0)), 1e-300)
        )
        limit = 20 * max(m, n) * unit(dtype) * growth * spectral(wide(a))
        within(p @ lower @ upper - wide(a), limit, "p l u - a", dtype)
        assert k == lower.shape[-1]

    # of a singular matrix the factors' gradient does not exist
    return judged(draw, name, (a,), check, differentiable=False)


@spec(
    "trnsolver.solve", "trnsolver.lu_solve", "trnsolver.lu_inverse", "trnsolver.inv",
    promise="residual `20 N u g (norm(a) norm(x) + norm(b))`", when=REGULAR,
)  # fmt: skip
def general(draw: Draw, name: str) -> Trial:
    stem, dtype, n, k = name.split(".")[1], draw.dtype(*DTYPES), draw.size(0, 97), draw.size(0, 9)
    a, b, left = regular(draw, n, dtype), draw.tensor((n, k), dtype), draw.chance(0.7)
    whole, kwargs = wide(a), {}
    if stem.startswith("lu"):
        factors, pivots = torch.linalg.lu_factor(a)
        p, lower, upper = parts(torch.lu_unpack(factors, pivots))
        whole = p @ lower @ upper
    if stem in ("solve", "lu_solve"):
        b = b if left else b.mT
        args = (a, b) if stem == "solve" else (factors, pivots, b)
        kwargs = {"left": left}
    else:
        args = (a,) if stem == "inv" else (factors, pivots)

    def check(result):
        (x,) = parts((result,))
        right = wide(b) if stem in ("solve", "lu_solve") else np.eye(n)
        error = right - (whole @ x if left or stem in ("inv", "lu_inverse") else x @ whole)
        size = spectral(whole) * spectral(x) + spectral(right)
        # entries of such matrices grow by less than 4; columns of inverses are solutions of their own
        within(error, 4 * 20 * max(n, 1) * unit(dtype) * size, "b - a x", dtype)

    return judged(draw, name, args, check, kwargs)


@spec(
    "trnsolver.solve_triangular", "trnsolver.inv_triangular",
    promise="residual `20 N u (norm(a) norm(x) + norm(b))`", when="diagonals without zeros",
)  # fmt: skip
def triangular(draw: Draw, name: str) -> Trial:
    dtype, n, k, upper, ones = (
        draw.dtype(*DTYPES),
        draw.size(0, 129),
        draw.size(0, 9),
        draw.chance(0.5),
        draw.chance(0.3),
    )
    a = draw.tensor((n, n), dtype, change=lambda v: v / (_largest(v) * max(n, 1) ** 0.5) + _shifts(n))
    whole = np.triu(wide(a)) if upper else np.tril(wide(a))
    if ones:
        whole = whole - whole * np.eye(n) + np.eye(n)
    unread(draw, a, not upper, diagonal=ones)
    b, solve = draw.tensor((n, k), dtype), name.endswith("solve_triangular")
    kwargs = {"upper": upper, "unitriangular": ones} if solve else {"lower": not upper, "unit": ones}

    def check(result):
        (x,) = parts((result,))
        right = wide(b) if solve else np.eye(n)
        size = spectral(whole) * spectral(x) + (spectral(right) if solve else 0.0)
        within(right - whole @ x, 20 * n * unit(dtype) * size, "b - a x", dtype)

    return judged(draw, name, (a, b) if solve else (a,), check, kwargs)


@spec(
    "trnsolver.qr", "trnsolver.qr_pivoted", "trnsolver.geqrf", "trnsolver.householder_product", "trnsolver.ormqr",
    promise="`norm(q r - a) <= 20 M u norm(a)`, `norm(q* q - 1) <= 20 M u`", when="any matrix",
)  # fmt: skip
def qr(draw: Draw, name: str) -> Trial:
    stem, dtype = name.split(".")[1], draw.dtype(*DTYPES)
    m, n = draw.size(0, 97), draw.size(0, 65)
    if stem == "householder_product":
        m, n = max(m, n), min(m, n)
    a, u = matrix(draw, m, n, dtype), unit(dtype)
    limit = 20 * max(m, n, 1) * u
    if stem in ("householder_product", "ormqr"):
        factors, tau = torch.geqrf(a)
        if not (factors.isfinite().all() and tau.isfinite().all()):
            # reflections of equal elements may underflow in LAPACK
            raise Outside
        other = draw.tensor((m, draw.size(0, 9)), dtype, kind="gaussian")

        def check(result):
            (x,) = parts((result,))
            if stem == "householder_product":
                within(adjoint(x) @ x - np.eye(n), limit, "q* q - 1", dtype)
                return within(x @ np.triu(wide(factors))[:n] - wide(a), limit * spectral(wide(a)), "q r - a", dtype)
            exact = reflected(wide(factors), wide(tau), wide(other))
            return within(x - exact, 20 * max(m, 1) * u * spectral(wide(other)), "q other", dtype)

        return judged(
            draw, name, (factors, tau) if stem != "ormqr" else (factors, tau, other), check, differentiable=False
        )
    mode = draw.among("reduced", "complete") if stem != "geqrf" else None

    def check(result):
        if stem == "geqrf":
            q = wide(torch.linalg.householder_product(torch.as_tensor(result[0])[:, :m], torch.as_tensor(result[1])))
            r = np.triu(wide(torch.as_tensor(result[0])))[: q.shape[1]]
        else:
            q, r = parts(result[:2])
        whole = wide(a)
        if stem == "qr_pivoted":
            whole = whole[:, torch.as_tensor(result[2]).numpy()]
            lengths = np.abs(np.diagonal(r))
            assert np.all(lengths[1:] <= lengths[:-1] + limit * spectral(whole)), "the diagonal does not descend"
        assert not np.any(np.tril(r, -1)), "r is not triangular"
        within(adjoint(q) @ q - np.eye(q.shape[1]), limit, "q* q - 1", dtype)
        within(q @ r - whole, limit * spectral(whole), "q r - a", dtype)

    return judged(draw, name, (a,), check, {} if mode is None else {"mode": mode}, differentiable=False)


def reflected(factors: np.ndarray, tau: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Q times ``x``, reflector by reflector, in extended precision."""
    for i in reversed(range(len(tau))):
        v = np.concatenate([np.zeros(i), [1.0], factors[i + 1 :, i]])[:, None]
        x = x - tau[i] * v @ (adjoint(v) @ x)
    return x


@spec(
    "trnsolver.eigh", "trnsolver.eigvalsh",
    promise="`norm(a - v w v*) <= 20 N u norm(a)`, `norm(v* v - 1) <= 20 N u`", when="repeated values included",
)  # fmt: skip
def eigh(draw: Draw, name: str) -> Trial:
    dtype, n = draw.dtype(*DTYPES), draw.size(0, 65)
    a, uplo = hermitian(draw, n, dtype), draw.among("L", "U")
    whole, limit = wide(a), 20 * max(n, 1) * unit(dtype)
    unread(draw, a, uplo == "L")

    def check(result):
        if name.endswith("eigvalsh"):
            (w,) = parts((result,))
            exact = np.linalg.eigvalsh(narrow(whole))
            return within((w - exact)[:, None], (limit + 20 * n * 2.0**-53) * n**0.5 * spectral(whole), "values", dtype)
        w, v = parts(result)
        assert np.all(np.diff(w) >= 0), "values do not ascend"
        within(adjoint(v) @ v - np.eye(n), limit, "v* v - 1", dtype)
        return within((v * w) @ adjoint(v) - whole, limit * spectral(whole), "v w v* - a", dtype)

    return judged(draw, name, (a,), check, {"UPLO": uplo}, differentiable=False)


@spec("trnsolver.eigh_generalized", promise="that of eigh times the condition number of b", when="b positive definite")
def generalized(draw: Draw) -> Trial:
    dtype, n, kind = draw.dtype(*DTYPES), draw.size(0, 33), draw.among(1, 2, 3)
    a, b = draw.tensor((n, n), dtype, kind="gaussian", change=lambda v: v + adjoint(v)), definite(draw, n, dtype, 10.0)
    left, right = wide(a), wide(b)
    condition = float(np.linalg.cond(narrow(right))) if n else 1.0
    unread(draw, a, True)
    unread(draw, b, True)

    def check(result):
        w, v = parts(result)
        error = {1: left @ v - right @ v * w, 2: left @ right @ v - v * w, 3: right @ left @ v - v * w}[kind]
        size = spectral(left) * spectral(v) * max(1.0, spectral(right)) * condition
        within(error, 20 * max(n, 1) * unit(dtype) * size, "residual", dtype)

    return judged(draw, "trnsolver.eigh_generalized", (a, b), check, {"kind": kind}, differentiable=False)


@spec(
    "trnsolver.svd", "trnsolver.svdvals", "trnsolver.polar",
    promise="`norm(u s vh - a) <= 20 max(M, N) u norm(a)`; orthonormal to `20 max(M, N) u`", when="any matrix",
)  # fmt: skip
def svd(draw: Draw, name: str) -> Trial:
    stem, dtype, m, n = name.split(".")[1], draw.dtype(*DTYPES), draw.size(0, 65), draw.size(0, 65)
    a, full = matrix(draw, m, n, dtype), draw.chance(0.5)
    whole, limit = wide(a), 20 * max(m, n, 1) * unit(dtype)

    def check(result):
        if stem == "svdvals":
            (s,) = parts((result,))
            exact = np.linalg.svd(narrow(whole), compute_uv=False)
            return within(
                (s - exact)[:, None],
                (limit + 20 * max(m, n) * 2.0**-53) * max(1, min(m, n)) ** 0.5 * spectral(whole),
                "s",
                dtype,
            )
        if stem == "polar":
            u, p = parts(result)
            small = adjoint(u) @ u if m >= n else u @ adjoint(u)
            within(small - np.eye(min(m, n)), limit, "u* u - 1", dtype)
            return within(u @ p - whole, 4 * limit * spectral(whole), "u p - a", dtype)
        u, s, vh = parts(result)
        assert np.all(np.diff(s, append=0.0) <= 0), "values do not descend to zero"
        k = min(m, n)
        within(adjoint(u) @ u - np.eye(u.shape[1]), limit, "u* u - 1", dtype)
        within(vh @ adjoint(vh) - np.eye(vh.shape[0]), limit, "v v* - 1", dtype)
        return within((u[:, :k] * s) @ vh[:k] - whole, limit * spectral(whole), "u s vh - a", dtype)

    return judged(draw, name, (a,), check, {"full_matrices": full} if stem == "svd" else {}, differentiable=False)


@spec("trnsolver.ldl", promise="`norm(l d l* - a[order]) <= 20 N u norm(l)^2 norm(d)`", when="Hermitian or symmetric")
def ldl(draw: Draw) -> Trial:
    dtype, n, conjugated = draw.dtype(*DTYPES), draw.size(0, 65), draw.chance(0.6)
    a = hermitian(draw, n, dtype)
    if not conjugated:
        a = draw.laid_out((a + a.mT) / 2)
    whole = wide(a)
    unread(draw, a, True)

    def check(result):
        lower, d = parts(result[:2])
        order = torch.as_tensor(result[2]).numpy()
        other = adjoint(lower) if conjugated else lower.T
        limit = 20 * max(n, 1) * unit(dtype) * spectral(lower) ** 2 * spectral(d)
        within(lower @ d @ other - whole[np.ix_(order, order)], limit, "l d l* - a", dtype)

    return judged(draw, "trnsolver.ldl", (a,), check, {"hermitian": conjugated}, differentiable=False)


@spec("trnsolver.ldl_solve", "trnsolver.ldl_inverse", promise="as much times `norm(x)`", when=REGULAR)
def ldl_solution(draw: Draw, name: str) -> Trial:
    dtype, n = draw.dtype(*DTYPES), draw.size(1, 49)
    a = draw.tensor((n, n), dtype, kind="gaussian", change=lambda v: (v + adjoint(v)) / _largest(v) + 2 * _shifts(n))
    made = trnsolver.ldl(a)
    lower, d = parts(made[:2])
    whole, b = wide(a), draw.tensor((n, draw.size(0, 9)), dtype, kind="gaussian")
    solve = name.endswith("solve")

    def check(result):
        (x,) = parts((result,))
        right = wide(b) if solve else np.eye(n)
        size = spectral(lower) ** 2 * spectral(d) * spectral(x) + spectral(right)
        within(whole @ x - right, 2 * 20 * n * unit(dtype) * size, "a x - b", dtype)

    return judged(draw, name, (*made, b) if solve else tuple(made), check, differentiable=False)


@spec(
    "trnsolver.solve_banded",
    "trnsolver.solve_tridiagonal",
    promise="`20 (KL + KU + 1) u g norm(a) norm(x)`",
    when=REGULAR,
)
def banded(draw: Draw, name: str) -> Trial:
    dtype, n, k = draw.dtype(*DTYPES), draw.size(1, 129), draw.size(0, 9)
    below, above = (
        (1, 1) if name.endswith("tridiagonal") else (min(draw.size(0, 5), n - 1), min(draw.size(0, 5), n - 1))
    )
    b = draw.tensor((n, k), dtype, kind="gaussian")
    ab = draw.tensor((below + above + 1, n), dtype, change=lambda v: _band(v, above))
    full = np.zeros((n, n), wide(ab).dtype)
    for i in range(n):
        for j in range(max(0, i - below), min(n, i + above + 1)):
            full[i, j] = wide(ab)[above + i - j, j]
    args = ((below, above), ab, b)
    if name.endswith("tridiagonal"):
        args = (ab[2, : n - 1], ab[1], ab[0, 1:], b)

    def check(result):
        (x,) = parts((result,))
        size = spectral(full) * spectral(x) + spectral(wide(b))
        within(full @ x - wide(b), 2 * 20 * (below + above + 1) * unit(dtype) * size, "a x - b", dtype)

    return judged(draw, name, args, check)


def _band(values: np.ndarray, main: int) -> np.ndarray:
    values = values / (np.max(np.abs(values), initial=1e-30) * values.shape[0])
    values[main] = np.where(np.arange(values.shape[1]) % 3, 2.0, -2.5)
    return values


@spec(
    "trnsolver.det", "trnsolver.slogdet", promise="the determinant of a matrix `20 N u norm(a)` away", when=REGULAR,
)  # fmt: skip
def determinant(draw: Draw, name: str) -> Trial:
    dtype, n = draw.dtype(*DTYPES), draw.size(0, 33)
    a = regular(draw, n, dtype)
    whole = wide(a)
    inverse = narrow(np.linalg.inv(narrow(whole))) if n else np.zeros((0, 0))
    exact = elimination(whole)
    relative = 4 * 20 * max(n, 1) * unit(dtype) * n * max(1.0, spectral(whole) * spectral(inverse))
    if relative > 0.1 or not 1e-30 < abs(exact) < 1e30:
        raise Outside

    def check(result):
        if name.endswith("slogdet"):
            sign, logarithm = (complex(torch.as_tensor(x)) for x in result)
            assert abs(logarithm.real - float(np.log(np.abs(exact)))) <= 2 * relative + 4 * unit(dtype) * abs(logarithm)
            assert abs(sign - complex(exact / np.abs(exact))) <= 2 * relative
        else:
            assert abs(complex(torch.as_tensor(result)) - complex(exact)) <= relative * abs(complex(exact))

    return judged(draw, name, (a,), check)


def elimination(a: np.ndarray):
    """The determinant in extended precision."""
    a, value = np.array(a), a.dtype.type(1)
    for i in range(len(a)):
        pivot = i + int(np.argmax(np.abs(a[i:, i])))
        if pivot != i:
            a[[i, pivot]] = a[[pivot, i]]
            value = -value
        value = value * a[i, i]
        a[i + 1 :] -= np.outer(a[i + 1 :, i] / a[i, i], a[i])
    return value
