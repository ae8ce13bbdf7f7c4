"""trnsolver, sparse and direct: residuals in extended precision on the dense matrix; spectra from NumPy."""

import mpmath
import numpy as np
import scipy.sparse as sp
import torch
from scipy.optimize import linear_sum_assignment

import trnsci
import trnsolver
from tests.campaign.draw import COMPLEX, REAL, Draw
from tests.campaign.oracles import TRANSPOSED, narrow, spectral, unit, unread, wide
from tests.campaign.solver import adjoint, matrix, parts, with_spectrum, within
from tests.campaign.sparse import sparse, stored
from tests.campaign.trial import Outside, Trial, public, spec

DTYPES = (*REAL, *REAL, *COMPLEX)
KINDS = ("lu", "lu", "cholesky", "qr")
CHANCES = {"kernels": "maybe", "simulated": 0.1, "arrays": False, "compiles": False}


def system(draw: Draw, kind: str, dtype: torch.dtype) -> torch.Tensor:
    """A sparse matrix of full rank: dominant, or with its rows in some other order, tall for QR."""
    n = draw.size(0, 97)
    a = sparse(draw, n, n, dtype, diagonal=True)
    scale = draw.among(1.0, 1.0, 1e-15, 1e15)
    if kind == "cholesky":
        return draw.laid_out((a + a.mH) * scale)
    order = torch.from_numpy(np.random.default_rng(draw.seedling()).permutation(n))
    a = a[order] if draw.chance(0.5) else a
    if kind == "qr" and draw.chance(0.5):
        a = torch.cat([a, sparse(draw, draw.size(0, 33), n, dtype, kind="gaussian")])
    return draw.laid_out(a * scale)


def built(draw: Draw):
    """Storage of any library: trnsparse's formats, SciPy's, torch's."""
    kind = draw.among("ours", "ours", "scipy", "torch")
    draw.log.append(kind)
    if kind == "ours":
        return stored(draw, torch.empty(0))
    if kind == "torch":
        return lambda a: a.detach().to_sparse_csr()
    return lambda a: draw.among(sp.csr_array, sp.csc_matrix, sp.coo_array)(a.detach().resolve_conj().numpy())


@spec(
    "trnsolver.solve_sparse", "trnsolver.factor_sparse",
    promise="residual `20 N u g (norm(a) norm(x) + norm(b))`; least squares `20 M u` of the gradient's terms",
    when="regular matrices; full rank for QR",
)  # fmt: skip
def solved(draw: Draw, name: str) -> Trial:
    dtype, kind = draw.dtype(*DTYPES), draw.among(*KINDS)
    a = system(draw, kind, dtype)
    (m, n), store = a.shape, built(draw)
    method = draw.among("auto", "superlu", "multifrontal") if kind != "qr" else "auto"
    ordering = draw.among(None, "amd", "rcm", "colamd", "natural")
    trans = draw.among("n", "t", "c") if name.endswith("factor_sparse") else "n"
    rows = m if trans == "n" else n
    shape = draw.among((rows,), (rows, draw.size(0, 9)), (2, rows, 3))
    b = draw.tensor(shape, dtype)
    whole, u = TRANSPOSED[trans](wide(a)), unit(dtype)
    if kind == "cholesky":
        unread(draw, a, True)
    draw.log.append(f"{kind} {method} {ordering} {trans}")
    options = {"kind": kind, "method": method, "ordering": ordering}

    def run(a, b):
        if name.endswith("solve_sparse"):
            return trnsolver.solve_sparse(store(a), b, **options)
        return trnsolver.factor_sparse(store(a), **options).solve(b, trans=trans)

    def check(result, kernel):
        (x,) = parts((result,))
        assert x.shape == (*shape[:-1], whole.shape[1]) if len(shape) == 1 else x.shape[-1] == shape[-1]
        columns, right = (v[:, None] if v.ndim == 1 else v for v in (x, wide(b)))
        columns, right = (v if v.ndim == 3 else v[None] for v in (columns, right))
        for one, other in zip(columns, right, strict=True):
            size = spectral(whole) * spectral(one) + spectral(other)
            left = other - whole @ one
            if m > n and trans == "n":
                within(adjoint(whole) @ left, 20 * max(m, 1) * u * spectral(whole) * size, "a* (b - a x)", dtype)
                continue
            # pivots of dominant matrices, in any order of rows, let entries grow by less than 4
            within(left, 4 * 20 * max(m, n, 1) * u * size, "b - a x", dtype)
            if m > n > 0:
                # the shortest solution lies in the range of a
                near = narrow(wide(a).conj() if trans == "t" else wide(a))
                far = narrow(one) - near @ np.linalg.lstsq(near, narrow(one), rcond=None)[0]
                slack = 200 * m * (u + 2.0**-52) * np.linalg.cond(near)
                within(far, slack * spectral(one), "the part outside the range", dtype)

    return Trial(run, (a, b), check=check, differentiable=False, **CHANCES)


@spec(
    "trnsolver.factor_sparse with values=", promise="that of one matrix, for each; `slogdet` to `20 N u` times the "
    "condition; gradients those of differences", when="one pattern, regular matrices",
)  # fmt: skip
def batches(draw: Draw) -> Trial:
    dtype, kind, many = draw.dtype(*DTYPES), draw.among(*KINDS), draw.among((), (1,), (3,), (2, 2))
    a = system(draw, kind, dtype)
    m, n = a.shape
    rows = sp.csr_array(a.resolve_conj().numpy())
    factors = torch.from_numpy(1.0 + 0.1 * np.random.default_rng(draw.seedling()).random((*many, 1)))
    values = draw.laid_out(torch.from_numpy(rows.data) * factors.to(dtype))
    b = draw.tensor((*many, m, 2), dtype, kind="gaussian")
    whole = wide(a) * np.asarray(factors.numpy())[..., None]
    determinant = kind != "qr" and m == n
    draw.log.append(f"{kind} {many}")

    def run(values, b):
        factor = trnsolver.factor_sparse(rows, kind=kind, values=values)
        return (factor.solve(b), *(factor.slogdet() if determinant else ()))

    def check(result, kernel):
        x, *rest = parts(result)
        for index in np.ndindex(*many):
            mine, size = whole[index], spectral(whole[index]) * spectral(x[index]) + spectral(wide(b)[index])
            left = wide(b)[index] - mine @ x[index]
            limit = 4 * 20 * max(m, n, 1) * unit(dtype) * size
            if m > n:
                left, limit = adjoint(mine) @ left, limit * spectral(mine)
            within(left, limit, "b - a x", dtype)
            if determinant and n:
                sign, logarithm = np.linalg.slogdet(narrow(mine))
                slack = 80 * n * (unit(dtype) + 2.0**-53) * float(np.linalg.cond(narrow(mine))) * (1 + abs(logarithm))
                assert abs(complex(rest[0][index]) - sign) <= slack, (rest[0][index], sign)
                assert abs(float(rest[1][index]) - logarithm) <= slack, (rest[1][index], logarithm)

    # of Cholesky one triangle is read, and differences of the other are zero
    return Trial(run, (values, b), check=check, view=lambda r: r, **CHANCES)


@spec("trnsolver.solve_sparse with target_error=", promise="the error asked for, or `NotConverged`", when="any scale")
def claimed(draw: Draw) -> Trial:
    dtype, kind = draw.dtype(*REAL), draw.among("lu", "cholesky")
    n, target, top = draw.size(1, 17), draw.among(1e-6, 1e-10, 1e-13), 34.0 if dtype == torch.float32 else 200.0
    scales = [10.0 ** draw.rng.uniform(-top, top) if draw.chance(0.4) else 1.0 for _ in range(2)]
    a = sparse(draw, n, n, dtype, diagonal=True)
    a = (a + a.mT if kind == "cholesky" else a).double() * scales[0]
    a = draw.laid_out(a.to(dtype))
    b = draw.tensor((n,), dtype, kind="gaussian", change=lambda v: v * scales[1])
    if not (a.isfinite().all() and b.isfinite().all()):
        raise Outside
    store = built(draw)
    draw.log.append(f"{kind} {target} {scales}")

    def run(a, b):
        try:
            return trnsolver.solve_sparse(store(a), b, kind=kind, target_error=target)
        except (trnsci.NotConverged, trnsci.Singular, trnsci.NotPositiveDefinite):
            return None

    def check(result, kernel):
        if result is None:
            return
        with mpmath.workdps(60):
            try:
                exact = mpmath.lu_solve(mpmath.matrix(a.double().tolist()), mpmath.matrix(b.double().tolist()))
            except ZeroDivisionError:
                raise AssertionError("a solution of a singular matrix is claimed") from None
            error = mpmath.norm(mpmath.matrix(result.double().tolist()) - exact)
            assert error <= mpmath.mpf(1.0001 * target) * mpmath.norm(exact), (float(error), target)

    return Trial(run, (a, b), check=check, differentiable=False, **CHANCES)


@spec("trnsolver.eigsh", promise="values within their residuals of the exact ones; the k that are asked for",
      when="gaps above the tolerance")  # fmt: skip
def extreme(draw: Draw) -> Trial:
    dtype, n = draw.dtype(*DTYPES), draw.size(1, 129)
    if draw.chance(0.5):
        a = with_spectrum(draw, n, dtype)
    else:
        a = sparse(draw, n, n, dtype, kind=draw.among("gaussian", "integers", "ramp", "alternating"))
        a = draw.laid_out(a + a.mH + torch.diag(torch.linspace(-2, 3, n)).to(dtype) * draw.among(1.0, 10.0))
    k, which = min(n, draw.among(1, 2, 3, 6)), draw.among("LM", "LA", "SA")
    exact = np.linalg.eigvalsh(narrow(wide(a)))
    size = float(np.max(np.abs(exact), initial=1e-30))
    sigma = draw.among(None, None, float(draw.rng.uniform(-3, 4)))
    if sigma is None:
        order = np.argsort({"LM": -np.abs(exact), "LA": -exact, "SA": exact}[which])
    else:
        order = np.argsort({"LM": np.abs(exact - sigma), "LA": -1 / (exact - sigma), "SA": 1 / (exact - sigma)}[which])
        if np.min(np.abs(exact - sigma)) < 1e-3 * size:
            raise Outside
    tol = draw.among(1e-6, 1e-10) if unit(dtype) < 1e-10 else 1e-4
    store, whole = built(draw), wide(a)
    unread(draw, a, True)
    draw.log.append(f"k {k} {which} sigma {sigma} tol {tol}")

    def run(a):
        return trnsolver.eigsh(store(a), k, which=which, sigma=sigma, tol=tol)

    def check(result, kernel):
        w, v, residuals = parts((result.values, result.vectors, result.residuals))
        assert (w.shape, v.shape) == ((k,), (n, k))
        true = np.sqrt(np.sum(np.abs(whole @ v - v * w) ** 2, 0))
        slack = 40 * n * unit(dtype) * size
        assert np.all(true <= 1.01 * residuals + slack), (true, residuals)
        assert np.all(np.min(np.abs(exact[:, None] - w[None].real), 0) <= true + slack)
        within(adjoint(v) @ v - np.eye(k), 1e3 * n * unit(dtype) + 10 * tol, "v* v - 1", dtype)
        if result.converged:
            # the wanted ones, each as often as it is one
            reach = 1e3 * n * unit(dtype) * size + 4 * tol * size * (1.0 if sigma is None else 1e3)
            wanted = np.sort(exact[order[:k]])
            edge = np.abs(np.sort(np.asarray(w, float)) - wanted)
            assert np.all(edge <= reach) or _tied(exact, order, k, which, sigma, reach), (np.sort(w), wanted)

    return Trial(run, (a,), check=check, differentiable=False, **CHANCES)


def _tied(exact: np.ndarray, order: np.ndarray, k: int, which: str, sigma: float | None, reach: float) -> bool:
    """Whether the last one wanted and the first one not wanted cannot be told apart."""
    if k >= len(exact):
        return False
    last, first = exact[order[k - 1]], exact[order[k]]
    if which == "LM":
        last, first = (abs(x - (sigma or 0.0)) for x in (last, first))
    return bool(abs(last - first) <= reach)


@spec("trnsolver.count_eigenvalues", promise="exact for eigenvalues farther than `slack` from both ends")
def counted(draw: Draw) -> Trial:
    dtype, n = draw.dtype(*DTYPES), draw.size(0, 65)
    a = sparse(draw, n, n, dtype, kind=draw.among("gaussian", "integers", "ramp", "constant"))
    a = draw.laid_out((a + a.mH) * draw.among(1.0, 1.0, 1e-15, 1e15))
    exact = np.linalg.eigvalsh(narrow(wide(a)))
    size = float(np.max(np.abs(exact), initial=1e-30))
    ends = sorted(float(x) * size for x in draw.rng.uniform(-1.2, 1.2, 2))
    low, high = (-np.inf if draw.chance(0.2) else ends[0]), (np.inf if draw.chance(0.2) else ends[1])
    low, high = draw.among((low, high), (low, high), (low, low), (0.0, max(high, 0.0)))
    store = built(draw)
    unread(draw, a, True)
    draw.log.append(f"{low} {high}")

    def run(a):
        try:
            return trnsolver.count_eigenvalues(store(a), (low, high))
        except trnsci.NumericalError:
            return None

    def check(result, kernel):
        if result is None:
            return
        slack = result.slack + 40 * n * 2.0**-53 * size
        sure = (exact >= low + slack) & (exact < high - slack)
        may = (exact >= low - slack) & (exact < high + slack)
        assert sure.sum() <= result.count <= may.sum(), (result, sure.sum(), may.sum())
        assert result.slack <= 2.0**-21 * n * (size + 1) or size < 1e-10, result.slack

    return Trial(run, (a,), check=check, differentiable=False, **CHANCES)


@spec("trnsolver.fill_ordering", "trnsolver.zero_free_diagonal", promise="exact: orders; no zero on the diagonal")
def orders(draw: Draw, name: str) -> Trial:
    dtype, n = draw.dtype(*DTYPES), draw.size(0, 65)
    a = sparse(draw, n, n, dtype)
    if draw.chance(0.5):
        a = system(draw, "lu", dtype)
        n = len(a)
    store, method = built(draw), draw.among("amd", "rcm", "colamd", "natural")
    exact = narrow(wide(a))
    sizes = np.log2(np.abs(np.where(exact != 0, exact, 1)))
    rows, columns = linear_sum_assignment(np.where(exact != 0, -sizes, 1e9))
    best = float(sizes[rows, columns].sum()) if np.all(exact[rows, columns] != 0) else None

    def run(a):
        if name.endswith("ordering"):
            return trnsolver.fill_ordering(store(a), method=method)
        try:
            return trnsolver.zero_free_diagonal(store(a))
        except trnsci.Singular:
            return None

    def check(result, kernel):
        if result is None:
            assert best is None, "an order exists"
            return
        order = torch.as_tensor(result).tolist()
        assert sorted(order) == list(range(n))
        if name.endswith("diagonal"):
            diagonal = np.diagonal(exact[order])
            assert np.all(diagonal != 0)
            if n:
                assert np.log2(np.abs(diagonal)).sum() >= best - 1e-6 * max(1.0, abs(best)), "another product is larger"

    return Trial(run, (a,), check=check, differentiable=False, **CHANCES)


@spec(
    "trnsolver.gebrd", "trnsolver.orgbr", "trnsolver.ormbr", "trnsolver.larft",
    promise="`norm(a - q b p*) <= 20 max(M, N) u norm(a)`, `norm(q* q - 1) <= 20 max(M, N) u`", when="any matrix",
)  # fmt: skip
def bidiagonal(draw: Draw, name: str) -> Trial:
    stem, dtype, m, n = name.split(".")[1], draw.dtype(*DTYPES), draw.size(0, 49), draw.size(0, 49)
    if stem == "larft":
        return block(draw, dtype, max(m, n), min(m, n))
    a, u, batch = matrix(draw, m, n, dtype), unit(dtype), draw.chance(0.2)
    k, limit = min(m, n), 20 * max(m, n, 1) * u
    vect, left, transpose = draw.among("q", "p"), draw.chance(0.5), draw.chance(0.5)
    size = m if vect == "q" else n
    other = draw.tensor((size, 3) if left else (3, size), dtype, kind="gaussian")
    draw.log.append(f"{vect} left {left} transpose {transpose} batch {batch}")

    def run(a, other):
        made = trnsolver.gebrd(torch.stack([a, 2 * a]) if batch else a)
        if stem == "gebrd":
            found = (made.dense(), trnsolver.orgbr(made, "q"), trnsolver.orgbr(made, "p"))
        elif stem == "orgbr":
            found = (trnsolver.orgbr(made, vect), made.dense())
        else:
            given = torch.stack([other, other]) if batch else other
            found = (trnsolver.ormbr(made, given, vect, left=left, transpose=transpose), *made)
        return tuple(x[0] for x in found) if batch else found

    def check(result, kernel):
        if stem == "ormbr":
            x, factors, _, _, tauq, taup = parts(result)
            whole = reflections(factors, tauq if vect == "q" else taup, vect)
            whole = adjoint(whole) if transpose else whole
            exact = whole @ wide(other) if left else wide(other) @ whole
            return within(x - exact, limit * spectral(wide(other)), "q other", dtype)
        if stem == "orgbr":
            q, _ = parts(result)
            q = q if vect == "q" else adjoint(q)
            assert q.shape == (size, k)
            return within(adjoint(q) @ q - np.eye(k), limit, "q* q - 1", dtype)
        b, q, ph = parts(result)
        beside = 1 if m >= n else -1
        assert (np.iscomplexobj(b), b.shape) == (False, (k, k))
        if k > 1:
            assert not np.any(b - np.diag(np.diag(b)) - np.diag(np.diag(b, beside), beside)), "not bidiagonal"
        return within(q @ b @ ph - wide(a), limit * spectral(wide(a)), "q b p* - a", dtype)

    return Trial(run, (a, other), check=check, differentiable=False, **CHANCES)


def reflections(factors: np.ndarray, tau: np.ndarray, vect: str) -> np.ndarray:
    """The whole unitary matrix, reflector by reflector, in extended precision."""
    m, n = factors.shape
    columns, shift = (factors, int(m < n)) if vect == "q" else (adjoint(factors), int(m >= n))
    size = len(columns)
    whole = np.eye(size, dtype=factors.dtype)
    for i in range(min(m, n)):
        if i + shift >= size:
            break
        v = np.concatenate([np.zeros(i + shift), [1.0], columns[i + shift + 1 :, i]])[:, None]
        whole = whole - (whole @ v) @ (tau[i] * adjoint(v))
    return whole


def block(draw: Draw, dtype: torch.dtype, m: int, k: int) -> Trial:
    direct, storev = draw.among("forward", "backward"), draw.among("columns", "rows")
    factors, tau = torch.geqrf(draw.tensor((m, k), dtype, kind=draw.among("gaussian", "integers", "constant")))
    if not (factors.isfinite().all() and tau.isfinite().all()):
        # torch's geqrf of equal elements may underflow
        raise Outside
    columns = factors.flip((0, 1)) if direct == "backward" else factors
    tau = tau.flip(0) if direct == "backward" else tau
    v = draw.laid_out(columns if storev == "columns" else columns.mH.resolve_conj())
    draw.log.append(f"{direct} {storev}")

    def check(result, kernel):
        (t,) = parts((result,))
        unit_columns = np.tril(wide(factors), -1) + np.eye(m, k)
        unit_columns = unit_columns[::-1, ::-1] if direct == "backward" else unit_columns
        product = np.eye(m, dtype=unit_columns.dtype)
        for i in range(k) if direct == "forward" else reversed(range(k)):
            v = unit_columns[:, i : i + 1]
            product = product - (product @ v) @ (wide(tau)[i] * adjoint(v))
        assert not np.any(np.tril(t, -1) if direct == "forward" else np.triu(t, 1)), "not triangular"
        error = np.eye(m) - unit_columns @ t @ adjoint(unit_columns) - product
        within(error, 20 * max(k, 1) * unit(dtype), "1 - v t v* - product", dtype)

    return Trial(public("trnsolver.larft"), (v, tau), {"direct": direct, "storev": storev}, check=check,
                 kernels="maybe", simulated=0.1, compiles=False)  # fmt: skip
