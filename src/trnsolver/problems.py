"""Systems that iterative solvers solve: checked and scaled, with their residuals as these grow, and what comes out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnsci import ArgumentError, DtypeError, NotConverged, check
from trnsci.arrays import Answer, from_numpy
from trnsolver.arguments import all_finite, finite, readable
from trnsolver.columns import Columns, Numbers, norms
from trnsolver.operators import (
    Apply,
    Callback,
    Operator,
    called,
    far_from_one,
    iterated,
    on_array,
    on_host,
    operator,
    preconditioned,
    tolerance,
)
from trnsolver.tiles import near_one

Advance = Callable[[Tensor, Tensor, Tensor, int], tuple[Tensor, Tensor, Tensor, Tensor]]
# Steps a kernel takes between two looks at the residual.
CHUNK = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Answer):
    """What an iterative solver found.

    Attributes:
        x: the solution, of the shape of the right-hand side.
        converged: whether every column's residual is below the tolerance.
        iterations: steps taken.
        residuals: the largest residual of the columns, relative to their right-hand sides, at the start and after
            every step.
        op: the solver.
    """

    x: Tensor
    converged: bool
    iterations: int
    residuals: tuple[float, ...]
    op: str

    def __iter__(self) -> Iterator[Tensor | int | float]:
        """Unpack as ``x, iterations, residual``, the last residual, in the order of `trnsparse.Solution`."""
        return iter((self.x, self.iterations, self.residuals[-1]))

    def require(self) -> Tensor:
        """Return the solution; raise `NotConverged` unless it was found."""
        if not self.converged:
            raise NotConverged(op=self.op, iterations=self.iterations, residual=self.residuals[-1])
        return self.x


@dataclass(slots=True)
class Problem:
    """A checked system: columns, a start, its residual, tolerances, and the residual history as it grows."""

    op: str
    a: Operator
    improve: Apply
    b: Columns
    x: Columns
    r: Columns
    vector: bool
    sizes: Numbers
    tol: float
    maxiter: int
    callback: Callback | None
    residuals: list[float]
    # the last residual that was computed afresh
    computed: float = math.inf
    # what brings columns of the solution back to the size of those that were asked for
    factor: Numbers = None

    def worst(self, norms: Numbers) -> float:
        """The largest residual of the columns, relative to their right-hand sides."""
        relative = norms / self.sizes
        if isinstance(relative, Tensor):
            return float(relative.detach().max()) if relative.numel() else 0.0
        return float(relative)

    def record(self, norms: Numbers) -> bool:
        """Note the residual norms of the columns; say whether all are small enough."""
        return self.note(self.worst(norms))

    def note(self, worst: float) -> bool:
        """Note the largest residual of the columns, relative to their right-hand sides, likewise."""
        self.residuals.append(worst)
        if self.callback is not None:
            self.callback(len(self.residuals) - 1, worst)
        return worst <= self.tol

    def going(self, done: bool) -> bool:
        """Whether there is a next step."""
        return not done and len(self.residuals) <= self.maxiter and self.residuals[-1] < math.inf

    def size(self, r: Columns, again: bool) -> float:
        """Note the largest residual of the columns, or the last one again, and return it."""
        if again:
            self.residuals[-1] = self.worst(norms(r))
        else:
            self.record(norms(r))
        return self.residuals[-1]

    def finished(self, x: Columns, r: Columns) -> tuple[bool, Columns]:
        """Note a residual; say whether to stop, and return the residual to go on from.

        A recurrence drifts: a small residual is computed afresh, and where that gains less than a tenth no step will.
        """
        if self.size(r, False) > self.tol:
            return False, r
        r = self.b - self.a.apply(x)
        before, self.computed = self.computed, self.size(r, True)
        return self.computed <= self.tol or self.computed > 0.9 * before, r

    def in_chunks(self, advance: Advance, direction: Apply) -> Result:
        """Take steps in chunks, each one operation, until a residual that was computed afresh is small enough.

        ``advance`` takes so many steps from x, r and d, and returns the norms of their residuals too; ``direction``
        returns the first direction for a residual.
        """
        x, r, d, last = self.x, self.r, direction(self.r), math.inf
        done = self.record(norms(r))
        while self.going(done):
            x, r, d, history = advance(x, r, d, min(CHUNK, self.maxiter - len(self.residuals) + 1))
            worst = (history / self.sizes).amax(1).tolist() if history.numel() else [0.0] * len(history)
            reached = [self.note(each) for each in worst]
            if any(reached):
                # a residual may rise again before the chunk ends
                true = self.b - self.a.apply(x)
                done = self.size(true, True) <= self.tol
                if not done and self.worst(norms(r)) <= self.tol:
                    # The recurrence is wrong: go on from the residual as it is, unless that was no help before.
                    if self.residuals[-1] > 0.5 * last:
                        break
                    last, r, d = self.residuals[-1], true, direction(true)
        return self.result(x, done)

    def result(self, x: Columns, converged: bool) -> Result:
        """Wrap up; a solution that is not finite was never found."""
        x = torch.from_numpy(x).unsqueeze(-1) if isinstance(x, np.ndarray) else x
        x = x if self.factor is None else x * self.factor
        if not all_finite(x) or not math.isfinite(self.residuals[-1]):
            raise NotConverged(
                op=self.op,
                iterations=len(self.residuals) - 1,
                residual=self.residuals[-1],
                message=f"broke down after {len(self.residuals) - 1} iterations: the iterate is not finite",
            )
        return Result(
            x=x.squeeze(-1) if self.vector else x,
            converged=converged,
            iterations=len(self.residuals) - 1,
            residuals=tuple(self.residuals),
            op=self.op,
        )


def problem(
    op: str,
    a: Any,
    b: Any,
    *,
    x0: Tensor | None,
    tol: float,
    maxiter: int | None,
    callback: Callback | None,
    preconditioner: Apply | None = None,
    adjoint: bool = False,
    look: bool = True,
    arrays: bool = True,
) -> Problem:
    """Check what every solver takes; ``look``: it will look at data; ``arrays``: it takes steps on arrays, too."""
    if isinstance(b, np.ndarray):
        b = from_numpy(b)
    if not isinstance(b, Tensor):
        raise DtypeError(op, "b", type(b), "a floating-point tensor")
    check.dense(op, b=b)
    iterated(op, "b", b.dtype)
    if b.ndim not in (1, 2):
        raise ArgumentError(op, "shape of b", tuple(b.shape), "[N] or [N, K]")
    if look:
        check.data(op, wrapped=True, a=a, b=b, x0=x0)
    finite(op, b=b)
    wrapped = operator(op, a, adjoint=adjoint)
    _same_kind(op, a, b)
    if wrapped.shape is not None:
        if wrapped.shape[0] != b.shape[0]:
            raise ArgumentError(op, "M", {"a": wrapped.shape[0], "b": b.shape[0]})
        if not adjoint and wrapped.shape[0] != wrapped.shape[1]:
            raise ArgumentError(op, "shape of a", wrapped.shape, "a square matrix")
    tolerance(op, tol)
    if maxiter is not None:
        check.integer(op, "maxiter", maxiter, at_least=0)
    called(op, "callback", callback)
    improve = preconditioned(op, preconditioner)
    vector = b.ndim == 1
    columns: Columns = b.unsqueeze(-1) if vector else b
    # of a function, the answer to one call tells whether it has a gradient
    trials = [] if preconditioner is None else [improve]
    if wrapped.shape is None:
        trials.append(wrapped.adjoint or wrapped.apply)
    beyond, seen = far_from_one(b.dtype), look and readable(b)
    probe = columns * near_one(columns.detach(), 0) if trials and seen else columns
    answers = [fn(probe) for fn in trials] if look else []
    if wrapped.shape is None and seen and readable(answers[-1]):
        # that answer tells its scale, too
        wrapped = wrapped.times(float(near_one(answers[-1].detach(), (0, 1), beyond=beyond)))
    rows = wrapped.shape[1] if wrapped.shape is not None else answers[-1].shape[0] if look else b.shape[0]
    x: Columns = None if x0 is None else start(op, x0, columns, rows, vector)
    held = (wrapped.matrix, getattr(wrapped.entries, "values", None), x, columns, *answers)
    host = arrays and look and columns.shape[1] == 1 and 0 not in (*b.shape, rows) and on_host(held)
    if host:
        improve = improve if preconditioner is None else on_array(improve)
        wrapped, columns = wrapped.on_arrays(), columns.numpy()[:, 0].copy()
        x = np.zeros(rows, columns.dtype) if x is None else x.numpy()[:, 0]
    elif x is None:
        x = columns.new_zeros((rows, columns.shape[1]))
    sizes, factor = norms(columns), None
    known = [sizes] if host else sizes.tolist() if readable(b) else []
    if readable(b) and not (wrapped.scale == 1.0 and all(1 / beyond < size < beyond for size in known)):
        power: Numbers = near_one(b.detach(), 0)
        factor = (wrapped.scale / power.double()).to(power.dtype)
        power, factor = (power.item(), factor.item()) if host else (power, factor)
        columns, x = columns * power, x if x0 is None else x / factor
        sizes = norms(columns)
    if not adjoint and x0 is not None:
        # the solution for a column of zeros is known, and no residual is small beside one
        x = x * (sizes > 0)
    r = 1.0 * columns if x0 is None or not look else columns - wrapped.apply(x)
    most = maxiter if maxiter is not None else 10 * max(1, rows)
    sizes = sizes + (sizes == 0)
    return Problem(op, wrapped, improve, columns, x, r, vector, sizes, tol, most, callback, [], factor=factor)


def start(op: str, x0: Any, b: Tensor, rows: int, vector: bool) -> Tensor:
    """The columns to start from, checked and copied."""
    x = from_numpy(x0) if isinstance(x0, np.ndarray) else x0
    if not isinstance(x, Tensor) or x.dtype != b.dtype:
        got = x.dtype if isinstance(x, Tensor) else type(x)
        raise DtypeError(op, "x0", got, f"a tensor of {b.dtype}, as b is")
    shape = (rows,) if vector else (rows, b.shape[1])
    if tuple(x.shape) != shape:
        raise ArgumentError(op, "shape of x0", tuple(x.shape), str(shape))
    finite(op, x0=x)
    return (x.unsqueeze(-1) if vector else x).clone()


def _same_kind(op: str, a: Any, b: Tensor) -> None:
    """Operands of torch's share a dtype; those of NumPy's are converted, but no imaginary part gets lost."""
    kind = getattr(a, "dtype", None)
    if isinstance(kind, torch.dtype) and kind != b.dtype:
        raise DtypeError(op, "dtype", {"a": kind, "b": b.dtype}, hint="Convert one side")
    if isinstance(kind, np.dtype) and kind.kind == "c" and not b.is_complex():
        raise DtypeError(op, "dtype", {"a": kind, "b": b.dtype}, hint="Convert b to a complex dtype")
