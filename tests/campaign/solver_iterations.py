"""trnsolver: least squares, general eigenproblems, functions of matrices, and iterations, which promise residuals."""

import mpmath
import numpy as np
import scipy.linalg
import torch

import trnsci
import trnsolver
from tests.campaign.draw import COMPLEX, REAL, Draw
from tests.campaign.oracles import narrow, spectral, unit, wide
from tests.campaign.solver import DTYPES, REGULAR, adjoint, definite, judged, parts, regular, with_spectrum, within
from tests.campaign.trial import Outside, Trial, public, spec

RESIDUAL = "the residual asked for, or `converged` is false"


def apart(draw: Draw, m: int, n: int, dtype: torch.dtype) -> tuple[torch.Tensor, int]:
    """A matrix whose singular values are above 1/4 or zero, and its rank."""
    k = min(m, n)
    rank = draw.among(k, k, k // 2)
    rng = np.random.default_rng(draw.seedling())
    left, right = (np.linalg.qr(rng.normal(size=(size, size)))[0] if size else np.zeros((0, 0)) for size in (m, n))
    values = rng.uniform(0.25, 4.0, rank)
    made = (left[:, :rank] * values) @ right[:rank]
    return draw.tensor((m, n), dtype, kind="gaussian", change=lambda _: made), rank


@spec(
    "trnsolver.lstsq",
    promise="solves a problem within `20 max(M, N) u norm(a)`",
    when="singular values above 1/4 or zero",
)
def lstsq(draw: Draw) -> Trial:
    dtype, m, n, k = draw.dtype(*DTYPES), draw.size(1, 65), draw.size(1, 65), draw.size(1, 5)
    (a, rank), b = apart(draw, m, n, dtype), draw.tensor((m, k), dtype, kind="gaussian")
    # rounding of the matrix to its dtype leaves singular values that do not count
    exact, *_ = np.linalg.lstsq(narrow(wide(a)), narrow(wide(b)), rcond=1e-3)

    def check(result):
        assert int(torch.as_tensor(result.rank)) == rank, (int(torch.as_tensor(result.rank)), rank)
        (x,) = parts((result.solution,))
        # condition at most 16, counted twice where a residual is left
        limit = 20 * max(m, n) * unit(dtype) * 16 * 17 * (spectral(exact) + spectral(narrow(wide(b))))
        within(x - exact, limit, "x", dtype)

    return judged(draw, "trnsolver.lstsq", (a, b), check, differentiable=False, compiles=False)


@spec(
    "trnsolver.pinv", "trnsolver.matrix_rank", "trnsolver.null_space", "trnsolver.orth", "trnsolver.cond",
    promise="`20 max(M, N) u c norm(exact)`; ranks exact, bases orthonormal", when="singular values above 1/4 or zero",
)  # fmt: skip
def rank_of(draw: Draw, name: str) -> Trial:
    stem, dtype, m, n = name.split(".")[1], draw.dtype(*DTYPES), draw.size(1, 49), draw.size(1, 49)
    a, rank = apart(draw, m, n, dtype)
    whole, limit = narrow(wide(a)), 20 * max(m, n) * unit(dtype)
    if stem == "cond" and rank < min(m, n):
        raise Outside
    kwargs = {} if stem in ("cond",) else {"rcond": 1e-3}

    def check(result):
        if stem == "matrix_rank":
            assert int(torch.as_tensor(result)) == rank
            return None
        (x,) = parts((result,))
        if stem == "pinv":
            exact = np.linalg.pinv(whole, rcond=1e-3)
            return within(x - exact, limit * 17 * max(spectral(exact), 1e-30), "pinv", dtype)
        if stem == "cond":
            exact = np.linalg.cond(whole)
            return within(np.array([[float(x) - exact]]), 2 * limit * exact * exact, "cond", dtype)
        assert x.shape[1] == (n - rank if stem == "null_space" else rank), x.shape
        within(adjoint(x) @ x - np.eye(x.shape[1]), limit, "x* x - 1", dtype)
        if stem == "null_space":
            return within(whole @ x, limit * 8, "a x", dtype)
        return within(x @ (adjoint(x) @ whole) - whole, limit * 17, "x x* a - a", dtype)

    return judged(draw, name, (a,), check, kwargs, differentiable=False, compiles=False)


@spec("trnsolver.cond_estimate", promise="a lower bound, within a factor of 10 here", when=REGULAR)
def estimate(draw: Draw) -> Trial:
    dtype, n = draw.dtype(*DTYPES), draw.size(1, 65)
    a = regular(draw, n, dtype)
    exact = np.linalg.cond(narrow(wide(a)), 1)

    def check(result):
        value = float(torch.as_tensor(result))
        slack = 1 + 100 * n * unit(dtype) * exact
        assert exact / 10 / slack <= value <= exact * slack, (value, exact)

    return judged(draw, "trnsolver.cond_estimate", (a,), check, differentiable=False, compiles=False)


@spec(
    "trnsolver.eig", "trnsolver.eigvals", "trnsolver.schur", "trnsolver.hessenberg",
    promise="`norm(a v - v w) <= 20 N u norm(a)`; Schur and Hessenberg forms multiply back within the same",
    when="rows and columns of similar norms",
)  # fmt: skip
def eig(draw: Draw, name: str) -> Trial:
    stem, dtype, n = name.split(".")[1], draw.dtype(*DTYPES), draw.size(0, 49)
    a = draw.tensor((n, n), dtype, kind=draw.among("gaussian", "gaussian", "integers", "constant", "alternating"))
    whole, limit = wide(a), 20 * max(n, 1) * unit(dtype)

    def check(result):
        size = spectral(whole)
        if stem == "eigvals":
            (w,) = parts((result,))
            # each is an eigenvalue of a matrix that near: a - w has a singular value that small
            for value in narrow(w):
                least = np.linalg.svd(narrow(whole) - value * np.eye(n), compute_uv=False)[-1]
                assert least <= (limit + 20 * n * 2.0**-53) * size + 1e-300, (value, least, limit * size)
            return None
        if stem == "eig":
            w, v = parts(result)
            return within(whole @ v - v * w, limit * size * max(1.0, spectral(v)), "a v - v w", dtype)
        t, z = parts(result[:2] if stem == "schur" else (result.h, result.q))
        assert not np.any(np.tril(t, -2)), "not reduced"
        within(adjoint(z) @ z - np.eye(n), limit, "z* z - 1", dtype)
        return within(z @ t @ adjoint(z) - whole, limit * size, "z t z* - a", dtype)

    return judged(draw, name, (a,), check, differentiable=False, compiles=False)


@spec("trnsolver.expm", promise="`20 N u max(1, norm(a)) norm(exact)`", when="normal matrices")
def expm(draw: Draw) -> Trial:
    dtype, n = draw.dtype(*DTYPES), draw.size(0, 17)
    # twice the matrix, which a batch holds, has an exponential in float32
    scale = draw.among(1e-20, 0.1, 1.0, 4.0)
    a = draw.tensor((n, n), dtype, kind="gaussian", change=lambda v: scale * (v + adjoint(v)) / max(n, 1))
    # of a Hermitian matrix, in extended precision
    with mpmath.workdps(40):
        values = mpmath.expm(mpmath.matrix(narrow(wide(a)).tolist()), method="taylor") if n else []
        exact = np.array([[complex(values[i, j]) for j in range(n)] for i in range(n)]).reshape(n, n)

    def check(result):
        (x,) = parts((result,))
        limit = 20 * max(n, 1) * unit(dtype) * max(1.0, spectral(wide(a))) * spectral(exact)
        within(x - exact, limit, "expm", dtype)

    return judged(draw, "trnsolver.expm", (a,), check)


@spec("trnsolver.trace", promise="`20 N u` of the sum of moduli; twelve deviations where it is sampled")
def trace(draw: Draw) -> Trial:
    dtype, n = draw.dtype(*DTYPES), draw.size(1, 65)
    a = draw.tensor((n, n), dtype, kind="gaussian", change=lambda v: v + adjoint(v))
    products, method = draw.among(6, 12, 30, 70), draw.among("hutch++", "hutchinson")
    exact = np.trace(narrow(wide(a)))

    def check(result):
        value, error = parts((result.value, result.error))
        # Hutchinson: the variance of one sample is at most 2 norm(a)^2, also in what hutch++ leaves
        samples = products if method == "hutchinson" else products - 2 * (products // 3)
        deviation = 0.0 if products >= n else np.linalg.norm(narrow(wide(a))) * (2 / samples) ** 0.5
        rounding = 20 * n * unit(dtype) * max(spectral(wide(a)) * n, 1e-300)
        within(np.atleast_2d(value - exact), 12 * deviation + rounding, "trace", dtype)
        assert np.isfinite(error), f"error: {error}"

    given = {"products": products, "method": method, "seed": draw.among(0, 1, 2)}
    options = {"differentiable": False, "compiles": False}
    return judged(draw, "trnsolver.trace", (a,), check, given, **options)


@spec(
    "trnsolver.sqrtm", "trnsolver.logm", "trnsolver.sign",
    promise="`norm(x x - a) <= 20 N u norm(x)^2`; logarithm `20 N u cond(z) norm(a)`", when="no value near the cut",
)  # fmt: skip
def roots(draw: Draw, name: str) -> Trial:
    stem, dtype, n = name.split(".")[1], draw.dtype(*DTYPES), draw.size(1, 33)
    definite_one = draw.chance(0.5)
    a = definite(draw, n, dtype, 100.0) if definite_one or stem == "logm" else regular(draw, n, dtype)
    whole, limit = wide(a), 20 * n * unit(dtype)
    values = np.linalg.eigvals(narrow(whole))
    if not definite_one and stem != "logm" and np.min(np.abs(values.real)) < 0.05 * np.max(np.abs(values)):
        raise Outside
    if stem == "sqrtm" and np.any((values.real < 0) & (np.abs(values.imag) < 0.1 * np.abs(values))):
        raise Outside

    def check(result):
        (x,) = parts((result,))
        if stem == "sqrtm":
            return within(x @ x - whole, limit * spectral(x) ** 2, "x x - a", dtype)
        if stem == "logm":
            exact = scipy.linalg.expm(narrow(x))
            return within(
                exact - whole, (limit + 20 * n * 2.0**-53) * max(1.0, spectral(x)) * spectral(whole), "exp x - a", dtype
            )
        condition = np.linalg.cond(np.linalg.eig(narrow(whole))[1])
        return within(x @ x - np.eye(n), limit * condition**2 * 100, "s s - 1", dtype)

    return judged(draw, name, (a,), check, differentiable=False, compiles=False)


@spec(
    *(f"trnsolver.{stem}" for stem in ("cg", "block_cg", "bicgstab", "gmres", "minres", "chebyshev", "lsqr", "lsmr")),
    promise=RESIDUAL, when="Hermitian positive definite for cg and chebyshev",
)  # fmt: skip
def solved(draw: Draw, name: str) -> Trial:
    stem, dtype, n, k = name.split(".")[1], draw.dtype(*DTYPES), draw.size(1, 65), draw.among(1, 1, 3)
    a = definite(draw, n, dtype, 20.0) if stem in ("cg", "block_cg", "minres", "chebyshev") else regular(draw, n, dtype)
    b = draw.tensor((n, k) if k > 1 or draw.chance(0.5) else (n,), dtype)
    tol = draw.among(1e-2, 1e-4, 1e-5)
    kwargs = {"tol": tol}
    if stem == "chebyshev":
        values = np.linalg.eigvalsh(narrow(wide(a)))
        kwargs |= {"low": float(values[0]) * 0.99, "high": float(values[-1]) * 1.01}

    def check(result):
        (x,) = parts((result.x,))
        residual = np.sqrt(np.sum(np.abs(wide(b) - wide(a) @ x) ** 2, 0))
        size = np.sqrt(np.sum(np.abs(wide(b)) ** 2, 0))
        if not result.converged:
            # others may break down or stagnate; these do not, unless less is asked than rounding leaves
            left = n * unit(dtype) * spectral(wide(a)) * np.sqrt(np.sum(np.abs(x) ** 2, 0))
            steady = stem in ("cg", "lsqr", "lsmr") and np.all(left < 0.1 * tol * size)
            assert not steady, f"not converged: {result.residuals[-1]}"
            return
        slack = 20 * n * unit(dtype) * (spectral(wide(a)) * np.sqrt(np.sum(np.abs(x) ** 2, 0)) + size)
        if stem.startswith("ls"):
            gradient = np.sqrt(np.sum(np.abs(adjoint(wide(a)) @ (wide(b) - wide(a) @ x)) ** 2, 0))
            scale = spectral(wide(a)) * n**0.5
            assert np.all(
                (residual <= 1.01 * tol * size + slack) | (gradient <= 1.01 * tol * scale * residual + slack * scale)
            )
        else:
            assert np.all(residual <= 1.001 * tol * size + slack), float(np.max(residual / size))

    return judged(draw, name, (a, b), check, kwargs, differentiable=False, compiles=False)


@spec(
    *(f"trnsolver.{stem} with scales" for stem in ("cg", "block_cg", "bicgstab", "gmres", "minres", "lsqr", "lsmr")),
    promise="the residual asked for, or `converged` is false, or a typed error",
    when="matrices and functions of any scale, right-hand sides of any other",
)
def rescaled(draw: Draw, name: str) -> Trial:
    stem, dtype, n = name.split(" ")[0].split(".")[1], draw.among(torch.float32, torch.float64), draw.size(1, 33)
    far = 25 if dtype == torch.float32 else 200
    of_a, of_b = (10.0 ** draw.among(0, -far, far, far // 2) for _ in range(2))
    if not 1 / far < 1 + abs(np.log10(of_b) - np.log10(of_a)) < 1.3 * far:
        # the solution leaves the range
        raise Outside
    whole = definite(draw, n, torch.float64, 20.0)
    a, b = (whole * of_a).to(dtype), (draw.tensor((n,), torch.float64, kind="gaussian") * of_b).to(dtype)
    operand, options = draw.among("matrix", "function"), {"tol": 1e-4, "maxiter": 500}
    draw.log.append(f"{operand}: {of_a} x = {of_b}")

    def run(a, b):
        times = (lambda x: a @ x, lambda x: a.mT @ x)
        given = a if operand == "matrix" else times if stem in ("lsqr", "lsmr") else times[0]
        try:
            return getattr(trnsolver, stem)(given, b, **options)
        except trnsci.NotConverged:
            return None

    def check(result, kernel):
        if result is None or not result.converged:
            raise AssertionError("not converged")
        left, right = wide(a) / of_a, wide(b) / of_b
        x = wide(result.x) * np.longdouble(of_a) / np.longdouble(of_b)
        residual, size = (np.sqrt(np.sum(np.abs(v) ** 2)) for v in (right - left @ x, right))
        assert residual <= 1e-2 * size + 1e-30, f"claimed {result.residuals[-1]}, but {float(residual / (size or 1))}"

    return Trial(run, (a, b), check=check, kernels=False, differentiable=False, compiles=False, arrays=False)


@spec(
    "trnsolver.lanczos",
    "trnsolver.arnoldi",
    "trnsolver.davidson",
    "trnsolver.lobpcg",
    promise=f"{RESIDUAL}; those asked for, each as often as it is an eigenvalue",
    when="N at least 13",
)
def extreme(draw: Draw, name: str) -> Trial:
    stem, dtype, n = name.split(".")[1], draw.dtype(*REAL, *COMPLEX), draw.size(13, 129)
    if n < 13:
        raise Outside
    k, tol, easy = draw.among(1, 2, 3), draw.among(1e-2, 1e-4), draw.chance(0.5)
    if easy:
        spread = np.diag(np.linspace(1.0, 3.0, n) ** 2)
        a = draw.tensor((n, n), dtype, kind="gaussian", change=lambda v: (v + adjoint(v)) * 0.05 + spread)
    else:
        a, tol = with_spectrum(draw, n, dtype), draw.among(1e-4, 1e-5)
    args = (a, k)
    if stem == "lobpcg":
        args = (a, draw.tensor((n, k), dtype, kind="gaussian"))
    exact = np.linalg.eigvalsh(narrow(wide(a)))
    heights = {"lanczos": exact, "arnoldi": np.abs(exact)}.get(stem, -exact)

    def check(result):
        assert result.converged or not easy
        w, v = parts((result.values, result.vectors))
        size = float(np.max(np.abs(exact)))
        residual = np.sqrt(np.sum(np.abs(wide(a) @ v - v * w) ** 2, 0))
        slack = 20 * n * unit(dtype) * size
        assert not result.converged or np.all(residual <= 1.05 * tol * size + slack), residual / size
        # each is within its residual of an eigenvalue, and none that is better was missed
        assert np.all(np.min(np.abs(exact[:, None] - w[None].real), 0) <= residual + slack)
        best = {"lanczos": w.real, "arnoldi": np.abs(w)}.get(stem, -w.real)
        left = np.sort(heights)[-k:] - np.sort(best)
        assert not result.converged or np.all(np.abs(left) <= 4 * tol * size + slack), (w, exact)

    return judged(draw, name, args, check, {"tol": tol}, simulated=0.01, differentiable=False, compiles=False)


@spec(
    "trnsolver.svd_randomized", "trnsolver.eigh_randomized",
    promise="`error` bounds what is missed, with probability `1 - 10^-probes`", when="rank k and a small rest",
)  # fmt: skip
def randomized(draw: Draw, name: str) -> Trial:
    dtype, m, n, k = draw.dtype(*DTYPES), draw.size(1, 65), draw.size(1, 65), draw.among(1, 3, 5)
    if name.endswith("eigh_randomized"):
        m = n
    k = min(k, m, n)
    rng = np.random.default_rng(draw.seedling())
    left, right = rng.normal(size=(m, k)), rng.normal(size=(k, n))

    def change(v):
        made = left @ right + 1e-3 * v / max(m, n)
        return made + adjoint(made) if name.endswith("eigh_randomized") else made

    a = draw.tensor((m, n), dtype, kind="gaussian", change=change)
    k = min(2 * k, n) if name.endswith("eigh_randomized") else k

    def check(result):
        u, s, vh, error = parts((result.u, result.s, result.vh, result.error))
        missed = spectral(wide(a) - (u * s) @ vh)
        best = np.linalg.svd(narrow(wide(a)), compute_uv=False)
        least = best[k] if k < len(best) else 0.0
        slack = 40 * max(m, n) * unit(dtype) * spectral(wide(a))
        # what the space misses, and what is left out of the space
        assert missed <= float(error) + least + slack, (missed, float(error), least)

    return judged(draw, name, (a, k), check, differentiable=False, compiles=False)


PRECONDITIONERS = ("jacobi", "block_jacobi", "ssor", "ilu0", "ic0", "chebyshev")


@spec(
    *(f"trnsolver.{stem}_preconditioner" for stem in PRECONDITIONERS),
    promise="the stated operator, to `20 N u` times its condition", when="positive definite",
)  # fmt: skip
def preconditioner(draw: Draw, name: str) -> Trial:
    stem, dtype, n = name.split(".")[1].removesuffix("_preconditioner"), draw.dtype(*REAL), draw.size(1, 49)
    a = draw.tensor((n, n), dtype, kind="gaussian", change=lambda v: v @ adjoint(v) / (n * 9.0) + np.eye(n))
    x = draw.tensor((n, 2), dtype, kind="gaussian")
    whole, make, size = wide(a), public(name), min(draw.size(1, 5), n)
    values = np.linalg.eigvalsh(narrow(whole))
    low, high = float(values[0]) * 0.9, float(values[-1]) * 1.1
    extra = {"block_jacobi": (size,), "chebyshev": (low, high)}.get(stem, ())
    if stem == "jacobi":
        inverse = np.diag(1 / np.diag(whole))
    elif stem == "block_jacobi":
        kept = np.add.outer(np.arange(n) // size, -(np.arange(n) // size)) == 0
        inverse = np.linalg.inv(narrow(np.where(kept, whole, 0)))
    elif stem == "ssor":
        lower, middle = np.tril(whole), np.diag(1 / np.diag(whole))
        inverse = np.linalg.inv(narrow(lower @ middle @ lower.T))
    elif stem in ("ilu0", "ic0"):
        # nothing is left out of a full pattern
        inverse = np.linalg.inv(narrow(whole))
    else:
        inverse = None

    def run(a, x):
        return make(a, *extra)(x)

    def check(result):
        (y,) = parts((result,))
        if inverse is None:
            # a polynomial of degree 4 contracts the error at least as Chebyshev's bound says
            c = high / low
            rate = 2 * ((c**0.5 - 1) / (c**0.5 + 1)) ** 4
            error = whole @ y - wide(x)
            within(error, (rate + 1e-5) * spectral(wide(x)) * (c**0.5 + 1), "a p(a) x - x", dtype)
            return
        condition = spectral(inverse) * spectral(whole)
        within(
            y - inverse @ wide(x),
            40 * n * (unit(dtype) + 2.0**-53) * condition * spectral(inverse) * spectral(wide(x)),
            "m x",
            dtype,
        )

    return Trial(
        *(run, (a, x)),
        check=lambda result, kernel: check(result),
        kernels="maybe", simulated=0.05, differentiable=False, compiles=False, arrays=False,
    )  # fmt: skip


@spec("trnsolver.solve with target_error=", promise="the error is verified, or `NotConverged`", when="any matrix")
def claimed(draw: Draw) -> Trial:
    n, target = draw.size(1, 17), draw.among(1e-6, 1e-10, 1e-12)
    kind = draw.among("gaussian", "hilbert", "graded")
    change = (lambda v: 1 / np.add.outer(np.arange(n) + 1.0, np.arange(n))) if kind == "hilbert" else None
    a = draw.tensor((n, n), torch.float64, kind="gaussian" if change else kind, change=change)
    b = draw.tensor((n, 1), torch.float64, kind="gaussian")

    def run(a, b):
        try:
            return trnsolver.solve(a, b, target_error=target)
        except (trnsci.NotConverged, trnsci.Singular):
            return None

    def check(result, kernel):
        if result is None:
            return
        with mpmath.workdps(60):
            try:
                exact = mpmath.lu_solve(mpmath.matrix(a.tolist()), mpmath.matrix(b.tolist()))
            except ZeroDivisionError:
                raise AssertionError("a solution of a singular matrix is claimed") from None
            x = np.array([float(v) for v in exact])
            error = max(
                abs(mpmath.mpf(float(v)) - e) for v, e in zip(torch.as_tensor(result).flatten(), exact, strict=True)
            )
        assert float(error) <= 1.0001 * target * np.max(np.abs(x)), (float(error), target)

    return Trial(run, (a, b), check=check, kernels="maybe", simulated=0.05, differentiable=False, compiles=False)
