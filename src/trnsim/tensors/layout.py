"""Where the elements of a tensor are: shape, strides and offset over a storage, and the algebra views are made of.

Element ``(i0, i1, …)`` of a view sits at ``offset + Σ strides[k]·i_k`` of its storage, counted in elements of the
view's dtype. On chip, dimension 0 is the partition and its stride is a multiple of the storage's row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from trnsim.errors import WrongArgument
from trnsim.memory import Storage
from trnsim.refusals import forbid, refuse
from trnsim.tensors.dtypes import DType
from trnsim.tensors.objects import MemoryRegion, NKIObject


@dataclass(slots=True, eq=False)
class Dynamic:
    """Run-time addressing of a view.

    Attributes:
        kind: ``scalar`` (one offset for the whole view), ``vector`` (a row for each partition, by DMA), ``tensor``
            (columns of the free dimension, on trn3), or ``late``: no run-time address, but a view that leaves its
            tensor or has no elements, which is an error when it is used.
        index: register or tensor that holds the offsets; of a ``late`` view, the error.
        stride: elements an offset of one moves.
        dim: dimension the offsets address; -1 when it has gone from the view.
        bound: offsets stay below this.
        count: elements picked per partition (``tensor``).
    """

    kind: str
    index: Any
    stride: int
    dim: int
    bound: int
    count: int = 0

    def move_to(self, dim: int) -> Dynamic:
        """Return the same addressing after its dimension has become ``dim``."""
        return replace(self, dim=dim)


class Layout(NKIObject):
    """Fields and queries of a tensor; see the module text."""

    __slots__ = ("_array", "buffer", "dtype", "dynamic", "offset", "registers", "shape", "storage", "strides")

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: DType
    buffer: MemoryRegion
    storage: Storage
    dynamic: Dynamic | None
    # registers and scalars that went into the offset
    registers: tuple[Any, ...]
    _array: np.ndarray | None

    @property
    def name(self) -> str:
        """Debug name of the storage."""
        return self.storage.name

    @property
    def address(self) -> tuple[int, ...] | None:
        """The partition and byte given to ``nl.ndarray``, or the byte of HBM; None where the compiler places it."""
        return self.storage.address

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return int(self.dtype.itemsize)

    @property
    def on_chip(self) -> bool:
        return self.buffer is MemoryRegion.sbuf or self.buffer is MemoryRegion.psum

    @property
    def row(self) -> int:
        """Elements (of this view's dtype) of one partition of the storage."""
        return self.storage.partition_bytes // int(self.dtype.itemsize)

    @property
    def free_size(self) -> int:
        """Elements per partition."""
        return math.prod(self.shape[1:])

    @property
    def partition_start(self) -> int:
        """First partition of an on-chip view, as the hardware counts."""
        return self.storage.partition + self.offset // self.row

    def is_contiguous(self) -> bool:
        """Return whether the view is dense and row-major (on chip: within each partition)."""
        expected = 1
        low = 1 if self.on_chip else 0
        for k in range(self.ndim - 1, low - 1, -1):
            if self.shape[k] != 1:
                if self.strides[k] != expected:
                    return False
                expected *= self.shape[k]
        return True

    def get_pattern(self) -> list[list[int]]:
        """Return the access pattern ``[[stride, count], …]``."""
        return [[stride, count] for stride, count in zip(self.strides, self.shape, strict=True)]

    def is_addressed(self, kind: str) -> bool:
        """Return whether part of the address is known at run time only, in the way ``kind`` says (see `Dynamic`)."""
        return self.dynamic is not None and self.dynamic.kind == kind

    def is_indirect(self) -> bool:
        """Return whether part of the address is known only at run time."""
        return self.dynamic is not None

    def _is_whole(self) -> bool:
        whole = self.size * self.itemsize == self.storage.nbytes
        return whole and self.offset == 0 and self.dynamic is None and self.is_contiguous()

    def at(self, offset: int) -> Self:
        """Return this view from element ``offset`` on, with no run-time address."""
        view = self._view(self.shape, self.strides, offset)
        view.dynamic = None
        return view

    def _view(self, shape: Any, strides: Any, offset: int, dtype: Any = None, dynamic: Dynamic | None = None) -> Self:
        view = object.__new__(type(self))
        view.shape = tuple(shape)
        view.strides = tuple(strides)
        view.offset = offset
        view.dtype = self.dtype if dtype is None else dtype
        view.storage = self.storage
        view.registers = self.registers
        view.buffer = self.buffer
        view.dynamic = self.dynamic if dynamic is None else dynamic
        view._array = None
        if view.is_addressed("late"):
            # a part of it may be inside
            error = view.extent_error()
            view.dynamic = None if error is None else late(error)
        return view

    def unusable(self) -> Self:
        """Return this view, which has no elements, with the error that its use raises."""
        error = self.extent_error()
        assert error is not None
        self.dynamic = late(error)
        return self

    def extent_error(self) -> Exception | None:
        """Return the error for a view that leaves its tensor or its partitions, or that has no elements."""
        if 0 in self.shape:
            return refuse("bounds:empty", got=self.shape, t=self)
        whole = self.storage.rows * self.row
        reach = [s * (n - 1) for s, n in zip(self.strides, self.shape, strict=True)]
        last = self.offset + sum(reach[self.is_addressed("vector") :])
        if self.offset < 0 or last >= whole:
            return refuse("bounds:pattern", got=(self.offset, last), limit=whole, t=self, last=last)
        free = self.offset % self.row + sum(reach[1:]) if self.on_chip else 0
        if free and free >= self.row:
            return refuse("bounds:pattern-partition", got=free, limit=self.row, t=self)
        return None


def late(error: Exception) -> Dynamic:
    """Return the mark of a view that must not be used, with the reason."""
    return Dynamic("late", error, 0, -1, 0)


def is_register(value: Any) -> bool:
    """Return whether it is a scalar that exists at run time only."""
    return hasattr(value, "__nki_register__")


def as_index(value: Any) -> int:
    """``value`` as a Python int; registers give their value."""
    if type(value) is int:
        return value
    if is_register(value):
        return int(value.value)
    try:
        return int(value.__index__())
    except (AttributeError, TypeError):
        raise refuse("index:as_index", got=repr(value), value=value, kind=type(value).__name__) from None


def static_index(value: Any, what: str) -> int:
    """``value`` as a Python int that is known when the kernel is compiled."""
    if is_register(value):
        raise refuse("runtime-index", got=repr(value), what=what, value=value)
    return as_index(value)


def as_flag(value: Any, what: str) -> bool:
    """``value`` as a bool: one, or an int."""
    if isinstance(value, (bool, int, np.bool_)):
        return bool(value)
    raise refuse("flag", got=type(value).__name__, limit=(True, False), what=what, value=value)


def as_shape(value: Any, what: str) -> tuple[int, ...]:
    """``value`` as a tuple of ints: a sequence of them, or one."""
    if type(value) is tuple and all(type(n) is int for n in value):
        return value
    try:
        sizes = tuple(value) if hasattr(value, "__iter__") else (value,)
        if isinstance(value, (str, bytes, dict)) or any(is_register(n) for n in sizes):
            raise WrongArgument
        return tuple(as_index(n) for n in sizes)
    except (WrongArgument, TypeError):
        raise refuse("shape:as_shape", got=type(value).__name__, what=what, value=value) from None


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return strides of a dense tensor."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def runs_of(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return sizes and strides of the dimensions that remain once evenly spaced neighbours are merged."""
    runs: list[tuple[int, int]] = []
    for n, stride in zip(shape, strides, strict=True):
        if n == 1:
            continue
        if runs and runs[-1][1] == stride * n:
            runs[-1] = (runs[-1][0] * n, stride)
        else:
            runs.append((n, stride))
    return runs


def without(items: Any, at: int) -> tuple[int, ...]:
    """``items`` less the one at ``at``."""
    return (*items[:at], *items[at + 1 :])


def infer(shape: tuple[int, ...], size: int, what: str) -> tuple[int, ...]:
    """``shape`` with its one -1 replaced so that it has ``size`` elements."""
    known = 1
    for n in shape:
        forbid(n < 1 and n != -1, "view:entry", got=n, what=what, shape=shape)
        known *= n if n != -1 else 1
    if shape.count(-1) == 1 and size % known == 0:
        shape = tuple(size // known if n == -1 else n for n in shape)
        known = size
    forbid(known != size or -1 in shape, "view:size", got=shape, limit=size, what=what)
    return shape


def merge(shape: tuple[int, ...], strides: tuple[int, ...]) -> int | None:
    """Stride of the merged dimension, or ``None`` when the elements are not evenly spaced."""
    runs = runs_of(shape, strides)
    return None if len(runs) > 1 else runs[0][1] if runs else 1


def reshape_strides(shape: tuple[int, ...], strides: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return strides that show ``shape`` as ``new`` without a copy, or ``None``."""
    runs = runs_of(shape, strides)
    out: list[int] = []
    at = 0
    left, stride = runs[0] if runs else (1, 1)
    for n in new:
        if n == 1:
            out.append(left * stride)
            continue
        if left == 1 and at + 1 < len(runs):
            at += 1
            left, stride = runs[at]
        if left % n:
            return None
        left //= n
        out.append(left * stride)
    return tuple(out)


def overlaps_itself(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Return whether two elements of a view share an address."""
    dims = sorted((s, n) for s, n in zip(strides, shape, strict=True) if n > 1)
    span = 1
    for s, n in dims:
        if s < span:
            break
        span += s * (n - 1)
    else:
        return False
    # steps that interleave can still miss each other
    at = np.zeros(1, np.int64)
    for s, n in dims:
        at = (at[:, None] + np.arange(n) * s).ravel()
    return bool(np.unique(at).size != at.size)
