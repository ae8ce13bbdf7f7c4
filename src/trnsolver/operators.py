"""What iterative solvers take for a matrix."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from operator import matmul
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor

from trnblas import gemm
from trnsci import ArgumentError, DtypeError, UnsupportedError, check, neuron
from trnsci.arrays import from_numpy, to_numpy
from trnsci.backends import SCOPE, library
from trnsci.host import refusal
from trnsci.ledger import Entry, listeners, record
from trnsci.libraries import operand
from trnsci.planning import plan
from trnsolver.arguments import DTYPES, finite, readable
from trnsolver.columns import Columns, inner
from trnsolver.tiles import near_one

Apply = Callable[[Tensor], Tensor]
Callback = Callable[[int, float], None]


class LinearMap(Protocol):
    """Anything that has a shape and multiplies: sparse matrices, SciPy's matrices and operators."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""

    def __matmul__(self, other: Any, /) -> Any:
        """Multiply."""


# What stands for a matrix: itself, something that multiplies, a function, or a function and that of the adjoint.
Matrix: TypeAlias = "Tensor | np.ndarray[Any, Any] | LinearMap | Apply | tuple[Apply, Apply]"
operand("Matrix")


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

    def times(self, power: float) -> Operator:
        """The same map, ``power`` times as large."""
        if power == 1.0:
            return self
        there, back = self.apply, self.adjoint
        adjoint: Apply | None = None if back is None else lambda x: back(x) * power
        return replace(self, apply=lambda x: there(x) * power, adjoint=adjoint, entries=None, scale=power)

    def probed(self, x: Tensor) -> Operator:
        """The same map; a function, at whose entries nobody can look, is brought near 1 by its product with ``x``."""
        if self.shape is not None and not hasattr(self.entries, "matvec"):
            return self
        y = self.apply(x).detach()
        return self.times(float(near_one(y, (0, 1), beyond=far_from_one(y.dtype))))

    def on_arrays(self) -> Operator:
        """The same map on arrays [N], by NumPy and SciPy, whose products a ledger that listens records, too."""
        if self.matrix is None and self.entries is None:
            adjoint = None if self.adjoint is None else on_array(self.adjoint)
            return replace(self, apply=on_array(self.apply), adjoint=adjoint)
        a = self.entries.to_scipy() if hasattr(self.entries, "to_scipy") else self.entries
        if self.matrix is not None:
            array = self.matrix.numpy()
            a = array if array.flags.forc else array.copy()
        there, back = (a.matvec, a.rmatvec) if hasattr(a, "matvec") else (a.__matmul__, a.conj().T.__matmul__)
        if listeners() and (self.matrix is not None or a is not self.entries):
            there, back = _recorded(there, self, a, "n"), _recorded(back, self, a, "c")
        return Operator(_cast(there), _cast(back), self.shape, self.matrix, scale=self.scale)


def _recorded(apply: Callable[[Columns], Columns], of: Operator, a: Any, trans: str) -> Callable[[Columns], Columns]:
    """A product by ``a``, an array or a matrix of SciPy's, that is noted as the op it stands for."""
    x = from_numpy(np.zeros((a.shape[trans == "n"], 1), a.dtype))
    if of.matrix is not None:
        ran, calls = plan(gemm, 1.0, of.matrix, x, trans_a=trans), "numpy.matmul"
    else:
        matrix = of.entries if trans == "n" else of.entries.H
        ran, calls = plan(matmul, matrix, x), f"scipy.sparse.{type(a).__name__}.__matmul__"
    step = replace(ran.steps[0], implementation="host", calls=calls)

    def product(x: Columns) -> Columns:
        start = time.perf_counter()
        y = apply(x)
        record(Entry(step, time.perf_counter() - start))
        return y

    return product


_LIBRARY = library("trnsolver")


def on_host(operands: Iterable[Any]) -> bool:
    """Whether steps are taken on arrays in host memory: no device is asked for, and no gradient is wanted."""
    scope, asked = SCOPE.get(), _LIBRARY.choice().name
    if (scope is not None and scope.interceptor is not None) or asked not in ("auto", "pytorch"):
        return False
    if asked == "auto" and neuron.device() is not None:
        return False
    return refusal(x for x in operands if isinstance(x, Tensor)) is None


def on_array(apply: Apply) -> Callable[[Columns], Columns]:
    """A function of [N, K] on arrays [N]."""
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
        iterated(op, "dtype of a", a.dtype)
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
    beyond, entries = far_from_one(entries.dtype), entries.detach()
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


def far_from_one(dtype: torch.dtype) -> float:
    """Numbers as far from 1 as this have fourth powers inside the range: squares of a matrix times a vector."""
    return 2.0**15 if dtype in (torch.float32, torch.complex64) else 2.0**120


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


def iterated(op: str, argument: str, dtype: torch.dtype) -> None:
    """The dtype is one that holds enough digits to iterate."""
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


def tolerance(op: str, tol: Any) -> None:
    """A tolerance is a positive number."""
    if not check.real(op, "tol", tol) > 0:
        raise ArgumentError(op, "tol", tol, "a positive number")
