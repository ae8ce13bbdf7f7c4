"""Least squares by Krylov methods: LSQR and LSMR."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from trnsci import ArgumentError, array_function, check, op
from trnsci.analogs import resembles
from trnsci.arrays import like
from trnsolver.krylov.iteration import Iterates, Problem, Result
from trnsolver.krylov.linear_system import System, check_system, iterates, like_scipy, solve
from trnsolver.krylov.operators import Callback, Matrix
from trnsolver.krylov.vectors import Columns, Numbers, hypot, norms, plus, quotient, root, smaller, unit


@resembles("scipy.sparse.linalg.lsqr", left="it returns norms and a condition that ours does not estimate")
@like_scipy
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
    return solve(Lsqr(*_check_call("lsqr", a, b, damp, x0=x0, tol=tol, maxiter=maxiter, callback=callback)))


@resembles("scipy.sparse.linalg.lsmr", left="it returns norms and a condition that ours does not estimate")
@like_scipy
@like(lsqr, lambda a, b, **options: solve(Lsmr(*_check_call("lsmr", a, b, **options))))
def lsmr(*args: Any, **kwargs: Any) -> Any:
    """As `lsqr`, but ``norm(a.mH @ r)`` decreases at every step (Fong and Saunders): safer to stop early.

    Example:
        >>> lsmr(torch.tensor([[1.0], [1.0]]), torch.tensor([1.0, 3.0])).x.round(decimals=4)
        tensor([2.])
    """


def _check_call(
    op: str, a: Matrix, b: Tensor, damp: float = 0.0, tol: float = 1e-6, **options: Any
) -> tuple[System, float]:
    check.refuse(check.real(op, "damp", damp) < 0, op, "damp", damp, "0 or more")
    system = check_system(op, a, b, adjoint=True, tol=tol, **options)
    if system.a.matrix is None and system.a.adjoint is None:
        raise ArgumentError(op, "a", type(a), "an operator with an adjoint (mH)")
    return system, damp


@op("trnsolver::lsqr", eager=True)
@iterates(passes=6, products=2)
class Lsqr(NamedTuple):
    """Least squares by the bidiagonal form of ``a``."""

    system: System
    damp: float

    def iterate(self, p: Problem) -> Iterates:
        return _iterate(self, p, _Lsqr)


@op("trnsolver::lsmr", eager=True)
@iterates(passes=7, products=2)
class Lsmr(NamedTuple):
    """Least squares by the bidiagonal form of ``a``, with a second one of the normal equations."""

    system: System
    damp: float

    def iterate(self, p: Problem) -> Iterates:
        return _iterate(self, p, _Lsmr)


def _iterate(call: Lsqr | Lsmr, p: Problem, rotations: type[_Lsqr | _Lsmr]) -> Iterates:
    damp, adjoint = call.damp * call.system.a.scale, p.adjoint
    assert adjoint is not None
    u, beta = unit(p.r)
    # with zeros for b, beside the residual of the start
    p.sizes = norms(p.b)
    p.sizes = p.sizes + (p.sizes == 0) * (beta + (beta == 0))
    v, alpha = unit(adjoint(u))
    x, squares = 0.0 * v, 0.0 * alpha
    state = rotations(v, alpha, beta)
    done = p.record(beta * (alpha * beta != 0))
    while p.going(done):
        u, beta = unit(p.apply(v) - alpha * u)
        squares = squares + alpha * alpha + beta * beta + damp * damp
        v, alpha = unit(adjoint(u) - beta * v)
        x, gradient, residual = state.step(x, v, alpha, beta, damp)
        relative = quotient(gradient, root(squares) * residual)
        done = p.record(smaller(relative * p.sizes, residual))
    if call.system.x0 is None:
        return p.result(x, done)
    solution = p.x + x
    if done and len(p.residuals) > 1:
        # a start that was large beside the solution leaves its rounding error, which recurrences do not see
        r, moved = p.b - p.apply(solution), damp * x
        residual = hypot(norms(r), norms(moved))
        relative = quotient(norms(adjoint(r) - damp * moved), root(squares) * residual)
        p.residuals[-1] = p.worst(smaller(relative * p.sizes, residual))
        done = p.residuals[-1] <= p.tol
    return p.result(solution, done)


class _Lsqr:
    """The rotations of LSQR, for every column."""

    def __init__(self, v: Columns, alpha: Numbers, beta: Numbers) -> None:
        self.w, self.phibar, self.rhobar, self.lost = v, beta, alpha, 0.0 * alpha

    def step(
        self, x: Columns, v: Columns, alpha: Numbers, beta: Numbers, damp: float
    ) -> tuple[Columns, Numbers, Numbers]:
        rho1 = self.rhobar
        if damp:
            rho1 = hypot(self.rhobar, damp)
            self.lost = hypot(self.lost, quotient(damp * self.phibar, rho1))
            self.phibar = quotient(self.rhobar, rho1) * self.phibar
        rho = hypot(rho1, beta)
        c, s = quotient(rho1, rho), quotient(beta, rho)
        theta, self.rhobar = s * alpha, -c * alpha
        phi, self.phibar = c * self.phibar, s * self.phibar
        x = plus(x, quotient(phi, rho), self.w)
        self.w = v - quotient(theta, rho) * self.w
        return x, abs(self.phibar * c) * alpha, hypot(self.phibar, self.lost)


class _Lsmr:
    """The second bidiagonalisation of LSMR, for every column."""

    def __init__(self, v: Columns, alpha: Numbers, beta: Numbers) -> None:
        self.h, self.hbar = v, 0.0 * v
        self.alphabar, self.zetabar, self.betadd = alpha, alpha * beta, beta
        self.rho = self.rhobar = self.cbar = self.rhodold = 0.0 * alpha + 1.0
        self.sbar = self.betad = self.tautildeold = self.thetatilde = self.zeta = self.d = 0.0 * alpha

    def step(
        self, x: Columns, v: Columns, alpha: Numbers, beta: Numbers, damp: float
    ) -> tuple[Columns, Numbers, Numbers]:
        alphahat = hypot(self.alphabar, damp)
        chat, shat = quotient(self.alphabar, alphahat), quotient(damp, alphahat)
        rho_old = self.rho
        self.rho = hypot(alphahat, beta)
        c, s = quotient(alphahat, self.rho), quotient(beta, self.rho)
        theta, self.alphabar = s * alpha, c * alpha
        rhobar_old, zeta_old = self.rhobar, self.zeta
        thetabar, rho_temp = self.sbar * self.rho, self.cbar * self.rho
        self.rhobar = hypot(rho_temp, theta)
        self.cbar, self.sbar = quotient(rho_temp, self.rhobar), quotient(theta, self.rhobar)
        self.zeta, self.zetabar = self.cbar * self.zetabar, -self.sbar * self.zetabar
        self.hbar = self.h - quotient(thetabar * self.rho, rho_old * rhobar_old) * self.hbar
        x = plus(x, quotient(self.zeta, self.rho * self.rhobar), self.hbar)
        self.h = v - quotient(theta, self.rho) * self.h
        # The norm of the residual, by the recurrence of section 5 of the paper.
        betaacute, betacheck = chat * self.betadd, -shat * self.betadd
        betahat, self.betadd = c * betaacute, -s * betaacute
        thetatilde_old = self.thetatilde
        rhotilde_old = hypot(self.rhodold, thetabar)
        ctilde, stilde = quotient(self.rhodold, rhotilde_old), quotient(thetabar, rhotilde_old)
        self.thetatilde, self.rhodold = stilde * self.rhobar, ctilde * self.rhobar
        self.betad = -stilde * self.betad + ctilde * betahat
        self.tautildeold = quotient(zeta_old - thetatilde_old * self.tautildeold, rhotilde_old)
        taud = quotient(self.zeta - self.thetatilde * self.tautildeold, self.rhodold)
        self.d = self.d + betacheck * betacheck
        left = self.betad - taud
        residual = root(self.d + left * left + self.betadd * self.betadd)
        return x, abs(self.zetabar), residual
