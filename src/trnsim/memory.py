"""Memory as hardware has it: bytes in partitions, addresses that may overlap, poison until written, real capacity.

A `Storage` is what one allocation names. Its bytes live in an `Arena`: a private one for a tensor the compiler would
place, the core's SBUF or PSUM for a tensor with an explicit address, so that overlapping addresses share bytes.
The arena knows what was written (``UNWRITTEN``, ``WRITTEN``, ``MATMUL``: by a matmul into PSUM).
"""

from __future__ import annotations

import itertools
import math
import weakref
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from trnsim.errors import CapacityError
from trnsim.targets import Target

SBUF, PSUM, HBM, SHARED_HBM = "sbuf", "psum", "private_hbm", "shared_hbm"
UNWRITTEN, WRITTEN, MATMUL = 0, 1, 2

_uids = itertools.count(1)


@dataclass(slots=True, eq=False)
class Arena:
    """Bytes with a row pitch, and how far they have been written.

    ``marks`` is one code when all bytes are alike, else an array with a code for every ``unit`` bytes. ``origins`` says
    of poison, which counts as unwritten, what it depends on (see `trnsim.poison`).
    """

    nbytes: int
    data: Any = None
    marks: int | np.ndarray = UNWRITTEN
    unit: int = 4
    origins: np.ndarray | None = None

    def marks_for(self, itemsize: int) -> np.ndarray:
        """Return ``marks`` as an array fine enough to address elements of ``itemsize`` bytes."""
        marks, unit = self.marks, self.unit
        if isinstance(marks, int):
            if itemsize % unit:
                self._split()
            marks = self.marks = np.full(self.nbytes // self.unit, marks, np.uint8)
        elif itemsize % unit:
            marks = self.marks = np.repeat(marks, unit)
            self._split()
        return marks

    def _split(self) -> None:
        if self.origins is not None:
            self.origins = np.repeat(self.origins, self.unit)
        self.unit = 1


def next_uid() -> int:
    """Return the identity of one more tensor."""
    return next(_uids)


class Scope:
    """One turn of a loop on the device: tensors declared in it are gone when it has ``ended``, which says how."""

    __slots__ = ("ended", "loop")

    def __init__(self, loop: str) -> None:
        self.loop = loop
        self.ended = ""


@dataclass(slots=True, kw_only=True, eq=False, repr=False, weakref_slot=True)
class Storage:
    """One allocation: where its bytes are, how they are laid out, when it was used.

    Attributes:
        row: elements of a partition row (on chip) or of the whole tensor (HBM), in units of ``itemsize`` bytes.
        pitch: bytes from one partition to the next in the arena.
        base: byte of the first element in the arena.
        partition: first partition (0 when the compiler places the tensor).
        first, last: instruction numbers of the first write and the last access.
        scope: turn of the loop the tensor was declared in.
        slot: of such a tensor, the identity of its memory, which it shares with those of the other turns; else 0.
        shadow: of a PSUM tensor with an address, what was written through this tensor and not through others there.
        runtime: True when part of what is written has a run-time address.
        windows: of an argument, the parts that were read; ``None`` when they are not followed.
    """

    name: str
    shape: tuple[int, ...]
    dtype: Any
    physical: np.dtype[Any]
    buffer: str
    arena: Arena
    pitch: int
    base: int = 0
    partition: int = 0
    address: tuple[int, ...] | None = None
    line: str | None = None
    shared: bool = False
    scope: Any = None
    slot: int = 0
    shadow: Storage | None = None
    runtime: bool = False
    windows: set[Any] | None = None
    snapshot: np.ndarray | None = None
    user: Any = None
    views: dict[Any, Any] | None = None
    log: list[Span] | None = None
    first: int = -1
    last: int = -1
    uid: int = field(init=False, default_factory=_uids.__next__)
    itemsize: int = field(init=False)
    rows: int = field(init=False)
    row: int = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.name or f"t{self.uid}"
        self.itemsize = int(self.dtype.itemsize)
        self.rows = self.shape[0] if self.shape else 1
        self.row = math.prod(self.shape[1:])

    @property
    def on_chip(self) -> bool:
        return self.buffer in (SBUF, PSUM)

    @property
    def partition_bytes(self) -> int:
        """Bytes this tensor takes in each partition."""
        return self.row * self.itemsize

    @property
    def nbytes(self) -> int:
        return self.rows * self.row * self.itemsize

    def span(self) -> Span:
        """Return what the lifetime of this tensor is, without its bytes."""
        return Span._make(getattr(self, name) for name in Span._fields)

    def __del__(self) -> None:
        # the bytes go when the last view does; the lifetime is still needed when capacity is checked
        if self.log is not None and self.last >= 0:
            self.log.append(self.span())

    def __repr__(self) -> str:
        return f"{self.name}{list(self.shape)} {self.dtype} in {self.buffer}"


class Span(NamedTuple):
    """When a tensor was alive, and how much of each partition it took."""

    name: str
    shape: tuple[int, ...]
    dtype: Any
    buffer: str
    partition_bytes: int
    itemsize: int
    first: int
    last: int
    address: tuple[int, ...] | None
    line: str | None


class Lifetimes:
    """Which tensors are on chip together, seen as a compiler does: from the first write to the last access."""

    def __init__(self) -> None:
        self.ended: list[Span] = []
        self.live: list[weakref.ref[Storage]] = []
        self._sweep = 1024

    def add(self, storage: Storage) -> None:
        """Follow an on-chip tensor."""
        storage.log = self.ended
        self.live.append(weakref.ref(storage))
        if len(self.live) > self._sweep:
            self.live = [r for r in self.live if r() is not None]
            self._sweep = 1024 + 2 * len(self.live)

    def close(self) -> None:
        """Stop following: the program has ended."""
        for storage in self.storages():
            storage.log = None

    def storages(self) -> list[Storage]:
        """Return the tensors Python can still reach."""
        return [s for s in (r() for r in self.live) if s is not None]

    def spans(self, buffer: str) -> list[Span]:
        """Return lifetimes of every used tensor of a memory."""
        running = [s.span() for s in self.storages() if s.last >= 0]
        return [s for s in (*self.ended, *running) if s.buffer == buffer]

    def peak(self, buffer: str) -> tuple[int, list[Span]]:
        """Return the most bytes a partition holds at any instruction, and the tensors alive then."""
        used = self.spans(buffer)
        events = [(s.first, 0, i) for i, s in enumerate(used)] + [(s.last, 1, i) for i, s in enumerate(used)]
        events.sort()
        fixed: dict[int, Span] = {}
        placed = fixed_bytes = best = 0
        when = -1
        for time, ends, i in events:
            s = used[i]
            if s.address is None:
                placed += -s.partition_bytes if ends else s.partition_bytes
            else:
                if ends:
                    del fixed[i]
                else:
                    fixed[i] = s
                fixed_bytes = _union(fixed.values())
            if placed + fixed_bytes > best:
                best, when = placed + fixed_bytes, time
        return best, [s for s in used if s.first <= when <= s.last]

    def packed_peak(self, buffer: str) -> tuple[int, list[Span]]:
        """Return the same with small tensors packed: up to 64 partitions take a half, up to 32 a quadrant."""
        used = self.spans(buffer)
        best: tuple[int, list[Span]] = (0, [])
        for when in sorted({s.first for s in used}):
            alive = [s for s in used if s.first <= when <= s.last]
            if sum(s.partition_bytes for s in alive) > best[0]:
                best = max(best, (_pack_spans(alive), alive), key=lambda b: b[0])
        return best

    def check(self, target: Target, *, spills: bool = False) -> dict[str, int]:
        """High-water marks by memory; raises `CapacityError` when one exceeds the target's.

        With ``spills``, tensors that do not fit SBUF are taken to go to HBM and back, as a compiler may arrange.
        """
        marks = {}
        for buffer, limit in ((SBUF, target.sbuf_usable_bytes), (PSUM, target.psum_partition_bytes)):
            best, alive = self.peak(buffer)
            if best > limit and any(s.shape[0] <= 64 for s in alive):
                best, alive = self.packed_peak(buffer)
            marks[buffer] = best
            if best > limit and not (spills and buffer == SBUF):
                raise too_much(buffer, best, limit, alive, target)
        return marks


def _union(storages: Any) -> int:
    total, end = 0, -1
    for s in sorted(storages, key=lambda s: s.address[1]):
        start, stop = s.address[1], s.address[1] + s.partition_bytes
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total


def _pack_spans(alive: list[Span]) -> int:
    """Return the bytes of the fullest partition when tensors are packed largest first, each where most room is.

    Engines start at partition 0, 32, 64 or 96 and reach 128, 32, 64 and 32 from there: those are the slots.
    """
    load = [_union([s for s in alive if s.address is not None])] * 4
    for s in sorted((s for s in alive if s.address is None), key=lambda s: (-s.shape[0], -s.partition_bytes)):
        width = 4 if s.shape[0] > 64 else 2 if s.shape[0] > 32 else 1
        start = min(range(0, 4, width), key=lambda q: max(load[q : q + width]))
        level = max(load[start : start + width]) + s.partition_bytes
        load[start : start + width] = [level] * width
    return max(load)


def too_much(buffer: str, need: int, limit: int, alive: list[Span], target: Target) -> CapacityError:
    """Return the error that names what is alive, where it was made and what tile would fit."""
    alive = sorted(alive, key=lambda s: -s.partition_bytes)
    rows = [f"{s.name}{list(s.shape)} {s.dtype}: {s.partition_bytes} bytes ({s.line})" for s in alive[:8]]
    if len(alive) > 8:
        rows.append(f"and {len(alive) - 8} more")
    hint = f"{len(alive)} tensors are alive together: " + "; ".join(rows)
    if alive:
        biggest = alive[0]
        others = need - biggest.partition_bytes
        fits = max(0, limit - others) // max(1, biggest.itemsize)
        if fits:
            hint += f". A {biggest.name} of at most {fits} elements per partition would fit"
        else:
            hint += f". Tiles with 1/{-(-need // limit)} of the free size would fit; or finish with one before the next"
    return CapacityError(
        where=buffer.upper(),
        required=need,
        available=limit,
        hint=hint,
        target=target.name,
        live=[(s.name, s.shape, str(s.dtype), s.partition_bytes, s.line) for s in alive],
    )
