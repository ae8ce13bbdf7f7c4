"""Krylov solvers for matrices that are not positive definite: MINRES, BiCGSTAB and GMRES."""

from __future__ import annotations

import torch
from torch import Tensor

from trnsci import NumericalError, array_function, check
from trnsolver.operators import Apply, Callback, Matrix, Result, inner, norms, preconditioned, problem, quotient, unit


@array_function
def minres(
    a: Matrix,
    b: Tensor,
    *,
    x0: Tensor | None = None,
    tol: float = 1e-5,
    maxiter: int | None = None,
    preconditioner: Apply | None = None,
    callback: Callback | None = None,
) -> Result:
    """Solve ``a @ x = b`` with ``a`` Hermitian, indefinite or singular but consistent (Paige and Saunders).

    Arguments as for `trnsolver.cg`; the preconditioner is positive definite. With one, the residuals recorded are those
    of the preconditioned system until the last, which is the true one.

    Example:
        >>> minres(torch.tensor([[2.0, 0.0], [0.0, -4.0]]), torch.ones(2)).x
        tensor([ 0.5000, -0.2500])
    """
    p = problem("minres", a, b, x0=x0, tol=tol, maxiter=maxiter, callback=callback)
    m = preconditioned("minres", preconditioner)
    x = p.x
    r1 = p.b - p.a.apply(x)
    done = p.record(norms(r1))
    y = m(r1)
    beta1 = _length(r1, y)
    beta, beta_old = beta1, torch.zeros_like(beta1)
    dbar, eps_old = torch.zeros_like(beta1), torch.zeros_like(beta1)
    phibar, cs, sn = beta1, -torch.ones_like(beta1), torch.zeros_like(beta1)
    w, w2 = torch.zeros_like(x), torch.zeros_like(x)
    r2 = r1
    first = torch.where(beta1 > 0, beta1, 1.0)
    start = norms(r1)
    while not done and len(p.residuals) <= p.maxiter:
        v = y * quotient(torch.ones_like(beta), beta)
        y = p.a.apply(v)
        y = y - quotient(beta, beta_old) * r1
        alpha = inner(v, y).real
        y = y - quotient(alpha, beta) * r2
        r1, r2 = r2, y
        y = m(r2)
        beta_old, beta = beta, _length(r2, y)
        delta = cs * dbar + sn * alpha
        gbar = sn * dbar - cs * alpha
        eps, dbar = sn * beta, -cs * beta
        gamma = torch.hypot(gbar, beta)
        gamma = torch.where(gamma > 0, gamma, torch.finfo(gamma.dtype).tiny)
        cs, sn = gbar / gamma, beta / gamma
        phi, phibar = cs * phibar, sn * phibar
        w1, w2 = w2, w
        w = (v - eps_old * w1 - delta * w2) / gamma
        eps_old = eps
        x = x + phi * w
        done = p.record(phibar.abs() / first * start)
        if done:
            left = norms(p.b - p.a.apply(x))
            true = float((left / p.sizes).max())
            p.residuals[-1] = true
            done = true <= p.tol
            # the recurrence has lost the system, unless a step more may do
            if true > 2 * p.tol and preconditioner is None:
                break
    return p.result(x, done)


def _length(r: Tensor, z: Tensor) -> Tensor:
    """``sqrt(r.mH @ z)`` of every column, ``z`` the preconditioned ``r``."""
    square = inner(r, z).real
    least = square + 100 * torch.finfo(square.dtype).eps * norms(r) * norms(z)
    if bool((least < 0).any()):
        worst = f"a residual times its image is {float(square.min()):.3g}"
        raise NumericalError(
            op="minres",
            message=f"the preconditioner is not positive definite: {worst}",
            hint="Use gmres or bicgstab, or another preconditioner",
        )
    return square.clamp_min(0).sqrt()


@array_function
def bicgstab(
    a: Matrix,
    b: Tensor,
    *,
    x0: Tensor | None = None,
    tol: float = 1e-5,
    maxiter: int | None = None,
    preconditioner: Apply | None = None,
    callback: Callback | None = None,
) -> Result:
    """Solve ``a @ x = b`` with a general ``a`` in constant memory (van der Vorst); two products a step.

    Arguments as for `trnsolver.cg`.

    Example:
        >>> bicgstab(torch.tensor([[2.0, 1.0], [0.0, 4.0]]), torch.tensor([3.0, 4.0])).x.round(decimals=4)
        tensor([1., 1.])
    """
    p = problem("bicgstab", a, b, x0=x0, tol=tol, maxiter=maxiter, callback=callback)
    m = preconditioned("bicgstab", preconditioner)
    x = p.x
    r = p.b - p.a.apply(x)
    shadow, d = r, r
    rho = inner(shadow, r)
    done = p.record(norms(r))
    while not done and len(p.residuals) <= p.maxiter:
        d_hat = m(d)
        v = p.a.apply(d_hat)
        alpha = quotient(rho, inner(shadow, v))
        s = r - alpha * v
        s_hat = m(s)
        t = p.a.apply(s_hat)
        omega = quotient(inner(t, s), inner(t, t))
        x = x + alpha * d_hat + omega * s_hat
        r = s - omega * t
        done, r = p.finished(x, r)
        before, rho = rho, inner(shadow, r)
        stuck = (rho.abs() <= torch.finfo(r.real.dtype).eps * norms(shadow) * norms(r)) | (omega == 0)
        if bool(stuck.any()):
            # The shadow residual has become useless for a column: start again from where it is.
            r = p.b - p.a.apply(x)
            shadow, d, rho = r, r, inner(r, r)
            continue
        d = r + quotient(rho, before) * quotient(alpha, omega) * (d - omega * v)
    return p.result(x, p.residuals[-1] <= p.tol)


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
    p = problem("gmres", a, b, x0=x0, tol=tol, maxiter=maxiter, callback=callback)
    check.integer("gmres", "restart", restart, at_least=1)
    m = preconditioned("gmres", preconditioner)
    x = p.x
    r = p.b - p.a.apply(x)
    done = p.record(norms(r))
    while not done and len(p.residuals) <= p.maxiter:
        width = min(restart, p.maxiter - len(p.residuals) + 1)
        (n, k), (first, size) = r.shape, unit(r)
        basis, h = r.new_zeros((k, width + 1, n)), r.new_zeros((k, width + 1, width))
        right = torch.cat([size.to(r.dtype)[:, None, None], r.new_zeros((k, width, 1))], 1)
        basis[:, 0] = first.mT
        directions = torch.zeros_like(basis) if flexible else basis
        for j in range(width):
            z = m(basis[:, j].mT)
            if flexible:
                directions[:, j] = z.mT
            w, known = p.a.apply(z).mT.unsqueeze(-1), basis[:, : j + 1]
            part = known.conj() @ w
            w = torch.baddbmm(w, known.mT, part, alpha=-1.0)
            again = known.conj() @ w
            w = torch.baddbmm(w, known.mT, again, alpha=-1.0)
            following, length = unit(w.squeeze(-1).mT)
            h[:, : j + 1, j : j + 1] = part + again
            h[:, j + 1, j] = length
            basis[:, j + 1] = following.mT
            # the residual is what is left of the right-hand side, the last column of the triangle
            triangle = torch.linalg.qr(torch.cat([h[:, : j + 2, : j + 1], right[:, : j + 2]], -1), mode="r").R
            done = p.record(triangle[:, -1, -1].abs())
            if done or bool((length <= torch.finfo(length.dtype).eps * size).all()):
                break
        y = _least_squares(h[:, : j + 2, : j + 1], right[:, : j + 2])
        step = (directions[:, : j + 1].mT @ y).squeeze(-1).mT
        x = x + (step if flexible else m(step))
        r = p.b - p.a.apply(x)
        if done:
            true = float((norms(r) / p.sizes).max())
            p.residuals[-1] = true
            done = true <= p.tol
        if len(p.residuals) > 2 * restart and p.residuals[-1] >= p.residuals[-1 - width] and not done:
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
