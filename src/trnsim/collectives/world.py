"""The ranks of one run: where they meet for a collective, and who does the work.

Every participant leaves its offer and waits; the last one to come does the transfer for all, while the others wait.
With two cores in a rank, a collective on shared HBM is one operation of both cores; on private tensors each core has
its own.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from trnsim.errors import KernelError
from trnsim.refusals import refuse
from trnsim.session import Session
from trnsim.tensors.tensor import NkiTensor
from trnsim.workers import Workers


class Offer:
    """Offer of one rank (or one core of it) to a collective.

    Attributes:
        kind: name of the instruction.
        terms: what all participants must agree on.
        srcs, dsts: its operands.
        values: what the sources hold once all ranks have arrived.
        prepared: values of the last sources, where they were read before.
    """

    __slots__ = ("dsts", "kind", "line", "prepared", "session", "srcs", "terms", "values")

    def __init__(
        self, session: Session, kind: str, srcs: list[NkiTensor], dsts: list[NkiTensor], terms: dict[str, Any]
    ) -> None:
        self.session = session
        self.kind = kind
        self.srcs = srcs
        self.dsts = dsts
        shapes = {"shapes": [t.shape for t in srcs], "dtypes": [str(t.dtype) for t in srcs]}
        self.terms = {**shapes, **terms}
        self.values: list[np.ndarray] = []
        self.prepared: list[np.ndarray] = []
        self.line = session.line()

    def read(self) -> None:
        """Take the values of the sources."""
        fresh = self.srcs[: len(self.srcs) - len(self.prepared)]
        read = functools.partial(self.session.read, exact=True)
        self.values = [*(self._at_home(read, t, f"srcs[{i}]") for i, t in enumerate(fresh)), *self.prepared]

    def write(self, dst: NkiTensor, values: np.ndarray) -> None:
        """Store into a destination, or a part of one."""
        self._at_home(self.session.write, dst, values, "dsts")

    def _at_home(self, act: Callable[..., Any], t: NkiTensor, *rest: Any) -> Any:
        # the thread that does the work is another rank's, the mistake is this one's
        try:
            return act(t, *rest, where=(t.buffer.value,), compute=False)
        except KernelError as error:
            error.locate(self.session, self.kind, self.line)
            raise

    @property
    def nbytes(self) -> int:
        """Bytes this offer brings."""
        return sum(t.size * t.itemsize for t in self.srcs)

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(f'{k}={v}' for k, v in self.terms.items())}) at {self.line}"


Work = Callable[[dict[int, Offer]], Iterable[tuple[Offer, NkiTensor, np.ndarray]]]
Meeting = dict[tuple[int, int], Offer]


class World:
    """``size`` ranks, ``per_node`` of them on each instance."""

    def __init__(self, size: int = 1, workers: Workers | None = None, per_node: int | None = None) -> None:
        self.size = size
        self.workers = workers
        self.per_node = per_node or size
        self._counts: dict[Any, int] = {}
        self._meetings: dict[Any, Meeting] = {}

    def meet(self, offer: Offer, ranks: tuple[int, ...], work: Work) -> tuple[Any, ...]:
        """Bring ``offer`` to the next collective of ``ranks``; returns what identifies it."""
        session = offer.session
        cores = 1 if session.machine is None else session.machine.cores
        in_hbm = [t for t in (*offer.srcs, *offer.dsts) if not t.on_chip]
        joint = cores > 1 and in_hbm != [] and all(t.storage.shared for t in in_hbm)
        taking = tuple(range(cores)) if joint else (session.core,)
        party = (ranks, taking)
        mine = (*party, session.rank, session.core)
        k = self._counts.get(mine, 0)
        self._counts[mine] = k + 1
        here = self._meetings.setdefault((*party, k), {})
        self._agree(offer, here)
        here[session.rank, session.core] = offer
        wanted = {(r, c) for r in ranks for c in taking}
        if len(here) == len(wanted):
            del self._meetings[(*party, k)]
            self._transfer({r: here[r, taking[0]] for r in ranks}, list(here.values()) if joint else [], work)
        if self.workers is not None:
            self.workers.wait(
                session,
                lambda: len(here) == len(wanted),
                lambda: f"{_missing(wanted - here.keys(), cores)} in {offer.kind}",
            )
        return (offer.kind, *party, k)

    def _transfer(self, offers: dict[int, Offer], joint: list[Offer], work: Work) -> None:
        _note_meeting(joint)
        for offer in offers.values():
            offer.read()
        if next(iter(offers.values())).session.numerics:
            for offer, dst, values in work(offers):
                offer.write(dst, values)
                if dst.on_chip:
                    _mirror(offer, dst, values, joint)
        else:
            for offer in offers.values():
                for dst in offer.dsts:
                    offer.write(dst, offer.values[0])
        _note_meeting(joint)

    @staticmethod
    def _agree(offer: Offer, here: Meeting) -> None:
        for other in here.values():
            a, b = sorted((other, offer), key=lambda o: (o.session.rank, o.session.core))
            if (a.kind, a.terms) != (b.kind, b.terms):
                got = [(o.session.rank, o.kind, o.terms, o.line) for o in (a, b)]
                raise refuse("collective-mismatch", got=got, first=_who(a), a=a, second=_who(b), b=b)
            if a.session.rank == b.session.rank and [_address(t) for t in a.dsts] != [_address(t) for t in b.dsts]:
                names = [t.name for t in (*a.dsts, *b.dsts)]
                raise refuse("collective-cores", got=names, first=_who(a), second=_who(b), a=a, b=b)


def _mirror(offer: Offer, dst: NkiTensor, values: np.ndarray, joint: list[Offer]) -> None:
    """Write the results in SBUF of one core of a joint collective to the same address of the other."""
    for other in joint:
        if other is not offer and other.session.rank == offer.session.rank:
            mine = next(t for t in offer.dsts if t.storage is dst.storage)
            twin = other.dsts[offer.dsts.index(mine)]
            view = twin._view(dst.shape, dst.strides, twin.offset + dst.offset - mine.offset)
            other.write(view, values)


def _note_meeting(offers: list[Offer]) -> None:
    """Both cores of a rank are stopped while shared tensors change."""
    for offer in offers:
        over: Any = tuple(t.storage for t in (*offer.srcs, *offer.dsts))
        offer.session.machine.watch.met(over)


def _missing(absent: set[tuple[int, int]], cores: int) -> str:
    return ", ".join(f"rank {r} core {c}" if cores > 1 else f"rank {r}" for r, c in sorted(absent))


def _who(offer: Offer) -> str:
    machine = offer.session.machine
    core = f" core {offer.session.core}" if machine is not None and machine.cores > 1 else ""
    return f"rank {offer.session.rank}{core}"


def _address(t: NkiTensor) -> tuple[Any, ...]:
    return (None if t.on_chip else id(t.storage), t.offset, t.shape, t.strides)
