"""Least squares by Krylov methods: LSQR and LSMR."""

from __future__ import annotations

import torch
from torch import Tensor

from trnsci import ArgumentError, array_function, check
from trnsolver.operators import Callback, Matrix, Result, norms, problem, quotient, start, unit


@array_function
def lsqr(
    a: Matrix,
    b: Tensor,
    *,
    x0: Tensor | None = None,
    damp: float = 0.0,
    tol: float = 1e-6,
    maxiter: int | None = None,
    callback: Callback | None = None,
) -> Result:
    """Minimise ``norm(a @ x - b)**2 + damp**2 norm(x)**2`` (Paige and Saunders).

    Args:
        a: [M, N] matrix, sparse matrix, ``LinearOperator``, object with ``@`` and ``mH``, or the pair (map, adjoint).
        b: [M] or [M, K].
        x0: [N] or [N, K], where to start; zero by default. With ``damp``, the norm is that of ``x - x0``, as in SciPy.
        damp: weight of the solution's norm.
        tol: stops when ``norm(a.mH @ r) <= tol norm(a) norm(r)`` or ``norm(r) <= tol norm(b)``, with that of the
            start's residual where ``b`` is zero; residuals recorded are the smaller of the two. With ``x0`` the last
            one is computed afresh, and one smaller than rounding leaves is not claimed.
        maxiter: ``10 N`` by default.
        callback: called with the step and the residual.

    Example:
        >>> lsqr(torch.tensor([[1.0], [1.0]]), torch.tensor([1.0, 3.0])).x.round(decimals=4)
        tensor([2.])
    """
    return _bidiagonal("lsqr", a, b, x0=x0, damp=damp, tol=tol, maxiter=maxiter, callback=callback)


@array_function
def lsmr(
    a: Matrix,
    b: Tensor,
    *,
    x0: Tensor | None = None,
    damp: float = 0.0,
    tol: float = 1e-6,
    maxiter: int | None = None,
    callback: Callback | None = None,
) -> Result:
    """As `lsqr`, but ``norm(a.mH @ r)`` decreases at every step (Fong and Saunders): safer to stop early.

    Example:
        >>> lsmr(torch.tensor([[1.0], [1.0]]), torch.tensor([1.0, 3.0])).x.round(decimals=4)
        tensor([2.])
    """
    return _bidiagonal("lsmr", a, b, x0=x0, damp=damp, tol=tol, maxiter=maxiter, callback=callback)


def _bidiagonal(
    op: str,
    a: Matrix,
    b: Tensor,
    *,
    x0: Tensor | None,
    damp: float,
    tol: float,
    maxiter: int | None,
    callback: Callback | None,
) -> Result:
    if check.real(op, "damp", damp) < 0:
        raise ArgumentError(op, "damp", damp, "0 or more")
    p = problem(op, a, b, x0=None, tol=tol, maxiter=maxiter, callback=callback, adjoint=True)
    adjoint = p.a.adjoint
    if adjoint is None:
        raise ArgumentError(op, "a", type(a), "an operator with an adjoint (mH)")
    rows = adjoint(torch.zeros_like(p.b)).shape[0] if p.a.shape is None else p.a.shape[1]
    first = None if x0 is None else p.scaled(start(op, x0, p.b, rows, p.vector))
    damp = damp * p.a.scale
    u, beta = unit(p.b if first is None else p.b - p.a.apply(first))
    # with zeros for b, beside the residual of the start
    p.sizes = torch.where(norms(p.b) > 0, p.sizes, torch.where(beta > 0, beta, 1.0))
    v, alpha = unit(adjoint(u))
    x = torch.zeros_like(v)
    state = _Lsmr(v, alpha, beta) if op == "lsmr" else None
    w, phibar, rhobar = v, beta, alpha
    squares = torch.zeros_like(alpha)
    lost = torch.zeros_like(alpha)
    done = p.record(torch.where((alpha * beta) == 0, 0.0, beta))
    while not done and len(p.residuals) <= p.maxiter:
        u, beta = unit(p.a.apply(v) - alpha * u)
        squares = squares + alpha.square() + beta.square() + damp * damp
        v, alpha = unit(adjoint(u) - beta * v)
        if state is not None:
            x, gradient, residual = state.step(x, v, alpha, beta, damp)
        else:
            rho1 = rhobar
            if damp:
                rho1 = torch.hypot(rhobar, torch.full_like(rhobar, damp))
                lost = torch.hypot(lost, quotient(damp * phibar, rho1))
                phibar = quotient(rhobar, rho1) * phibar
            rho = torch.hypot(rho1, beta)
            c, s = quotient(rho1, rho), quotient(beta, rho)
            theta, rhobar = s * alpha, -c * alpha
            phi, phibar = c * phibar, s * phibar
            x = x + quotient(phi, rho) * w
            w = v - quotient(theta, rho) * w
            residual = torch.hypot(phibar, lost)
            gradient = phibar.abs() * alpha * c.abs()
        relative = quotient(gradient, squares.sqrt() * residual)
        done = p.record(torch.minimum(relative * p.sizes, residual))
    if first is None:
        return p.result(x, done)
    if done and len(p.residuals) > 1 and x.numel():
        # a start that was large beside the solution leaves its rounding error, which recurrences do not see
        r, moved = p.b - p.a.apply(first + x), damp * x
        residual = torch.hypot(norms(r), norms(moved))
        relative = quotient(norms(adjoint(r) - damp * moved), squares.sqrt() * residual)
        p.residuals[-1] = float((torch.minimum(relative * p.sizes, residual) / p.sizes).max())
        done = p.residuals[-1] <= p.tol
    return p.result(first + x, done)


class _Lsmr:
    """The second bidiagonalisation of LSMR, for every column."""

    def __init__(self, v: Tensor, alpha: Tensor, beta: Tensor) -> None:
        one, zero = torch.ones_like(alpha), torch.zeros_like(alpha)
        self.h, self.hbar = v, torch.zeros_like(v)
        self.alphabar, self.zetabar = alpha, alpha * beta
        self.rho, self.rhobar, self.cbar, self.sbar = one, one, one, zero
        self.betadd, self.betad, self.rhodold, self.tautildeold = beta, zero, one, zero
        self.thetatilde, self.zeta, self.d = zero, zero, zero

    def step(self, x: Tensor, v: Tensor, alpha: Tensor, beta: Tensor, damp: float) -> tuple[Tensor, Tensor, Tensor]:
        alphahat = torch.hypot(self.alphabar, torch.full_like(alpha, damp))
        chat, shat = quotient(self.alphabar, alphahat), quotient(torch.full_like(alpha, damp), alphahat)
        rho_old = self.rho
        self.rho = torch.hypot(alphahat, beta)
        c, s = quotient(alphahat, self.rho), quotient(beta, self.rho)
        theta, self.alphabar = s * alpha, c * alpha
        rhobar_old, zeta_old = self.rhobar, self.zeta
        thetabar, rho_temp = self.sbar * self.rho, self.cbar * self.rho
        self.rhobar = torch.hypot(rho_temp, theta)
        self.cbar, self.sbar = quotient(rho_temp, self.rhobar), quotient(theta, self.rhobar)
        self.zeta, self.zetabar = self.cbar * self.zetabar, -self.sbar * self.zetabar
        self.hbar = self.h - quotient(thetabar * self.rho, rho_old * rhobar_old) * self.hbar
        x = x + quotient(self.zeta, self.rho * self.rhobar) * self.hbar
        self.h = v - quotient(theta, self.rho) * self.h
        # The norm of the residual, by the recurrence of section 5 of the paper.
        betaacute, betacheck = chat * self.betadd, -shat * self.betadd
        betahat, self.betadd = c * betaacute, -s * betaacute
        thetatilde_old = self.thetatilde
        rhotilde_old = torch.hypot(self.rhodold, thetabar)
        ctilde, stilde = quotient(self.rhodold, rhotilde_old), quotient(thetabar, rhotilde_old)
        self.thetatilde, self.rhodold = stilde * self.rhobar, ctilde * self.rhobar
        self.betad = -stilde * self.betad + ctilde * betahat
        self.tautildeold = quotient(zeta_old - thetatilde_old * self.tautildeold, rhotilde_old)
        taud = quotient(self.zeta - self.thetatilde * self.tautildeold, self.rhodold)
        self.d = self.d + betacheck.square()
        residual = (self.d + (self.betad - taud).square() + self.betadd.square()).sqrt()
        return x, self.zetabar.abs(), residual
