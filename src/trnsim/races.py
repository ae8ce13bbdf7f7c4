"""Races on shared HBM: two cores touch the same element, one of them writing, and nothing orders the two.

Each shared tensor has a shadow with one byte per element: who wrote and who read it since the last barrier. Views mark
their own elements, so interleaved rows or columns of two cores do not meet. A barrier on a tensor wipes its shadow. A
barrier on another tensor, or a ``sendrecv``, stops both cores too, but the compiler orders only what an instruction
names: such accesses are kept as *loosely* ordered and warned about.

A kernel that knows nothing of two cores does everything twice, and others write a border from both. When a core writes
the bits that are there already, nothing depends on who comes first: that is warned about as well.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from trnsim.errors import KernelError
from trnsim.memory import Arena, Storage
from trnsim.refusals import refuse
from trnsim.session import Session
from trnsim.tensors.tensor import NkiTensor

_LOOSE = 4


class RaceWarning(RuntimeWarning):
    """Accesses of two cores that only a synchronisation on something else keeps apart."""


class Access(NamedTuple):
    """One instruction's touch of a shared tensor."""

    core: int
    write: bool
    view: NkiTensor
    offsets: list[int]
    line: str

    @property
    def verb(self) -> str:
        return "writes" if self.write else "reads"


class Repeat(NamedTuple):
    """A write of elements that the other core has touched: a race if it changes what is there.

    ``hits`` has the offset of each place, which elements of the view those are, and their bytes before.
    """

    access: Access
    hits: list[tuple[int, np.ndarray, bytes]]
    race: Callable[[], KernelError]

    def changes(self) -> bool:
        """Return whether memory holds something else there now."""
        view = self.access.view
        return any(view.window(offset)[hit].tobytes() != before for offset, hit, before in self.hits)


class Shadow:
    """Accesses to a tensor, by core.

    Bits 0 and 1 of a byte are writes of cores 0 and 1, bits 2 and 3 reads; bits 4 to 7 the same, loosely ordered.
    """

    def __init__(self, storage: Storage) -> None:
        self.bits = Arena(storage.arena.nbytes, unit=storage.itemsize)
        self.fresh: list[Access] = []
        self.loose: list[Access] = []

    def windows(self, access: Access) -> list[np.ndarray]:
        """Return the bytes of the shadow that belong to an access."""
        return [access.view.mark_window(offset, self.bits) for offset in access.offsets]

    def note(self, session: Session, access: Access) -> Repeat | None:
        """Check an access against the other core's and remember it; a repeated write is settled once made."""
        mine, theirs = 1 << access.core, 1 << (1 - access.core)
        repeat = None
        view = access.view
        for offset, window in zip(access.offsets, self.windows(access), strict=True):
            if window.any():
                # what both cores wrote alike either may read
                hit = self._hit(window, mine, theirs, access.write)
                if hit.any():
                    race = partial(self._race, session, session.instr, access, window, hit)
                    if not access.write:
                        raise race()
                    repeat = repeat or Repeat(access, [], race)
                    elements = np.asarray(hit.reshape(*view.shape, -1).any(axis=-1))
                    repeat.hits.append((offset, elements, view.window(offset)[elements].tobytes()))
                hit = self._hit(window, mine << _LOOSE, theirs << _LOOSE, access.write)
                if hit.any():
                    self._warn(access, window, hit)
            window |= np.uint8(mine if access.write else mine << 2)
        self.fresh.append(access)
        return repeat

    @staticmethod
    def _hit(window: np.ndarray, mine: int, theirs: int, write: bool) -> np.ndarray:
        if write:
            return np.asarray((window & np.uint8(theirs | theirs << 2)) != 0)
        return np.asarray((window & np.uint8(mine | theirs)) == theirs)

    def loosen(self) -> None:
        """Both cores met over something else."""
        for access in self.fresh:
            for window in self.windows(access):
                window |= (window & np.uint8(15)) << np.uint8(_LOOSE)
                window &= np.uint8(240)
        self.loose += self.fresh
        self.fresh = []

    def clear(self) -> None:
        """Both cores met over this tensor."""
        for access in (*self.fresh, *self.loose):
            for window in self.windows(access):
                window[...] = 0
        self.fresh, self.loose = [], []

    def _culprit(
        self, access: Access, window: np.ndarray, hit: np.ndarray, log: list[Access]
    ) -> tuple[Access, tuple[int, ...]]:
        """Return the other core's access that overlaps ``window``, and the first element of this view where it does."""
        at = tuple(int(i) for i in np.argwhere(hit)[0])
        marks = self.bits.marks_for(self.bits.unit)
        byte = window.ctypes.data - marks.ctypes.data + sum(i * s for i, s in zip(at, window.strides, strict=True))
        blank = Arena(self.bits.nbytes, unit=self.bits.unit)
        for other in reversed(log):
            if other.core == access.core or not (other.write or access.write):
                continue
            for offset in other.offsets:
                other.view.mark_window(offset, blank)[...] = 1
            if blank.marks_for(blank.unit)[byte]:
                return other, at[: access.view.ndim]
        raise AssertionError("a mark without an access")

    def _race(
        self, session: Session, instruction: str | None, access: Access, window: np.ndarray, hit: np.ndarray
    ) -> KernelError:
        other, at = self._culprit(access, window, hit, self.fresh)
        view = access.view
        lines = (access.line, other.line)
        where = {"tensor": view.name, "lines": lines[::-1], "line": access.line, "instruction": instruction}
        where |= {"kernel": session.kernel, "target": session.target.name}
        return refuse("race", got=lines, access=access, view=view, other=other, at=at, fields=where)

    def _warn(self, access: Access, window: np.ndarray, hit: np.ndarray) -> None:
        other, at = self._culprit(access, window, hit, self.loose)
        name = access.view.name
        warnings.warn(
            f"core {access.core} {access.verb} {name} at {access.line} after core {other.core} {other.verb} the "
            f"same elements at {other.line} "
            f"(element {at} of the view). The cores met in between, but not over {name}, so nothing orders these "
            "two on the hardware; "
            f"call nisa.core_barrier(data={name}, cores=(0, 1)) between them.",
            RaceWarning,
            stacklevel=2,
        )


def access_of(session: Session, t: NkiTensor, write: bool, rows: np.ndarray | None) -> Access:
    """Return what an operand touches: one place, or one for each gathered row.

    Run-time indices out of bounds are the instruction's business.
    """
    line = session.line()
    if rows is not None:
        row = t._view(t.shape[1:] or (1,), t.strides[1:] or (1,), t.offset)
        return Access(session.core, write, row, [t.offset + int(i) * t.strides[0] for i in rows], line)
    dynamic = t.dynamic
    if dynamic is None:
        return Access(session.core, write, t, [t.offset], line)
    view = t._view(t.shape, t.strides, t.offset)
    view.dynamic = None
    start = t.offset + session.scalar(dynamic.index, "index") * dynamic.stride
    last = t.storage.rows * t.row - 1 - sum(s * (n - 1) for s, n in zip(view.strides, view.shape, strict=True))
    return Access(session.core, write, view, [start] if 0 <= start <= last else [], line)


class Watch:
    """The shadows of one logical core's shared tensors."""

    def __init__(self) -> None:
        self.shadows: dict[int, tuple[Arena, Shadow]] = {}
        self._repeat: Repeat | None = None
        self._told: set[str] = set()

    def note(self, session: Session, t: NkiTensor, write: bool, rows: np.ndarray | None = None) -> None:
        """Note that an instruction of ``session`` touches ``t``, or ``rows`` of it."""
        self.settle()
        storage = t.storage
        shadow = self.shadows.get(id(storage.arena))
        if shadow is None:
            shadow = self.shadows[id(storage.arena)] = (storage.arena, Shadow(storage))
        self._repeat = shadow[1].note(session, access_of(session, t, write, rows))

    def settle(self) -> None:
        """Look at the last repeated write, which has been made by now."""
        repeat, self._repeat = self._repeat, None
        if repeat is None:
            return
        access = repeat.access
        if repeat.changes():
            raise repeat.race()
        if access.line not in self._told:
            self._told.add(access.line)
            warnings.warn(
                f"both cores write the same values to {access.view.name} at {access.line}. Whoever comes last, the "
                "bits are the same, and the work is done twice; give each core its own part with nl.program_id(0).",
                RaceWarning,
                stacklevel=2,
            )

    def met(self, over: tuple[Storage, ...] = ()) -> None:
        """Both cores have met over the tensors ``over``."""
        self.settle()
        named = {id(s.arena) for s in over}
        for key, (_, shadow) in self.shadows.items():
            if key in named:
                shadow.clear()
            else:
                shadow.loosen()
