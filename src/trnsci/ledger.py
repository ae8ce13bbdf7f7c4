"""The ledger: what ran, where, why, what moved, and how long it took."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from trnsci.backends import SCOPE, Scope, entering
from trnsci.config import TargetName
from trnsci.plans import Step, quantity, seconds
from trnsci.torch_internals import TorchDispatchMode, current_mode, pop_mode
from trnsim import notebook


@dataclass(frozen=True, slots=True)
class Entry:
    """One dispatch.

    Attributes:
        step: the op, its arguments without data, its cost, the backend and the reason.
        measured: wall-clock seconds here; on the simulator that is what simulating took.
        bytes_to_device, bytes_from_device: what the dispatch itself moved.
        depth: 0 for a call of the user's, 1 for an op that such an op called, and so on.
        products: how often an op that iterates multiplied by its operator.
        spent: processor seconds of the thread that called.
    """

    step: Step
    measured: float
    bytes_to_device: int = 0
    bytes_from_device: int = 0
    depth: int = 0
    products: int = 0
    spent: float = 0.0

    def __repr__(self) -> str:
        return f"<Entry {self.step!r} in {seconds(self.measured)}>"

    def predicted(self, target: TargetName) -> float | None:
        """Return predicted seconds on the device, without transfers."""
        return self.step.predicted(target)

    @property
    def error_bound(self) -> float | None:
        """Relative error the op guaranteed on the backend that ran; ``None`` where it states none."""
        return self.step.error_bound


@dataclass(frozen=True, slots=True)
class Transfer:
    """An explicit move between host and device memory, by ``to_device`` or ``from_device``."""

    direction: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class Exchange:
    """One message exchange between ranks: in which op, of which kind, the bytes received here, and seconds waited."""

    op: str
    kind: str
    nbytes: int
    measured: float


@dataclass(frozen=True, slots=True)
class Substitution:
    """A call of another library inside ``drop_in``: the function of ours that took it, or why it was left alone."""

    theirs: str
    ours: str
    reason: str


class Ledger:
    """Lists of entries, transfers, exchanges and substitutions that grow while its block runs.

    Attributes:
        fallbacks: operators of torch that the device's own library ran on the host while the block ran; ``None`` where
            it does not report them, and without a device of torch's own.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.transfers: list[Transfer] = []
        self.exchanges: list[Exchange] = []
        self.substitutions: list[Substitution] = []
        self.fallbacks: tuple[str, ...] | None = None
        self._reports = False
        lists = (self.entries, self.transfers, self.exchanges, self.substitutions)
        self._lists: dict[type, Any] = dict(zip((Entry, Transfer, Exchange, Substitution), lists, strict=True))
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def record(self, item: Entry | Transfer | Exchange | Substitution) -> None:
        """Append one of them to its list."""
        with self._lock:
            self._lists[type(item)].append(item)

    def _note_fallbacks(self, before: Mapping[str, int | None] | None) -> None:
        """Keep the operators that fell back since ``before``."""
        self._reports = bool(FALLBACKS)
        now = _read_fallbacks()
        if now is not None:
            known = before or {}
            new = [name for name, count in now.items() if count is None or count > (known.get(name) or 0)]
            self.fallbacks = tuple(sorted(new))

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(tuple(self.entries))

    @property
    def measured(self) -> float:
        """Seconds spent in ops, each counted once however they nest."""
        return sum(entry.measured for entry in self if entry.depth == 0)

    @property
    def bytes_to_device(self) -> int:
        """Bytes moved to the device, by dispatches and explicitly."""
        explicit = sum(t.nbytes for t in self.transfers if t.direction == "to")
        return explicit + sum(entry.bytes_to_device for entry in self.entries)

    @property
    def bytes_from_device(self) -> int:
        """Bytes moved back to the host, by dispatches and explicitly."""
        explicit = sum(t.nbytes for t in self.transfers if t.direction == "from")
        return explicit + sum(entry.bytes_from_device for entry in self.entries)

    def __repr__(self) -> str:
        calls = "1 call" if len(self.entries) == 1 else f"{len(self.entries)} calls"
        return f"<Ledger: {calls} in {seconds(self.measured) if self.entries else '0 s'}>"

    def _repr_html_(self) -> str:
        header, *rows = self._rows()
        return notebook.fragment(repr(self)[1:-1], notebook.table(header, rows), notebook.lines(self._remarks()))

    def _rows(self) -> list[tuple[str, ...]]:
        """One row for calls that are alike, below a header; products are counted where an op iterates."""
        iterates = any(entry.products for entry in self)
        counted = ("calls", "products") if iterates else ("calls",)
        rows: list[tuple[str, ...]] = [
            ("op", "operands", "backend", *counted, "measured", "to device", "from device", "reason")
        ]
        groups: dict[tuple[str, str, str, str], list[Entry]] = {}
        for entry in self:
            step = entry.step
            key = ("  " * entry.depth + step.op, step.operands, step.runs_on, step.reason)
            groups.setdefault(key, []).append(entry)
        for (op, operands, backend, reason), entries in groups.items():
            measured = seconds(sum(entry.measured for entry in entries))
            to_device = quantity(sum(entry.bytes_to_device for entry in entries), "B")
            from_device = quantity(sum(entry.bytes_from_device for entry in entries), "B")
            counts = [len(entries), sum(entry.products for entry in entries)][: len(counted)]
            rows.append((op, operands, backend, *map(str, counts), measured, to_device, from_device, reason))
        return rows

    def __str__(self) -> str:
        rows = self._rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, *self._remarks()])

    def _remarks(self) -> list[str]:
        """Sentences on what moved, what was exchanged and what was substituted."""
        lines = []
        if self.transfers:
            lines.append(
                f"{len(self.transfers)} explicit transfers; in all {quantity(self.bytes_to_device, 'B')} to "
                f"the device and {quantity(self.bytes_from_device, 'B')} back"
            )
        if self.exchanges:
            received = quantity(sum(exchange.nbytes for exchange in self.exchanges), "B")
            waited = seconds(sum(exchange.measured for exchange in self.exchanges))
            lines.append(f"{len(self.exchanges)} exchanges with other ranks: {received} received in {waited}")
        if self.substitutions:
            counts = Counter((s.theirs, s.ours or f"left alone: {s.reason}") for s in self.substitutions)
            lines += [f"{theirs} -> {ours}, {n} times" for (theirs, ours), n in counts.items()]
        if self.fallbacks:
            lines.append(f"on the host, as the device's own library reports: {', '.join(self.fallbacks)}")
        elif self._reports and self.fallbacks is None:
            lines.append("operators that fell back to the host: not reported by the device's own library")
        lines += REMARKS
        return lines


# Ledgers that hear every thread. Dispatch looks at this list on each call, so it stays a plain list.
EVERYWHERE: list[Ledger] = []


@contextmanager
def ledger(*, everywhere: bool = False) -> Iterator[Ledger]:
    """Record every dispatch inside the block.

    Example:
        >>> with trnsci.ledger() as led:
        ...     trnblas.gemm(1.0, a, b)
        >>> print(led)

    Args:
        everywhere: also record threads and tasks that were not started from inside this block's context.
    """
    book = Ledger()
    before = _read_fallbacks()
    try:
        if everywhere:
            EVERYWHERE.append(book)
            try:
                yield book
            finally:
                EVERYWHERE.remove(book)
            return
        outer = SCOPE.get() or Scope()
        with entering(replace(outer, ledgers=(*outer.ledgers, book))):
            yield book
    finally:
        book._note_fallbacks(before)


# What holds for every ledger of this process.
REMARKS: list[str] = []
# What a device of torch's own says of operators it ran on the host, with counts; it is set when the device is opened.
FALLBACKS: list[Callable[[], Mapping[str, int | None] | None]] = []


def _read_fallbacks() -> Mapping[str, int | None] | None:
    return FALLBACKS[0]() if FALLBACKS else None


_depth: ContextVar[int] = ContextVar("trnsci.depth", default=0)

# Modes that time torch's own operators. They would slow an op's operators down, so they are off inside ops.
WATCHES: list[TorchDispatchMode] = []


@contextmanager
def nesting() -> Iterator[int]:
    """Yield how many dispatches enclose this one, and count it for those inside."""
    depth = _depth.get()
    token = _depth.set(depth + 1)
    try:
        with _pause_watch():
            yield depth
    finally:
        _depth.reset(token)


def in_op() -> bool:
    """Return whether an op that a ledger records is running here."""
    return _depth.get() > 0


def _pause_watch() -> AbstractContextManager[Any]:
    if WATCHES and current_mode() is WATCHES[-1]:
        return pop_mode()
    return nullcontext()


def listeners() -> tuple[Ledger, ...]:
    """Return the ledgers that hear the current context."""
    scope = SCOPE.get()
    if scope is None or not scope.ledgers:
        return tuple(EVERYWHERE) if EVERYWHERE else ()
    return (*EVERYWHERE, *scope.ledgers)


def record(item: Entry | Transfer | Exchange | Substitution) -> None:
    """Tell every listener."""
    for book in listeners():
        book.record(item)
