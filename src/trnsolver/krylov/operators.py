"""Operators that iterative solvers take for a matrix."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor

from trnblas import gemm
from trnsci import ArgumentError, DtypeError, UnsupportedError, check, run
from trnsci.arrays import from_numpy, to_numpy
from trnsci.host import refusal
from trnsci.libraries import operand
from trnsci.planning import collect_calls, home, remark
from trnsci.specs import Opaque, thaw
from trnsolver.arguments import finite, readable, refuse_dtype
from trnsolver.krylov.vectors import Columns, inner
from trnsolver.scaling import near_one

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
# What plans call products of which nothing is known.
FUNCTION = "the function given"
UNCOUNTED = "products with an operator that shows no entries are not counted"


class Maps(NamedTuple):
    """Functions of columns [N, K], and of [M, K] for the adjoint, and the matrix of SciPy's or ours behind them."""

    apply: Apply
    adjoint: Apply | None
    entries: Any = None
    columns: Tensor | None = None  # as a product takes them

    def frozen_calls(self) -> tuple[Any, ...]:
        """Return what a product with a sparse matrix calls, without its data; nothing of SciPy's and of functions."""
        if self.columns is None or not hasattr(self.entries, "to_scipy"):
            return ()
        return collect_calls(self.apply, self.columns)


class Operator(NamedTuple):
    """A checked linear map [M, N], as the calls of iterative solvers hold it.

    Attributes:
        matrix: the dense one it is.
        values: of another, a tensor that says where it is and whether it has a gradient: those of a sparse matrix, the
            answer of a function.
        shape: rows and columns; ``None`` until a function has answered.
        stored: entries that a product multiplies.
        scale: the power of two that a matrix was multiplied by, so that squares of its products stay in range.
        source: the `Maps` of what is no dense matrix.
    """

    matrix: Tensor | None
    values: Tensor | None
    shape: tuple[int, int] | None
    stored: int
    scale: float
    source: Opaque

    @property
    def apply(self) -> Apply:
        """The product with columns [N, K]."""
        return partial(gemm, 1.0, self.matrix) if self.matrix is not None else self.source.value.apply

    @property
    def adjoint(self) -> Apply | None:
        """The product of the adjoint with columns [M, K], where there is one."""
        if self.matrix is not None:
            return partial(gemm, 1.0, self.matrix, trans_a="c")
        adjoint: Apply | None = self.source.value.adjoint
        return adjoint

    def multiply(self, columns: Tensor) -> None:
        """Multiply once, for a prediction: a matrix, or what is known of a sparse one."""
        if self.matrix is not None:
            self.apply(columns)
        for call in self.source.calls:
            run(thaw(call))

    def for_columns(self, shape: tuple[int, int], dtype: torch.dtype) -> Operator:
        """Return the same map, whose plans know what it multiplies."""
        if self.matrix is not None or not isinstance(self.source.value, Maps):
            return self
        columns = torch.empty(shape, dtype=dtype, device="meta")
        return self._replace(source=Opaque(self.source.text, self.source.value._replace(columns=columns)))

    def operands(self) -> list[Tensor]:
        """Return the tensors that decide where products are taken."""
        return [x for x in (self.matrix, self.values) if x is not None]

    @property
    def calls(self) -> str:
        """Return the name of the product on arrays, for plans."""
        return "numpy.matmul" if self.matrix is not None else self.source.text

    def times(self, power: float) -> Operator:
        """Return the map of a function, ``power`` times as large."""
        if power == 1.0:
            return self
        there, back = self.apply, self.adjoint
        adjoint: Apply | None = None if back is None else lambda x: back(x) * power
        source = Opaque(self.source.text, Maps(lambda x: there(x) * power, adjoint))
        return self._replace(scale=power, source=source)

    def scale_by_product(self, x: Tensor) -> Operator:
        """Return the same map; a function, whose entries cannot be read, is brought near 1 by its product."""
        if self.matrix is not None or (self.shape is not None and not hasattr(self.source.value.entries, "matvec")):
            return self
        planned = home()
        y = self.apply(x if planned is None else torch.zeros_like(x, device=planned))
        power = float(near_one(y.detach(), (0, 1), beyond=far_from_one(y.dtype))) if readable(y) else 1.0
        return self._replace(values=y, shape=self.shape or (len(y), len(x))).times(power)

    def on_arrays(self, *, both: bool) -> tuple[Callable[[Columns], Columns], Callable[[Columns], Columns] | None]:
        """Return the product on arrays [N], and with ``both`` that of the adjoint; NumPy and SciPy take them."""
        if self.matrix is not None:
            array = self.matrix.numpy()
            a: Any = array if array.flags.forc else array.copy()
        elif (a := self.source.value.entries) is None:
            back = self.adjoint if both else None
            return on_array(self.apply), None if back is None else on_array(back)
        a = a.to_scipy() if hasattr(a, "to_scipy") else a
        if hasattr(a, "matvec"):
            return _cast(a.matvec), _cast(a.rmatvec) if both else None
        return _cast(a.__matmul__), _cast(a.conj().T.__matmul__) if both else None


class Counted:
    """A product that counts how often it was taken."""

    __slots__ = ("apply", "products")

    def __init__(self, apply: Callable[[Columns], Columns]) -> None:
        self.apply, self.products = apply, 0

    def __call__(self, x: Columns) -> Columns:
        self.products += 1
        return self.apply(x)


def on_array(apply: Apply) -> Callable[[Columns], Columns]:
    """Return a function of [N, K] on arrays [N]."""
    return lambda x: to_numpy(apply(torch.from_numpy(x).unsqueeze(-1)))[:, 0]


def _cast(apply: Callable[[Columns], Columns]) -> Callable[[Columns], Columns]:
    return lambda x: apply(x).astype(x.dtype, copy=False)


def operator(op: str, a: Any, *, adjoint: bool = False) -> Operator:
    """Take a finite matrix, a sparse matrix, a SciPy ``LinearOperator``, anything with ``@``, or a function.

    A pair of functions is a map and its adjoint, which a solver asks for by ``adjoint``.
    """
    if isinstance(a, tuple) and len(a) == 2 and all(callable(part) for part in a):
        there, back = (check_answers(op, "a", part, square=False) for part in a)
        remark(UNCOUNTED)
        return Operator(None, None, None, 0, 1.0, Opaque(FUNCTION, Maps(there, back)))
    if isinstance(a, np.ndarray):
        a = from_numpy(a)
    if isinstance(a, Tensor):
        check.refuse(a.ndim != 2, op, "shape of a", tuple(a.shape), "a matrix: 2 dimensions")
        refuse_dtype(op, "dtype of a", a.dtype)
    entries = _entries(a)
    scale = _toward_one(op, a, entries)
    a = a if scale == 1.0 else a * scale
    if isinstance(a, Tensor) and a.layout == torch.strided:
        return Operator(a, None, (a.shape[0], a.shape[1]), a.numel(), scale, Opaque("torch"))
    maps, text = _maps(op, a, adjoint)
    if entries is None:
        remark(UNCOUNTED)
    shape: Any = None if text == FUNCTION else tuple(a.shape)
    values = a if isinstance(a, Tensor) and a.requires_grad else getattr(a, "values", None)
    values = values if isinstance(values, Tensor) else None
    return Operator(None, values, shape, 0 if entries is None else entries.numel(), scale, Opaque(text, maps))


def _maps(op: str, a: Any, adjoint: bool) -> tuple[Maps, str]:
    """Return the products with what is no dense matrix, and the name of those on arrays."""
    if isinstance(a, Tensor):
        return Maps(lambda x: a @ x, lambda x: a.mH @ x), "torch"
    if hasattr(a, "matvec") and hasattr(a, "shape"):
        back = _foreign(a.rmatmat) if hasattr(a, "rmatmat") else None
        return Maps(_foreign(a.matmat), back, a if hasattr(a, "rmatvec") else None), "its matvec"
    if type(a).__module__.partition(".")[0] == "scipy":
        return Maps(_foreign(lambda x: a @ x), _foreign(lambda x: a.conj().T @ x), a), "scipy.sparse"
    if hasattr(a, "__matmul__") and hasattr(a, "shape"):
        conjugated = getattr(a, "mH", None) if hasattr(a, "mH") else getattr(a, "H", None)
        times = None if conjugated is None else lambda x: conjugated @ x
        single = hasattr(a, "to_scipy") and a.values.ndim in (1, 3)
        return Maps(lambda x: a @ x, times, a if single else None), "scipy.sparse" if single else "its @"
    if callable(a):
        check.refuse(adjoint, op, "a", "one function", "a pair: the map and its adjoint", hint="Pass (f, g)")
        return Maps(check_answers(op, "a", a), None), FUNCTION
    raise DtypeError(op, "a", type(a), "a matrix, a LinearOperator, an object with @, or a function")


def _entries(a: Any) -> Tensor | None:
    """Return the entries that a matrix stores, where they are to be seen."""
    if isinstance(a, Tensor):
        return a if a.layout == torch.strided else a.values() if a.layout != torch.sparse_coo else a._values()
    entries = getattr(a, "data" if type(a).__module__.startswith("scipy") else "values", None)
    entries = from_numpy(entries) if isinstance(entries, np.ndarray) and entries.dtype.kind in "fc" else entries
    return entries if isinstance(entries, Tensor) else None


def _toward_one(op: str, a: Any, entries: Tensor | None) -> float:
    """Return a power of two that brings a matrix near 1 where squares of its entries leave their range, else 1."""
    if entries is None or not entries.numel() or not readable(entries):
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
    """Return how far from 1 numbers may be whose fourth powers are inside the range: squares of products."""
    return 2.0**15 if dtype in (torch.float32, torch.complex64) else 2.0**120


def check_answers(op: str, argument: str, fn: Apply, *, square: bool = True) -> Apply:
    """Wrap a user's function and check every answer: columns for columns, in their dtype."""
    check_callable(op, argument, fn)

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


def check_callable(op: str, argument: str, fn: Any) -> None:
    """Raise unless an argument can be called."""
    if fn is not None and not callable(fn):
        raise DtypeError(op, argument, type(fn), "a function")


def identity_map(r: Columns) -> Columns:
    """Return the residual itself, where no preconditioner is given."""
    return r


def preconditioner_or_identity(op: str, preconditioner: Apply | None) -> Apply:
    """Return the function given, or the identity."""
    return identity_map if preconditioner is None else check_answers(op, "preconditioner", preconditioner)


def on_columns(op: str, n: int, apply: Apply) -> Apply:
    """Return a function of [N, K] that takes [N] as well."""

    def either(r: Tensor) -> Tensor:
        check.tensor(op, r=r)
        if r.ndim not in (1, 2) or r.shape[0] != n:
            raise ArgumentError(op, "shape of r", tuple(r.shape), f"[{n}] or [{n}, K]")
        return apply(r) if r.ndim == 2 else apply(r.unsqueeze(-1)).squeeze(-1)

    return either


def _foreign(fn: Callable[[Any], Any]) -> Apply:
    def apply(x: Tensor) -> Tensor:
        if x.is_meta:
            reason = "an operator of SciPy's needs data, and an operand is on the meta device"
            raise UnsupportedError("trnsolver.operator", [("pytorch", reason)])
        return from_numpy(np.ascontiguousarray(fn(to_numpy(x)))).to(x.device, x.dtype)

    return apply


def on_chip(a: Tensor, x: Tensor, rows: int, columns: int) -> str | None:
    """Return why a kernel that keeps a matrix and its vectors on chip cannot take them, or ``None``."""
    if a.dtype != torch.float32:
        return f"the kernel computes in float32, not {a.dtype}"
    if a.shape[0] > rows or x.shape[1] > columns:
        return (
            f"the kernel keeps everything on chip: at most {rows} rows and {columns} right-hand sides, "
            f"not {a.shape[0]} and {x.shape[1]}"
        )
    return None


def tolerance(op: str, tol: Any) -> None:
    """Check that a tolerance is a positive number."""
    check.refuse(not check.real(op, "tol", tol) > 0, op, "tol", tol, "a positive number")
