"""How DMA descriptors come about: descriptor generation modes, priorities, and rows that are known only at run time."""

from enum import Enum
from typing import Any

import numpy as np

from trnsim.access import index_error
from trnsim.isa.enums import dge_mode as dge, engine as eng, oob_mode as oob
from trnsim.isa.operands import needs, overlap, written_once
from trnsim.refusals import forbid, refuse
from trnsim.session import HBM, SBUF, SHARED_HBM, UNWRITTEN, WRITTEN, NkiInstruction, Session
from trnsim.tensors.dtypes import cast, float32, tfloat32
from trnsim.tensors.tensor import NkiTensor

DEVICE = (SBUF, HBM, SHARED_HBM)


def operand(s: Session, t: Any, role: str, where: tuple[str, ...] = DEVICE) -> None:
    """Check that ``t`` is in a memory DMA reaches; PSUM is not."""
    s.operand(t, role, where, compute=False)
    forbid(t.is_addressed("tensor"), "indirect:operand", got="tensor indirection", role=role, t=t)


def check_mode(s: Session, mode: dge, tensors: tuple[NkiTensor, ...]) -> None:
    """Hardware descriptors exist since trn2 and never gather; only software descriptors do."""
    if mode is dge.hwdge:
        needs(s, 3, "dge_mode hwdge", "use dge_mode.unknown, swdge or none")
    if not any(t.is_addressed("vector") for t in tensors):
        return
    hint = "copy row by row with scalar_offset, or gather on chip with local_gather"
    needs(s, 3, "a gather or scatter by vector_offset", hint)
    forbid(mode not in (dge.unknown, dge.swdge), "dge-indirect", got=mode.name, limit=("unknown", "swdge"))


def check_index(t: NkiTensor, role: str) -> None:
    """Check that a gather or scatter takes one row index from each partition: [P, 1]."""
    if not t.is_addressed("vector"):
        return
    assert t.dynamic is not None
    index = t.dynamic.index
    if index.shape[1] != 1 or index.shape[0] < t.shape[0]:
        raise refuse("indirect:check_index", got=index.shape, limit=(t.shape[0], 1), role=role, t=t, index=index)


def check_engine(engine: eng, mode: dge) -> None:
    """Check the engine that asks for hardware descriptors."""
    if engine is eng.unknown:
        return
    forbid(mode is not dge.hwdge, "dge-engine:mode", got=(engine.name, mode.name), engine=engine, mode=mode)
    forbid(engine not in (eng.sync, eng.scalar), "dge-engine:descriptors", got=engine.name, limit=("sync", "scalar"))


def check_priority(s: Session, priority: Any) -> None:
    """Check a class of service, 0 (first) to 3, on trn3."""
    if priority is None:
        return
    if isinstance(priority, bool) or not isinstance(priority, (int, np.integer)) or not 0 <= priority <= 3:
        raise refuse("priority", got=priority, limit=(0, 3))
    needs(s, 4, f"priority {priority}", "leave priority out")


def done(
    s: Session, dst: NkiTensor, srcs: tuple[Any, ...], mode: str, *, transpose: bool = False, **more: Any
) -> NkiInstruction:
    """Finish a transfer; ``more`` adds to what all of them state."""
    more.setdefault("engine", "unknown")
    more.setdefault("priority", None)
    more["bytes"], more["dge"], more["transpose"] = dst.size * dst.itemsize, mode, transpose
    more["indirect"] = more["dynamic"] = False
    for t in (dst, *srcs):
        if t.dynamic is not None:
            more["dynamic"] = True
            more["indirect"] |= t.dynamic.kind == "vector"
    return s.done("dma", (dst,), srcs, more)


def legacy_order(*options: Any) -> dict[str, Any] | None:
    """Options by kind, when a kernel older than ``priority`` passed them by position: the first of a kind counts."""
    if not isinstance(options[0], Enum):
        return None
    by_kind: dict[str, Any] = {}
    for option in options:
        by_kind.setdefault(type(option).__name__, option)
    return by_kind


def check_written_once(dst: NkiTensor) -> None:
    """Refuse a static destination with repeated addresses."""
    if not dst.is_addressed("vector"):
        written_once(dst, "DMA engines write in no documented order: write each element once")


def check_skip(bounds: oob, holds: bool, what: str) -> None:
    """Refuse to skip what is out of bounds where nothing can be: ``what`` says so unless ``holds``."""
    forbid(bounds is oob.skip and not holds, "oob-mode", got="skip", what=what)


def apply_index(s: Session, t: NkiTensor, role: str, mode: oob) -> NkiTensor | None:
    """``t`` with its scalar run-time index applied; ``None`` when ``mode`` skips it because it is out of bounds."""
    dynamic = t.dynamic
    if dynamic is None or dynamic.kind != "scalar":
        return t
    t.storage.runtime = True
    if mode is oob.skip and s.outside(t, s.scalar(dynamic.index, f"{role}'s index")):
        return None
    t.storage.windows = None
    return t.at(s.resolve(t, role))


class Rows:
    """The rows of an HBM tensor a gather or scatter addresses.

    Attributes:
        table: every row the index may name: [rows, …].
        inside: which of the view's rows are in bounds.
        index: the row indices that are.
    """

    __slots__ = ("index", "inside", "table")

    def __init__(self, s: Session, t: NkiTensor, role: str, mode: oob, *, column_major: bool = False) -> None:
        dynamic = t.dynamic
        assert dynamic is not None
        given = s.read(dynamic.index, f"{role}'s index", (SBUF,), compute=False, exact=True)
        values = (given.T if column_major else given).reshape(-1)[: t.shape[0]].astype(np.int64)
        reach = sum(n * (c - 1) for n, c in zip(t.strides[1:], t.shape[1:], strict=True))
        fits = (t.storage.rows * t.row - 1 - t.offset - reach) // max(dynamic.stride, 1) + 1
        bound = min(dynamic.bound, fits)
        self.inside = (values >= 0) & (values < bound)
        if mode is oob.error and not self.inside.all():
            at = int(np.argmin(self.inside))
            raise index_error(t, f"{role}, row {at}", int(values[at]), bound)
        self.index = values[self.inside]
        self.table = t._view((max(bound, 1), *t.shape[1:]), (dynamic.stride, *t.strides[1:]), t.offset)
        self.table.dynamic = None

    def gather(self, s: Session, role: str) -> np.ndarray:
        """Return the rows in bounds: [rows, …]."""
        table = self.table
        _note(s, table, False, self.index)
        values = np.asarray(table.array[self.index])
        marks = table.storage.arena.marks
        if s.checks and len(self.index) and not (isinstance(marks, int) and marks != UNWRITTEN):
            missing = table.unwritten()[self.index]
            if missing.any():
                first = int(self.index[np.argwhere(missing)[0][0]])
                values = s.poison(table.slice(0, first, first + 1), role, values, missing)
        return values

    def scatter(self, s: Session, values: np.ndarray) -> None:
        """Store the rows in bounds; of equal rows the last one stays."""
        table = self.table
        if not len(self.index):
            table.storage.runtime = True
            return
        _store(s, table, self.index, values, self.index)


def write_where(s: Session, dst: NkiTensor, inside: np.ndarray, values: np.ndarray) -> None:
    """Store ``values`` into those of ``dst``'s equal chunks, in element order, for which ``inside`` is true."""
    mask = np.repeat(inside, dst.size // inside.size).reshape(dst.shape)
    _store(s, dst, mask, values)


def _store(s: Session, t: NkiTensor, where: np.ndarray, values: np.ndarray, rows: np.ndarray | None = None) -> None:
    """Store ``values`` at the elements ``where`` of ``t``, the indices of ``rows`` or a mask."""
    _note(s, t, True, rows)
    # equal dtypes keep their bits
    if values.dtype != t.array.dtype or t.dtype is tfloat32:
        values = cast(values, t.dtype if t.storage.physical.itemsize == t.storage.itemsize else float32)
    t.array[where] = values.reshape(-1) if rows is None else values.reshape(-1, *t.shape[1:])
    marks = t.storage.arena.marks
    if s.checks and (not isinstance(marks, int) or marks == UNWRITTEN):
        t.mark_window(t.offset)[where] = WRITTEN


def check_disjoint(
    dst: NkiTensor, src: NkiTensor, into: Rows | None = None, out_of: Rows | None = None, *, moves: bool = False
) -> None:
    """Refuse a copy onto part of itself; a view onto itself is harmless unless elements move."""
    if dst.storage.arena is not src.storage.arena:
        return
    if into is None and out_of is None:
        shared = overlap(dst, src, moves=moves)
    else:
        shared = bool(np.intersect1d(_bytes(dst, into), _bytes(src, out_of)).size)
    forbid(shared, "dma-overlap", got=(src.offset, dst.offset), dst=dst)


def _bytes(t: NkiTensor, rows: Rows | None) -> np.ndarray:
    """First bytes of the words a view touches, in units of the smallest dtype."""
    item = t.itemsize
    at = np.array([t.offset]) if rows is None else t.offset + rows.index * rows.table.strides[0]
    dims = list(zip(t.strides, t.shape, strict=True))[0 if rows is None else 1 :]
    for stride, count in dims:
        at = (at[:, None] + np.arange(count) * stride).ravel()
    return (at[:, None] * item + np.arange(item)).ravel()


def _note(s: Session, t: NkiTensor, write: bool, rows: np.ndarray | None = None) -> None:
    """Book-keeping of an access that goes through neither ``Session.read`` nor ``write``."""
    storage = t.storage
    s.use(t, write, rows)
    storage.windows = None
    storage.runtime = True
    if write and s.garbage is not None:
        s.garbage.keep(t)
    if write and storage.user is not None and storage.snapshot is None:
        storage.snapshot = storage.arena.data.copy()
