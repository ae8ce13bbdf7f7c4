"""Chebyshev iteration: a solver and a preconditioner without inner products, for a spectrum with known bounds."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnsci import ArgumentError, Op, array_function
from trnsci.nki import P_MAX, launch
from trnsolver.kernels import chebyshev as kernels
from trnsolver.operators import Apply, Callback, Operator, Result, norms, on_columns, operator, problem

# Steps a kernel takes between two looks at the residual.
_CHUNK = 16


@array_function
def chebyshev(
    a: Any,
    b: Tensor,
    *,
    low: float,
    high: float,
    x0: Tensor | None = None,
    tol: float = 1e-5,
    maxiter: int | None = None,
    callback: Callback | None = None,
) -> Result:
    """Solve ``a @ x = b`` with ``a`` Hermitian positive definite and eigenvalues between ``low`` and ``high``.

    Args:
        a: [N, N] matrix or anything `trnsolver.cg` takes.
        b: [N] or [N, K].
        low: lower bound of the spectrum, positive; too large a value diverges.
        high: upper bound of the spectrum.
        x0: start; zero by default.
        tol: residual to reach, relative to the norm of each column of ``b``.
        maxiter: ``10 N`` by default.
        callback: called with the step and the residual.

    Returns:
        `Result`. The error after k steps is at most ``2 ((sqrt(c) - 1) / (sqrt(c) + 1))**k`` of the start, with
        ``c = high / low``: the bound of `cg`, without its inner products.

    Raises:
        NotConverged: the iterate grew beyond all bounds: an eigenvalue lies outside.

    Cost:
        one product with ``a`` and three passes over vectors a step.

    Example:
        >>> found = chebyshev(torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.ones(2), low=2.0, high=4.0)
        >>> found.x.round(decimals=4)
        tensor([0.5000, 0.2500])
    """
    _interval("chebyshev", low, high)
    p = problem("chebyshev", a, b, x0, tol, maxiter, callback)
    x = p.x
    r = p.b - p.a.apply(x)
    d = r / ((high + low) / 2)
    done = p.record(norms(r))
    rho: float | None = None
    while not done and len(p.residuals) <= p.maxiter:
        steps = min(_CHUNK, p.maxiter - len(p.residuals) + 1)
        weights, rho = _weights(low, high, steps, rho)
        x, r, d, history = _steps(p.a, x, r, d, weights)
        for row in history:
            done = p.record(row)
            if done:
                break
        if not p.residuals[-1] < float("inf"):
            break
    # Residuals of a recurrence drift; the true one decides.
    if done:
        true = float((norms(p.b - p.a.apply(x)) / p.sizes).max()) if x.numel() else 0.0
        done = true <= max(2 * p.tol, 100 * torch.finfo(x.dtype).eps * max(1, x.shape[0]) ** 0.5)
    return p.result(x, done)


def chebyshev_preconditioner(a: Any, low: float, high: float, *, degree: int = 4) -> Apply:
    """A polynomial in ``a`` [N, N] close to its inverse where eigenvalues lie between ``low`` and ``high``.

    Args:
        a: anything `trnsolver.cg` takes; dense matrices run as one program.
        low: lower bound of the spectrum, positive.
        high: upper bound.
        degree: terms; one product less.

    Example:
        >>> chebyshev_preconditioner(2 * torch.eye(2), 1.0, 3.0)(torch.ones(2, 1)).round(decimals=1)
        tensor([[0.5000],
                [0.5000]])
    """
    _interval("chebyshev_preconditioner", low, high)
    if degree < 1:
        raise ArgumentError(op="chebyshev_preconditioner", argument="degree", got=degree, expected="1 or more")
    found = operator("chebyshev_preconditioner", a)
    weights, _ = _weights(low, high, degree - 1, None)

    def apply(r: Tensor) -> Tensor:
        d = r / ((high + low) / 2)
        if degree == 1:
            return d
        x, _, d, _ = _steps(found, torch.zeros_like(r), r, d, weights)
        return x + d

    def either(r: Tensor) -> Tensor:
        rows = r.shape[0] if found.shape is None else found.shape[0]
        return on_columns("chebyshev_preconditioner", rows, apply)(r)

    return either


def _interval(op: str, low: float, high: float) -> None:
    if not 0 < low < high < float("inf"):
        raise ArgumentError(op=op, argument="low", got=low, expected=f"between 0 and high={high}, exclusively")


def _weights(low: float, high: float, steps: int, rho: float | None) -> tuple[Tensor, float]:
    """The factors of the old direction and of the residual, step by step, and the state to go on from."""
    half = (high - low) / 2
    sigma = (high + low) / (high - low)
    before = 1 / sigma if rho is None else rho
    rows = []
    for _ in range(steps):
        following = 1 / (2 * sigma - before)
        rows.append((following * before, 2 * following / half))
        before = following
    return torch.tensor(rows, dtype=torch.float64).reshape(steps, 2), before


def _steps(a: Operator, x: Tensor, r: Tensor, d: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A matrix in memory: all steps are one operation, on chip where kernels run."""
    if a.matrix is not None and a.matrix.dtype == x.dtype:
        return _chebyshev(a.matrix, x, r, d, weights)
    return _iterate(a.apply, x, r, d, weights)


def _iterate(apply: Apply, x: Tensor, r: Tensor, d: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    history = []
    for old, new in weights.tolist():
        x, r = x + d, r - apply(d)
        d = old * d + new * r
        history.append(norms(r))
    return x, r, d, torch.stack(history)


def _fake(a: Tensor, x: Tensor, r: Tensor, d: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    real = torch.float64 if a.dtype in (torch.float64, torch.complex128) else torch.float32
    empty = [torch.empty_like(t, memory_format=torch.contiguous_format) for t in (x, r, d)]
    return empty[0], empty[1], empty[2], x.new_empty((weights.shape[0], x.shape[1]), dtype=real)


def _cost(a: Tensor, x: Tensor, r: Tensor, d: Tensor, weights: Tensor) -> int:
    return weights.shape[0] * x.shape[1] * (2 * a.numel() + 6 * x.shape[0]) * (4 if a.is_complex() else 1)


_chebyshev = Op("trnsolver::chebyshev", fake=_fake, cost=_cost)


@_chebyshev.impl("pytorch")
def _pytorch(a: Tensor, x: Tensor, r: Tensor, d: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return _iterate(lambda v: a @ v, x, r, d, weights)


def _limits(a: Tensor, x: Tensor, r: Tensor, d: Tensor, weights: Tensor) -> str | None:
    if a.dtype != torch.float32:
        return f"the kernel computes in float32, not {a.dtype}"
    if a.shape[0] > kernels.N_MAX or x.shape[1] > kernels.K_MAX:
        return (
            f"the kernel keeps everything on chip: at most {kernels.N_MAX} rows and {kernels.K_MAX} right-hand sides, "
            f"not {a.shape[0]} and {x.shape[1]}"
        )
    return None


@_chebyshev.impl("nki", limits=_limits)
def _nki(a: Tensor, x: Tensor, r: Tensor, d: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if x.numel() == 0:
        return _pytorch(a, x, r, d, weights)
    spread = weights.to(a.device, torch.float32).reshape(1, -1).expand(P_MAX, -1).contiguous()  # [P, 2 steps]
    # The array multiplies by the transpose of what lies in it, which is the matrix itself.
    x, r, d, squares = launch(kernels.chebyshev, *(t.contiguous() for t in (a, x, r, d)), spread)
    return x, r, d, squares.clamp_min(0).sqrt()
