"""Systems as iterative solvers solve them: columns and their residuals as these grow, and what comes out."""

from __future__ import annotations

import dis
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnsci import NotConverged, figures
from trnsci.arrays import Answer
from trnsim import notebook
from trnsolver.arguments import all_finite
from trnsolver.krylov.operators import Apply, Callback, Counted
from trnsolver.krylov.vectors import Columns, Numbers, norms

# solution, residual, direction, and norms of the residuals of the steps before
State = tuple[Tensor, Tensor, Tensor, Tensor]
Advance = Callable[[Tensor, Tensor, Tensor, int], State]
# Steps a kernel takes between two looks at the residual.
CHUNK = 16


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Result(Answer):
    """Solution of an iterative solver, and how it converged.

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
        caller = sys._getframe(1)
        if caller.f_code.co_code[caller.f_lasti :][:2] == bytes((dis.opmap["UNPACK_SEQUENCE"], 2)):
            spelling = f"'x, iterations, residual = {self.op}(...)' or 'x = {self.op}(...).require()'"
            raise TypeError(
                f"{self.op}: the result is three values. Write {spelling}; SciPy's info is result.converged"
            )
        return iter((self.x, self.iterations, self.residuals[-1]))

    def __repr__(self) -> str:
        end = "converged" if self.converged else "not converged"
        shape = "x".join(map(str, self.x.shape))
        steps = f"{end} after {self.iterations} iterations, residual {self.residuals[-1]:.2e}"
        return f"<Result of {self.op}: x {self.x.dtype}[{shape}], {steps}>"

    def _repr_html_(self) -> str:
        return notebook.fragment(repr(self)[1:-1], notebook.curve("residual after each step", self.residuals))

    def plot(self, axes: figures.Axes | None = None) -> figures.Axes:
        """Draw the residual after each step into Matplotlib's axes, new ones by default; return them."""
        return figures.plot_convergence(self.residuals, f"residual of {self.op}", axes)

    def require(self) -> Tensor:
        """Return the solution; raise `NotConverged` unless it was found."""
        if not self.converged:
            raise NotConverged(op=self.op, iterations=self.iterations, residual=self.residuals[-1])
        return self.x


class Iterates(NamedTuple):
    """A solution as an op returns it, with the products it took; see `Result`."""

    x: Tensor  # [N, K]
    converged: bool
    iterations: int
    residuals: tuple[float, ...]
    products: int


@dataclass(slots=True)
class Problem:
    """A system as it is being solved: columns, a start, its residual, tolerances, and the residuals as they grow."""

    op: str
    apply: Counted
    adjoint: Counted | None
    improve: Apply
    b: Columns
    x: Columns
    r: Columns
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
        """Return the largest residual of the columns, relative to their right-hand sides."""
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
        """Return whether there is a next step."""
        return not done and len(self.residuals) <= self.maxiter and self.residuals[-1] < math.inf

    def size(self, r: Columns, again: bool) -> float:
        """Note the largest residual of the columns, or the last one again, and return it."""
        if again:
            self.residuals[-1] = self.worst(norms(r))
        else:
            self.record(norms(r))
        return self.residuals[-1]

    def check_residual(self, x: Columns, r: Columns) -> tuple[bool, Columns]:
        """Note a residual; say whether to stop, and return the residual to go on from.

        A recurrence drifts: a small residual is computed afresh, and where that gains less than a tenth no step will.
        """
        if self.size(r, False) > self.tol:
            return False, r
        r = self.b - self.apply(x)
        before, self.computed = self.computed, self.size(r, True)
        return self.computed <= self.tol or self.computed > 0.9 * before, r

    def in_chunks(self, advance: Advance, direction: Apply) -> Iterates:
        """Take steps in chunks, each one operation, until a residual that was computed afresh is small enough.

        ``advance`` takes ``steps`` steps from x, r and d, and returns the norms of their residuals too; ``direction``
        returns the first direction for a residual.
        """
        x, r, d, last = self.x, self.r, direction(self.r), math.inf
        done = self.record(norms(r))
        while self.going(done):
            steps = min(CHUNK, self.maxiter - len(self.residuals) + 1)
            x, r, d, history = advance(x, r, d, steps)
            self.apply.products += steps
            worst = (history / self.sizes).amax(1).tolist() if history.numel() else [0.0] * len(history)
            reached = [self.note(each) for each in worst]
            if any(reached):
                # a residual may rise again before the chunk ends
                true = self.b - self.apply(x)
                done = self.size(true, True) <= self.tol
                if not done and self.worst(norms(r)) <= self.tol:
                    # The recurrence is wrong: go on from the residual as it is, unless that was no help before.
                    if self.residuals[-1] > 0.5 * last:
                        break
                    last, r, d = self.residuals[-1], true, direction(true)
        return self.result(x, done)

    def result(self, x: Columns, converged: bool) -> Iterates:
        """Wrap up; a solution that is not finite was never found."""
        x = torch.from_numpy(x).unsqueeze(-1) if isinstance(x, np.ndarray) else x
        x = x if self.factor is None else x * self.factor
        steps = len(self.residuals) - 1
        if not all_finite(x) or not math.isfinite(self.residuals[-1]):
            message = f"broke down after {steps} iterations: the iterate is not finite"
            raise NotConverged(op=self.op, iterations=steps, residual=self.residuals[-1], message=message)
        products = self.apply.products + (0 if self.adjoint is None else self.adjoint.products)
        return Iterates(x, converged, steps, tuple(self.residuals), products)
