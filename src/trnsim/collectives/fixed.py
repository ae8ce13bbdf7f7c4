"""Collectives whose sizes are known when the kernel is compiled."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from trnsim.collectives import checks
from trnsim.collectives.groups import members, world_of
from trnsim.collectives.world import Offer, Work
from trnsim.fabric import check_group, machine_named
from trnsim.isa.dge import check_priority
from trnsim.session import NkiInstruction, Session, instruction
from trnsim.tensors.tensor import NkiTensor

Moves = Iterator[tuple[Offer, NkiTensor, np.ndarray]]


def take_part(s: Session, offer: Offer, ranks: tuple[int, ...], work: Work, **cost: Any) -> NkiInstruction:
    """Meet the other ranks, let the transfer be done, and record it."""
    sync = world_of(s).meet(offer, ranks, work)
    cost |= {"kind": offer.kind, "bytes": offer.nbytes, "ranks": len(ranks), "sync": sync}
    return s.done("cc", tuple(offer.dsts), tuple(offer.srcs), **cost)


def check_operands(
    s: Session, srcs: Any, dsts: Any, *, sbuf: bool = True, most: int | None = None, **terms: Any
) -> Offer:
    """Return the operands of a collective, checked."""
    a, b = checks.tensors(s, srcs, dsts, sbuf=sbuf, most=most)
    return Offer(s, str(s.instr), a, b, terms)


def make_offer(
    s: Session, replica_group: Any, srcs: Any, dsts: Any, priority: Any, **terms: Any
) -> tuple[tuple[int, ...], Offer, list[tuple[NkiTensor, NkiTensor]]]:
    """Return the ranks of a collective, its operands, and source and destination pair by pair, checked."""
    check_priority(s, priority)
    ranks, offer = members(s, replica_group), check_operands(s, srcs, dsts, **terms)
    if s.params.lint == "strict":
        # groups the run time is not known to serve
        most = max(t.size * t.itemsize for t in (*offer.srcs, *offer.dsts))
        check_group(machine_named(target=s.target.name, ranks=world_of(s).size), offer.kind, ranks, most)
    return ranks, offer, list(zip(offer.srcs, offer.dsts, strict=True))


@instruction
def all_reduce(s: Session, srcs: Any, dsts: Any, replica_group: Any, op: Any, priority: Any = None) -> NkiInstruction:
    """``dsts[i]`` of every rank becomes the ``op`` (add, minimum, maximum) of all ranks' ``srcs[i]``.

    HBM, or one SBUF tile.
    """
    fold = checks.reduction(op)
    ranks, offer, pairs = make_offer(s, replica_group, srcs, dsts, priority, op=fold)
    checks.summable(offer.srcs)
    for x, y in pairs:
        checks.check_result_shape(offer.kind, x.shape, x, y, len(ranks))

    def work(offers: dict[int, Offer]) -> Moves:
        totals = [checks.fold_ranks([o.values[i] for o in offers.values()], fold) for i in range(len(offer.srcs))]
        for o in offers.values():
            yield from ((o, dst, total) for dst, total in zip(o.dsts, totals, strict=True))

    return take_part(s, offer, ranks, work, op=fold, priority=priority)


@instruction
def all_gather(
    s: Session, srcs: Any, dsts: Any, replica_group: Any, collective_dim: Any, priority: Any = None
) -> NkiInstruction:
    """``dsts[i]`` of every rank becomes all ranks' ``srcs[i]``, joined along ``collective_dim`` (0; SBUF: 0 or 1)."""
    ranks, offer, pairs = make_offer(s, replica_group, srcs, dsts, priority, collective_dim=collective_dim)
    dim = checks.dimension(collective_dim, offer.srcs, sbuf=(0, 1))
    for x, y in pairs:
        whole = tuple(n * len(ranks) if d == dim else n for d, n in enumerate(x.shape))
        checks.check_result_shape(offer.kind, whole, x, y, len(ranks))

    def work(offers: dict[int, Offer]) -> Moves:
        wholes = [np.concatenate([o.values[i] for o in offers.values()], axis=dim) for i in range(len(offer.srcs))]
        for o in offers.values():
            yield from ((o, dst, whole) for dst, whole in zip(o.dsts, wholes, strict=True))

    return take_part(s, offer, ranks, work, priority=priority)


@instruction
def reduce_scatter(
    s: Session, srcs: Any, dsts: Any, replica_group: Any, collective_dim: Any, op: Any, priority: Any = None
) -> NkiInstruction:
    """Rank r of the group gets the r-th part, along dimension 0, of the ``op`` of all ranks' ``srcs[i]``."""
    fold = checks.reduction(op)
    ranks, offer, pairs = make_offer(s, replica_group, srcs, dsts, priority, collective_dim=collective_dim, op=fold)
    checks.summable(offer.srcs)
    dim = checks.dimension(collective_dim, offer.srcs)
    for x, y in pairs:
        checks.divides(offer.kind, x, dim, len(ranks))
        checks.check_result_shape(offer.kind, (x.shape[0] // len(ranks), *x.shape[1:]), x, y, len(ranks))

    def work(offers: dict[int, Offer]) -> Moves:
        for i in range(len(offer.srcs)):
            parts = np.split(checks.fold_ranks([o.values[i] for o in offers.values()], fold), len(ranks))
            yield from ((o, o.dsts[i], part) for o, part in zip(offers.values(), parts, strict=True))

    return take_part(s, offer, ranks, work, op=fold, priority=priority)


@instruction
def all_to_all(
    s: Session, srcs: Any, dsts: Any, replica_group: Any, collective_dim: Any, priority: Any = None
) -> NkiInstruction:
    """Part j of rank i's ``srcs[k]`` becomes part i of rank j's ``dsts[k]``, along dimension 0. HBM only."""
    ranks, offer, pairs = make_offer(s, replica_group, srcs, dsts, priority, sbuf=False, collective_dim=collective_dim)
    dim = checks.dimension(collective_dim, offer.srcs)
    for x, y in pairs:
        checks.divides(offer.kind, x, dim, len(ranks))
        checks.check_result_shape(offer.kind, x.shape, x, y, len(ranks))

    def work(offers: dict[int, Offer]) -> Moves:
        for i in range(len(offer.srcs)):
            parts = [np.split(o.values[i], len(ranks)) for o in offers.values()]
            columns = [np.concatenate(mine) for mine in zip(*parts, strict=True)]
            yield from ((o, o.dsts[i], values) for o, values in zip(offers.values(), columns, strict=True))

    return take_part(s, offer, ranks, work, priority=priority)
