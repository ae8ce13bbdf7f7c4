"""How DMA descriptors come about: descriptor generation modes, priorities, and rows that are known only at run time."""

from __future__ import annotations

from typing import Any

import numpy as np

from trnsim.errors import HardwareLimit, NotModelled, OutOfBounds, WrongArgument, WrongEngine, WrongShape
from trnsim.isa.enums import dge_mode as dge
from trnsim.isa.enums import engine as eng
from trnsim.isa.enums import member
from trnsim.isa.enums import oob_mode as oob
from trnsim.language.dtypes import ExtraDtype, cast, float32
from trnsim.language.layout import overlaps_itself
from trnsim.language.tensor import NkiTensor
from trnsim.session import HBM, SBUF, SHARED_HBM, UNWRITTEN, Session

DEVICE = (SBUF, HBM, SHARED_HBM)


def operand(s: Session, t: Any, role: str, where: tuple[str, ...] = DEVICE) -> NkiTensor:
    """Check that ``t`` is in a memory DMA reaches; PSUM is not."""
    s.operand(t, role, where, compute=False)
    if t.dynamic is not None and t.dynamic.kind == "tensor":
        raise WrongArgument(
            f"{role} ({t.name}) uses .indirect(), which compute engines understand",
            rule="indirect",
            got="tensor indirection",
            limit="scalar_offset or vector_offset",
            hint="gather rows with vector_select, or copy on chip with tensor_copy",
        )
    return t


def gathers(t: NkiTensor) -> bool:
    """True for a view with a row number for each partition."""
    return t.dynamic is not None and t.dynamic.kind == "vector"


def check_mode(s: Session, mode: dge, tensors: tuple[NkiTensor, ...]) -> None:
    """Hardware descriptors exist since trn2 and never gather; only software descriptors do."""
    generation = s.target.generation
    if mode is dge.hwdge and generation < 3:
        raise WrongEngine(
            f"dge_mode hwdge, which {s.target.name} lacks",
            rule="generation",
            got=s.target.name,
            limit="trn2",
            hint="use dge_mode.unknown, swdge or none",
        )
    if not any(gathers(t) for t in tensors):
        return
    if generation < 3:
        raise WrongEngine(
            f"a gather or scatter by vector_offset, which {s.target.name}'s descriptor generation lacks",
            rule="generation",
            got=s.target.name,
            limit="trn2",
            hint="copy row by row with scalar_offset, or gather on chip with local_gather",
        )
    if mode not in (dge.unknown, dge.swdge):
        raise WrongArgument(
            f"dge_mode {mode.name} with a vector_offset",
            rule="dge-indirect",
            got=mode.name,
            limit=("unknown", "swdge"),
            hint="only descriptors written by GpSimd at run time gather and scatter: use dge_mode.swdge",
        )


def check_engine(engine: eng, mode: dge) -> None:
    """The engine that asks for hardware descriptors."""
    if engine is eng.unknown:
        return
    if mode is not dge.hwdge:
        raise WrongEngine(
            f"engine {engine.name} with dge_mode {mode.name}",
            rule="dge-engine",
            got=(engine.name, mode.name),
            limit="hwdge",
            hint="an engine is chosen for dge_mode.hwdge only",
        )
    if engine not in (eng.sync, eng.scalar):
        raise WrongEngine(
            f"engine {engine.name} cannot ask for hardware descriptors",
            rule="dge-engine",
            got=engine.name,
            limit=("sync", "scalar"),
            hint="use engine.sync or engine.scalar",
        )


def check_priority(s: Session, priority: Any) -> None:
    """A class of service, 0 (first) to 3, on trn3."""
    if priority is None:
        return
    if isinstance(priority, bool) or not isinstance(priority, (int, np.integer)) or not 0 <= priority <= 3:
        raise WrongArgument(
            f"priority is {priority!r}", rule="priority", got=priority, limit=(0, 3), hint="0 is served first, 3 last"
        )
    if s.target.generation < 4:
        raise WrongEngine(
            f"priority {priority}, which {s.target.name} lacks",
            rule="generation",
            got=s.target.name,
            limit="trn3",
            hint="leave priority out",
        )


def shift_legacy(priority: Any, first: Any, second: Any, third: Any, enum: type) -> tuple[Any, Any, Any, Any]:
    """Positional arguments of kernels older than ``priority``: what stands in its place belongs one further on."""
    if isinstance(priority, enum) or type(priority).__name__ == enum.__name__:
        return None, priority, first, second
    return priority, first, second, third


def check_written_once(dst: NkiTensor) -> None:
    """Refuse a static destination with repeated addresses."""
    if not gathers(dst) and overlaps_itself(dst.shape, dst.strides):
        raise NotModelled(
            f"dst ({dst.name}) names some addresses twice (shape {dst.shape}, strides {dst.strides})",
            rule="dst-overlap",
            got=dst.strides,
            hint="DMA engines write in no documented order: write each element once",
        )


class Rows:
    """Where the rows of a run-time view are: element offsets, and which of them are inside the tensor."""

    __slots__ = ("inside", "offsets", "view")

    def __init__(self, view: NkiTensor, offsets: np.ndarray, inside: np.ndarray) -> None:
        self.view = view
        self.offsets = offsets
        self.inside = inside


def rows_of(s: Session, t: NkiTensor, role: str, mode: oob, *, column_major: bool = False) -> Rows:
    """The rows a run-time view touches.

    A scalar index moves the whole view, which then counts as one row. Out of bounds raises, or with ``oob_mode.skip``
    leaves the row out.
    """
    dynamic = t.dynamic
    assert dynamic is not None
    if dynamic.kind == "scalar":
        value = s.scalar(dynamic.index, f"{role}'s index")
        view = t._view((1, *t.shape), (0, *t.strides), t.offset)
        values = np.array([value], np.int64)
        inside = np.array([not s.outside(t, value)])
    else:
        index = s.read(dynamic.index, f"{role}'s index", (SBUF,), compute=False)
        flat = (index.T if column_major else index).reshape(-1)
        if flat.size < t.shape[0]:
            raise WrongShape(
                f"{role} ({t.name}) has {t.shape[0]} rows and its index {dynamic.index.name} holds {flat.size}",
                rule="indirect",
                got=flat.size,
                limit=t.shape[0],
                hint="give one row number for each row of the pattern",
            )
        values = flat[: t.shape[0]].astype(np.int64)
        view = t
        reach = sum(n * (c - 1) for n, c in zip(t.strides[1:], t.shape[1:], strict=True))
        last = t.offset + values * dynamic.stride + reach
        inside = (values >= 0) & (values < dynamic.bound) & (last < t.storage.rows * t.row)
    if mode is oob.error and not inside.all():
        at = int(np.argmin(inside))
        raise OutOfBounds(
            f"{role}: run-time index {int(values[at])} (number {at}) leaves {t.name}{list(t.storage.shape)}, "
            f"where it must stay below {dynamic.bound}",
            rule="bounds",
            got=int(values[at]),
            limit=dynamic.bound,
            hint="check the indices, or pass oob_mode=nisa.oob_mode.skip to leave such rows out",
        )
    return Rows(view, t.offset + values * dynamic.stride, inside)


def _elements(rows: Rows, offsets: np.ndarray) -> np.ndarray:
    """Element numbers of the given rows: [rows, …]."""
    at = offsets.reshape(-1, *([1] * (rows.view.ndim - 1)))
    for axis, (stride, count) in enumerate(zip(rows.view.strides[1:], rows.view.shape[1:], strict=True), 1):
        shape = [1] * rows.view.ndim
        shape[axis] = count
        at = at + (np.arange(count) * stride).reshape(shape)
    return at


def _flat(t: NkiTensor) -> tuple[np.ndarray, Any]:
    """All elements of an HBM or SBUF storage in order, and their marks, as flat windows in the view's dtype."""
    whole = t.row * t.storage.rows
    line = t._view((t.storage.rows, t.row), (t.row, 1), 0)
    line.dynamic = None
    marks = line.marks(0)
    array = line.array
    if not t.on_chip:
        array = array.reshape(whole)
    return array, marks


def gather(s: Session, rows: Rows, role: str) -> np.ndarray:
    """The rows inside the tensor, in order, in the view's own dtype: [rows inside, …]."""
    t = rows.view
    note(s, t, False)
    at = _elements(rows, rows.offsets[rows.inside])
    array, marks = _flat(t)
    values = array[at] if not t.on_chip else array[at // t.row, at % t.row]
    if s.checks and at.size:
        if isinstance(marks, int):
            written = marks != UNWRITTEN
        else:
            codes = marks.reshape(t.storage.rows * t.row, -1) if marks.flags.c_contiguous else None
            picked = codes[at] if codes is not None else marks[at // t.row, at % t.row]
            written = bool(np.all(picked != UNWRITTEN))
        if not written:
            s._unwritten(t, role, None)
    return values


def scatter(s: Session, rows: Rows, values: np.ndarray) -> None:
    """Store ``values`` [rows inside, …] into the rows inside the tensor; of equal rows the last one stays."""
    t = rows.view
    note(s, t, True)
    at = _elements(rows, rows.offsets[rows.inside])
    array, marks = _flat(t)
    values = converted(t, values).reshape(at.shape)
    place: Any = (at // t.row, at % t.row) if t.on_chip else at
    array[place] = values
    if s.checks and not (isinstance(marks, int) and marks != UNWRITTEN):
        line = t._view((t.storage.rows, t.row), (t.row, 1), 0)
        line.dynamic = None
        line.mark_window(0)[at // t.row, at % t.row] = 1


def converted(t: NkiTensor, values: np.ndarray) -> np.ndarray:
    """``values`` as ``t`` stores them."""
    physical = t.storage.physical
    if values.dtype == (t.dtype.dtype if isinstance(t.dtype, ExtraDtype) else t.dtype) and physical.itemsize == t.storage.itemsize:
        return values
    return cast(values, t.dtype if physical.itemsize == t.storage.itemsize else float32)


def note(s: Session, t: NkiTensor, write: bool) -> None:
    """Book-keeping of an access that does not go through ``Session.read`` or ``write``."""
    storage = t.storage
    s.touch(t)
    if storage.shared and s.machine is not None:
        s.machine.note(s, t, write)
    if write and storage.user is not None and storage.snapshot is None:
        storage.snapshot = storage.arena.data.copy()
