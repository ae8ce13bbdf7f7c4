"""Collectives that pass data from rank to rank: along given pairs, or round a ring."""

from typing import Any

import numpy as np

from trnsim.collectives import checks
from trnsim.collectives.fixed import Moves, check_operands, take_part
from trnsim.collectives.groups import in_world, members, world_of
from trnsim.collectives.world import Offer
from trnsim.isa.dge import check_priority
from trnsim.isa.registers import VirtualRegister
from trnsim.refusals import forbid, refuse
from trnsim.session import NkiInstruction, Session, instruction
from trnsim.tensors.layout import as_index


def _pairs(s: Session, given: Any) -> tuple[tuple[int, int], ...]:
    try:
        pairs = tuple((as_index(a), as_index(b)) for a, b in given)
    except (TypeError, ValueError):
        raise refuse("permute-pairs:form", got=given) from None
    sources, targets = [a for a, _ in pairs], [b for _, b in pairs]
    for role, ranks in (("source", sources), ("target", targets)):
        twice = sorted({r for r in ranks if ranks.count(r) > 1})
        forbid(twice, "permute-pairs:twice", got=twice, twice=twice, role=role, given=list(pairs))
    if set(sources) != set(targets):
        lone = sorted(set(sources) ^ set(targets))
        does = "sends" if lone[0] in sources else "receives"
        raise refuse("permute-circular", got=lone, does=does, given=list(pairs))
    in_world(s, sources)
    return pairs


@instruction
def collective_permute(
    s: Session, srcs: Any, dsts: Any, source_target_pairs: Any, priority: Any = None
) -> NkiInstruction:
    """``dsts[0]`` of each pair's target becomes ``srcs[0]`` of its source. Ranks in no pair do nothing. HBM only."""
    check_priority(s, priority)
    pairs = _pairs(s, source_target_pairs)
    ranks = tuple(sorted(a for a, _ in pairs))
    offer = check_operands(s, srcs, dsts, sbuf=False, most=1, source_target_pairs=pairs)
    checks.alike(offer.kind, offer.srcs, offer.dsts)
    if s.rank not in ranks:
        return NkiInstruction(None, s.clock, None)

    def work(offers: dict[int, Offer]) -> Moves:
        # dst may be src
        values = {b: offers[a].values[0].copy() for a, b in pairs}
        yield from ((o, o.dsts[0], values[rank]) for rank, o in offers.items())

    return take_part(s, offer, ranks, work, priority=priority)


def _channels(s: Session, ranks: tuple[int, ...], channel_ids: Any, **lists: Any) -> None:
    ids = list(channel_ids)
    forbid(ids != list(range(len(ids))) or not ids, "channels:form", got=channel_ids)
    node = world_of(s).per_node
    first = ranks[0] // node * node
    most = 4 if set(ranks) >= set(range(first, first + node)) else 2
    forbid(len(ids) > most, "channels:ring", got=len(ids), limit=most, members=list(ranks))
    for role, given in lists.items():
        if not isinstance(given, (list, tuple)) or len(given) != len(ids):
            raise refuse("channels:lists", got=len(given), limit=len(ids), role=role)
        for c, inner in enumerate(given):
            if not isinstance(inner, (list, tuple)) or len(inner) != 1:
                raise refuse(
                    "channels:entry", got=repr(type(inner).__name__), role=role, c=c, kind=type(inner).__name__
                )


def _pass_on(offers: dict[int, Offer], values: dict[int, list[np.ndarray]]) -> Moves:
    """Give every rank what its predecessor in the ring brings."""
    ring = list(offers)
    for before, rank in zip([ring[-1], *ring], ring, strict=False):
        yield from ((offers[rank], dst, v) for dst, v in zip(offers[rank].dsts, values[before], strict=True))


@instruction
def collective_permute_implicit(
    s: Session,
    srcs_by_channel: Any,
    dsts_by_channel: Any,
    replica_group: Any,
    channel_ids: Any = (0,),
    priority: Any = None,
) -> NkiInstruction:
    """Round a ring: ``dsts_by_channel[c][0]`` becomes the predecessor's ``srcs_by_channel[c][0]``.

    The ring is the group's list.
    """
    check_priority(s, priority)
    ranks = members(s, replica_group)
    _channels(s, ranks, channel_ids, srcs_by_channel=srcs_by_channel, dsts_by_channel=dsts_by_channel)
    offer = check_operands(s, [c[0] for c in srcs_by_channel], [c[0] for c in dsts_by_channel])
    checks.alike(offer.kind, offer.srcs, offer.dsts)

    def work(offers: dict[int, Offer]) -> Moves:
        return _pass_on(offers, {r: [v.copy() for v in o.values] for r, o in offers.items()})

    return take_part(s, offer, ranks, work, priority=priority)


@instruction
def collective_permute_implicit_reduce(
    s: Session,
    srcs0_by_channel: Any,
    srcs1_by_channel: Any,
    dsts_by_channel: Any,
    replica_group: Any,
    op: Any,
    channel_ids: Any = (0,),
    priority: Any = None,
) -> NkiInstruction:
    """Round a ring: ``dsts_by_channel[c][0]`` becomes the predecessor's ``op(srcs0[c][0], srcs1[c][0])``."""
    check_priority(s, priority)
    ranks, fold = members(s, replica_group), checks.reduction(op)
    _channels(
        s,
        ranks,
        channel_ids,
        srcs0_by_channel=srcs0_by_channel,
        srcs1_by_channel=srcs1_by_channel,
        dsts_by_channel=dsts_by_channel,
    )
    dsts = [c[0] for c in dsts_by_channel]
    offer = check_operands(s, [c[0] for c in srcs0_by_channel], dsts, op=fold)
    second = check_operands(s, [c[0] for c in srcs1_by_channel], dsts, op=fold)
    for one in (offer, second):
        checks.summable(one.srcs)
        checks.alike(one.kind, one.srcs, one.dsts)
    offer.srcs = [*offer.srcs, *second.srcs]
    n = len(dsts)

    def work(offers: dict[int, Offer]) -> Moves:
        sums = [[checks.fold_ranks([o.values[c], o.values[c + n]], fold) for c in range(n)] for o in offers.values()]
        return _pass_on(offers, dict(zip(offers, sums, strict=True)))

    return take_part(s, offer, ranks, work, op=fold, priority=priority)


@instruction
def collective_permute_implicit_current_processing_rank_id(
    s: Session, iteration_id: Any, replica_group: Any, channel_id: Any = 0
) -> VirtualRegister:
    """Return the rank whose data this one holds after ``iteration_id`` steps round the ring, in a register."""
    ranks = members(s, replica_group)
    step, channel = as_index(iteration_id), as_index(channel_id)
    if not 0 <= channel < 4:
        raise refuse("channels:collective_permute_implicit_current_processing_rank_id", got=channel, limit=(0, 3))
    s.done("sync", (), (), op="ring_rank")
    return VirtualRegister(ranks[(ranks.index(s.rank) - step) % len(ranks)])


@instruction
def rank_id(s: Session) -> VirtualRegister:
    """Return the index of this rank, in a register."""
    s.done("sync", (), (), op="rank_id")
    return VirtualRegister(s.rank)
