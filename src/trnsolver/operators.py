"""What iterative solvers take for a matrix, and what they return."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor

from trnblas import gemm
from trnsci import ArgumentError, DtypeError, NotConverged, UnsupportedError, check, neuron
from trnsci.arrays import Answer, from_numpy, to_numpy
from trnsci.backends import SCOPE, library
from trnsci.host import refusal
from trnsolver.arguments import DTYPES, all_finite, finite, readable
from trnsolver.columns import Columns, Numbers, inner, norms
from trnsolver.tiles import near_one

Apply = Callable[[Tensor], Tensor]
Callback = Callable[[int, float], None]
Advance = Callable[[Tensor, Tensor, Tensor, int], tuple[Tensor, Tensor, Tensor, Tensor]]
# Steps a kernel takes between two looks at the residual.
CHUNK = 16


class LinearMap(Protocol):
    """Anything that has a shape and multiplies: sparse matrices, SciPy's matrices and operators."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""

    def __matmul__(self, other: Any, /) -> Any:
        """Multiply."""


# What stands for a matrix: itself, something that multiplies, a function, or a function and that of the adjoint.
Matrix: TypeAlias = "Tensor | np.ndarray[Any, Any] | LinearMap | Apply | tuple[Apply, Apply]"


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


@dataclass(frozen=True, slots=True)
class Operator:
    """A linear map: ``apply`` [N, K] -> [M, K], and its adjoint where there is one.

    ``matrix`` is one in memory; ``entries`` is what SciPy multiplies, or has a ``to_scipy`` that does.
    """

    apply: Apply
    adjoint: Apply | None
    shape: tuple[int, int] | None
    matrix: Tensor | None = None
    entries: Any = None
    # what the matrix was multiplied by, so that squares of its products stay in range
    scale: float = 1.0

    def on_arrays(self) -> Operator:
        """The same map on arrays [N], by NumPy and SciPy: no ops, which a ledger would record."""
        if self.matrix is None and self.entries is None:
            adjoint = None if self.adjoint is None else _on_array(self.adjoint)
            return replace(self, apply=_on_array(self.apply), adjoint=adjoint)
        a = self.entries.to_scipy() if hasattr(self.entries, "to_scipy") else self.entries
        if self.matrix is not None:
            array = self.matrix.numpy()
            a = array if array.flags.forc else array.copy()
        there, back = (a.matvec, a.rmatvec) if hasattr(a, "matvec") else (a.__matmul__, a.conj().T.__matmul__)
        return Operator(_cast(there), _cast(back), self.shape, self.matrix, scale=self.scale)


_LIBRARY = library("trnsolver")


def on_host(operands: Iterable[Any]) -> bool:
    """Whether steps are taken on arrays in host memory: no device is asked for, and no gradient is wanted."""
    scope, asked = SCOPE.get(), _LIBRARY.choice().name
    if (scope is not None and scope.interceptor is not None) or asked not in ("auto", "pytorch"):
        return False
    if asked == "auto" and neuron.device() is not None:
        return False
    return refusal(x for x in operands if isinstance(x, Tensor)) is None


def _on_array(apply: Apply) -> Callable[[Columns], Columns]:
    return lambda x: to_numpy(apply(torch.from_numpy(x).unsqueeze(-1)))[:, 0]


def _cast(apply: Callable[[Columns], Columns]) -> Callable[[Columns], Columns]:
    return lambda x: apply(x).astype(x.dtype, copy=False)


def operator(op: str, a: Any, *, adjoint: bool = False) -> Operator:
    """Take a finite matrix, a sparse matrix, a SciPy ``LinearOperator``, anything with ``@``, or a function.

    A pair of functions is a map and its adjoint, which a solver asks for by ``adjoint``.
    """
    if isinstance(a, tuple) and len(a) == 2 and all(callable(part) for part in a):
        there, back = (shaped(op, "a", part, square=False) for part in a)
        return Operator(there, back, None)
    if isinstance(a, np.ndarray):
        a = from_numpy(a)
    if isinstance(a, Tensor):
        if a.ndim != 2:
            raise ArgumentError(op, "shape of a", tuple(a.shape), "a matrix: 2 dimensions")
        _kind(op, "dtype of a", a.dtype)
    scale = _toward_one(op, a)
    if scale != 1.0:
        a = a * scale
    wrapped = _wrapped(op, a, adjoint)
    return wrapped if scale == 1.0 else replace(wrapped, scale=scale)


def _wrapped(op: str, a: Any, adjoint: bool) -> Operator:
    if isinstance(a, Tensor):
        if a.layout != torch.strided:
            return Operator(lambda x: a @ x, lambda x: a.mH @ x, (a.shape[0], a.shape[1]))
        return Operator(lambda x: gemm(1.0, a, x), lambda x: gemm(1.0, a, x, trans_a="c"), (a.shape[0], a.shape[1]), a)
    if hasattr(a, "matvec") and hasattr(a, "shape"):
        return Operator(
            _foreign(a.matmat),
            _foreign(a.rmatmat) if hasattr(a, "rmatmat") else None,
            tuple(a.shape),
            entries=a if hasattr(a, "rmatvec") else None,
        )
    if type(a).__module__.partition(".")[0] == "scipy":
        return Operator(_foreign(lambda x: a @ x), _foreign(lambda x: a.conj().T @ x), tuple(a.shape), entries=a)
    if hasattr(a, "__matmul__") and hasattr(a, "shape"):
        conjugated = getattr(a, "mH", None) if hasattr(a, "mH") else getattr(a, "H", None)
        times = None if conjugated is None else lambda x: conjugated @ x
        single = hasattr(a, "to_scipy") and a.values.ndim in (1, 3)
        return Operator(lambda x: a @ x, times, tuple(a.shape), entries=a if single else None)
    if callable(a):
        if adjoint:
            raise ArgumentError(op, "a", "one function", "a pair: the map and its adjoint", hint="Pass (f, g)")
        return Operator(shaped(op, "a", a), None, None)
    raise DtypeError(op, "a", type(a), "a matrix, a LinearOperator, an object with @, or a function")


def _toward_one(op: str, a: Any) -> float:
    """A power of two that brings a matrix near 1 where squares of its entries leave their range, else 1."""
    entries = getattr(a, "data" if type(a).__module__.startswith("scipy") else "values", None)
    if isinstance(a, Tensor):
        entries = a if a.layout == torch.strided else a.values() if a.layout != torch.sparse_coo else a._values()
    entries = from_numpy(entries) if isinstance(entries, np.ndarray) and entries.dtype.kind in "fc" else entries
    if not isinstance(entries, Tensor) or not entries.numel() or not readable(entries):
        return 1.0
    beyond, entries = _beyond(entries.dtype), entries.detach()
    # the length of them all takes about one product's time; no entry is beyond it, and NaN passes no comparison
    if refusal([entries]) is None:
        flat = entries.numpy().ravel("K")
        size = math.sqrt(inner(flat, flat).real)
    else:
        size = float(torch.linalg.vector_norm(entries))
    if 1 / beyond < size < beyond:
        return 1.0
    if isinstance(a, Tensor) and a.layout == torch.strided:
        finite(op, a=a)
    return float(near_one(entries, tuple(range(entries.ndim)), beyond=beyond))


def _beyond(dtype: torch.dtype) -> float:
    """Numbers as far from 1 as this have squares far from the ends of the range."""
    return 2.0**40 if dtype in (torch.float32, torch.complex64) else 2.0**400


def shaped(op: str, argument: str, fn: Apply, *, square: bool = True) -> Apply:
    """A user's function, of which every answer is checked: columns for columns, in their dtype."""
    called(op, argument, fn)

    def apply(x: Tensor) -> Tensor:
        y = fn(x)
        if not isinstance(y, Tensor) or y.dtype != x.dtype:
            got = y.dtype if isinstance(y, Tensor) else type(y)
            raise DtypeError(op, f"what {argument} returns", got, f"a tensor of {x.dtype}")
        if y.ndim != 2 or y.shape[1] != x.shape[1] or (square and y.shape != x.shape):
            expected = str(tuple(x.shape)) if square else f"{x.shape[1]} columns"
            raise ArgumentError(op, f"shape of what {argument} returns", tuple(y.shape), expected)
        return y

    return apply


def called(op: str, argument: str, fn: Any) -> None:
    """Check that what is to be called can be."""
    if fn is not None and not callable(fn):
        raise DtypeError(op, argument, type(fn), "a function")


def unchanged(r: Columns) -> Columns:
    """The identity, where no preconditioner is given."""
    return r


def preconditioned(op: str, preconditioner: Apply | None) -> Apply:
    """The function given, or the identity."""
    return unchanged if preconditioner is None else shaped(op, "preconditioner", preconditioner)


def on_columns(op: str, n: int, apply: Apply) -> Apply:
    """A function of [N, K] that takes [N] as well."""

    def either(r: Tensor) -> Tensor:
        check.tensor(op, r=r)
        if r.ndim not in (1, 2) or r.shape[0] != n:
            raise ArgumentError(op, "shape of r", tuple(r.shape), f"[{n}] or [{n}, K]")
        return apply(r) if r.ndim == 2 else apply(r.unsqueeze(-1)).squeeze(-1)

    return either


def _kind(op: str, argument: str, dtype: torch.dtype) -> None:
    if dtype not in DTYPES:
        raise DtypeError(
            op=op,
            argument=argument,
            got=dtype,
            expected="float32, float64, complex64 or complex128",
            hint="Convert to float32: half precision holds too few digits to iterate",
        )


def _foreign(fn: Callable[[Any], Any]) -> Apply:
    def apply(x: Tensor) -> Tensor:
        if x.is_meta:
            reason = "an operator of SciPy's needs data, and an operand is on the meta device"
            raise UnsupportedError("trnsolver.operator", [("pytorch", reason)])
        return from_numpy(np.ascontiguousarray(fn(to_numpy(x)))).to(x.device, x.dtype)

    return apply


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
    _kind(op, "b", b.dtype)
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
    answers = [fn(columns) for fn in trials] if look else []
    rows = wrapped.shape[1] if wrapped.shape is not None else answers[-1].shape[0] if look else b.shape[0]
    x: Columns = None if x0 is None else start(op, x0, columns, rows, vector)
    held = (wrapped.matrix, getattr(wrapped.entries, "values", None), x, columns, *answers)
    host = arrays and look and columns.shape[1] == 1 and 0 not in (*b.shape, rows) and on_host(held)
    if host:
        improve = improve if preconditioner is None else _on_array(improve)
        wrapped, columns = wrapped.on_arrays(), columns.numpy()[:, 0].copy()
        x = np.zeros(rows, columns.dtype) if x is None else x.numpy()[:, 0]
    elif x is None:
        x = columns.new_zeros((rows, columns.shape[1]))
    sizes, beyond = norms(columns), _beyond(b.dtype)
    factor: Numbers = None
    known = [sizes] if host else sizes.tolist() if readable(b) else []
    if readable(b) and not (wrapped.scale == 1.0 and all(1 / beyond < size < beyond for size in known)):
        power: Numbers = near_one(b.detach(), 0, beyond=beyond)
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


def tolerance(op: str, tol: Any) -> None:
    """A tolerance is a positive number."""
    if not check.real(op, "tol", tol) > 0:
        raise ArgumentError(op, "tol", tol, "a positive number")


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


def on_chip(a: Tensor, x: Tensor, rows: int, columns: int) -> str | None:
    """Why a kernel that keeps a matrix and its vectors on chip cannot take them, or ``None``."""
    if a.dtype != torch.float32:
        return f"the kernel computes in float32, not {a.dtype}"
    if a.shape[0] > rows or x.shape[1] > columns:
        return (
            f"the kernel keeps everything on chip: at most {rows} rows and {columns} right-hand sides, "
            f"not {a.shape[0]} and {x.shape[1]}"
        )
    return None
