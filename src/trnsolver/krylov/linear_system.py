"""Checked arguments of iterative solvers, and the methods that their calls share."""

import functools
import math
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from trnsci import ArgumentError, DtypeError, check, run
from trnsci.arrays import from_numpy, to_numpy
from trnsci.planning import home
from trnsci.plans import Cost
from trnsci.specs import Opaque
from trnsolver.arguments import finite, readable, refuse_dtype
from trnsolver.krylov.iteration import Iterates, Problem, Result
from trnsolver.krylov.operators import (
    Apply,
    Callback,
    Counted,
    LinearMap,
    Operator,
    check_answers,
    check_callable,
    far_from_one,
    identity_map,
    on_array,
    on_chip,
    operator,
    tolerance,
)
from trnsolver.krylov.vectors import Columns, Numbers, norms
from trnsolver.scaling import near_one

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])


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

    def columns(self) -> Tensor:
        """Return memory of the columns that the operator multiplies."""
        assert self.a.shape is not None
        return self.b.new_empty((self.a.shape[1], self.b.shape[1]))

    def operands(self) -> list[Tensor]:
        """Return the tensors."""
        start = [] if self.x0 is None else [self.x0]
        return [*self.a.operands(), self.b, *start, *self.answers]

    def fake(self) -> Iterates:
        """Return the result on shapes alone."""
        return Iterates(self.columns(), False, self.maxiter, (math.nan,), 0)

    def cost(self, *, passes: int, products: int = 1, kept: int = 0) -> Cost:
        """Return the cost of an iteration of some products and sums of vectors, which keeps some of these."""
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
        improve: Apply = self.preconditioner.value or identity_map
        columns: Columns = self.b
        x: Columns = self.x0
        (apply, adjoint) = self.a.on_arrays(both=self.adjoint) if arrays else (self.a.apply, self.a.adjoint)
        if arrays:
            improve = on_array(improve) if self.preconditioner.text else improve
            columns, x = columns.numpy()[:, 0].copy(), None if x is None else x.numpy()[:, 0]
        return _scale_problem(self, columns, x, improve, Counted(apply), None if adjoint is None else Counted(adjoint))


def _scale_problem(
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


def iterates(*, host: bool = True, **cost: int) -> Callable[[C], C]:
    """Decorate the call class of a solver with the methods that all share.

    Its field ``system`` is a `System`, or another value with the same methods. Its ``iterate`` or ``system.find`` is
    the loop, from the result of ``system.prepare`` to that of the call. ``host`` says that steps are taken on arrays,
    too; ``cost`` are the arguments of ``system.cost``.
    """

    def iterate_on_arrays(call: Any) -> Any:
        with np.errstate(all="ignore"):
            return call.iterate(call.system.prepare(arrays=True))

    def multiply_once(call: Any) -> None:
        call.system.a.multiply(call.system.columns())

    methods: dict[str, Callable[..., Any]] = {
        "fake": lambda call: call.system.fake(),
        "cost": lambda call: call.system.cost(**cost),
        "iterate": lambda call, space: call.system.find(space),
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

    def decorate(kind: C) -> C:
        for name, method in methods.items():
            if not hasattr(kind, name):
                setattr(kind, name, method)
        return kind

    return decorate


def solve(call: Any) -> Result:
    """Run the call of an iterative solver."""
    x, converged, iterations, residuals, _ = run(call)
    system: System = call.system
    x = x.squeeze(-1) if system.vector else x
    return Result(x=x, converged=converged, iterations=iterations, residuals=residuals, op=system.op)


def like_scipy(solver: F) -> F:
    """Let an iterative solver take SciPy's ``rtol`` and ``M``, and functions of arrays where ``b`` is an array."""

    @functools.wraps(solver)
    def call(*args: Any, **options: Any) -> Any:
        for theirs, ours in (("rtol", "tol"), ("M", "preconditioner")):
            if theirs in options:
                if ours in options:
                    raise TypeError(f"{solver.__name__}() got {ours!r} and {theirs!r}, which are the same")
                options[ours] = options.pop(theirs)
        if isinstance(options.get("b", args[1] if len(args) > 1 else None), np.ndarray):
            args = tuple(map(_of_tensors, args))
            options |= {name: _of_tensors(options[name]) for name in ("a", "preconditioner") if name in options}
        return solver(*args, **options)

    return cast(F, call)


def _of_tensors(value: Any) -> Any:
    """Return a function of arrays, or a pair of them, as one of tensors; other values stay."""
    if isinstance(value, tuple):
        return tuple(map(_of_tensors, value))
    if not isinstance(value, FunctionType | MethodType | functools.partial):
        return value
    return lambda x: from_numpy(np.asarray(value(to_numpy(x)))).to(x.dtype)


def _of_columns(value: Any) -> Any:
    """Return a function of vectors [N], or a pair of them, as one of columns [N, 1]; other values stay."""
    if isinstance(value, tuple):
        return tuple(map(_of_columns, value))
    if not callable(value) or hasattr(value, "shape"):
        return value

    def apply(x: Tensor) -> Any:
        y = value(x.squeeze(-1))
        return y.unsqueeze(-1) if isinstance(y, Tensor) and y.ndim == 1 else y

    return apply


def check_system(
    op: str,
    a: Any,
    b: Any,
    *,
    x0: Tensor | None = None,
    tol: float = 1e-5,
    maxiter: int | None = None,
    callback: Callback | None = None,
    preconditioner: Apply | LinearMap | None = None,
    adjoint: bool = False,
    look: bool = True,
) -> System:
    """Check what every solver takes, and return it; ``look``: data is there to be looked at, or planned for."""
    if isinstance(b, np.ndarray):
        b = from_numpy(b)
    if not isinstance(b, Tensor):
        raise DtypeError(op, "b", type(b), "a floating-point tensor")
    check.dense(op, b=b)
    refuse_dtype(op, "b", b.dtype)
    check.refuse(b.ndim not in (1, 2), op, "shape of b", tuple(b.shape), "[N] or [N, K]")
    planned = home()
    if look and planned is None:
        check.data(op, wrapped=True, a=a, b=b, x0=x0)
    finite(op, b=b)
    vector = b.ndim == 1
    if vector:
        a, preconditioner = _of_columns(a), _of_columns(preconditioner)
    wrapped = operator(op, a, adjoint=adjoint)
    _same_kind(op, a, b)
    if wrapped.shape is not None:
        check.refuse(wrapped.shape[0] != b.shape[0], op, "M", {"a": wrapped.shape[0], "b": b.shape[0]})
        if not adjoint and wrapped.shape[0] != wrapped.shape[1]:
            raise ArgumentError(op, "shape of a", wrapped.shape, "a square matrix")
    tolerance(op, tol)
    if maxiter is not None:
        check.integer(op, "maxiter", maxiter, at_least=0)
    check_callable(op, "callback", callback)
    columns = b.unsqueeze(-1) if vector else b
    improve = Opaque("")
    # of a function, the answer to one call tells whether it has a gradient
    trials = []
    if hasattr(preconditioner, "shape"):
        preconditioner = operator(op, preconditioner).apply
    if preconditioner is not None:
        improve = Opaque("preconditioned", check_answers(op, "preconditioner", preconditioner))
        trials.append(improve.value)
    if wrapped.shape is None:
        trials.append(wrapped.adjoint or wrapped.apply)
    answers: list[Tensor] = []
    if trials and look:
        probe = columns * near_one(columns.detach(), 0) if readable(b) else columns
        answers = [fn(probe if planned is None else torch.zeros_like(probe, device=planned)) for fn in trials]
    if wrapped.shape is None:
        wrapped = _map_from_answer(wrapped, b, answers.pop() if answers else columns)
    assert wrapped.shape is not None
    x = None if x0 is None else start(op, x0, columns, wrapped.shape[1], vector)
    most = maxiter if maxiter is not None else 10 * max(1, wrapped.shape[1])
    wrapped = wrapped.for_columns((wrapped.shape[1], columns.shape[1]), columns.dtype)
    return System(op, wrapped, columns, x, tol, most, improve, Opaque("", callback), answers, adjoint, vector)


def _map_from_answer(function: Operator, b: Tensor, answer: Tensor) -> Operator:
    """Return the map of a function whose answer to ``b`` tells its shape and its scale."""
    function = function._replace(values=answer, shape=(b.shape[0], answer.shape[0]))
    if not (readable(b) and readable(answer)):
        return function
    return function.times(float(near_one(answer.detach(), (0, 1), beyond=far_from_one(b.dtype))))


def start(op: str, x0: Any, b: Tensor, rows: int, vector: bool) -> Tensor:
    """Return the columns to start from, checked and copied."""
    x = from_numpy(x0) if isinstance(x0, np.ndarray) else x0
    if not isinstance(x, Tensor) or x.dtype != b.dtype:
        got = x.dtype if isinstance(x, Tensor) else type(x)
        raise DtypeError(op, "x0", got, f"a tensor of {b.dtype}, as b is")
    shape = (rows,) if vector else (rows, b.shape[1])
    check.refuse(tuple(x.shape) != shape, op, "shape of x0", tuple(x.shape), str(shape))
    finite(op, x0=x)
    return (x.unsqueeze(-1) if vector else x).clone()


def _same_kind(op: str, a: Any, b: Tensor) -> None:
    """Operands of torch's share a dtype; those of NumPy's are converted, but no imaginary part gets lost."""
    kind = getattr(a, "dtype", None)
    if isinstance(kind, torch.dtype) and kind != b.dtype:
        raise DtypeError(op, "dtype", {"a": kind, "b": b.dtype}, hint="Convert one side")
    if isinstance(kind, np.dtype) and kind.kind == "c" and not b.is_complex():
        raise DtypeError(op, "dtype", {"a": kind, "b": b.dtype}, hint="Convert b to a complex dtype")
