"""Conjugate gradients, for one right-hand side, many at once, or as a block."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnblas import gemm
from trnsci import NotConverged, array_function, host, op
from trnsci.arrays import like
from trnsci.nki import launch
from trnsci.plans import Cost
from trnsolver.arguments import all_finite
from trnsolver.array_operands import replaces_krylov
from trnsolver.kernels import cg as kernels
from trnsolver.krylov.iteration import CHUNK, Iterates, Problem, Result, State
from trnsolver.krylov.linear_system import System, check_system, iterates, like_scipy, solve
from trnsolver.krylov.operators import Apply, Callback, Matrix, identity_map
from trnsolver.krylov.vectors import Columns, Numbers, inner, norms, plus, quotient

Inner = Callable[[Columns, Columns], Numbers]
# Notes the size of a residual, in place of the last one where that is computed again, and returns it.
Size = Callable[[Columns, bool], float]


@replaces_krylov
@like_scipy
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
        a: [N, N] matrix, sparse matrix, ``LinearOperator``, anything with ``@``, or a function of what ``b`` is: of [N]
            or [N, K], and of arrays where ``b`` is one.
        b: [N] or [N, K]; columns are solved side by side, one product per step for all.
        x0: start; zero by default.
        tol: residual to reach, relative to the norm of each column of ``b`` (also as SciPy's ``rtol``). It is computed
            afresh in the end; one smaller than rounding leaves is not claimed. For a column of zeros the solution is
            zero.
        maxiter: ``10 N`` by default.
        preconditioner: a function as ``a`` may be, or a matrix, close to the inverse of ``a`` (SciPy's ``M``); see
            `trnsolver.jacobi_preconditioner`.
        callback: called with the step and the residual.

    Returns:
        `Result`. The error after k steps is at most ``2 ((sqrt(c) - 1) / (sqrt(c) + 1))**k`` of the start, in the norm
        of ``a`` with condition number ``c``.

    Example:
        >>> cg(torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.ones(2)).x
        tensor([0.5000, 0.2500])
    """
    stop: dict[str, Any] = {"tol": tol, "maxiter": maxiter, "callback": callback}
    return solve(Cg(check_system("cg", a, b, x0=x0, preconditioner=preconditioner, **stop)))


@op("trnsolver::cg", eager=True)
@iterates(passes=5)
class Cg(NamedTuple):
    """``a @ x = b`` by conjugate gradients."""

    system: System

    def iterate(self, p: Problem) -> Iterates:
        x, done = iterate_conjugate(
            p.apply, p.improve, p.b, p.x, p.r, inner=inner, size=p.size, tol=p.tol, most=p.maxiter
        )
        return p.result(x, done)

    @property
    def takes_chunks(self) -> bool:
        """Whether a kernel takes chunks of steps; others multiply on the device alone."""
        return self.system.a.matrix is not None and not self.system.preconditioner.text

    def limits(self, implementation: str) -> str | None:
        if implementation == "nki" and self.takes_chunks:
            return self.system.on_chip(kernels.N_MAX, kernels.K_MAX)
        return self.system.limits(implementation)

    def nki(self) -> Iterates:
        p, matrix = self.system.prepare(), self.system.a.matrix
        if matrix is None or not self.takes_chunks:
            return self.iterate(p)
        return p.in_chunks(partial(_advance, matrix), identity_map)

    def chunk(self) -> int:
        return CHUNK if self.takes_chunks else 1

    def prediction(self) -> None:
        a, x = self.system.a, self.system.b
        if a.matrix is not None and self.takes_chunks:
            _advance(a.matrix, x, x, x, CHUNK)
        else:
            a.multiply(x)


def _advance(a: Tensor, x: Tensor, r: Tensor, d: Tensor, steps: int) -> State:
    """Return the solution, residual, direction and the norms of residuals after steps on chip."""
    x, r, d, squares = launch(kernels.cg, *(t.contiguous() for t in (a, x, r, d)), steps=steps)
    return x, r, d, squares.clamp_min(0).sqrt()


def iterate_conjugate(
    apply: Apply, improve: Apply, b: Columns, x: Columns, r: Columns, *, inner: Inner, size: Size, tol: float, most: int
) -> tuple[Columns, bool]:
    """Take steps until the residual's size is within a tolerance; return the solution and whether it is.

    A recurrence drifts: what decides is computed afresh, and where that gains less than a tenth no step will.
    """
    worst, computed, z = size(r, False), math.inf, improve(r)
    d, rz = 1.0 * z, inner(r, z)
    for _ in range(most):
        if not tol < worst < math.inf:
            break
        q = apply(d)
        alpha = quotient(rz, inner(d, q))
        x, r = plus(x, alpha, d), plus(r, -alpha, q)
        worst = size(r, False)
        again = worst <= tol
        if again:
            r, before = b - apply(x), computed
            worst = computed = size(r, True)
            if not tol < computed <= 0.9 * before:
                break
        z = improve(r)
        before_rz, rz = rz, inner(r, z)
        # directions belong to the recurrence: columns that it took far below their residual would grow by the quotient
        d = 1.0 * z if again else z + quotient(rz, before_rz) * d
    return x, worst <= tol


@like_scipy
@like(cg, lambda a, b, **options: solve(BlockCg(check_system("block_cg", a, b, **options))))
def block_cg(*args: Any, **kwargs: Any) -> Any:
    """Conjugate gradients on all columns of ``b`` [N, K] at once (O'Leary): every column uses every search direction.

    Arguments as for `cg`. Directions are kept orthonormal, so that dependent columns do no harm.

    Example:
        >>> block_cg(torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.eye(2)).x
        tensor([[0.5000, 0.0000],
                [0.0000, 0.2500]])
    """


@op("trnsolver::block_cg", eager=True)
@iterates(host=False)
class BlockCg(NamedTuple):
    """``a @ x = b`` by conjugate gradients in the space of all columns."""

    system: System

    def cost(self) -> Cost:
        return self.system.cost(passes=8 * self.system.b.shape[1])

    def iterate(self, p: Problem) -> Iterates:
        x, r = p.x, p.r
        done, d = p.record(norms(r)), _basis(p, p.improve(r))
        while p.going(done) and d.shape[1]:
            q = p.apply(d)
            core = gemm(1.0, d, q, trans_a="c")
            factor, info = torch.linalg.cholesky_ex(0.5 * (core + core.mH))
            if bool(info):
                break
            alpha = torch.cholesky_solve(gemm(1.0, d, r, trans_a="c"), factor)
            x, r = x + gemm(1.0, d, alpha), r - gemm(1.0, q, alpha)
            done, r = p.check_residual(x, r)
            z = p.improve(r)
            beta = -torch.cholesky_solve(gemm(1.0, q, z, trans_a="c"), factor)
            d = _basis(p, z + gemm(1.0, d, beta))
        return p.result(x, p.residuals[-1] <= p.tol)


def _basis(p: Problem, z: Tensor) -> Tensor:
    """Return orthonormal columns that span those of ``z``, dependent ones left out."""
    size = norms(z)
    if not all_finite(size):
        steps = len(p.residuals) - 1
        message = f"broke down after {steps} iterations: a direction is not finite"
        raise NotConverged(op=p.op, iterations=steps, residual=p.residuals[-1], message=message)
    kept = z[:, size > 0] / size[size > 0]
    if kept.shape[1] == 0:
        return kept
    u, s, _ = host.svd(p.op, kept)
    return u[:, s > s[0] * torch.finfo(s.dtype).eps * len(z)]
