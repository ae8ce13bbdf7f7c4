"""Chebyshev iteration: a solver and a preconditioner without inner products, for a spectrum with known bounds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from trnsci import ArgumentError, array_function, check, op, run
from trnsci.nki import P_MAX, launch
from trnsolver.kernels import chebyshev as kernels
from trnsolver.krylov.iteration import CHUNK, Iterates, Problem, Result, State
from trnsolver.krylov.linear_system import System, check_system, iterates, like_scipy, solve
from trnsolver.krylov.operators import Apply, Callback, Matrix, Operator, on_chip, on_columns, operator
from trnsolver.krylov.preconditioners import keep_arguments
from trnsolver.krylov.vectors import Columns, norms, plus


@like_scipy
@array_function
def chebyshev(
    a: Matrix,
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
    system = check_system("chebyshev", a, b, x0=x0, tol=tol, maxiter=maxiter, callback=callback)
    return solve(Chebyshev(system, low * system.a.scale, high * system.a.scale))


@op("trnsolver::chebyshev", eager=True)
@iterates(passes=3)
class Chebyshev(NamedTuple):
    """``a @ x = b`` by Chebyshev polynomials of an interval that has the spectrum."""

    system: System
    low: float
    high: float

    def iterate(self, p: Problem) -> Iterates:
        weights, middle = _recurrence(self.low, self.high), (self.high + self.low) / 2
        x, r, d, done = p.x, p.r, p.r / middle, p.record(norms(p.r))
        while p.going(done):
            x, recurred = plus(x, 1.0, d), plus(r, -1.0, p.apply(d))
            done, r = p.check_residual(x, recurred)
            old, new = next(weights)
            if r is recurred:
                d = plus(old * d, new, r)
            else:
                weights, d = _recurrence(self.low, self.high), r / middle
        return p.result(x, p.residuals[-1] <= p.tol)

    def limits(self, implementation: str) -> str | None:
        if implementation == "nki" and self.system.a.matrix is not None:
            return self.system.on_chip(kernels.N_MAX, kernels.K_MAX)
        return self.system.limits(implementation)

    def nki(self) -> Iterates:
        p, matrix = self.system.prepare(), self.system.a.matrix
        if matrix is None:
            return self.iterate(p)
        weights = _recurrence(self.low, self.high)

        def direction(r: Columns) -> Columns:
            nonlocal weights
            weights = _recurrence(self.low, self.high)
            return r / ((self.high + self.low) / 2)

        def advance(x: Tensor, r: Tensor, d: Tensor, steps: int) -> State:
            return ChebyshevSteps(matrix, x, r, d, _first(weights, steps)).nki()

        return p.in_chunks(advance, direction)

    def chunk(self) -> int:
        return CHUNK if self.system.a.matrix is not None else 1

    def prediction(self) -> None:
        if self.system.a.matrix is not None:
            x = self.system.b
            ChebyshevSteps(self.system.a.matrix, x, x, x, x.new_empty((CHUNK, 2), dtype=torch.float64)).nki()


@keep_arguments
@check.hands_on("from_numpy")
def chebyshev_preconditioner(a: Matrix, low: float, high: float, *, degree: int = 4) -> Apply:
    """Return a polynomial in ``a`` [N, N] close to its inverse where eigenvalues lie between ``low`` and ``high``.

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
    check.integer("chebyshev_preconditioner", "degree", degree, 1)
    if isinstance(a, Tensor) and a.layout is torch.strided:
        # its owner may resize it
        a = a[...]
    wrapped = operator("chebyshev_preconditioner", a)
    low, high = low * wrapped.scale, high * wrapped.scale
    weights = _first(_recurrence(low, high), degree - 1)

    def apply(r: Tensor) -> Tensor:
        d = r / ((high + low) / 2)
        if degree == 1:
            return d
        x, _, d, _ = _steps(wrapped, torch.zeros_like(r), r, d, weights)
        return x + d

    def either(r: Tensor) -> Tensor:
        rows = r.shape[0] if wrapped.shape is None else wrapped.shape[0]
        return on_columns("chebyshev_preconditioner", rows, apply)(r) * wrapped.scale

    return either


def _interval(op: str, low: float, high: float) -> None:
    if not 0 < check.real(op, "low", low) < check.real(op, "high", high) < float("inf"):
        raise ArgumentError(op, "low", low, f"between 0 and high={high}, exclusively")


def _recurrence(low: float, high: float) -> Iterator[tuple[float, float]]:
    """Yield the factors of the old direction and of the residual, step by step."""
    half, sigma = (high - low) / 2, (high + low) / (high - low)
    before = 1 / sigma
    while True:
        following = 1 / (2 * sigma - before)
        yield following * before, 2 * following / half
        before = following


def _first(weights: Iterator[tuple[float, float]], steps: int) -> Tensor:
    return torch.tensor([*itertools.islice(weights, steps)], dtype=torch.float64, device="cpu").reshape(steps, 2)


def _steps(a: Operator, x: Tensor, r: Tensor, d: Tensor, weights: Tensor) -> State:
    """Iterate on a matrix in memory: all steps are one operation, on chip where kernels run."""
    if a.matrix is not None and a.matrix.dtype == x.dtype:
        return run(ChebyshevSteps(a.matrix, x, r, d, weights))
    return _iterate(a.apply, x, r, d, weights)


def _iterate(apply: Apply, x: Tensor, r: Tensor, d: Tensor, weights: Tensor) -> State:
    history = []
    for old, new in weights.tolist():
        x, r = x + d, r - apply(d)
        d = old * d + new * r
        history.append(norms(r))
    return x, r, d, torch.stack(history)


@op("trnsolver::chebyshev_steps")
class ChebyshevSteps(NamedTuple):
    """Solution, residual, direction and the norms of residuals after the steps of these weights."""

    a: Tensor  # [N, N]
    x: Tensor  # [N, K]
    r: Tensor  # [N, K]
    d: Tensor  # [N, K]
    weights: Tensor  # [steps, 2]

    def fake(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        x, r, d = (torch.empty_like(t, memory_format=torch.contiguous_format) for t in (self.x, self.r, self.d))
        return x, r, d, x.new_empty((self.weights.shape[0], x.shape[1]), dtype=self.a.dtype.to_real())

    def cost(self) -> int:
        n, k = self.x.shape
        return self.weights.shape[0] * k * (2 * self.a.numel() + 6 * n) * (4 if self.a.is_complex() else 1)

    def limits(self, implementation: str) -> str | None:
        return on_chip(self.a, self.x, kernels.N_MAX, kernels.K_MAX) if implementation == "nki" else None

    def pytorch(self) -> State:
        return _iterate(lambda v: self.a @ v, self.x, self.r, self.d, self.weights)

    def nki(self) -> State:
        if self.x.numel() == 0:
            return self.pytorch()
        weights = self.weights.to(self.a.device, torch.float32).reshape(1, -1)
        everywhere = weights.expand(P_MAX, -1).contiguous()  # [P, 2 steps]
        # The array multiplies by the transpose of what lies in it, which is the matrix itself.
        operands = (t.contiguous() for t in (self.a, self.x, self.r, self.d))
        x, r, d, squares = launch(kernels.chebyshev, *operands, everywhere)
        return x, r, d, squares.clamp_min(0).sqrt()
