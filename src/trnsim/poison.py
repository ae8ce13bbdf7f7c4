"""Poison: what an instruction computes from memory that nothing has written.

An instruction that reads unwritten elements runs several times, each time with other garbage in their stead. What
comes out differently depends on the garbage and is poison again: marked unwritten, with the read it came from. The
rest is a value like any other. No instruction has to know of this, and a kernel that reads only what it wrote never
gets here.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import ml_dtypes
import numpy as np

from trnsim.errors import KernelError
from trnsim.memory import MATMUL, UNWRITTEN
from trnsim.refusals import refuse
from trnsim.tensors.tensor import NkiTensor

if TYPE_CHECKING:
    from trnsim.session import Session

# instructions that move bits: garbage that goes in comes out, so that two kinds of it are enough
_MOVES = frozenset({"dma_copy", "dma_transpose", "nc_stream_shuffle", "nc_transpose", "tensor_copy"})
_KINDS = 4
_LANES = ("vector accumulators", "scalar accumulators")
_STATE = (*_LANES, "random.generators")
_LAST_ORIGIN = 2**15 - 1
_BY_MATMUL = 2**15


class Poisoned(BaseException):
    """An instruction read unwritten memory for the first time; its decorator runs it again with garbage."""


class Origin(NamedTuple):
    """The first read of unwritten memory that a poisoned element depends on."""

    message: str
    got: Any
    tensor: str
    hint: str
    instruction: str | None
    line: str

    def error(self, reaches: str) -> KernelError:
        """Return the error for an element that reaches a place where its value matters."""
        where = {"tensor": self.tensor, "instruction": self.instruction, "line": self.line}
        return refuse("uninitialized:error", got=self.got, hint=self.hint, t=self, reaches=reaches, fields=where)


class Window:
    """Memory an instruction writes: what it held before, what the first run left there, and where later ones differ."""

    __slots__ = ("before", "differs", "first", "marks", "shadow", "view")

    def __init__(self, view: NkiTensor) -> None:
        self.view = view
        self.before = view.array.copy()
        self.marks = _marks(view)
        self.shadow = None if view.storage.shadow is None else _marks(view._shadow())
        self.first: np.ndarray | None = None
        self.differs: np.ndarray | None = None

    def restore(self) -> None:
        """Undo what the instruction has written."""
        self.view.array[...] = self.before
        _set_marks(self.view, self.marks)
        if self.shadow is not None:
            _set_marks(self.view._shadow(), self.shadow)

    def compare(self, run: int) -> None:
        """Note where this run's result is not the first one's."""
        now = bits_of(self.view.array)
        if self.first is None:
            # only a later run wrote here: the first left what was there
            self.first = now.copy() if run == 0 else bits_of(self.before)
        different = now != self.first
        self.differs = different if self.differs is None else self.differs | different


class Garbage:
    """Stand-in for unwritten memory while an instruction is run again and again."""

    def __init__(self, session: Session, operands: list[Any]) -> None:
        self.session = session
        self.run = 0
        self.fills = 0
        self.origin = 0
        self.windows: dict[Any, Window] = {}
        self.lanes: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        moves = session.instr in _MOVES
        self.likely = [] if moves else [o for o in operands if _is_numeric(o) or _is_clean_tile(o)]
        self.runs = 2 if moves else _KINDS + len(self.likely)

    def fill_missing(self, values: np.ndarray, missing: np.ndarray | None, origin: int) -> np.ndarray:
        """Return ``values`` with this run's garbage where ``missing``, which was first read at ``origin``."""
        self.origin = min(self.origin or origin, origin)
        filled = values.copy()
        self.fills += 1
        if self.run < _KINDS:
            where: Any = ... if missing is None else missing
            filled[where] = _garbage(filled.dtype, self.run, self.fills, filled[where].shape)
            return filled
        # an element may happen to equal what it is compared with
        other = self.likely[self.run - _KINDS]
        equal = _fit_shape(np.asarray(other.array if type(other) is NkiTensor else other), filled.shape)
        np.copyto(filled, equal.astype(filled.dtype), where=True if missing is None else missing)
        return filled

    def keep(self, view: NkiTensor) -> None:
        """Remember what ``view`` holds, before an instruction writes it for the first time."""
        key = (view.storage.uid, view.offset, view.shape, view.strides, view.dtype)
        if key not in self.windows:
            self.windows[key] = Window(view)

    def compare(self) -> None:
        """Take in the results of a run: memory, and the accumulators of the engines."""
        for window in self.windows.values():
            window.compare(self.run)
        for name in _LANES:
            held = self.session.state.get(name)
            if held is not None:
                now = held.values.copy()
                first, differs = self.lanes.get(name, (now, np.zeros(now.shape, bool)))
                self.lanes[name] = (first, differs | (bits_of(now) != bits_of(first)))

    def settle(self) -> None:
        """Mark what depends on the garbage."""
        for window in self.windows.values():
            if window.differs is not None and window.differs.any():
                spoil(window.view, window.differs, self.origin)
        for name, (_, differs) in self.lanes.items():
            self.session.state[name].origin[differs.reshape(len(differs), -1).any(axis=1)] = self.origin


def replay(s: Session, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an instruction that reads unwritten memory, and mark the results that depend on it."""
    operands = [o for a in (*args, *kwargs.values()) for o in (a if isinstance(a, (list, tuple)) else (a,))]
    garbage = s.garbage = Garbage(s, operands)
    state = {k: copy.deepcopy(s.state[k]) for k in _STATE if k in s.state}
    trace, result = s.trace, None
    try:
        for run in range(garbage.runs):
            garbage.run, garbage.fills = run, 0
            if run:
                for window in reversed(garbage.windows.values()):
                    window.restore()
                for name in _STATE:
                    s.state.pop(name, None)
                s.state.update(copy.deepcopy(state))
                s.trace = None
            with warnings.catch_warnings():
                if run:
                    warnings.simplefilter("ignore")
                outcome = fn(s, *args, **kwargs)
            result = outcome if run == 0 else result
            garbage.compare()
    except KernelError as error:
        if garbage.origin:
            error.hint = f"{error.hint.rstrip('.') + '. ' if error.hint else ''}{s.origins[garbage.origin - 1].message}"
        raise
    finally:
        s.garbage, s.trace = None, trace
    garbage.settle()
    return result


def spoil(view: NkiTensor, where: np.ndarray, origin: int | np.ndarray) -> None:
    """Mark elements of ``view`` as depending on unwritten memory first read at ``origin``, one or one each."""
    marks = view.mark_window(view.offset)
    codes = marks if marks.ndim == view.ndim else marks[..., 0]
    by_matmul = codes == MATMUL
    view.origin_window(view.offset)[where] = np.where(by_matmul, origin | _BY_MATMUL, origin)[where]
    marks[where] = UNWRITTEN


def origins(view: NkiTensor) -> np.ndarray | None:
    """Return the read each element of ``view`` depends on, 0 for none; ``None`` when nothing is poison."""
    if view.storage.arena.origins is None or type(view.storage.arena.marks) is int:
        return None
    ids = view.origin_window(view.offset)
    marks = view.mark_window(view.offset)
    missing = (marks == UNWRITTEN) if marks.ndim == view.ndim else (marks == UNWRITTEN).any(axis=-1)
    return np.where(missing, ids & _LAST_ORIGIN, 0)


def matmul_codes(view: NkiTensor, codes: int | np.ndarray) -> int | np.ndarray:
    """Write marks of a PSUM tile in which poison counts as what wrote it: a matmul, or another engine."""
    if view.storage.arena.origins is None or type(view.storage.arena.marks) is int or view.dynamic is not None:
        return codes
    ids = view.origin_window(view.offset)
    marks = np.where((np.asarray(codes) == UNWRITTEN) & (ids != 0), np.where(ids & _BY_MATMUL, MATMUL, 1), codes)
    first = int(marks.flat[0])
    return first if (marks == first).all() else marks


def new_origin(s: Any, key: Any, describe: Callable[[], dict[str, Any]]) -> int:
    """Return the number of the origin ``key``, described when it is new."""
    known = s.origin_ids.get(key)
    if known is None:
        if len(s.origins) < _LAST_ORIGIN:
            s.origins.append(Origin(**describe(), instruction=s.instr, line=s.line()))
        known = s.origin_ids[key] = len(s.origins)
    return known


def _marks(view: NkiTensor) -> int | np.ndarray:
    marks = view.storage.arena.marks
    return marks if type(marks) is int else view.mark_window(view.offset).copy()


def _set_marks(view: NkiTensor, marks: int | np.ndarray) -> None:
    if type(marks) is int:
        view.storage.arena.marks = marks
    else:
        view.mark_window(view.offset)[...] = marks


def bits_of(array: np.ndarray) -> np.ndarray:
    """Return the bits of an array's elements, which compare as what they are."""
    return array.view(f"u{array.dtype.itemsize}")


def _garbage(dtype: np.dtype[Any], run: int, fill: int, shape: tuple[int, ...]) -> Any:
    """Not a number, huge, huge and negative, zero; for integers two sets of random bits, and the extremes.

    The ``fill``-th operand of an instruction gets other garbage than the ones before, larger in one run, smaller in
    another and equal in a third: nothing is known of two unknown values.
    """
    if dtype.kind == "b":
        return (run + fill) % 2 == 0
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        if run < 2:
            # once the same bits for every operand: two unknown values may be equal
            bits = np.random.default_rng((run, 0 if run else fill)).integers(
                0, 2 ** (8 * dtype.itemsize), shape, dtype=np.uint64
            )
            return bits.astype(f"u{dtype.itemsize}").view(dtype)
        return (info.max - fill, info.min + fill)[run - 2]
    limits: Any = np.finfo(dtype) if dtype.isbuiltin == 1 else ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    most = float(limits.max) * (1 - 0.5 ** min(fill, 3)) / 2
    return np.asarray((float("nan"), most, -most, 0.0)[run]).astype(dtype)


def _is_numeric(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _is_clean_tile(value: Any) -> bool:
    if type(value) is not NkiTensor or value.dynamic is not None or not value.on_chip:
        return False
    marks = value.marks(value.offset)
    return marks != UNWRITTEN if isinstance(marks, int) else bool(marks.all())


def _fit_shape(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return ``values`` in ``shape``: row by row where partitions agree, repeated or cut to fit."""
    if values.ndim and values.shape[0] == shape[0]:
        rows = values.reshape(shape[0], -1)
        free = int(np.prod(shape[1:]))
        return np.tile(rows, (1, -(-free // rows.shape[1])))[:, :free].reshape(shape)
    return np.resize(values, shape)
