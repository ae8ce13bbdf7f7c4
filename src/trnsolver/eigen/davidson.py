"""A few eigenpairs of a large Hermitian operator with a dominant diagonal (Davidson)."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from trnblas import gemm
from trnsci import ArgumentError, array_function, check, op
from trnsci.arrays import to_numpy
from trnsci.planning import home
from trnsci.plans import Cost
from trnsci.specs import Opaque
from trnsolver.arguments import finite
from trnsolver.eigen.eigenpairs import Eigenpairs, Pairs, find
from trnsolver.eigen.krylov_schur import rounding
from trnsolver.eigen.missed_eigenvalues import Guard
from trnsolver.krylov.operators import Callback, Counted, Matrix, Operator, check_callable, operator, tolerance
from trnsolver.krylov.vectors import norms


@array_function
def davidson(
    a: Matrix,
    k: int,
    *,
    diagonal: Tensor | None = None,
    x0: Tensor | None = None,
    which: Literal["smallest", "largest"] = "smallest",
    tol: float = 1e-6,
    maxiter: int = 200,
    space: int | None = None,
    callback: Callback | None = None,
) -> Pairs:
    """``k`` extreme eigenpairs: the block grows by residuals divided by ``diagonal - value``, and restarts when full.

    Args:
        a: [N, N] matrix or anything `trnsolver.cg` takes.
        k: how many.
        diagonal: [N] of ``a``; taken from ``a`` when that is a dense matrix, needed otherwise.
        x0: [N, K], starts, beside the unit vectors at the ``k`` extreme diagonal entries: a start alone may converge to
            pairs that are not at the end of the spectrum.
        which: end of the spectrum.
        tol: residual to reach, relative to the largest Ritz value.
        maxiter: steps, a product with at most ``k`` vectors each.
        space: largest dimension before a restart; ``8 k + 16`` by default.
        callback: called with the step and the largest residual.

    Returns:
        `Pairs`, ordered from the end of the spectrum.

    Cost:
        a product with ``k`` vectors and ``4 N space k`` FLOPs a step.

    Example:
        >>> davidson(torch.diag(torch.tensor([1.0, 5.0, 3.0, 2.0])) + 0.01, 1).values.round(decimals=2)
        tensor([1.0100])
    """
    wrapped = operator("davidson", a)
    tolerance("davidson", tol)
    check.option("davidson", "which", which, ("smallest", "largest"))
    if diagonal is None:
        if wrapped.matrix is None:
            raise ArgumentError("davidson", "diagonal", None, "the diagonal of a, because a is not a matrix")
        diagonal = wrapped.matrix.diagonal() / wrapped.scale
    check.dense("davidson", diagonal=diagonal)
    if home() is None:
        check.data("davidson", wrapped=True, a=a, diagonal=diagonal, x0=x0)
    check.equal("davidson", "dimensions", diagonal=diagonal.ndim, vector=1)
    n = len(diagonal)
    if wrapped.shape is not None and wrapped.shape != (n, n):
        raise ArgumentError("davidson", "shape of a", wrapped.shape, f"({n}, {n})")
    wrapped = wrapped.scale_by_product(torch.ones_like(diagonal).unsqueeze(-1))
    diagonal = diagonal * wrapped.scale if wrapped.scale != 1.0 else diagonal
    check.integer("davidson", "k", k, 1, n)
    check.integer("davidson", "maxiter", maxiter, at_least=0)
    check_callable("davidson", "callback", callback)
    most = min(n, max(2 * k + 2, 8 * k + 16 if space is None else check.integer("davidson", "space", space)))
    if x0 is not None:
        check.dense("davidson", x0=x0)
        finite("davidson", x0=x0)
        if x0.ndim != 2 or x0.shape[0] != n or x0.shape[1] < k or x0.dtype != diagonal.dtype:
            expected = f"{diagonal.dtype} [{n}, {k}] or wider"
            raise ArgumentError("davidson", "x0", f"{x0.dtype} {tuple(x0.shape)}", expected)
    finite("davidson", diagonal=diagonal)
    return find(Davidson(wrapped, k, diagonal, x0, which, tol, maxiter, most, Opaque("", callback)))


@op("trnsolver::davidson", eager=True, composed=True)
class Davidson(NamedTuple):
    """Extreme eigenpairs of a Hermitian operator in a block that grows by residuals divided by its diagonal."""

    a: Operator
    k: int
    diagonal: Tensor  # [N]
    x0: Tensor | None  # [N, K]
    which: str
    tol: float
    maxiter: int
    space: int
    callback: Opaque

    def fake(self) -> Eigenpairs:
        n, real = self.diagonal.shape[0], self.diagonal.dtype.to_real()
        values, residuals = (self.diagonal.new_empty(self.k, dtype=real) for _ in range(2))
        return Eigenpairs(values, self.diagonal.new_empty((n, self.k)), residuals, False, self.maxiter, 0)

    def cost(self) -> Cost:
        n, size = self.diagonal.shape[0], self.diagonal.element_size()
        flops = 2 * self.k * (self.a.stored + 2 * n * self.space) * (4 if self.diagonal.is_complex() else 1)
        read = (self.a.stored + 2 * n * self.space) * size
        return Cost(flops, read, 2 * n * self.k * size, 2 * n * self.space * size)

    def iterations(self) -> int:
        return self.maxiter

    def prediction(self) -> None:
        if self.a.matrix is not None:
            self.a.apply(self.diagonal.new_empty((self.diagonal.shape[0], self.k)))

    def pytorch(self) -> Eigenpairs:
        k, diagonal, tol, maxiter, callback = self.k, self.diagonal, self.tol, self.maxiter, self.callback.value
        n, apply = len(diagonal), Counted(self.a.apply)
        sign = 1.0 if self.which == "smallest" else -1.0
        heights = sign * (diagonal.real if diagonal.is_complex() else diagonal)
        units = torch.zeros((n, k), dtype=diagonal.dtype, device=diagonal.device)
        units[heights.argsort()[:k], torch.arange(k, device=diagonal.device)] = 1.0
        x0 = units if self.x0 is None else self.x0
        basis = _append_directions(_append_directions(x0[:, :0], x0), units)
        images = apply(basis)
        guard, source, pairs, confirmed = Guard(k), torch.Generator().manual_seed(0), k, False
        for step in range(maxiter + 1):
            core = sign * gemm(1.0, basis, images, trans_a="c")
            values, vectors = torch.linalg.eigh(0.5 * (core + core.mH))
            # a residual is not asked to be smaller than rounding leaves it
            slack = rounding(basis.mT) * float(values.abs().max())
            values, vectors = values[:pairs], vectors[:, :pairs]
            x = gemm(1.0, basis, vectors)
            residual = sign * gemm(1.0, images, vectors) - x * values
            sizes = norms(residual)
            scale = float(values[:k].abs().max()) or 1.0
            if callback is not None:
                callback(step, float(sizes[:k].max()) / scale)
            enough, fresh, whole = tol * scale + slack, False, basis.shape[1] == n
            open_ = sizes > enough
            if not whole and not bool(open_[:k].any()):
                wanted = to_numpy(-values)
                fresh = guard.has_changed(wanted, enough)
                confirmed = not fresh and guard.is_resolved(wanted, to_numpy(sizes), k, enough)
            if step == maxiter or confirmed or whole:
                break
            new, centres = residual[:, open_], values[open_]
            if fresh:
                # divided by the diagonal, as residuals are, it begins at this end of the spectrum
                new = torch.randn((n, 1), dtype=diagonal.dtype, device="cpu", generator=source).to(diagonal.device)
                pairs, centres = k + 1, values[k - 1 : k]
            if fresh or self.space < min(n, basis.shape[1] + pairs):
                kept = k if fresh else pairs
                basis, images = x[:, :kept], gemm(1.0, images, vectors[:, :kept])
            # A denominator near zero means the unit vector is the eigenvector: a bounded step is enough.
            below = heights.unsqueeze(-1) - centres
            below = torch.where(below.abs() < 1e-3 * scale, 1e-3 * scale, below)
            grown = _append_directions(basis, new / below)
            if grown.shape[1] == basis.shape[1]:
                # where the matrix is its diagonal the quotient is the vector itself
                grown = _append_directions(basis, new)
            if grown.shape[1] == basis.shape[1]:
                break
            images = torch.cat([images, apply(grown[:, basis.shape[1] :])], -1)
            basis = grown
        return Eigenpairs(
            sign * values[:k] / self.a.scale,
            x[:, :k],
            sizes[:k] / self.a.scale,
            (confirmed or whole) and not bool(open_[:k].any()),
            step,
            apply.products,
        )


def _append_directions(basis: Tensor, new: Tensor) -> Tensor:
    """Append new directions to the basis, orthonormal; those in its span, but for rounding, are left out."""
    least = 100 * torch.finfo(new.real.dtype).eps
    for column in (new / norms(new).clamp_min(torch.finfo(new.real.dtype).tiny)).unbind(-1):
        v, whole = column.unsqueeze(-1), 1.0
        for _ in range(3):
            v = v - gemm(1.0, basis, gemm(1.0, basis, v, trans_a="c")) if basis.shape[1] else v
            size = norms(v)
            whole *= float(size)
            if whole <= least:
                break
            v = v / size
            if float(size) > 0.5:
                basis = torch.cat([basis, v], -1)
                break
    return basis
