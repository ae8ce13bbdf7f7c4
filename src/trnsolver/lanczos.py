"""A few eigenpairs of large matrices: Lanczos, Arnoldi and LOBPCG."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from trnblas import gemm
from trnsci import ArgumentError, NotConverged, array_function, check
from trnsci.arrays import Answer, to_numpy
from trnsolver.arguments import no_gradient
from trnsolver.columns import Columns, eps, norms, orthogonal
from trnsolver.operators import Apply, Callback, Matrix, Operator, called, on_host, operator, preconditioned, tolerance
from trnsolver.tiles import near_one


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs(Answer):
    """Eigenpairs found by iteration.

    Attributes:
        values: [K].
        vectors: [N, K], of unit length.
        residuals: [K]: ``norm(a @ v - v * w)``.
        converged: whether all are below the tolerance.
        iterations: products with ``a`` (blocks of them for LOBPCG).
    """

    values: Tensor
    vectors: Tensor
    residuals: Tensor
    converged: bool
    iterations: int

    def require(self) -> Pairs:
        """Return itself; raise `NotConverged` unless everything was found."""
        if not self.converged:
            raise NotConverged(op="eigensolver", iterations=self.iterations, residual=float(self.residuals.max()))
        return self


@array_function
def lanczos(
    a: Matrix,
    k: int,
    *,
    n: int | None = None,
    which: Literal["largest", "smallest", "magnitude"] = "largest",
    tol: float = 1e-6,
    maxiter: int | None = None,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
    seed: int = 0,
) -> Pairs:
    """``k`` extreme eigenpairs of a Hermitian operator, by thick-restart Lanczos with full orthogonalisation.

    Args:
        a: [N, N] matrix or anything `trnsolver.cg` takes.
        k: how many.
        n: rows, when ``a`` is a function.
        which: ``largest``, ``smallest``, or largest in ``magnitude``.
        tol: residual to reach, relative to the largest eigenvalue met.
        maxiter: products with ``a``.
        dtype: of the vectors, when ``a`` is not a tensor.
        device: of the vectors, likewise.
        seed: of the start vector.

    Example:
        >>> lanczos(torch.diag(torch.tensor([1.0, 5.0, 3.0, 2.0])), 1).values.round(decimals=4)
        tensor([5.])
    """
    return restarted("lanczos", a, k, n=n, which=which, tol=tol, maxiter=maxiter, start=(dtype, device, seed))


@array_function
def arnoldi(
    a: Matrix,
    k: int,
    *,
    n: int | None = None,
    which: Literal["magnitude", "largest", "smallest"] = "magnitude",
    tol: float = 1e-6,
    maxiter: int | None = None,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
    seed: int = 0,
) -> Pairs:
    """``k`` eigenpairs of a general operator, by Krylov-Schur restarts; values and vectors are complex.

    Arguments as for `lanczos`; ``largest`` and ``smallest`` go by the real part.

    Example:
        >>> arnoldi(torch.diag(torch.tensor([1.0, 5.0, 3.0, 2.0])), 1).values.real.round(decimals=4)
        tensor([5.])
    """
    return restarted("arnoldi", a, k, n=n, which=which, tol=tol, maxiter=maxiter, start=(dtype, device, seed))


def restarted(
    op: str,
    a: Matrix,
    k: int,
    *,
    n: int | None,
    which: str,
    tol: float,
    maxiter: int | None,
    start: tuple[torch.dtype, torch.device | str, int],
) -> Pairs:
    """What `lanczos` and `arnoldi` share; ``start`` is the dtype, device and seed of the first vector."""
    hermitian, (dtype, device, seed) = op == "lanczos", start
    check.data(op, wrapped=True, a=a)
    wrapped = operator(op, a)
    rows = wrapped.shape[0] if wrapped.shape is not None else n
    if rows is None:
        raise ArgumentError(op, "n", None, "the number of rows, because a is a function")
    check.integer(op, "k", k, 1, check.integer(op, "n", rows))
    check.integer(op, "seed", seed)
    if maxiter is not None:
        check.integer(op, "maxiter", maxiter, at_least=0)
    tolerance(op, tol)
    if which not in ("largest", "smallest", "magnitude"):
        raise ArgumentError(op, "which", which, "'largest', 'smallest' or 'magnitude'")
    known: Any = wrapped.matrix if wrapped.matrix is not None else a
    kind = known.dtype if isinstance(getattr(known, "dtype", None), torch.dtype) else dtype
    where = known.device if isinstance(getattr(known, "device", None), torch.device) else torch.device(device)
    if wrapped.matrix is not None:
        no_gradient(op, wrapped.matrix)
    size = min(rows, max(2 * k + 16, 24))
    most = maxiter if maxiter is not None else max(300, 10 * rows)
    source = torch.Generator().manual_seed(seed)
    # ``a @ v = v @ h[:m] + next * h[m]`` with the rows of the basis for the columns of ``v``
    basis: Columns = torch.zeros(size + 1, rows, dtype=kind, device=where)
    h = torch.zeros(size + 1, size, dtype=kind, device="cpu").numpy()
    first = torch.randn(rows, dtype=kind, device="cpu", generator=source).to(where)
    basis[0] = first / torch.linalg.vector_norm(first)
    wrapped = wrapped.probed(basis[:1].mT)
    if rows and on_host((wrapped.matrix, getattr(wrapped.entries, "values", None), basis)):
        basis, apply = basis.numpy(), wrapped.on_arrays().apply
    else:
        apply = lambda x: wrapped.apply(x.unsqueeze(-1)).squeeze(-1)  # noqa: E731
    keep, count = 0, 0
    while True:
        m = _extended(apply, basis, h, keep, source=source)
        count += m - keep
        core, coupling = h[:m, :m], h[m, :m]
        if not np.isfinite(h).all():
            message = f"broke down after {count} products: one of them is not finite"
            raise NotConverged(op=op, iterations=count, residual=math.nan, message=message)
        values, vectors = np.linalg.eigh(0.5 * (core + core.conj().T)) if hermitian else np.linalg.eig(core)
        order = _ranked(values, which)
        values, vectors = values[order], vectors[:, order]
        scale = float(abs(values).max()) or 1.0
        done = bool((abs(coupling @ vectors[:, :k]) <= tol * scale).all()) or m == rows
        if done or count >= most:
            break
        keep = min(k + (size - k) // 3, m - 1)
        if hermitian:
            ritz = vectors[:, :keep]
        else:
            # of a real matrix, both of a pair of conjugates: real and imaginary part span them
            keep += bool(values[keep - 1].imag > 0 and not kind.is_complex)
            above, chosen = values[:keep].imag, vectors[:, :keep]
            parts = chosen if kind.is_complex else np.hstack([chosen.real[:, above >= 0], chosen.imag[:, above > 0]])
            ritz = np.linalg.qr(parts).Q
        basis[:keep], basis[keep] = _combined(ritz, basis[:m]), basis[m]
        core, coupling = ritz.conj().T @ core @ ritz, coupling @ ritz
        h[:] = 0.0
        h[:keep, :keep], h[keep, :keep] = core, coupling
    x = torch.as_tensor(_combined(vectors[:, :k], basis[:m]), device=where).mT
    spectrum = torch.from_numpy(values[:k]).to(where)
    if not hermitian:
        x, spectrum = x.to(kind.to_complex()), spectrum.to(kind.to_complex())
    x = x / norms(x)
    if x.dtype == kind:
        image = wrapped.apply(x)
    else:
        image = torch.complex(wrapped.apply(x.real.contiguous()), wrapped.apply(x.imag.contiguous()))
    true = norms(image - x * spectrum)
    return Pairs(
        values=spectrum / wrapped.scale,
        vectors=x,
        residuals=true / wrapped.scale,
        converged=bool((true <= (tol + 10 * eps(true) * rows**0.5) * scale).all()),
        iterations=count,
    )


def _combined(weights: np.ndarray[Any, Any], basis: Columns) -> Columns:
    """Sums of rows of the basis, one for each column of weights."""
    if isinstance(basis, np.ndarray):
        return weights.T @ basis
    columns = torch.from_numpy(weights).to(basis.device)
    return gemm(1.0, columns, basis.to(columns.dtype), trans_a=True)


def _ranked(values: np.ndarray[Any, Any], which: str) -> np.ndarray[Any, Any]:
    """Indices from the end of the spectrum asked for; conjugates stay neighbours."""
    size = abs(values) if which == "magnitude" else values.real
    return np.argsort(size if which == "smallest" else -size, kind="stable")


def _extended(apply: Apply, basis: Columns, h: np.ndarray[Any, Any], known: int, *, source: torch.Generator) -> int:
    """Grow an orthonormal basis and the projected operator in place; return how many products there are."""
    (size, rows), least, host = (h.shape[1], basis.shape[1]), 10 * eps(basis), isinstance(basis, np.ndarray)
    for j in range(known, size):
        w, column = orthogonal(basis[: j + 1], apply(basis[j]))
        h[: j + 1, j] = column if host else to_numpy(column)
        length = norms(w)
        if float(length) > least * float(norms(column) + length):
            h[j + 1, j] = length
        elif j + 1 == rows:
            return rows
        else:
            # An invariant space: go on with a new direction, which nothing couples to.
            other = torch.randn(rows, dtype=torch.from_numpy(h).dtype, device="cpu", generator=source)
            w, _ = orthogonal(basis[: j + 1], other.numpy() if host else other.to(w.device))
            length = norms(w)
        basis[j + 1] = w / length
    return size


@array_function
def lobpcg(
    a: Matrix,
    x: Tensor,
    *,
    b: Matrix | None = None,
    preconditioner: Apply | None = None,
    largest: bool = False,
    tol: float = 1e-6,
    maxiter: int = 200,
    callback: Callback | None = None,
) -> Pairs:
    """Extreme eigenpairs of ``a @ v = b @ v * w`` from a block ``x`` [N, K] of starts (Knyazev).

    Args:
        a: Hermitian operator.
        x: [N, K], linearly independent, 3 K at most N.
        b: Hermitian positive definite operator; identity by default.
        preconditioner: close to the inverse of ``a``.
        largest: the largest eigenvalues instead of the smallest.
        tol: residual to reach, relative to the largest Ritz value.
        maxiter: steps.
        callback: called with the step and the largest residual.

    Example:
        >>> start = torch.eye(4)[:, :1] + 0.1
        >>> lobpcg(torch.diag(torch.tensor([1.0, 5.0, 3.0, 2.0])), start, largest=True).values.round(decimals=4)
        tensor([5.])
    """
    check.flag("lobpcg", largest=largest)
    tolerance("lobpcg", tol)
    check.dense("lobpcg", x=x)
    check.data("lobpcg", wrapped=True, a=a, b=b, x=x)
    check.equal("lobpcg", "dimensions", x=x.ndim, matrix=2)
    check.integer("lobpcg", "maxiter", maxiter, at_least=0)
    called("lobpcg", "callback", callback)
    improve = preconditioned("lobpcg", preconditioner)
    n, k = x.shape
    multiplied = _square_map("a", a, x)
    left = multiplied.apply
    other = None if b is None else _square_map("b", b, x)
    right = (lambda y: y) if other is None else other.apply
    if 3 * k > n:
        raise ArgumentError("lobpcg", "shape of x", tuple(x.shape), f"at most {n // 3} columns")
    sign = -1.0 if largest else 1.0
    directions = x.new_zeros((n, 0))
    x = _b_orthonormal(x, right)
    if x.shape[1] < k:
        raise ArgumentError(
            op="lobpcg",
            argument="x",
            got=f"{x.shape[1]} such columns",
            expected=f"{k} columns that are finite and linearly independent in the product of b",
        )
    residuals, values, step = x.new_full((k,), float("inf")).real, x.new_zeros(k).real, 0
    converged = False
    for step in range(maxiter + 1):
        ax = left(x)
        values = (x.conj() * ax).sum(0).real
        r = ax - right(x) * values.to(x.dtype)
        residuals = norms(r)
        worst = float(residuals.max())
        scale = float(values.abs().max()) or 1.0
        if callback is not None:
            callback(step, worst / scale)
        converged = worst <= tol * scale
        if converged or step == maxiter or not math.isfinite(worst):
            break
        w = improve(r)
        space = _b_orthonormal(
            torch.cat([x, w / norms(w).clamp_min(torch.finfo(values.dtype).tiny), directions], -1), right
        )
        core = gemm(1.0, space, left(space), trans_a="c")
        _, vectors = torch.linalg.eigh(sign * 0.5 * (core + core.mH))
        chosen = vectors[:, :k]
        following = gemm(1.0, space, chosen)
        # What the step added, without the part along the old block.
        directions = following - gemm(1.0, x, gemm(1.0, x, right(following), trans_a="c"))
        size = norms(directions)
        directions = directions[:, size > 0] / size[size > 0]
        x = following
    order = (sign * values).argsort()
    scale = 1.0 if other is None else other.scale
    values, residuals = values[order] * (scale / multiplied.scale), residuals[order] * (scale**0.5 / multiplied.scale)
    vectors = x[:, order] * scale**0.5
    return Pairs(values=values, vectors=vectors, residuals=residuals, converged=converged, iterations=step)


def _square_map(name: str, a: Any, x: Tensor) -> Operator:
    """Return what multiplies columns like those of ``x`` by ``a``, or by a multiple of it."""
    wrapped, n = operator("lobpcg", a), len(x)
    if wrapped.shape not in (None, (n, n)):
        raise ArgumentError("lobpcg", f"shape of {name}", wrapped.shape, f"({n}, {n}), as x has rows")
    return wrapped.probed(x * near_one(x.detach(), 0))


def _b_orthonormal(x: Tensor, right: Apply) -> Tensor:
    """Columns orthonormal in the inner product of ``b``, dependent ones left out; twice is enough."""
    for _ in range(2):
        gram = gemm(1.0, x, right(x), trans_a="c")
        if not bool(gram.isfinite().all()):
            return x[:, :0]
        values, vectors = torch.linalg.eigh(0.5 * (gram + gram.mH))
        kept = values > values[-1:] * torch.finfo(values.dtype).eps * x.shape[1] * 10
        x = gemm(1.0, x, vectors[:, kept] * values[kept].rsqrt().to(x.dtype))
    return x.flip(-1)
