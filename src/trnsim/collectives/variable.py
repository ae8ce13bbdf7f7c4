"""Collectives whose sizes are known at run time: counts and displacements come from a metadata tensor.

Its rows are send counts, send displacements, received counts and, with ``has_rdispls``, receive displacements; its
columns the ranks of the group.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from trnsim.collectives import checks
from trnsim.collectives.fixed import Moves, offered, take_part
from trnsim.collectives.groups import members, world_of
from trnsim.collectives.world import Offer
from trnsim.errors import HardwareLimit, OutOfBounds, WrongArgument, WrongShape
from trnsim.isa.dge import check_priority
from trnsim.isa.multicore import two_cores
from trnsim.isa.operands import needs
from trnsim.language.tensor import NkiTensor
from trnsim.session import Session, instruction


def _offer(s: Session, srcs: Any, dsts: Any, table: Any, ranks: tuple[int, ...], known: bool, displaced: bool) -> Offer:
    offer = offered(s, srcs, dsts, sbuf=False, most=1, recv_counts_known=known, has_rdispls=displaced)
    meta = checks.metadata(s, table, len(ranks), displaced)
    for t in (offer.srcs[0], offer.dsts[0]):
        if not t.is_contiguous():
            hint = f"{offer.kind} sees its tensors as flat buffers; pass a contiguous one"
            raise WrongShape(f"{t.name} has strides {t.strides}", "collective-contiguous", t.strides, hint=hint)
    if not displaced and offer.dsts[0].size % len(ranks):
        raise WrongShape(
            f"dst has {offer.dsts[0].size} elements for {len(ranks)} ranks",
            rule="collective-split",
            got=offer.dsts[0].size,
            limit=len(ranks),
            hint="every rank has a slot of the same size",
        )
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
        raise OutOfBounds(
            f"rank {offer.session.rank}: {what} {start}..{start + count} leave {t.name}, which has {limit} there",
            rule="metadata-bounds",
            got=(start, count),
            limit=limit,
            hint="check counts and displacements; both are in elements",
            kernel=offer.session.kernel,
            line=offer.line,
        )


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


def _sent(offer: Offer, start: int, count: int) -> np.ndarray:
    src = offer.srcs[0]
    _within(offer, src, start, count, src.size, "sent elements")
    return offer.values[0].reshape(-1)[start : start + count].copy()


@instruction
def all_gather_v(
    s: Session,
    srcs: Any,
    dsts: Any,
    replica_group: Any,
    metadata_tensor: Any,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: Any = None,
) -> None:
    """Every rank sends ``send_count`` elements to all; the chunk of the i-th rank lands in the i-th slot of ``dst``.

    Two cores and groups of four ranks only; ``has_rdispls`` is not supported by the hardware's library yet.
    """
    check_priority(s, priority)
    ranks = members(s, replica_group)
    if has_rdispls:
        hint = "chunks are laid out in equal slots; leave has_rdispls out"
        raise WrongArgument("all_gather_v with has_rdispls=True", "rdispls", True, False, hint)
    two_cores(s, "all_gather_v")
    if len(ranks) != 4:
        hint = "each list of the group has the four ranks of one chip"
        raise HardwareLimit(f"all_gather_v over {len(ranks)} ranks", "collective-ranks", len(ranks), 4, hint)
    offer = _offer(s, srcs, dsts, metadata_tensor, ranks, bool(recv_counts_known), False)

    def work(offers: dict[int, Offer]) -> Moves:
        chunks = [_sent(o, int(_row(o, 1)[0]), int(_row(o, 0)[0])) for o in offers.values()]
        yield from _deliver(offers, dict.fromkeys(offers, chunks), bool(recv_counts_known), False)

    take_part(s, offer, ranks, work, priority=priority)


def _fabric_ok(s: Session, ranks: tuple[int, ...]) -> None:
    """The groups all_to_all_v supports: whole chips over a switch (trn3), one rank per instance elsewhere."""
    node, size = world_of(s).per_node, world_of(s).size
    if s.target.generation >= 4:
        two_cores(s, "all_to_all_v")
        whole = len(ranks) % 4 == 0 and list(ranks) == list(range(ranks[0], ranks[0] + len(ranks)))
        if not whole or size <= 4:
            raise HardwareLimit(
                f"all_to_all_v over ranks {list(ranks)} of {size}",
                rule="collective-ranks",
                got=ranks,
                limit="sequential ranks, all four of each chip, more than one chip",
                hint="keep every rank of a chip in one list and give those that send nothing a count of 0",
            )
    elif len(ranks) > 1 and (len({r // node for r in ranks}) != len(ranks) or len({r % node for r in ranks}) != 1):
        raise HardwareLimit(
            f"all_to_all_v over ranks {list(ranks)} with {node} ranks on an instance",
            rule="collective-ranks",
            got=ranks,
            limit="same-indexed ranks of different instances",
            hint=f"on {s.target.name} a list holds one rank of each instance; simulate_ranks(…, ranks_per_node=…) "
            "says how many an instance has",
        )


@instruction
def all_to_all_v(
    s: Session,
    srcs: Any,
    dsts: Any,
    replica_group: Any,
    metadata_tensor: Any,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: Any = None,
) -> None:
    """Every rank sends ``send_counts[r]`` elements to rank r, where they land in the sender's slot of ``dst``.

    With ``has_rdispls`` (trn3) they land at ``recv_displs[sender]``. Groups are one rank per instance on trn1 and
    trn2, whole chips on trn3.
    """
    check_priority(s, priority)
    ranks = members(s, replica_group)
    displaced = bool(has_rdispls)
    if displaced:
        needs(s, 4, "has_rdispls=True", "chunks are laid out in equal slots there")
    _fabric_ok(s, ranks)
    offer = _offer(s, srcs, dsts, metadata_tensor, ranks, bool(recv_counts_known), displaced)

    def work(offers: dict[int, Offer]) -> Moves:
        def to(i: int) -> Iterator[np.ndarray]:
            return (_sent(o, int(_row(o, 1)[i]), int(_row(o, 0)[i])) for o in offers.values())

        chunks = {rank: list(to(i)) for i, rank in enumerate(offers)}
        yield from _deliver(offers, chunks, bool(recv_counts_known), displaced)

    take_part(s, offer, ranks, work, priority=priority)
