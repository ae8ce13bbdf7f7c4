"""Systems that iterative solvers solve: checked and scaled, with their residuals as these grow, and what comes out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from trnsci import ArgumentError, DtypeError, NotConverged, check, run
from trnsci.arrays import Answer, from_numpy
from trnsci.planning import home
from trnsci.plans import Cost
from trnsci.specs import Opaque
from trnsolver.arguments import all_finite, finite, readable
from trnsolver.columns import Columns, Numbers, norms
from trnsolver.operators import (
    Apply,
    Callback,
    Counted,
    Operator,
    called,
    far_from_one,
    iterated,
    on_array,
    on_chip,
    operator,
    shaped,
    tolerance,
    unchanged,
)
from trnsolver.tiles import near_one

C = TypeVar("C", bound=type)
# solution, residual, direction, and norms of the residuals of the steps before
State = tuple[Tensor, Tensor, Tensor, Tensor]
Advance = Callable[[Tensor, Tensor, Tensor, int], State]
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


class Iterates(NamedTuple):
    """A solution as an op returns it, with the products it took; see `Result`."""

    x: Tensor  # [N, K]
    converged: bool
    iterations: int
    residuals: tuple[float, ...]
    products: int


class System(NamedTuple):
    """A checked system, the field that calls of iterative solvers share.

    Attributes:
        op: the solver, for errors.
        a: [M, N].
        b: [M, K].
        x0: [N, K], where to start.
        tol, maxiter: when to stop.
        preconditioner, callback: functions of the caller.
        answers: of the preconditioner, which says whether it has a gradient.
        adjoint: whether the solver multiplies by that of ``a``, too, and takes any shape.
        vector: whether one vector was given for the columns.
    """

    op: str
    a: Operator
    b: Tensor
    x0: Tensor | None
    tol: float
    maxiter: int
    preconditioner: Opaque
    callback: Opaque
    answers: list[Tensor]
    adjoint: bool
    vector: bool

    def operands(self) -> list[Tensor]:
        """Return the tensors."""
        start = [] if self.x0 is None else [self.x0]
        return [*self.a.operands(), self.b, *start, *self.answers]

    def fake(self) -> Iterates:
        """Return the result on shapes alone."""
        assert self.a.shape is not None
        return Iterates(self.b.new_empty((self.a.shape[1], self.b.shape[1])), False, self.maxiter, (math.nan,), 0)

    def cost(self, *, passes: int, products: int = 1, kept: int = 0) -> Cost:
        """Return the cost of an iteration of so many products and sums of vectors, which keeps some of these."""
        assert self.a.shape is not None
        length, size = max(self.a.shape) * self.b.shape[1], self.b.element_size()
        flops = 2 * (products * self.a.stored * self.b.shape[1] + passes * length)
        read = (products * self.a.stored + 2 * passes * length) * size
        return Cost(flops * (4 if self.b.is_complex() else 1), read, passes * length * size, kept * length * size)

    def limits(self, implementation: str) -> str | None:
        """Return why steps are not taken on arrays, or ``None``."""
        if implementation != "host":
            return None
        if self.b.shape[1] != 1:
            return f"takes one right-hand side, not {self.b.shape[1]}: torch multiplies them side by side"
        return "there is nothing to solve" if 0 in (*self.b.shape, *(self.a.shape or ())) else None

    def on_chip(self, rows: int, columns: int) -> str | None:
        """Return why a kernel that keeps everything on chip cannot take the system, or ``None``."""
        if self.a.matrix is None or self.preconditioner.text:
            return "takes a dense matrix without a preconditioner"
        if torch.is_grad_enabled() and any(x.requires_grad for x in self.operands()):
            return "its kernel has no gradient rule, and an operand requires grad"
        return on_chip(self.a.matrix, self.b, rows, columns)

    def prepare(self, *, arrays: bool = False) -> Problem:
        """Return the system scaled, with the residual of its start, for steps on arrays [N] or on tensors [N, K]."""
        improve: Apply = self.preconditioner.value or unchanged
        columns: Columns = self.b
        x: Columns = self.x0
        (apply, adjoint) = self.a.on_arrays(both=self.adjoint) if arrays else (self.a.apply, self.a.adjoint)
        if arrays:
            improve = on_array(improve) if self.preconditioner.text else improve
            columns, x = columns.numpy()[:, 0].copy(), None if x is None else x.numpy()[:, 0]
        return _scaled(self, columns, x, improve, Counted(apply), None if adjoint is None else Counted(adjoint))


def _scaled(
    system: System, columns: Columns, x: Columns, improve: Apply, apply: Counted, adjoint: Counted | None
) -> Problem:
    """Bring columns near 1 where their squares leave the range, and take the residual of the start."""
    b, a, start = system.b, system.a, x is not None
    assert a.shape is not None
    host, rows = isinstance(columns, np.ndarray), a.shape[1]
    if x is None:
        x = np.zeros(rows, columns.dtype) if host else columns.new_zeros((rows, columns.shape[1]))
    beyond, sizes, factor = far_from_one(b.dtype), norms(columns), None
    known = [sizes] if host else sizes.tolist() if readable(b) else []
    if readable(b) and not (a.scale == 1.0 and all(1 / beyond < size < beyond for size in known)):
        power: Numbers = near_one(b.detach(), 0)
        factor = (a.scale / power.double()).to(power.dtype)
        power, factor = (power.item(), factor.item()) if host else (power, factor)
        columns, x = columns * power, x / factor if start else x
        sizes = norms(columns)
    if start and not system.adjoint:
        # the solution for a column of zeros is known, and no residual is small beside one
        x = x * (sizes > 0)
    r = columns - apply(x) if start else 1.0 * columns
    callback, most = system.callback.value, system.maxiter
    return Problem(
        system.op,
        apply,
        adjoint,
        improve,
        columns,
        x,
        r,
        sizes + (sizes == 0),
        system.tol,
        most,
        callback,
        [],
        factor=factor,
    )


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
        r = self.b - self.apply(x)
        before, self.computed = self.computed, self.size(r, True)
        return self.computed <= self.tol or self.computed > 0.9 * before, r

    def in_chunks(self, advance: Advance, direction: Apply) -> Iterates:
        """Take steps in chunks, each one operation, until a residual that was computed afresh is small enough.

        ``advance`` takes so many steps from x, r and d, and returns the norms of their residuals too; ``direction``
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


def iterates(kind: C, *, host: bool = True) -> C:
    """Decorate the call class of a solver, of a `System` and options: its ``iterate`` holds the loop, also of the rest.

    ``host`` says that the loop takes steps on arrays, too.
    """

    def iterate_on_arrays(call: Any) -> Any:
        with np.errstate(all="ignore"):
            return call.iterate(call.system.prepare(arrays=True))

    def multiply_once(call: Any) -> None:
        if call.system.a.matrix is not None:
            call.system.a.apply(call.fake().x)

    methods: dict[str, Callable[..., Any]] = {
        "fake": lambda call: call.system.fake(),
        "operands": lambda call: call.system.operands(),
        "limits": lambda call, implementation: call.system.limits(implementation),
        "calls": lambda call, implementation: call.system.a.calls,
        "iterations": lambda call: call.system.maxiter,
        "pytorch": lambda call: call.iterate(call.system.prepare()),
        "nki": lambda call: call.pytorch(),
        "prediction": multiply_once,
    }
    if host:
        methods["host"] = iterate_on_arrays
    for name, method in methods.items():
        if not hasattr(kind, name):
            setattr(kind, name, method)
    return kind


def solve(call: Any) -> Result:
    """Run the call of an iterative solver."""
    x, converged, iterations, residuals, _ = run(call)
    system: System = call.system
    x = x.squeeze(-1) if system.vector else x
    return Result(x=x, converged=converged, iterations=iterations, residuals=residuals, op=system.op)


def check_system(
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
) -> System:
    """Check what every solver takes, and return it; ``look``: data is there to be looked at, or planned for."""
    if isinstance(b, np.ndarray):
        b = from_numpy(b)
    if not isinstance(b, Tensor):
        raise DtypeError(op, "b", type(b), "a floating-point tensor")
    check.dense(op, b=b)
    iterated(op, "b", b.dtype)
    if b.ndim not in (1, 2):
        raise ArgumentError(op, "shape of b", tuple(b.shape), "[N] or [N, K]")
    planned = home()
    if look and planned is None:
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
    vector = b.ndim == 1
    columns = b.unsqueeze(-1) if vector else b
    improve = Opaque("")
    # of a function, the answer to one call tells whether it has a gradient
    trials = []
    if preconditioner is not None:
        improve = Opaque("preconditioned", shaped(op, "preconditioner", preconditioner))
        trials.append(improve.value)
    if wrapped.shape is None:
        trials.append(wrapped.adjoint or wrapped.apply)
    answers: list[Tensor] = []
    if trials and look:
        probe = columns * near_one(columns.detach(), 0) if readable(b) else columns
        answers = [fn(probe if planned is None else torch.zeros_like(probe, device=planned)) for fn in trials]
    if wrapped.shape is None:
        wrapped = _answered(wrapped, b, answers.pop() if answers else columns)
    assert wrapped.shape is not None
    x = None if x0 is None else start(op, x0, columns, wrapped.shape[1], vector)
    most = maxiter if maxiter is not None else 10 * max(1, wrapped.shape[1])
    return System(op, wrapped, columns, x, tol, most, improve, Opaque("", callback), answers, adjoint, vector)


def _answered(function: Operator, b: Tensor, answer: Tensor) -> Operator:
    """Return the map of a function whose answer to ``b`` tells its shape and its scale."""
    function = function._replace(values=answer, shape=(b.shape[0], answer.shape[0]))
    if not (readable(b) and readable(answer)):
        return function
    return function.times(float(near_one(answer.detach(), (0, 1), beyond=far_from_one(b.dtype))))


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
