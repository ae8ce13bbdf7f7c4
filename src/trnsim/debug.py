"""Looking inside a run: `probe` returns intermediates by name.

A tensor's name is the ``name=`` it was made with, or else the variable the kernel assigned it to.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass

import numpy as np

from trnsim.coverage import fill_missing
from trnsim.memory import Storage
from trnsim.session import Session
from trnsim.tensors.tensor import NkiTensor

_ACTIVE: ContextVar[tuple[Probe, ...]] = ContextVar("trnsim.probes", default=())


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """One tensor as a run left it.

    Attributes:
        name: of the tensor.
        array: its elements; those never written are NaN (integers: all bits set).
        line: where it was made.
        core, rank: whose it is.
        first: index of the instruction that first wrote it, in program order.
    """

    name: str
    array: np.ndarray
    line: str | None
    core: int
    rank: int
    first: int


@dataclass(slots=True, eq=False)
class _Followed:
    """A tensor under observation, or its value once the memory was given to another."""

    tensor: NkiTensor | None
    name: str
    core: int
    rank: int
    kept: Value | None = None

    def value(self) -> Value | None:
        t = self.tensor
        if t is None or self.kept is not None:
            return self.kept
        storage = t.storage
        if storage.first < 0 or storage.arena.data is None:
            return None
        return Value(self.name, _values_with_nan(t), storage.line, self.core, self.rank, storage.first)

    def keep(self) -> None:
        self.kept = self.value()
        self.tensor = None


class Probe(Mapping[str, np.ndarray]):
    """Tensors whose name matches, from every kernel run inside the ``with`` block.

    ``seen["name"]`` is the value of the last tensor of that name, ``seen.all("name")`` lists all of them in program
    order.
    """

    def __init__(self, *patterns: str) -> None:
        self.patterns = patterns
        self.names: set[str] = set()
        self._followed: list[_Followed] = []
        self._storages: set[int] = set()
        self._token: Token[tuple[Probe, ...]] | None = None

    def __enter__(self) -> Probe:
        self._token = _ACTIVE.set((*_ACTIVE.get(), self))
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._token is not None
        _ACTIVE.reset(self._token)
        self._token = None
        for one in self._followed:
            one.keep()

    def follow(self, session: Session, tensor: NkiTensor) -> None:
        """Follow a tensor that was allocated."""
        storage = tensor.storage
        if storage.address is not None:
            for one in self._followed:
                if one.tensor is not None and _overlap(one.tensor.storage, storage):
                    one.keep()
        unnamed = storage.name == f"t{storage.uid}"
        if not unnamed:
            self.names.add(storage.name)
        if storage.uid not in self._storages and not unnamed and self._is_watched(storage.name):
            self._storages.add(storage.uid)
            self._followed.append(_Followed(tensor, storage.name, session.core, session.rank))

    def see(self, session: Session, name: str, tensor: NkiTensor) -> None:
        """Keep the value of a tensor at the point where the kernel prints it under ``name``."""
        self.names.add(name)
        if self._is_watched(name) and session.numerics:
            value = Value(name, _values_with_nan(tensor), session.line(), session.core, session.rank, session.clock)
            self._followed.append(_Followed(None, name, session.core, session.rank, value))

    def _is_watched(self, name: str) -> bool:
        return not self.patterns or any(fnmatch.fnmatchcase(name, p) for p in self.patterns)

    def values_in_order(self) -> list[Value]:
        """Return every value, rank by rank, in program order."""
        return sorted(
            (v for v in (one.value() for one in self._followed) if v is not None),
            key=lambda v: (v.rank, v.first, v.core),
        )

    def all(self, name: str) -> list[Value]:
        """Return the values of every tensor called ``name``, in program order."""
        values = [v for v in self.values_in_order() if v.name == name]
        if not values:
            raise KeyError(
                f"no tensor called {name!r} was written; the kernel has "
                f"{', '.join(sorted(self.names)) or 'no named tensor'}"
            )
        return values

    def __getitem__(self, name: str) -> np.ndarray:
        return self.all(name)[-1].array

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(v.name for v in self.values_in_order()))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        rows = [f"{v.name}{list(v.array.shape)} {v.array.dtype} ({v.line})" for v in self.values_in_order()]
        return "\n".join(rows) or "nothing seen"


def probe(*names: str) -> Probe:
    """Keep intermediates: ``with trnsim.probe("scores", "p_*") as seen: kernel(…)``, then ``seen["scores"]``.

    Args:
        names: of tensors, with ``*`` and ``?`` as in file names; none means every named tensor.
    """
    return Probe(*names)


def active_probes() -> list[Probe] | None:
    """Return the probes of this context, for a session that starts; ``None`` without any."""
    return list(_ACTIVE.get()) or None


def _values_with_nan(t: NkiTensor) -> np.ndarray:
    array, missing = t.array.copy(), t.missing()
    if missing.any():
        fill_missing(array, missing)
    return array


def _overlap(a: Storage | None, b: Storage) -> bool:
    if a is None or a.address is None or b.address is None or a.arena is not b.arena:
        return False
    (p, x), (q, y) = a.address, b.address
    return p < q + b.rows and q < p + a.rows and x < y + b.partition_bytes and y < x + a.partition_bytes
