"""``NkiTensor``: storage in one of the machine's memories, seen through a strided view.

`trnsim.tensors.layout` says where elements are, `trnsim.tensors.views` and `trnsim.tensors.access` make other views;
here are indexing and `array`, the NumPy window an instruction reads or writes through.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trnsim.memory import UNWRITTEN, Storage
from trnsim.refusals import forbid, refuse
from trnsim.source_lines import kernel_line
from trnsim.tables import read_table
from trnsim.tensors.access import Access
from trnsim.tensors.dtypes import ExtraDtype, float32, tfloat32
from trnsim.tensors.layout import Dynamic, as_index, is_register, row_major, static_index
from trnsim.tensors.objects import DynamicSlice, MemoryRegion, without_operators
from trnsim.versions import TRACED, check_version


@without_operators(
    "tensor-operator",
    "a tensor's elements exist on the device only",
    "call nl.add, nl.multiply, nl.less …, or the nisa instruction with a dst of your own",
)
class NkiTensor(Access):
    """A tensor of a kernel; see the module text. Made by ``nl.ndarray``, never by hand."""

    __slots__ = ()

    def __init__(self, storage: Storage) -> None:
        self.shape = storage.shape
        self.dtype = storage.dtype
        self.storage = storage
        self.buffer = MemoryRegion(storage.buffer)
        self.strides = row_major(self.shape)
        self.offset = 0
        self.dynamic = None
        self.registers = ()
        self._array = None

    def __repr__(self) -> str:
        where = f", offset={self.offset}, strides={self.strides}" if not self._is_whole() else ""
        text = f"NkiTensor({self.name}, shape={self.shape}, dtype={self.dtype}, buffer={self.buffer}{where})"
        if self.storage.arena.data is not None and self.dynamic is None:
            with np.printoptions(threshold=64):
                text += f"\n{self.written()}"
        return text

    def missing(self) -> np.ndarray:
        """Return which of this view's elements were never written."""
        # without checks nothing is marked, and an instruction that used the tensor must do
        used = isinstance(self.storage.arena.marks, int) and self.storage.first >= 0
        return np.zeros(self.shape, bool) if used else self.unwritten()

    def unwritten(self) -> np.ndarray:
        """Return which of this view's elements are marked as unwritten."""
        marks = self.marks(self.offset)
        if isinstance(marks, int):
            return np.full(self.shape, marks == UNWRITTEN)
        return np.asarray((marks.reshape(*self.shape, -1) == UNWRITTEN).any(axis=-1))

    def written(self) -> np.ndarray:
        """Return this view's elements for printing: what was never written is masked."""
        missing = self.missing()
        values = self.array.astype(np.float32) if self.array.dtype.kind == "V" else self.array
        return np.ma.masked_array(values, missing) if missing.any() else values

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Any:
        raise refuse("iterate", got=self.shape)

    def __bool__(self) -> bool:
        """Return ``True`` for a tensor in HBM: there is one (``if params.index:``).

        On chip, True when every element is nonzero, which only the simulator knows: lint refuses to ask.
        """
        if not self.on_chip:
            return True
        from trnsim.session import require_session

        s = require_session("the truth value of a tile")
        forbid(s.nki >= TRACED and s.params.lint in ("strict", "error"), "tensor-condition", got=self.name)
        return bool(np.all(s.read(self, "the condition", compute=False, exact=True) != 0))

    @property
    def data(self) -> NkiTensor:
        """This tensor itself, as grids have it."""
        from trnsim.session import current

        s = current()
        if s is not None:
            check_version("NkiTensor.data", s.nki)
        return self

    # -- the window -----------------------------------------------------------------------------------------------

    @property
    def array(self) -> np.ndarray:
        """This view's elements as a NumPy window onto the machine's memory (static addressing)."""
        if self._array is None:
            self._array = self.window(self.offset)
        return self._array

    def window(self, offset: int) -> np.ndarray:
        """Return the window with another element offset (for run-time addressing)."""
        storage = self.storage
        if self.dynamic is not None and self.dynamic.kind == "late":
            raise self.dynamic.index
        forbid(storage.arena.data is None, "timing-only", t=self)
        dtype = self.dtype
        physical = storage.physical
        if dtype is not storage.dtype and dtype != storage.dtype:
            forbid(physical.itemsize != storage.itemsize, "precise-fp")
            physical = dtype.storage if isinstance(dtype, ExtraDtype) else dtype
        where, strides = self._address(offset, storage.base, storage.pitch, physical.itemsize)
        return np.ndarray(self.shape, physical, storage.arena.data, where, strides)

    def _address(self, offset: int, base: int, pitch: int, item: int) -> tuple[int, tuple[int, ...]]:
        """Return where element ``offset`` is and the strides of this view: partitions ``pitch``, elements ``item``."""
        if not self.storage.on_chip:
            return base + offset * item, tuple(s * item for s in self.strides)
        row = self.row
        start, free = divmod(offset, row)
        strides = (self.strides[0] // row * pitch, *(s * item for s in self.strides[1:]))
        return base + start * pitch + free * item, strides

    def marks(self, offset: int) -> np.ndarray | int:
        """Write marks of this view's elements: one code, or an array of codes (last axis added for wide elements)."""
        marks = self.storage.arena.marks
        return marks if isinstance(marks, int) else self.mark_window(offset)

    def origin_window(self, offset: int) -> np.ndarray:
        """Return what the poison among this view's elements depends on, an array that can be written, one for each."""
        marks, arena = self.mark_window(offset), self.storage.arena
        whole = arena.marks_for(arena.unit)
        if arena.origins is None:
            arena.origins = np.zeros(len(whole), np.uint16)
        start = marks.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        strides = tuple(2 * n for n in marks.strides[: self.ndim])
        return np.ndarray(self.shape, np.uint16, arena.origins, 2 * start, strides)

    def mark_window(self, offset: int, arena: Any = None) -> np.ndarray:
        """Return the marks of this view as an array that can be written (those of ``arena`` when given)."""
        storage = self.storage
        arena = storage.arena if arena is None else arena
        item = int(self.dtype.itemsize)
        # bytes of the address space the reference describes; equal to the physical ones unless NKI_PRECISE_FP=0
        scale = storage.physical.itemsize // storage.itemsize if storage.physical.itemsize > storage.itemsize else 1
        # an address between two units needs marks for every byte
        marks = arena.marks_for(1 if storage.base // scale % arena.unit else item)
        unit = arena.unit
        per = item // unit
        base, pitch = storage.base // scale // unit, storage.pitch // scale // unit
        where, strides = self._address(offset, base, pitch, per)
        if per == 1:
            return np.ndarray(self.shape, np.uint8, marks, where, strides)
        return np.ndarray((*self.shape, per), np.uint8, marks, where, (*strides, 1))

    def _shadow(self) -> NkiTensor:
        """Return the same view of the tensor's own marks (see `Storage`)."""
        view = self._view(self.shape, self.strides, self.offset)
        assert self.storage.shadow is not None
        view.storage = self.storage.shadow
        return view

    def exact(self) -> NkiTensor:
        """View this so that a write stores bits unchanged: tfloat32 rounds what it is given, float32 does not."""
        if self.dtype is not tfloat32:
            return self
        return self._view(self.shape, self.strides, self.offset, float32)

    # -- indexing -------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> NkiTensor:
        """Return integers, slices, ranges, ``...``, ``None``, ``nl.ds`` and one run-time index.

        An integer drops its dimension, except the partition dimension of an on-chip tensor, and except where the result
        would have fewer than two dimensions on chip or one in HBM: there the last one is kept with size 1.
        """
        keys = key if isinstance(key, tuple) else (key,)
        ndim = self.ndim
        count, dots = len(keys), 0
        for k in keys:
            if k is None or k is Ellipsis:
                count -= 1
                dots += k is Ellipsis
        forbid(count > ndim, "bounds:getitem", got=count, limit=ndim, t=self)
        if dots:
            at = next(i for i, k in enumerate(keys) if k is Ellipsis)
            if dots > 1:
                raise refuse("index:getitem", got=repr(key))
            keys = (*keys[:at], *([slice(None)] * (ndim - count)), *keys[at + 1 :])
        shape: list[int] = []
        strides: list[int] = []
        dropped: list[int] = []
        offset = self.offset
        dynamic, registers = self.dynamic, self.registers
        dim, empty = 0, False
        for k in keys:
            if k is None:
                self._keep_partition(dim, "None as an index", "insert it after the partition dimension")
                self._whole_view("None as an index")
                shape.append(1)
                strides.append(0)
                continue
            n, step = self.shape[dim], self.strides[dim]
            if type(k) is range:
                k = slice(k.start, k.stop, k.step)
            if type(k) is slice:
                low, high, by = k.start, k.stop, 1
                if low is None and high is None and k.step is None:
                    low, high = 0, n
                elif not (k.step is None and type(low) is int and type(high) is int and 0 <= low < high <= n):
                    low, high, by = self._bounds(k, dim, n)
                    empty = empty or low == high
                if dynamic is not None and (low or high != n or by != 1):
                    self._not_dynamic(dim, "a slice")
                offset += low * step
                shape.append((high - low + by - 1) // by)
                strides.append(step * by)
            elif isinstance(k, DynamicSlice):
                low = as_index(k.start)
                high = low + static_index(k.size, "size of nl.ds")
                if is_register(k.start):
                    registers = (*registers, self.run_time_scalar(k.start, "nl.ds"))
                empty = empty or 0 <= low == high <= n
                if not 0 <= low == high <= n:
                    self._in_range(low, high, dim, n)
                self._not_dynamic(dim, "nl.ds")
                offset += low * step
                shape.append(high - low)
                strides.append(step)
            elif isinstance(k, NkiTensor):
                if dynamic is not None:
                    raise self._second("a tensor index", dynamic)
                self._keep_partition(dim, "a tensor index", "copy across partitions with dma_copy")
                dynamic = Dynamic("scalar", self.run_time_scalar(k, "a tensor index"), step, -1, n)
                dropped.append(len(shape))
                shape.append(1)
                strides.append(step)
            else:
                index = as_index(k)
                index += n if index < 0 else 0
                if is_register(k):
                    registers = (*registers, self.run_time_scalar(k, "an index"))
                self._in_range(index, index + 1, dim, n)
                self._not_dynamic(dim, "an integer index")
                offset += index * step
                if not (self.on_chip and dim == 0):
                    dropped.append(len(shape))
                shape.append(1)
                strides.append(step)
            dim += 1
        shape.extend(self.shape[dim:])
        strides.extend(self.strides[dim:])
        least = 2 if self.on_chip else 1
        for gone, at in enumerate(dropped[: max(len(shape) - least, 0)]):
            del shape[at - gone], strides[at - gone]
        view = self._view(shape, strides, offset, dynamic=dynamic)
        view.registers = registers
        return view.unusable() if empty else view

    def _bounds(self, k: slice, dim: int, n: int) -> tuple[int, int, int]:
        by = 1 if k.step is None else static_index(k.step, "slice step")
        low = 0 if k.start is None else static_index(k.start, "slice bound")
        high = n if k.stop is None else static_index(k.stop, "slice bound")
        low += n if low < 0 else 0
        high += n if high < 0 else 0
        forbid(by < 1, "view:bounds", got=by, dim=dim, t=self)
        if not 0 <= low == high <= n:
            self._in_range(low, high, dim, n)
        return low, high, by

    def __setitem__(self, key: Any, value: Any) -> None:
        """``t[key] = value``: a copy by the Vector Engine on chip, by DMA otherwise; a number fills."""
        from trnsim import isa

        dst = self if key is Ellipsis else self[key]
        if not isinstance(value, NkiTensor):
            isa.memset(dst=dst, value=value)
        elif dst.on_chip and value.on_chip:
            isa.tensor_copy(dst=dst, src=value)
        else:
            isa.dma_copy(dst=dst, src=value)


def _refusing(name: str, instead: str) -> property:
    def refuse(self: NkiTensor) -> Any:
        raise AttributeError(f"a tensor has no {name!r}; {instead} [{kernel_line()}]", name=name, obj=self)

    return property(refuse)


# one property a name: a __getattr__ would slow down every access to every attribute
for _name, _instead in read_table("names.toml")["array"].items():
    setattr(NkiTensor, _name, _refusing(_name, _instead))
