"""Collectives whose sizes are known at run time: counts and displacements come from a metadata tensor.

Its rows are send counts, send displacements, received counts and, with ``has_rdispls``, receive displacements; its
columns the ranks of the group.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from trnsim.collectives import checks
from trnsim.collectives.fixed import Moves, check_operands, take_part
from trnsim.collectives.groups import members, world_of
from trnsim.collectives.world import Offer, Work
from trnsim.isa.dge import check_priority
from trnsim.isa.multicore import two_cores
from trnsim.isa.operands import needs
from trnsim.refusals import forbid, refuse
from trnsim.session import HBM, SHARED_HBM, NkiInstruction, Session, instruction
from trnsim.tensors.tensor import NkiTensor

_HBM = (HBM, SHARED_HBM)


def _offer(s: Session, srcs: Any, dsts: Any, table: Any, ranks: tuple[int, ...], known: bool, displaced: bool) -> Offer:
    offer = check_operands(s, srcs, dsts, sbuf=False, most=1, recv_counts_known=known, has_rdispls=displaced)
    meta = checks.metadata(s, table, len(ranks), displaced)
    for t in (offer.srcs[0], offer.dsts[0]):
        forbid(not t.is_contiguous(), "collective-contiguous", got=t.strides, t=t, offer=offer)
    if not displaced and offer.dsts[0].size % len(ranks):
        raise refuse("collective-split:offer", got=offer.dsts[0].size, limit=len(ranks))
    # ranks may differ in the size of their buffers
    offer.terms = {k: v for k, v in offer.terms.items() if k != "shapes"}
    rows = meta.ndim - 2
    # row 2 is never read, and may be unwritten
    offer.srcs += [meta.slice(rows, 0, 2), *([meta.slice(rows, 3, 4)] if displaced else [])]
    offer.dsts.append(meta)
    return offer


def _row(offer: Offer, index: int) -> np.ndarray:
    """Send counts (0), send displacements (1) or receive displacements (3)."""
    values = offer.values[2] if index == 3 else offer.values[1]
    row: np.ndarray = values.reshape(-1, values.shape[-1])[index % 3]
    return row.astype(np.int64)


def _within(offer: Offer, t: NkiTensor, start: int, count: int, limit: int, what: str) -> None:
    if start < 0 or start + count > limit:
        where = {"kernel": offer.session.kernel, "line": offer.line}
        got, end = (start, count), start + count
        raise refuse("metadata-bounds", got=got, limit=limit, offer=offer, what=what, end=end, t=t, fields=where)


def _flat(t: NkiTensor, start: int, count: int) -> NkiTensor:
    return t.reshape((t.size,)).slice(0, start, start + count)


def _deliver(offers: dict[int, Offer], chunks: dict[int, list[np.ndarray]], known: bool, displaced: bool) -> Moves:
    """Put the chunk from the i-th sender into every receiver's i-th place, and the counts into row 2."""
    for rank, offer in offers.items():
        dst, meta = offer.dsts[0], offer.dsts[1]
        slot = dst.size // len(offers)
        for i, chunk in enumerate(chunks[rank]):
            start = int(_row(offer, 3)[i]) if displaced else i * slot
            _within(offer, dst, start, chunk.size, dst.size if displaced else (i + 1) * slot, "received elements")
            if chunk.size:
                yield offer, _flat(dst, start, chunk.size), chunk
        if not known:
            counts = np.array([c.size for c in chunks[rank]], np.uint32)
            row = meta.slice(meta.ndim - 2, 2, 3)
            yield offer, row, counts.reshape(row.shape)


def _read_chunk(offer: Offer, start: int, count: int) -> np.ndarray:
    src = offer.srcs[0]
    _within(offer, src, start, count, src.size, "sent elements")
    return offer.values[0].reshape(-1)[start : start + count].copy()


@dataclass(slots=True, eq=False)
class Pending:
    """A collective that is ready to run: its operands, the ranks, and what is moved."""

    offer: Offer
    ranks: tuple[int, ...]
    work: Work
    priority: Any
    instruction: NkiInstruction | None = None

    def run(self, s: Session) -> NkiInstruction:
        """Meet the other ranks."""
        return take_part(s, self.offer, self.ranks, self.work, priority=self.priority)


def _gather(
    s: Session, srcs: Any, dsts: Any, replica_group: Any, table: Any, known: Any, rdispls: Any, priority: Any
) -> Pending:
    check_priority(s, priority)
    ranks = members(s, replica_group)
    forbid(rdispls, "rdispls", got=True, limit=False)
    two_cores(s, "all_gather_v")
    forbid(len(ranks) != 4, "collective-ranks:gather", got=len(ranks))
    offer = _offer(s, srcs, dsts, table, ranks, bool(known), False)

    def work(offers: dict[int, Offer]) -> Moves:
        chunks = [_read_chunk(o, int(_row(o, 1)[0]), int(_row(o, 0)[0])) for o in offers.values()]
        yield from _deliver(offers, dict.fromkeys(offers, chunks), bool(known), False)

    return Pending(offer, ranks, work, priority)


def _check_fabric(s: Session, ranks: tuple[int, ...], displaced: bool) -> None:
    """Raise for a group that all_to_all_v does not serve.

    Over a switch (trn3) it serves whole chips; elsewhere one rank of each instance, since 0.7 with displacements only.
    """
    node, size = world_of(s).per_node, world_of(s).size
    apart = len({r // node for r in ranks}) == len(ranks) and len({r % node for r in ranks}) == 1
    if s.target.generation >= 4:
        two_cores(s, "all_to_all_v")
        whole = len(ranks) % 4 == 0 and list(ranks) == list(range(ranks[0], ranks[0] + len(ranks)))
        forbid(not whole or size <= 4, "collective-ranks:chip", got=ranks, members=list(ranks), size=size)
    elif len(ranks) > 1 and not apart and (displaced or s.nki < (0, 7)):
        raise refuse("collective-ranks:instance", got=ranks, members=list(ranks), node=node, s=s)


def _exchange(
    s: Session, srcs: Any, dsts: Any, replica_group: Any, table: Any, known: Any, rdispls: Any, priority: Any
) -> Pending:
    check_priority(s, priority)
    ranks = members(s, replica_group)
    displaced = bool(rdispls)
    if displaced and s.nki < (0, 7):
        needs(s, 4, "has_rdispls=True", "chunks are laid out in equal slots there")
    _check_fabric(s, ranks, displaced)
    offer = _offer(s, srcs, dsts, table, ranks, bool(known), displaced)

    def work(offers: dict[int, Offer]) -> Moves:
        def to(i: int) -> Iterator[np.ndarray]:
            return (_read_chunk(o, int(_row(o, 1)[i]), int(_row(o, 0)[i])) for o in offers.values())

        chunks = {rank: list(to(i)) for i, rank in enumerate(offers)}
        yield from _deliver(offers, chunks, bool(known), displaced)

    return Pending(offer, ranks, work, priority)


def _prepare(s: Session, pending: Pending) -> NkiInstruction:
    """Read the metadata of a collective and put it into the one slot there is."""
    waiting = s.state.get("prepared")
    if waiting is not None:
        raise refuse("prepare-trigger:prepared", got=pending.offer.kind, limit=waiting.offer.kind, waiting=waiting)
    offer = pending.offer
    if s.numerics:
        offer.prepared = [s.read(t, "metadata_tensor", _HBM, compute=False, exact=True).copy() for t in offer.srcs[1:]]
    pending.instruction = s.done("cc", (), tuple(offer.srcs[1:]), kind=offer.kind)
    s.state["prepared"] = pending
    return pending.instruction


def _trigger(s: Session, prepare_instr: Any) -> NkiInstruction:
    """Run the collective that was prepared."""
    pending: Pending | None = s.state.get("prepared")
    kind = str(s.instr).removesuffix("_trigger")
    if pending is None or pending.instruction is not prepare_instr or pending.offer.kind != f"{kind}_prepare":
        waits = "nothing" if pending is None else str(pending.offer)
        raise refuse("prepare-trigger:triggered", got=waits, kind=kind)
    s.state["prepared"] = None
    pending.offer.kind = str(s.instr)
    return pending.run(s)


def _collective(name: str, begin: Callable[..., Pending], finish: Callable[..., NkiInstruction], text: str) -> Any:
    """Make the instruction ``name`` of the way its operands are checked and what happens then."""

    def call(
        s: Session,
        srcs: Any,
        dsts: Any,
        replica_group: Any,
        metadata_tensor: Any,
        recv_counts_known: bool = False,
        has_rdispls: bool = False,
        priority: Any = None,
    ) -> NkiInstruction:
        if finish is _prepare and s.target.generation >= 4:
            raise refuse("prepare-trigger:call", got=s.target.name, name=name, instead=name.removesuffix("_prepare"))
        flags = recv_counts_known, has_rdispls
        return finish(s, begin(s, srcs, dsts, replica_group, metadata_tensor, *flags, priority))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = text
    return instruction(call)


def _run(s: Session, pending: Pending) -> NkiInstruction:
    return pending.run(s)


all_gather_v = _collective(
    "all_gather_v",
    _gather,
    _run,
    """Every rank sends ``send_count`` elements to all; the chunk of the i-th rank lands in the i-th slot of ``dst``.

    Two cores and groups of four ranks only; ``has_rdispls`` is not supported by the hardware's library yet.
    """,
)
all_to_all_v = _collective(
    "all_to_all_v",
    _exchange,
    _run,
    """Every rank sends ``send_counts[r]`` elements to rank r, where they land in the sender's slot of ``dst``.

    With ``has_rdispls`` they land at ``recv_displs[sender]``. Groups are whole chips on trn3; elsewhere those with
    displacements, and before NKI 0.7 all, have one rank of each instance.
    """,
)
all_gather_v_prepare = _collective(
    "all_gather_v_prepare", _gather, _prepare, "Begin an ``all_gather_v``: read its metadata, and nothing else."
)
all_to_all_v_prepare = _collective(
    "all_to_all_v_prepare", _exchange, _prepare, "Begin an ``all_to_all_v``: read its metadata, and nothing else."
)


@instruction
def all_gather_v_trigger(s: Session, prepare_instr: Any) -> NkiInstruction:
    """Run the ``all_gather_v`` that was prepared."""
    return _trigger(s, prepare_instr)


@instruction
def all_to_all_v_trigger(s: Session, prepare_instr: Any) -> NkiInstruction:
    """Run the ``all_to_all_v`` that was prepared."""
    return _trigger(s, prepare_instr)


def check_triggered(s: Session) -> None:
    """Raise when a kernel ends with a collective that was prepared and never run."""
    pending: Pending | None = s.state.get("prepared")
    if pending is not None:
        raise refuse("prepare-trigger:check_triggered", got=pending.offer.kind, pending=pending)
