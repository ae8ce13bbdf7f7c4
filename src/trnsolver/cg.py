"""Conjugate gradients, for one right-hand side, many at once, or as a block."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnblas import gemm
from trnsci import array_function, op, run
from trnsci.nki import launch
from trnsolver.arguments import readable
from trnsolver.kernels import cg as kernels
from trnsolver.operators import (
    Apply,
    Callback,
    Matrix,
    Problem,
    Result,
    inner,
    norms,
    on_chip,
    preconditioned,
    problem,
    quotient,
)

Inner = Callable[[Tensor, Tensor], Tensor]
# Notes the size of a residual, in place of the last one where that is computed again, and returns it.
Size = Callable[[Tensor, bool], float]


@array_function
def cg(
    a: Matrix,
    b: Tensor,
    *,
    x0: Tensor | None = None,
    tol: float = 1e-5,
    maxiter: int | None = None,
    preconditioner: Apply | None = None,
    callback: Callback | None = None,
) -> Result:
    """Solve ``a @ x = b`` with ``a`` Hermitian positive definite.

    Args:
        a: [N, N] matrix, sparse matrix, ``LinearOperator``, anything with ``@``, or a function of [N, K].
        b: [N] or [N, K]; columns are solved side by side, one product per step for all.
        x0: start; zero by default.
        tol: residual to reach, relative to the norm of each column of ``b``. It is computed afresh in the end; one
            smaller than rounding leaves is not claimed. For a column of zeros the solution is zero.
        maxiter: ``10 N`` by default.
        preconditioner: a function of [N, K] close to the inverse of ``a``; see `trnsolver.jacobi_preconditioner`.
        callback: called with the step and the residual.

    Returns:
        `Result`. The error after k steps is at most ``2 ((sqrt(c) - 1) / (sqrt(c) + 1))**k`` of the start, in the norm
        of ``a`` with condition number ``c``.

    Example:
        >>> cg(torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.ones(2)).x
        tensor([0.5000, 0.2500])
    """
    p = problem("cg", a, b, x0=x0, tol=tol, maxiter=maxiter, callback=callback)
    if p.a.matrix is not None and preconditioner is None:
        return _dense(p, p.a.matrix, p.b if x0 is None else p.b - p.a.apply(p.x))
    m = preconditioned("cg", preconditioner)
    x, done = conjugated(p.a.apply, m, p.b, p.x, inner=inner, size=p.size, tol=p.tol, most=p.maxiter)
    return p.result(x, done)


def conjugated(
    apply: Apply, improve: Apply, b: Tensor, x: Tensor, *, inner: Inner, size: Size, tol: float, most: int
) -> tuple[Tensor, bool]:
    """Take steps until the residual's size is within a tolerance; return the solution and whether it is.

    A recurrence drifts: what decides is computed afresh, and where that gains less than a tenth no step will.
    """
    r, computed = b - apply(x), math.inf
    worst, z = size(r, False), improve(r)
    d, rz = z, inner(r, z)
    for _ in range(most):
        if worst <= tol:
            break
        q = apply(d)
        alpha = quotient(rz, inner(d, q))
        x, r = x + alpha * d, r - alpha * q
        worst = size(r, False)
        if worst <= tol:
            r, before = b - apply(x), computed
            worst = computed = size(r, True)
            if computed > max(tol, 0.9 * before):
                break
        z = improve(r)
        before_rz, rz = rz, inner(r, z)
        d = z + quotient(rz, before_rz) * d
    return x, worst <= tol


def _dense(p: Problem, a: Tensor, r: Tensor) -> Result:
    """A matrix in memory: whole chunks of steps are one operation, on chip where kernels run."""
    # Somewhat below the tolerance: the recurrence drifts from the residual that is computed in the end.
    goal = 0.9 * p.tol * float(p.sizes.min()) if p.sizes.numel() else 0.0
    return p.in_chunks(r, lambda x, r, d, steps: run(CgSteps(a, x, r, d, steps, goal)), lambda r: r)


@op("trnsolver::cg", calls="numpy.matmul")
class CgSteps(NamedTuple):
    """Solution, residual, direction and the norms of residuals after so many steps, or fewer where the goal is reached.

    In place of the norms after steps that were not taken stands -1.
    """

    a: Tensor  # [N, N]
    x: Tensor  # [N, K]
    r: Tensor  # [N, K]
    d: Tensor  # [N, K]
    steps: int
    goal: float  # norm of the residuals; kernels take every step

    def fake(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        x, r, d = (torch.empty_like(t, memory_format=torch.contiguous_format) for t in (self.x, self.r, self.d))
        return x, r, d, x.new_empty((self.steps, x.shape[1]), dtype=self.a.dtype.to_real())

    def cost(self) -> int:
        n, k = self.x.shape
        return self.steps * k * (2 * self.a.numel() + 10 * n) * (4 if self.a.is_complex() else 1)

    def limits(self, implementation: str) -> str | None:
        if implementation == "host":
            return None if self.x.shape[1] == 1 else "NumPy takes one column"
        return on_chip(self.a, self.x, kernels.N_MAX, kernels.K_MAX) if implementation == "nki" else None

    def host(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        a, (x, r, d) = self.a.numpy(), (t.numpy()[:, 0] for t in (self.x, self.r, self.d))
        history: list[float] = []
        rr = float(np.vdot(r, r).real)
        while len(history) < self.steps:
            q = a @ d
            curved = float(np.vdot(d, q).real)
            alpha = rr / curved if curved else 0.0
            x, r = x + alpha * d, r - alpha * q
            before, rr = rr, float(np.vdot(r, r).real)
            d = r + (rr / before if before else 0.0) * d
            history.append(rr**0.5)
            if history[-1] <= self.goal:
                history += [-1.0] * (self.steps - len(history))
        norms_of = torch.tensor(history, dtype=self.a.dtype.to_real()).unsqueeze(1)
        return torch.from_numpy(x[:, None]), torch.from_numpy(r[:, None]), torch.from_numpy(d[:, None]), norms_of

    def pytorch(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        a, x, r, d = self[:4]
        history: list[Tensor] = []
        rr = inner(r, r).real
        while len(history) < self.steps:
            q = a @ d
            alpha = quotient(rr, inner(d, q).real)
            x, r = x + alpha * d, r - alpha * q
            before, rr = rr, inner(r, r).real
            d = r + quotient(rr, before) * d
            history.append(rr.sqrt())
            if readable(rr) and bool((history[-1] <= self.goal).all()):
                history += [torch.full_like(rr, -1.0)] * (self.steps - len(history))
        return x.clone(), r.clone(), d.clone(), torch.stack(history)

    def nki(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        if self.x.numel() == 0:
            return self.pytorch()
        operands = (t.contiguous() for t in (self.a, self.x, self.r, self.d))
        x, r, d, squares = launch(kernels.cg, *operands, steps=self.steps)
        return x, r, d, squares.clamp_min(0).sqrt()


@array_function
def block_cg(
    a: Matrix,
    b: Tensor,
    *,
    x0: Tensor | None = None,
    tol: float = 1e-5,
    maxiter: int | None = None,
    preconditioner: Apply | None = None,
    callback: Callback | None = None,
) -> Result:
    """Conjugate gradients on all columns of ``b`` [N, K] at once (O'Leary): every column uses every search direction.

    Arguments as for `cg`. Directions are kept orthonormal, so that dependent columns do no harm.

    Example:
        >>> block_cg(torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.eye(2)).x
        tensor([[0.5000, 0.0000],
                [0.0000, 0.2500]])
    """
    p = problem("block_cg", a, b, x0=x0, tol=tol, maxiter=maxiter, callback=callback)
    m = preconditioned("block_cg", preconditioner)
    x = p.x
    r = p.b - p.a.apply(x)
    done = p.record(norms(r))
    z = m(r)
    d = _basis(z)
    while not done and len(p.residuals) <= p.maxiter and d.shape[1]:
        q = p.a.apply(d)
        core = gemm(1.0, d, q, trans_a="c")
        factor, info = torch.linalg.cholesky_ex(0.5 * (core + core.mH))
        if bool(info):
            break
        alpha = torch.cholesky_solve(gemm(1.0, d, r, trans_a="c"), factor)
        x, r = x + gemm(1.0, d, alpha), r - gemm(1.0, q, alpha)
        done, r = p.finished(x, r)
        z = m(r)
        beta = -torch.cholesky_solve(gemm(1.0, q, z, trans_a="c"), factor)
        d = _basis(z + gemm(1.0, d, beta))
    return p.result(x, p.residuals[-1] <= p.tol)


def _basis(z: Tensor) -> Tensor:
    """Orthonormal columns that span those of ``z``, dependent ones left out."""
    size = norms(z)
    kept = z[:, size > 0] / size[size > 0]
    if kept.shape[1] == 0:
        return kept
    u, s, _ = torch.linalg.svd(kept, full_matrices=False)
    return u[:, s > s[0] * torch.finfo(s.dtype).eps * len(z)]
