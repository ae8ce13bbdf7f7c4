"""trnsolver: the options of functions whose defaults are tried elsewhere; the promises are the same."""

import numpy as np
import scipy.linalg
import torch

import trnsci
from tests.campaign.draw import REAL, Draw
from tests.campaign.oracles import narrow, spectral, unit, unread, wide
from tests.campaign.solver import (
    DTYPES,
    REGULAR,
    adjoint,
    definite,
    hermitian,
    judged,
    matrix,
    parts,
    reflected,
    regular,
    within,
)
from tests.campaign.solver_iterations import RESIDUAL, apart
from tests.campaign.trial import Outside, Trial, public, spec

ITERATIONS = ("cg", "block_cg", "bicgstab", "gmres", "minres", "chebyshev", "lsqr", "lsmr")
QUIET = {"differentiable": False, "compiles": False}


@spec("trnsolver.lstsq with options", promise="that of lstsq; the fields LAPACK's driver fills",
      when="singular values above 1/4 or zero, scaled by up to `10^±15`")  # fmt: skip
def lstsq(draw: Draw) -> Trial:
    dtype, m, n, k = draw.dtype(*DTYPES), draw.size(0, 33), draw.size(0, 33), draw.size(0, 5)
    driver, scale = draw.among("gels", "gelsy", "gelsd", "gelss", None), 10.0 ** draw.among(0, 0, -15, 15)
    (a, rank), b = apart(draw, m, n, dtype), draw.tensor((m, k), dtype, kind="gaussian")
    full = rank == min(m, n)
    if driver == "gels" and not full:
        driver = "gelsd"
    a, vector = draw.laid_out(a * scale), draw.chance(0.3) and k > 0
    b = b[:, 0] if vector else b
    whole, right = narrow(wide(a)), narrow(wide(b)).reshape(m, 1 if vector else k)
    exact = np.linalg.pinv(whole, rcond=1e-3) @ right

    def check(result):
        (x,) = parts((result.solution,))
        # condition at most 16, counted twice where a residual is left
        limit = 20 * max(m, n, 1) * unit(dtype) * 16 * 17 * (spectral(exact) + spectral(right) / scale)
        within(x.reshape(exact.shape) - exact, limit, "x", dtype)
        assert x.shape == ((n,) if vector else (n, k)), x.shape
        ranks, values = torch.as_tensor(result.rank), torch.as_tensor(result.singular_values)
        assert ranks.numel() == 0 if driver == "gels" else int(ranks) == rank, (driver, ranks, rank)
        if driver in ("gelsd", "gelss"):
            error = (wide(values) - np.linalg.svd(whole, compute_uv=False))[:, None]
            within(error, 80 * max(m, n, 1) * (unit(dtype) + 2.0**-52) * scale, "s", dtype)
        else:
            assert values.numel() == 0
        left = np.sum(np.abs(whole @ exact - right) ** 2, 0)
        residuals = wide(torch.as_tensor(result.residuals)).reshape(-1)
        # where ranks cannot be read, under vmap, residuals come whatever they are
        if m > n and (full or residuals.size):
            size = spectral(right) ** 2
            assert np.all(np.abs(residuals - left) <= 4000 * max(m, n) * unit(dtype) * size + 1e-30), (residuals, left)
        else:
            assert residuals.size == 0

    kwargs = {"driver": driver, "rcond": None if driver == "gels" else 1e-3}
    return judged(draw, "trnsolver.lstsq", (a, b), check, kwargs, **QUIET)


@spec("trnsolver.pinv with options", "trnsolver.matrix_rank with options",
      promise="singular values up to `max(atol, rtol s_max)` count as zero", when="none near that border")  # fmt: skip
def tolerances(draw: Draw, name: str) -> Trial:
    stem, dtype, n, m = name.split()[0], draw.dtype(*DTYPES), draw.size(0, 33), draw.size(0, 33)
    even = draw.chance(0.5)
    m = n if even else m
    rng, k = np.random.default_rng(draw.seedling()), min(m, n)
    left, right = (np.linalg.qr(rng.normal(size=(size, size)))[0] if size else np.zeros((0, 0)) for size in (m, n))
    values = rng.choice([4.0, 2.0, 1.0, 0.25, 0.0], k) * 10.0 ** draw.among(0, 0, -12, 12)
    signed = values * rng.choice([1, -1], k)
    made = (left[:, :k] * signed) @ left.T if even else (left[:, :k] * values) @ right[:k]
    a = draw.tensor((m, n), dtype, kind="gaussian", change=lambda _: made)
    top = float(np.max(values, initial=0.0))
    atol, rtol = draw.among((None, 0.6), (1.4 * top / 4, None), (0.6 * top, 1e-3), (0.1 * top, 0.35), (1e-3 * top, 0.0))
    border = max(atol or 0.0, (rtol or 0.0) * top)
    kept = values > border
    exact = (right[:k].T[:, kept] / values[kept]) @ left[:, :k][:, kept].T
    if even:
        exact = (left[:, kept] / signed[kept]) @ left[:, kept].T
    kwargs = {key: value for key, value in (("atol", atol), ("rtol", rtol)) if value is not None}

    def check(result):
        if stem.endswith("rank"):
            assert int(torch.as_tensor(result)) == int(kept.sum()), (int(torch.as_tensor(result)), values, border)
            return
        limit = 400 * max(m, n, 1) * unit(dtype) * 256 * max(spectral(exact), 1e-30)
        within(parts((result,))[0] - exact, limit, "pinv", dtype)

    kwargs["hermitian"] = even and draw.chance(0.7)
    if kwargs["hermitian"]:
        unread(draw, a, True)
    return Trial(public(stem), (a,), kwargs, kernels="maybe", simulated=0.05,
                 check=lambda result, _: check(result), **QUIET)  # fmt: skip


@spec("trnsolver.cond with p=", promise="`80 N u c^2` of the condition number c", when=REGULAR)
def norms(draw: Draw) -> Trial:
    dtype, n = draw.dtype(*DTYPES), draw.size(1, 33)
    a, p = regular(draw, n, dtype), draw.among(1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc", None)
    exact = float(np.linalg.cond(narrow(wide(a)), p))
    worst = float(np.linalg.cond(narrow(wide(a)))) * n

    def check(result):
        assert abs(float(torch.as_tensor(result)) - exact) <= 80 * n * unit(dtype) * worst * max(exact, worst), exact

    return judged(draw, "trnsolver.cond", (a, p), check, **QUIET)


@spec("trnsolver.solve with options", "trnsolver.lu_solve with options", "trnsolver.solve_triangular with options",
      "trnsolver.cholesky_solve with options", "trnsolver.cholesky_inverse with options",
      "trnsolver.ldl_solve with options", "trnsolver.ldl_inverse with options", "trnsolver.lu with options",
      "trnsolver.inv_sqrt_spd with options", promise="that of the function without options", when=REGULAR)  # fmt: skip
def sides(draw: Draw, name: str) -> Trial:
    """Right-hand sides on the right, adjoint systems, upper factors, symmetric complex matrices, no exchanges."""
    base = name.split()[0]
    stem, dtype, n, k = base.split(".")[1], draw.dtype(*DTYPES), draw.size(1, 65), draw.size(0, 9)
    left, flag, vector = draw.chance(0.5), draw.chance(0.5), draw.chance(0.2)
    positive = stem in ("solve", "cholesky_solve", "cholesky_inverse", "inv_sqrt_spd")
    a = definite(draw, n, dtype, 20.0) if positive else regular(draw, n, dtype)
    b, kwargs, args = draw.tensor((n, k), dtype, kind="gaussian"), {}, ()
    whole = wide(a)
    if stem == "solve":
        kwargs = {"assume": "pos" if flag else "gen", "left": left}
    elif stem == "lu_solve":
        factors, pivots = torch.linalg.lu_factor(a)
        p, lower, upper = parts(torch.lu_unpack(factors, pivots))
        whole = p @ lower @ upper
        whole, kwargs = adjoint(whole) if flag else whole, {"left": left, "adjoint": flag}
        args = (factors, pivots)
    elif stem == "solve_triangular":
        whole, kwargs = np.triu(whole) if flag else np.tril(whole), {"upper": flag, "left": left}
    elif stem.startswith("cholesky"):
        factor = torch.linalg.cholesky(a, upper=flag)
        half = wide(factor)
        whole, left, kwargs = adjoint(half) @ half if flag else half @ adjoint(half), True, {"upper": flag}
        args = (factor,)
    elif stem.startswith("ldl"):
        kwargs, left = {"hermitian": flag}, True
        a = draw.laid_out((a + (a.mH if flag else a.mT)) / 2 + (3 * torch.eye(n)).to(dtype))
        whole, args = wide(a), tuple(public("trnsolver.ldl")(a, hermitian=flag))
    elif stem == "lu":
        # dominant diagonals need no exchange
        a = draw.laid_out(a + (4 * n * torch.eye(n)).to(dtype))
        whole, kwargs = wide(a), {"pivot": False}
    else:
        kwargs, left = {"method": draw.among("eigen", "newton_schulz")}, True
    if stem in ("solve", "lu_solve", "solve_triangular") and not left:
        b = b.mT
    elif stem in ("solve", "lu_solve") and vector and k:
        b = b[:, 0]
    columns = wide(b).reshape(n, -1) if left else wide(b)

    def check(result):
        if stem == "lu":
            p, lower, upper = parts(result)
            assert p.size == 0 or np.array_equal(p, np.eye(n)), "rows were exchanged"
            return within(lower @ upper - whole, 20 * n * unit(dtype) * spectral(whole) * 2, "l u - a", dtype)
        (x,) = parts((result,))
        if stem == "inv_sqrt_spd":
            limit = 20 * n * unit(dtype) * float(np.linalg.cond(narrow(whole)))
            return within(x @ whole @ x - np.eye(n), limit, "x a x - 1", dtype)
        if stem.endswith("inverse"):
            return within(x @ whole - np.eye(n), 80 * n * unit(dtype) * spectral(x) * spectral(whole), "x a - 1", dtype)
        x = x.reshape(n, -1) if left else x
        size = spectral(whole) * spectral(x) + spectral(columns)
        error = columns - (whole @ x if left else x @ whole)
        return within(error, 80 * n * unit(dtype) * size, "b - a x", dtype)

    given = {"solve": (a, b), "lu_solve": (*args, b), "solve_triangular": (a, b), "cholesky_solve": (b, *args),
             "ldl_solve": (*args, b), "lu": (a,), "inv_sqrt_spd": (a,)}.get(stem, args)  # fmt: skip
    if stem == "solve_triangular":
        flagged = torch.triu(a) if flag else torch.tril(a)
        given = (draw.laid_out(flagged), b)
    return judged(draw, base, given, check, kwargs, differentiable=False)


@spec("trnsolver.ormqr with options", promise="that of ormqr")
def reflections(draw: Draw) -> Trial:
    dtype, m, n, k = draw.dtype(*DTYPES), draw.size(0, 49), draw.size(0, 33), draw.size(0, 9)
    left, transpose = draw.chance(0.5), draw.chance(0.5)
    factors, tau = torch.geqrf(matrix(draw, max(m, n), min(m, n), dtype))
    if not (factors.isfinite().all() and tau.isfinite().all()):
        # MKL's reflections of a constant complex matrix are not numbers
        raise Outside
    rows = factors.shape[0]
    other = draw.tensor((rows, k) if left else (k, rows), dtype, kind="gaussian")
    q = reflected(wide(factors), wide(tau), np.eye(rows, dtype=wide(factors).dtype))
    q = adjoint(q) if transpose else q
    exact = q @ wide(other) if left else wide(other) @ q

    def check(result):
        within(parts((result,))[0] - exact, 20 * max(rows, 1) * unit(dtype) * spectral(wide(other)), "q x", dtype)

    kwargs = {"left": left, "transpose": transpose}
    return judged(draw, "trnsolver.ormqr", (factors, tau, other), check, kwargs, differentiable=False)


@spec("trnsolver.polar with side=", "trnsolver.schur with options", promise="that of polar and of schur")
def forms(draw: Draw, name: str) -> Trial:
    base, dtype, n = name.split()[0], draw.dtype(*DTYPES), draw.size(1, 33)
    if base.endswith("polar"):
        a = matrix(draw, draw.size(1, 33), n, dtype)

        def check(result):
            u, p = parts(result)
            limit = 80 * max(a.shape) * unit(dtype) * spectral(wide(a))
            within(p - adjoint(p), limit, "p - p*", dtype)
            within(p @ u - wide(a), limit, "p u - a", dtype)
            assert float(np.min(np.linalg.eigvalsh(narrow(p)))) >= -limit - 1e-300, "not semidefinite"

        return judged(draw, base, (a,), check, {"side": "left"}, **QUIET)
    a = draw.tensor((n, n), dtype, kind=draw.among("gaussian", "gaussian", "alternating"))
    sort, output = draw.among("lhp", "rhp", "iuc", "ouc", None), draw.among("real", "complex")
    inside = {"lhp": lambda w: w.real < 0, "rhp": lambda w: w.real >= 0, "iuc": lambda w: abs(w) <= 1,
              "ouc": lambda w: abs(w) > 1, None: lambda w: w == w}[sort]  # fmt: skip
    values = np.linalg.eigvals(narrow(wide(a)))

    def check(result):
        t, z = parts(result[:2])
        assert not np.any(np.tril(t, -1 if output == "complex" or dtype.is_complex else -2)), "not reduced"
        within(z @ t @ adjoint(z) - wide(a), 40 * n * unit(dtype) * spectral(wide(a)), "z t z* - a", dtype)
        if sort is not None:
            count = int(torch.as_tensor(result.sdim))
            first, second = (scipy.linalg.eigvals(narrow(part)) for part in (t[:count, :count], t[count:, count:]))
            near = 1e-3 if dtype in (torch.float32, torch.complex64) else 1e-7
            border = np.abs(values.real) if sort.endswith("hp") else np.abs(np.abs(values) - 1)
            if np.min(border) > near * (1 + np.max(np.abs(values))):
                assert all(inside(w) for w in first), first
                assert not any(inside(w) for w in second), second

    def run(a):
        try:
            return public(base)(a, output, sort=sort)
        except trnsci.NumericalError:
            return None

    return Trial(
        run, (a,), kernels=False, arrays=False, **QUIET, check=lambda result, _: result is None or check(result)
    )


@spec("trnsolver.eigh with options", "trnsolver.eigvalsh with options", "trnsolver.svd with options",
      promise="that of eigh and of svd for what is asked for", when="repeated values included")  # fmt: skip
def chosen(draw: Draw, name: str) -> Trial:
    base, dtype, n = name.split()[0], draw.dtype(*DTYPES), draw.size(1, 49)
    if base.endswith("svd"):
        # names of kernels, which PyTorch refuses
        a = matrix(draw, draw.size(1, 33), n, dtype)
        method, full = draw.among("auto", "polar", "jacobi"), draw.chance(0.5)
        limit, k = 20 * max(a.shape) * unit(dtype), min(a.shape)

        def check(result):
            u, s, vh = parts(result)
            within(adjoint(u) @ u - np.eye(u.shape[1]), limit, "u* u - 1", dtype)
            within((u[:, :k] * s) @ vh[:k] - wide(a), limit * spectral(wide(a)), "u s vh - a", dtype)

        if method != "auto":
            return kernel_only(base, a, check, full_matrices=full, method=method)
        return judged(draw, base, (a,), check, {"full_matrices": full, "method": method}, **QUIET)
    a, uplo = hermitian(draw, n, dtype), draw.among("L", "U", "l", "u")
    # the other triangle is not read, nor the diagonal's imaginary part
    other = torch.full((n, n), float("nan"), dtype=dtype)
    a = draw.laid_out(torch.tril(a) + torch.triu(other, 1) if uplo in "Ll" else torch.triu(a) + torch.tril(other, -1))
    part = wide(torch.where(a.isnan(), 0, a))
    whole = part + adjoint(part) - np.diag(np.diag(part).real)
    limit, values = 20 * n * unit(dtype), np.linalg.eigvalsh(narrow(whole))
    first = int(draw.rng.integers(n))
    last = int(draw.rng.integers(first, n))
    how = draw.among("subset", "subset_by_index", "subset_by_value", None)
    low, high = values[first] - 1e-3 * spectral(whole), values[last] + 1e-3 * spectral(whole)
    if how == "subset_by_value":
        near = np.minimum(np.abs(values - low), np.abs(values - high))
        if np.min(near) < 1e-4 * spectral(whole) or low >= high:
            how = None
        inside = np.nonzero((values > low) & (values <= high))[0]
        first, last = (int(inside[0]), int(inside[-1])) if how else (0, n - 1)
    kwargs = {"uplo": uplo} | ({} if how is None else {how: (low, high) if how.endswith("value") else (first, last)})
    first, last = (first, last) if how else (0, n - 1)

    def check(result):
        w, v = (wide(torch.as_tensor(result)), None) if base.endswith("eigvalsh") else parts(result)
        slack = (limit + 20 * n * 2.0**-53) * n**0.5 * spectral(whole)
        within((w - values[first : last + 1])[:, None], slack, "values", dtype)
        if v is not None:
            within(adjoint(v) @ v - np.eye(last - first + 1), limit, "v* v - 1", dtype)
            within(whole @ v - v * w, 2 * limit * spectral(whole), "a v - v w", dtype)

    return Trial(public(base), (a,), kwargs, kernels="maybe", simulated=0.05, arrays=how != "subset_by_value",
                 check=lambda result, _: check(result), **QUIET)  # fmt: skip


def kernel_only(base: str, a: torch.Tensor, check, **kwargs) -> Trial:
    """A method that only the simulator has."""

    def run(a):
        with trnsci.backend("simulator"):
            return public(base)(a, **kwargs)

    if a.dtype in (torch.float64, torch.complex128):
        return Trial(public(base), (a,), {}, kernels=False, check=lambda result, _: None, **QUIET)
    return Trial(run, (a,), kernels=False, check=lambda result, _: check(result), **QUIET)


@spec(*(f"trnsolver.{stem} with options" for stem in ITERATIONS),
      promise=RESIDUAL, when="any start, preconditioner, restart and damping")  # fmt: skip
def iterated(draw: Draw, name: str) -> Trial:
    base = name.split()[0]
    stem, dtype, n, k = base.split(".")[1], draw.dtype(*DTYPES), draw.size(1, 49), draw.among(1, 1, 3)
    spd = stem in ("cg", "block_cg", "minres", "chebyshev")
    a = definite(draw, n, dtype, 20.0) if spd else regular(draw, n, dtype)
    b = draw.tensor(
        (n, k) if k > 1 or draw.chance(0.5) else (n,),
        dtype,
        kind=draw.among("gaussian", "spike"),
        change=draw.among(None, None, lambda v: 0 * v),
    )
    tol, seen = draw.among(1e-2, 1e-4, 1e-5), []
    kwargs = {
        "tol": tol,
        "x0": draw.tensor(tuple(b.shape), dtype, kind="gaussian"),
        "callback": lambda *_: seen.append(1),
    }
    if stem == "chebyshev":
        values = np.linalg.eigvalsh(narrow(wide(a)))
        kwargs |= {"low": float(values[0]) * 0.99, "high": float(values[-1]) * 1.01}
    elif not stem.startswith("ls"):
        diagonal = torch.diagonal(a).clone()
        weights = (diagonal.real if spd else diagonal).reciprocal()
        kwargs["preconditioner"] = draw.among(None, lambda r: weights.reshape(-1, *[1] * (r.ndim - 1)).to(r.dtype) * r)
    if stem == "gmres":
        kwargs |= {"restart": draw.among(1, 3, 30), "flexible": draw.chance(0.3)}
    damp = draw.among(0.0, 0.5, 3.0)
    if stem.startswith("ls"):
        kwargs["damp"] = damp
    short = draw.chance(0.2)
    kwargs["maxiter"] = draw.among(0, 1, 2) if short else None

    def check(result):
        (x,) = parts((result.x,))
        assert np.all(np.isfinite(narrow(x)))
        residual = wide(b) - wide(a) @ x
        size = np.sqrt(np.sum(np.abs(wide(b)) ** 2, 0))
        slack = 20 * n * unit(dtype) * (spectral(wide(a)) * np.sqrt(np.sum(np.abs(x) ** 2, 0)) + size)
        if not result.converged:
            return
        if stem.startswith("ls"):
            moved, first = x - wide(kwargs["x0"]), wide(b) - wide(a) @ wide(kwargs["x0"])
            size = np.where(size > 0, size, np.sqrt(np.sum(np.abs(first) ** 2, 0)))
            gradient = adjoint(wide(a)) @ residual - damp**2 * moved
            norm, left = (np.sqrt(np.sum(np.abs(v) ** 2, 0)) for v in (gradient, residual))
            left = np.sqrt(left**2 + damp**2 * np.sum(np.abs(moved) ** 2, 0))
            scale = (spectral(wide(a)) + damp) * n**0.5
            small = norm <= 1.01 * tol * scale * left + slack * scale
            assert np.all((left <= 1.01 * tol * size + slack) | small), (norm, left)
        else:
            left = np.sqrt(np.sum(np.abs(residual) ** 2, 0))
            assert np.all(left <= 1.001 * tol * size + slack), (left, size)

    return Trial(public(base), (a, b), kwargs, kernels="maybe", simulated=0.03, arrays=False, repeats=True,
                 check=lambda result, _: check(result), view=lambda r: r.x, **QUIET)  # fmt: skip


@spec("trnsolver.lanczos with options", "trnsolver.arnoldi with options", "trnsolver.davidson with options",
      "trnsolver.lobpcg with options", promise=RESIDUAL, when="N at least 13")  # fmt: skip
def ends(draw: Draw, name: str) -> Trial:
    base = name.split()[0]
    stem, dtype, n, k = base.split(".")[1], draw.dtype(*REAL), 13 + draw.size(0, 33), draw.among(1, 2, 3)
    spread = np.diag(np.linspace(1.0, 3.0, n) ** 2 * np.where(np.arange(n) % 4, 1, -0.9 if stem == "lanczos" else 1))
    a = draw.tensor((n, n), dtype, kind="gaussian", change=lambda v: (v + adjoint(v)) * 0.05 + spread)
    tol, metric = draw.among(1e-2, 1e-4), None
    which = draw.among(*{"davidson": ("smallest", "largest")}.get(stem, ("largest", "smallest", "magnitude")))
    args, kwargs = (a, k), {"tol": tol, "which": which}
    if stem == "lobpcg":
        which = draw.among("smallest", "largest")
        kwargs = {"tol": tol, "largest": which == "largest"}
        args = (a, draw.tensor((n, k), dtype, kind="gaussian"))
        if draw.chance(0.5):
            metric = definite(draw, n, dtype, 4.0)
            kwargs["b"] = metric
        if draw.chance(0.5):
            weights = torch.diagonal(a).clone().reciprocal()[:, None]
            kwargs["preconditioner"] = lambda r: weights * r
    elif stem == "davidson":
        kwargs |= {"diagonal": torch.diagonal(a).clone(), "space": draw.among(None, 3 * k + 4)}
        kwargs["x0"] = draw.among(None, draw.tensor((n, k), dtype, kind="gaussian"))
    else:
        kwargs |= {"seed": draw.seedling(), "maxiter": draw.among(None, n)}
    right = np.eye(n) if metric is None else narrow(wide(metric))
    exact = scipy.linalg.eigh(narrow(wide(a)), right, eigvals_only=True)
    wanted = {"largest": exact[::-1][:k], "smallest": exact[:k], "magnitude": exact[np.argsort(-np.abs(exact))][:k]}[
        which
    ]

    def check(result):
        if not result.converged:
            return
        w, v = parts((result.values, result.vectors))
        size = float(np.max(np.abs(exact)))
        residual = np.sqrt(np.sum(np.abs(wide(a) @ v - right @ v * w) ** 2, 0))
        slack = 40 * n * unit(dtype) * size * spectral(right)
        # of generalised problems relative to the largest Ritz value
        sizes = float(np.max(np.abs(w))) if stem == "lobpcg" else size
        assert np.all(residual <= 1.05 * tol * sizes + slack), residual
        if metric is None and tol <= 1e-4:
            near = np.sort(w.real) - np.sort(wanted)
            assert np.all(np.abs(near) <= 2 * tol * size + slack), (w, wanted)

    return Trial(public(base), args, kwargs, kernels="maybe", simulated=0.01, arrays=False,
                 check=lambda result, _: check(result), view=lambda r: (r.values, r.vectors), **QUIET)  # fmt: skip
