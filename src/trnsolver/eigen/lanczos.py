"""A few eigenpairs of large matrices: Lanczos, Arnoldi and LOBPCG."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from trnblas import gemm
from trnsci import ArgumentError, array_function, check, op
from trnsci.arrays import to_numpy
from trnsci.planning import home
from trnsci.plans import Cost
from trnsci.specs import Opaque
from trnsolver.eigen.eigenpairs import Eigenpairs, Pairs, Search, check_search, find
from trnsolver.eigen.krylov_schur import rounding
from trnsolver.eigen.missed_eigenvalues import Guard
from trnsolver.krylov.linear_system import iterates
from trnsolver.krylov.operators import (
    Apply,
    Callback,
    Counted,
    Matrix,
    Operator,
    check_callable,
    identity_map,
    operator,
    preconditioner_or_identity,
    tolerance,
)
from trnsolver.krylov.vectors import norms
from trnsolver.scaling import near_one


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
    search = check_search("lanczos", a, k, n=n, which=which, tol=tol, maxiter=maxiter, start=(dtype, device, seed))
    return find(Lanczos(search))


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
    start = (dtype, device, seed)
    options: dict[str, Any] = {"which": which, "tol": tol, "maxiter": maxiter, "start": start}
    return find(Arnoldi(check_search("arnoldi", a, k, n=n, hermitian=False, **options)))


@op("trnsolver::lanczos", eager=True)
@iterates()
class Lanczos(NamedTuple):
    """Extreme eigenpairs of a Hermitian operator, by thick-restart Lanczos."""

    system: Search

    def fake(self) -> Eigenpairs:
        return self.system.fake(self.system.like.dtype.to_real())


@op("trnsolver::arnoldi", eager=True)
@iterates()
class Arnoldi(NamedTuple):
    """Eigenpairs of a general operator, by Krylov-Schur restarts."""

    system: Search

    def fake(self) -> Eigenpairs:
        return self.system.fake(self.system.like.dtype.to_complex())


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
    """Return extreme eigenpairs of ``a @ v = b @ v * w`` from a block ``x`` [N, K] of starts (Knyazev).

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
    if home() is None:
        check.data("lobpcg", wrapped=True, a=a, b=b, x=x)
    check.equal("lobpcg", "dimensions", x=x.ndim, matrix=2)
    check.integer("lobpcg", "maxiter", maxiter, at_least=0)
    check_callable("lobpcg", "callback", callback)
    n, k = x.shape
    first, second = _square_map("a", a, x), None if b is None else _square_map("b", b, x)
    if 3 * k > n:
        raise ArgumentError("lobpcg", "shape of x", tuple(x.shape), f"at most {n // 3} columns")
    check_callable("lobpcg", "preconditioner", preconditioner)
    improve = Opaque("", preconditioner_or_identity("lobpcg", preconditioner))
    return find(Lobpcg(first, second, x, improve, largest, tol, maxiter, Opaque("", callback)))


@op("trnsolver::lobpcg", eager=True, composed=True)
class Lobpcg(NamedTuple):
    """Extreme eigenpairs of ``a @ v = b @ v * w`` by locally optimal steps of a block."""

    a: Operator
    b: Operator | None
    x: Tensor  # [N, K]
    preconditioner: Opaque
    largest: bool
    tol: float
    maxiter: int
    callback: Opaque

    def fake(self) -> Eigenpairs:
        real, k = self.x.dtype.to_real(), self.x.shape[1]
        values, residuals = self.x.new_empty(k, dtype=real), self.x.new_empty(k, dtype=real)
        return Eigenpairs(values, torch.empty_like(self.x), residuals, False, self.maxiter, 0)

    def cost(self) -> Cost:
        (n, k), size = self.x.shape, self.x.element_size()
        stored = self.a.stored + (0 if self.b is None else 2 * self.b.stored)
        flops = 2 * (4 * k * stored + 45 * n * k * k) * (4 if self.x.is_complex() else 1)
        return Cost(flops, (stored + 12 * n * k) * size, 6 * n * k * size, 6 * n * k * size)

    def iterations(self) -> int:
        return self.maxiter

    def prediction(self) -> None:
        if self.a.matrix is not None:
            self.a.apply(self.x)

    def pytorch(self) -> Eigenpairs:
        x, tol, maxiter, callback, improve = (
            self.x,
            self.tol,
            self.maxiter,
            self.callback.value,
            self.preconditioner.value,
        )
        n, k = x.shape
        left, other = Counted(self.a.apply), self.b
        right = identity_map if other is None else Counted(other.apply)
        sign = -1.0 if self.largest else 1.0
        directions = x.new_zeros((n, 0))
        x = _b_orthonormal(x, right, directions)
        if x.shape[1] < k:
            raise ArgumentError(
                op="lobpcg",
                argument="x",
                got=f"{x.shape[1]} such columns",
                expected=f"{k} columns that are finite and linearly independent in the product of b",
            )
        guard, source, confirmed, norm = Guard(k), torch.Generator().manual_seed(0), False, 0.0
        for step in range(maxiter + 1):
            ax = left(x)
            values = (x.conj() * ax).sum(0).real
            order = (sign * values).argsort()
            x, ax, values = x[:, order], ax[:, order], values[order]
            r = ax - right(x) * values.to(x.dtype)
            residuals = norms(r)
            worst, scale = float(residuals[:k].max()), float(values[:k].abs().max()) or 1.0
            if callback is not None:
                callback(step, worst / scale)
            # a residual is not asked to be smaller than rounding leaves it
            enough, fresh = tol * scale + rounding(x.mT) * max(norm, scale), False
            if worst <= enough:
                heights = to_numpy(-sign * values)
                fresh = guard.has_changed(heights, enough)
                confirmed = not fresh and guard.is_resolved(heights, to_numpy(residuals), k, enough)
            if confirmed or step == maxiter or not math.isfinite(worst):
                break
            if fresh:
                drawn = improve(torch.randn((n, 1), dtype=x.dtype, device="cpu", generator=source).to(x.device))
                x, directions = torch.cat([x[:, :k], _b_orthonormal(drawn, right, x[:, :k])], -1), x[:, :0]
                continue
            w = improve(r[:, residuals > enough])
            w = w / norms(w).clamp_min(torch.finfo(values.dtype).tiny)
            space = torch.cat([x, _b_orthonormal(torch.cat([w, directions], -1), right, x)], -1)
            core = gemm(1.0, space, left(space), trans_a="c")
            spectrum, vectors = torch.linalg.eigh(sign * 0.5 * (core + core.mH))
            norm = max(norm, float(spectrum.abs().max()))
            following = gemm(1.0, space, vectors[:, : x.shape[1]])
            # What the step added, without the part along the old block.
            directions = following - gemm(1.0, x, gemm(1.0, x, right(following), trans_a="c"))
            size = norms(directions)
            # of a column that has converged it is rounding
            moved = size > rounding(x.mT) * norms(following)
            directions = directions[:, moved] / size[moved]
            x = following
        scale = 1.0 if other is None else other.scale
        return Eigenpairs(
            values[:k] * (scale / self.a.scale),
            x[:, :k] * scale**0.5,
            residuals[:k] * (scale**0.5 / self.a.scale),
            confirmed,
            step,
            left.products + (right.products if isinstance(right, Counted) else 0),
        )


def _square_map(name: str, a: Any, x: Tensor) -> Operator:
    """Return what multiplies columns like those of ``x`` by ``a``, or by a multiple of it."""
    wrapped, n = operator("lobpcg", a), len(x)
    if wrapped.shape not in (None, (n, n)):
        raise ArgumentError("lobpcg", f"shape of {name}", wrapped.shape, f"({n}, {n}), as x has rows")
    return wrapped.scale_by_product(x * near_one(x.detach(), 0))


def _b_orthonormal(x: Tensor, right: Apply, beside: Tensor) -> Tensor:
    """Columns orthonormal in the inner product of ``b``, also to those ``beside``; dependent ones are left out."""
    for _ in range(2):
        x = x - gemm(1.0, beside, gemm(1.0, right(beside), x, trans_a="c"))
        gram = gemm(1.0, x, right(x), trans_a="c")
        if not bool(gram.isfinite().all()):
            return x[:, :0]
        values, vectors = torch.linalg.eigh(0.5 * (gram + gram.mH))
        kept = values > values[-1:] * torch.finfo(values.dtype).eps * x.shape[1] * 10
        x = gemm(1.0, x, vectors[:, kept] * values[kept].rsqrt().to(x.dtype))
    return x.flip(-1)
