"""The instruction stream: what was issued, by which engine, on which memory, from which line."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from trnsim.memory import PSUM, SBUF
from trnsim.refusals import forbid, refuse
from trnsim.tensors.tensor import NkiTensor


class Operand(NamedTuple):
    """A tensor as an instruction used it: the bounding box of its bytes, and its layout.

    ``key`` names the memory the box lies in: the storage's uid, or ``"sbuf"``/``"psum"`` of the core for tensors with
    an explicit address, which may overlap. ``room`` is what the whole tensor takes, in bytes of a partition;
    ``dynamic`` says that the place is known only when the kernel runs.
    """

    key: Any
    first_partition: int
    end_partition: int
    first_byte: int
    end_byte: int
    buffer: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    uid: int
    room: int
    dynamic: bool = False

    @property
    def n(self) -> int:
        """Elements per partition (on chip)."""
        return math.prod(self.shape[1:])

    def meets(self, other: Operand) -> bool:
        """Return whether the boxes of two operands in one memory share bytes."""
        return (
            self.first_partition < other.end_partition
            and other.first_partition < self.end_partition
            and self.first_byte < other.end_byte
            and other.first_byte < self.end_byte
        )


def operand_of(t: NkiTensor) -> Operand:
    """Return the operand record of a view; equal views of a tensor share one."""
    storage = t.storage
    views = storage.views
    if views is None:
        views = storage.views = {}
    # dtypes live as long as the program, so their ids serve; hashing them is slow
    key = (t.offset, t.shape, t.strides, id(t.dtype), t.dynamic is None and not t.registers)
    operand: Operand | None = views.get(key)
    if operand is None:
        operand = views[key] = _operand(t, storage)
    return operand


def _operand(t: NkiTensor, storage: Any) -> Operand:
    dtype, shape, strides = t.dtype, t.shape, t.strides
    named = _DTYPES.get(dtype)
    if named is None:
        named = _DTYPES[dtype] = (str(dtype), int(dtype.itemsize))
    name, item = named
    placed = t.dynamic is None and not t.registers
    extent = 1
    for k in range(1, len(shape)):
        extent += strides[k] * (shape[k] - 1)
    uid = storage.slot or storage.uid
    key: Any = uid
    room = storage.row * storage.itemsize
    if storage.buffer == SBUF or storage.buffer == PSUM:
        row = room // item
        start, free = divmod(t.offset, row)
        low, high = free * item, (free + extent) * item
        if not placed:
            low, high = 0, room
        if storage.address is not None:
            key = storage.buffer
            low += storage.address[1]
            high += storage.address[1]
        first = storage.partition + start
        end = first + (strides[0] // row) * (shape[0] - 1) + 1
    else:
        if shape:
            extent += strides[0] * (shape[0] - 1)
        first, end, low, high = 0, 1, t.offset * item, (t.offset + extent) * item
        if not placed:
            low, high = 0, storage.nbytes
        if storage.address is not None:
            key = storage.buffer
            low, high = low + storage.address[0], high + storage.address[0]
    return Operand(key, first, end, low, high, storage.buffer, name, shape, strides, uid, room, not placed)


_DTYPES: dict[Any, tuple[str, int]] = {}


@dataclass(slots=True, eq=False, repr=False)
class Record:
    """One instruction of the stream, as the timing model and the debugger read it.

    Attributes:
        index: position in this core's program order.
        name, engine: instruction and the engine that runs it (``tensor vector scalar gpsimd sync dma``).
        reads, writes: the operands (`Operand`: memory region, buffer, dtype, shape, strides).
        line: ``file:number`` of the kernel source.
        cost: what the cost formula needs beyond the operands (operators, flags, modes). Instructions that meet others
            carry ``sync``, equal for all that take part.
        core, rank: who runs it.
        after: indices of instructions this one must follow besides its data (``depends_on``, barriers, register loads).
        indices: tiles that hold run-time offsets of an operand: they must be there first, and cost nothing more.
    """

    index: int
    name: str
    engine: str
    reads: Any
    writes: Any
    line: Any
    cost: dict[str, Any]
    core: int = 0
    rank: int = 0
    after: list[int] = field(default_factory=list)
    indices: tuple[Operand, ...] = ()

    def addressed_by(self, index: Any) -> None:
        """Wait for a run-time offset: for the tile that holds it, or for the load of its register."""
        if type(index) is NkiTensor:
            self.indices = (*self.indices, operand_of(index))
        elif index.loaded is not None:
            self.after.append(index.loaded)

    def __repr__(self) -> str:
        return f"{self.index}: {self.engine}.{self.name} {self.cost} @ {self.line}"


@dataclass(slots=True, eq=False, repr=False)
class NkiInstruction:
    """Handle of an issued instruction; ``depends_on`` orders it after others."""

    handle: Any = None
    index: int = -1
    record: Record | None = None

    def depends_on(self, *producers: NkiInstruction) -> NkiInstruction:
        """Run after every producer; returns self."""
        for p in producers:
            if not isinstance(p, NkiInstruction):
                raise refuse("depends-on:kind", got=repr(p), kind=type(p).__name__)
            forbid(p.index >= self.index, "depends-on:order", got=p.index, limit=self.index)
            if self.record is not None:
                self.record.after.append(p.index)
        return self
