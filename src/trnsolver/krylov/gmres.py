"""Krylov solvers for matrices that are not positive definite: MINRES, BiCGSTAB and GMRES."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnsci import NumericalError, array_function, check, op
from trnsci.arrays import like
from trnsci.plans import Cost
from trnsolver.array_operands import replaces_krylov
from trnsolver.krylov.cg import cg
from trnsolver.krylov.iteration import Iterates, Problem, Result
from trnsolver.krylov.linear_system import System, check_system, iterates, like_scipy, solve
from trnsolver.krylov.operators import Apply, Callback, Matrix
from trnsolver.krylov.vectors import (
    Columns,
    Numbers,
    eps,
    hypot,
    inner,
    norms,
    orthogonal,
    plus,
    quotient,
    root,
    some,
    unit,
)


@replaces_krylov
@like_scipy
@like(cg, lambda a, b, **options: solve(Minres(check_system("minres", a, b, **options))))
def minres(*args: Any, **kwargs: Any) -> Any:
    """Solve ``a @ x = b`` with ``a`` Hermitian, indefinite or singular but consistent (Paige and Saunders).

    Arguments as for `trnsolver.cg`; the preconditioner is positive definite. With one, the residuals recorded are those
    of the preconditioned system until the last, which is the true one.

    Example:
        >>> minres(torch.tensor([[2.0, 0.0], [0.0, -4.0]]), torch.ones(2)).x
        tensor([ 0.5000, -0.2500])
    """


@op("trnsolver::minres", eager=True)
@iterates(passes=7)
class Minres(NamedTuple):
    """``a @ x = b`` by the minimal residual in a Krylov space of a Hermitian matrix."""

    system: System

    def iterate(self, p: Problem) -> Iterates:
        x, r1, r2 = p.x, p.r, p.r
        start, y = norms(r1), p.improve(r1)
        done = p.record(start)
        first = beta = phibar = _length(r1, y)
        w = w2 = 0.0 * x
        beta_old, dbar, epsilon_old, cs, sn = 0.0, 0.0, 0.0, -1.0, 0.0
        while p.going(done):
            v = y * quotient(1.0, beta)
            y = p.apply(v) - quotient(beta, beta_old) * r1
            alpha = inner(v, y).real
            y = plus(y, -quotient(alpha, beta), r2)
            r1, r2 = r2, y
            y = p.improve(r2)
            beta_old, beta = beta, _length(r2, y)
            delta = cs * dbar + sn * alpha
            gbar = sn * dbar - cs * alpha
            epsilon, dbar = sn * beta, -cs * beta
            gamma = hypot(gbar, beta)
            cs, sn = quotient(gbar, gamma), quotient(beta, gamma)
            phi, phibar = cs * phibar, sn * phibar
            w1, w2 = w2, w
            w = plus(plus(v, -epsilon_old, w1), -delta, w2) * quotient(1.0, gamma)
            epsilon_old = epsilon
            x = plus(x, phi, w)
            done = p.record(quotient(abs(phibar), first) * start)
            if done:
                true = p.size(p.b - p.apply(x), True)
                done = true <= p.tol
                # the recurrence has lost the system, unless a step more may do
                if true > 2 * p.tol and not self.system.preconditioner.text:
                    break
        return p.result(x, done)


def _length(r: Columns, z: Columns) -> Numbers:
    """``sqrt(r.mH @ z)`` of every column, ``z`` the preconditioned ``r``."""
    square = inner(r, z).real
    if z is not r and some(square + 100 * eps(r) * norms(r) * norms(z) < 0):
        worst = f"a residual times its image is {float(torch.as_tensor(square, device='cpu').min()):.3g}"
        raise NumericalError(
            op="minres",
            message=f"the preconditioner is not positive definite: {worst}",
            hint="Use gmres or bicgstab, or another preconditioner",
        )
    return root(square)


@replaces_krylov
@like_scipy
@like(cg, lambda a, b, **options: solve(Bicgstab(check_system("bicgstab", a, b, **options))))
def bicgstab(*args: Any, **kwargs: Any) -> Any:
    """Solve ``a @ x = b`` with a general ``a`` in constant memory (van der Vorst); two products a step.

    Arguments as for `trnsolver.cg`.

    Example:
        >>> bicgstab(torch.tensor([[2.0, 1.0], [0.0, 4.0]]), torch.tensor([3.0, 4.0])).x.round(decimals=4)
        tensor([1., 1.])
    """


@op("trnsolver::bicgstab", eager=True)
@iterates(passes=10, products=2)
class Bicgstab(NamedTuple):
    """``a @ x = b`` by stabilised biconjugate gradients."""

    system: System

    def iterate(self, p: Problem) -> Iterates:
        x, r = p.x, p.r
        shadow, d, size, rho = r, r, norms(r), inner(r, r)
        done = p.record(size)
        while p.going(done):
            d_hat = p.improve(d)
            v = p.apply(d_hat)
            alpha = quotient(rho, inner(shadow, v))
            s = r - alpha * v
            s_hat = p.improve(s)
            t = p.apply(s_hat)
            omega = quotient(inner(t, s), inner(t, t))
            x = plus(plus(x, alpha, d_hat), omega, s_hat)
            done, r = p.check_residual(x, plus(s, -omega, t))
            before, rho = rho, inner(shadow, r)
            if some((abs(rho) <= eps(r) * size * norms(r)) | (omega == 0)):
                # The shadow residual has become useless for a column: start again from where it is.
                r = p.b - p.apply(x)
                shadow, d, size, rho = r, r, norms(r), inner(r, r)
                continue
            d = r + quotient(rho, before) * quotient(alpha, omega) * (d - omega * v)
        return p.result(x, p.residuals[-1] <= p.tol)


@replaces_krylov
@like_scipy
@array_function
def gmres(
    a: Matrix,
    b: Tensor,
    *,
    x0: Tensor | None = None,
    tol: float = 1e-5,
    maxiter: int | None = None,
    restart: int = 30,
    flexible: bool = False,
    preconditioner: Apply | None = None,
    callback: Callback | None = None,
) -> Result:
    """Solve ``a @ x = b`` with a general ``a``, minimising the residual over ``restart`` directions at a time.

    Args:
        a: as for `trnsolver.cg`.
        b: [N] or [N, K]; columns are solved side by side.
        x0: start.
        tol: relative residual to reach.
        maxiter: products with ``a``.
        restart: directions kept.
        flexible: the preconditioner may change from call to call; preconditioned directions are kept too.
        preconditioner: applied on the right, so residuals are the true ones.
        callback: called with the step and the residual.

    Example:
        >>> gmres(torch.tensor([[2.0, 1.0], [0.0, 4.0]]), torch.tensor([3.0, 4.0])).x.round(decimals=4)
        tensor([1., 1.])
    """
    check.flag("gmres", flexible=flexible)
    check.integer("gmres", "restart", restart, at_least=1)
    stop: dict[str, Any] = {"tol": tol, "maxiter": maxiter, "callback": callback}
    return solve(Gmres(check_system("gmres", a, b, x0=x0, preconditioner=preconditioner, **stop), restart, flexible))


@op("trnsolver::gmres", eager=True)
@iterates()
class Gmres(NamedTuple):
    """``a @ x = b`` by the minimal residual in a Krylov space, restarted."""

    system: System
    restart: int
    flexible: bool

    def cost(self) -> Cost:
        # a product is orthogonalised twice against half of the directions on average
        width = min(self.restart, self.system.maxiter)
        return self.system.cost(passes=2 * width + 2, kept=width * (2 if self.flexible else 1))

    def iterate(self, p: Problem) -> Iterates:
        x, r = p.x, p.r
        zeros = np.zeros if isinstance(r, np.ndarray) else r.new_zeros
        done = p.record(norms(r))
        while p.going(done):
            width = min(self.restart, p.maxiter - len(p.residuals) + 1)
            (n, *many), (first, size) = r.shape, unit(r)
            basis: Columns = zeros((*many, width + 1, n), dtype=r.dtype)
            directions = zeros(basis.shape, dtype=r.dtype) if self.flexible else basis
            h, right, left = (zeros((*many, width + 1, k), dtype=r.dtype) for k in (width, 1, 1))
            basis[..., 0, :], right[..., 0, 0], left[..., 0, 0] = first.T, size, 1.0
            residual = size
            for j in range(width):
                z = p.improve(basis[..., j, :].T)
                if self.flexible:
                    directions[..., j, :] = z.T
                w, part = orthogonal(basis[..., : j + 1, :], p.apply(z).T[..., None])
                following, length = unit(w[..., 0].T)
                h[..., : j + 1, j : j + 1] = part
                h[..., j + 1, j] = length
                basis[..., j + 1, :] = following.T
                # The residual is the right-hand side's part along ``left``, the unit vector orthogonal to all of ``h``.
                known = left[..., : j + 1, 0].T
                reached = (known * part[..., 0].T).sum(0)
                total = hypot(abs(reached), length)
                left[..., : j + 1, 0] = (known * quotient(length, total)).T
                left[..., j + 1, 0] = -quotient(reached, total)
                residual = residual * quotient(length, total)
                done = p.record(residual)
                if done or not some(length > eps(r) * norms(part[..., 0].T)):
                    break
            parts = h[..., : j + 2, : j + 1], right[..., : j + 2, :]
            y = _least_squares(*(x if isinstance(x, Tensor) else torch.from_numpy(x) for x in parts))
            step: Columns = directions[..., : j + 1, :].mT @ (y.numpy() if zeros is np.zeros else y)
            x = x + (step[..., 0].T if self.flexible else p.improve(step[..., 0].T))
            r = p.b - p.apply(x)
            if done:
                done = p.size(r, True) <= p.tol
            if len(p.residuals) > 2 * self.restart and p.residuals[-1] >= p.residuals[-1 - width] and not done:
                break
        return p.result(x, done)


def _least_squares(h: Tensor, right: Tensor) -> Tensor:
    """Small Hessenberg systems, columns that are done (all zeros) included."""
    q, r = torch.linalg.qr(h)
    diagonal = r.diagonal(dim1=-2, dim2=-1)
    dead = diagonal.abs() <= torch.finfo(diagonal.real.dtype).tiny
    r = r + torch.diag_embed(dead.to(r.dtype))
    y = torch.linalg.solve_triangular(r, q.mH @ right, upper=True)
    return torch.where(dead.unsqueeze(-1), 0.0, y)
