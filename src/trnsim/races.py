"""Races on shared HBM: two cores touch the same element, one of them writing, and nothing orders the two.

Each shared tensor has a shadow with one byte per element: who wrote and who read it since the last barrier. Views mark
their own elements, so interleaved rows or columns of two cores do not meet. A barrier on a tensor wipes its shadow. A
barrier on another tensor, or a ``sendrecv``, stops both cores too, but the compiler orders only what an instruction
names: such accesses are kept as *loosely* ordered and warned about.

A kernel that knows nothing of two cores does everything twice. When a core repeats what the other did, the same line
writing the same values to the same place, nothing depends on who comes first: that is warned about as well.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from trnsim.errors import Race
from trnsim.language.tensor import NkiTensor
from trnsim.memory import Arena, Storage
from trnsim.session import Session

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

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for the same access of another core."""
        view = self.view
        return (self.line, tuple(self.offsets), view.shape, view.strides, str(view.dtype))

    def bytes(self) -> list[bytes]:
        """Return what memory holds there now."""
        return [self.view.window(offset).tobytes() for offset in self.offsets]


class Repeat(NamedTuple):
    """A write the other core has made already: a race if it changes what is there."""

    access: Access
    before: list[bytes]
    race: Callable[[], Race]


class Shadow:
    """Who touched a tensor.

    Bits 0 and 1 of a byte are writes of cores 0 and 1, bits 2 and 3 reads; bits 4 to 7 the same, loosely ordered.
    """

    def __init__(self, storage: Storage) -> None:
        self.bits = Arena(storage.arena.nbytes, unit=storage.itemsize)
        self.fresh: list[Access] = []
        self.loose: list[Access] = []
        self.written: tuple[set[Any], set[Any]] = (set(), set())

    def windows(self, access: Access) -> list[np.ndarray]:
        """Return the bytes of the shadow that belong to an access."""
        return [access.view.mark_window(offset, self.bits) for offset in access.offsets]

    def note(self, session: Session, access: Access) -> Repeat | None:
        """Check an access against the other core's and remember it; a repeated write is settled once made."""
        mine, theirs = 1 << access.core, 1 << (1 - access.core)
        repeat = None
        for window in self.windows(access):
            if window.any():
                # what both cores wrote alike either may read
                hit = self._hit(window, mine, theirs, access.write)
                if hit.any() and repeat is None:
                    race = partial(self._race, session, session.instr, access, window, hit)
                    if not access.write or access.key not in self.written[1 - access.core]:
                        raise race()
                    repeat = Repeat(access, access.bytes(), race)
                hit = self._hit(window, mine << _LOOSE, theirs << _LOOSE, access.write)
                if hit.any():
                    self._warn(access, window, hit)
            window |= np.uint8(mine if access.write else mine << 2)
        self.fresh.append(access)
        if access.write:
            self.written[access.core].add(access.key)
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
        self._forget()

    def clear(self) -> None:
        """Both cores met over this tensor."""
        for access in (*self.fresh, *self.loose):
            for window in self.windows(access):
                window[...] = 0
        self.loose = []
        self._forget()

    def _forget(self) -> None:
        self.fresh = []
        for keys in self.written:
            keys.clear()

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
    ) -> Race:
        other, at = self._culprit(access, window, hit, self.fresh)
        view = access.view
        return Race(
            f"core {access.core} {access.verb} {view.name}{list(view.shape)} at {access.line}, core {other.core} "
            f"{other.verb} the same elements "
            f"at {other.line}, and no barrier lies between; element {at} of the view is one of them",
            rule="race",
            got=(access.line, other.line),
            limit="a core_barrier between the two",
            hint=f"call nisa.core_barrier(data={view.name}, cores=(0, 1)) on both cores between the two, or give "
            "each core its own part",
            tensor=view.name,
            lines=(other.line, access.line),
            line=access.line,
            kernel=session.kernel,
            instruction=instruction,
            target=session.target.name,
        )

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
        """An instruction of ``session`` touches ``t``, or ``rows`` of it."""
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
        if access.bytes() != repeat.before:
            raise repeat.race()
        if access.line not in self._told:
            self._told.add(access.line)
            warnings.warn(
                f"both cores write the same values to {access.view.name} at {access.line}. That is harmless, and done "
                "twice; give each core its own part with nl.program_id(0).",
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
