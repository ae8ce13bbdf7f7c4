"""How a calculation is cut between ranks: whose rows, whose pairs, what visits whom, and what that costs each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import NamedTuple

import torch

from trnchem.budget import (
    SLAB,
    MP2Plan,
    Options,
    Part,
    Place,
    Share,
    Sizes,
    Stage,
    halved,
    kept_shape,
    orbitals_at_once,
    pairs_at_once,
    planned,
    stages_of,
    too_little,
)
from trnsci.distributed import Team

# Blocks that a rank's rows are cut into, at least: enough that ranks share the last pairs evenly.
BLOCKS = 4

Columns = Sequence[tuple[int, int]]


class Block(NamedTuple):
    """Consecutive occupied orbitals of one rank, the one at ``position`` among its blocks."""

    owner: int
    position: int
    first: int
    last: int

    @property
    def size(self) -> int:
        """Orbitals in it."""
        return self.last - self.first


def cuts(nocc: int, ranks: int) -> list[range]:
    """Return occupied orbitals of each rank: consecutive, and as even as can be."""
    least, more = divmod(nocc, ranks)
    starts = [least * rank + min(rank, more) for rank in range(ranks + 1)]
    return [range(a, b) for a, b in pairwise(starts)]


def blocks_of(nocc: int, ranks: int, rows: int) -> list[Block]:
    """Return all blocks in the order they visit: the first of every rank, the second of every rank."""
    blocks = [
        Block(rank, position, first, min(own.stop, first + rows))
        for rank, own in enumerate(cuts(nocc, ranks))
        for position, first in enumerate(range(own.start, own.stop, rows))
    ]
    return sorted(blocks, key=lambda block: (block.position, block.owner))


def duty(one: Block, other: Block) -> int:
    """Return the rank that computes the pairs of two blocks, unless the other owner comes first: a chequerboard."""
    low, high = sorted((one, other), key=lambda block: block.first)
    return (low, high)[(low.position + high.position + low.owner + high.owner) % 2].owner


class Exchanges(NamedTuple):
    """What ranks send each other in one calculation.

    Attributes:
        columns: first and last auxiliary function of every slab.
        visits: blocks of rows that visit all ranks; none where there are no pairs.
        sums: columns of the matrices that are added up instead, with a row more where ``same_spin`` is sampled.
        same_spin: whether it is.
        fitted: whether every rank holds fitted integrals.
        kept: shape of the energies that are kept one by one.
    """

    columns: Columns
    visits: Sequence[Block]
    sums: Sequence[int]
    same_spin: bool
    fitted: bool
    kept: tuple[int, int]

    def rehearse(self, team: Team, n: Sizes) -> None:
        """Make the exchanges of one rank on shapes alone, in the order the calculation makes them."""
        ranks, here = team.size(0), team.here(0)
        held, dtype = cuts(n.nocc, ranks), torch.float64 if n.itemsize == 8 else torch.float32

        def empty(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
            return torch.empty(shape, dtype=dtype, device="meta")

        everything = packed_size(n, self.kept)
        team.broadcast(0, empty(everything), (everything,), torch.float64, 0)
        if not self.fitted:
            team.all_reduce(0, empty(n.nao, n.nao))
            team.broadcast(0, empty(n.naux, n.naux, dtype=dtype), (n.naux, n.naux), dtype, 0)
        for start in range(0, len(self.columns), ranks):
            widths = [last - first for first, last in self.columns[start : start + ranks]]
            widths += [0] * (ranks - len(widths))
            pieces = [empty(len(rows), widths[here], n.nvir, dtype=dtype) for rows in held]
            team.all_to_all(0, pieces, [(len(held[here]), width, n.nvir) for width in widths])
        if self.same_spin and self.sums:
            team.all_reduce(0, empty(2, self.sums[0], n.nocc, n.nvir))
        for width in self.sums:
            team.all_reduce(0, empty(n.spins.sets, n.naux + self.same_spin, width))
        if self.visits:
            for block in self.visits:
                shape = (block.size, n.nvir, n.naux)
                team.broadcast(0, empty(*shape, dtype=dtype), shape, dtype, block.owner)
            team.all_reduce(0, empty(3, n.nocc, n.nocc))


def packed_size(n: Sizes, kept: tuple[int, int]) -> int:
    """Return numbers that the first rank tells the others before the start: orbitals, energies and what is finished."""
    return (n.nao + 1) * (n.nocc + n.spins.sets * n.nvir) + 3 * math.prod(kept)


def make_sharded_plan(
    sizes: Sizes,
    options: Options,
    *,
    ranks: int,
    memory: int,
    columns: Callable[[int], Columns] | None = None,
    fitted: bool = False,
    points: int = 0,
    why: str = "",
) -> MP2Plan:
    """Choose blocks so that every stage of every rank fits into ``memory`` bytes of each.

    Args:
        sizes: of the molecule.
        options: what is computed.
        ranks: how many share the work.
        memory: budget of each rank in bytes.
        columns: first and last auxiliary function of every slab of a given width; by default slabs are full.
        fitted: every rank holds fitted integrals.
        points: of the quadrature, for the methods without pairs.
        why: for the printed plan.
    """
    by_pair, width = options.method == "pairs", pairs_at_once(sizes)
    owned = [len(rows) for rows in cuts(sizes.nocc, ranks)]
    at_once = max(1, max(owned) // BLOCKS) if by_pair else orbitals_at_once(sizes)
    places: tuple[Place, ...] = ("host memory", "disk")
    slabs = halved(min(SLAB, sizes.naux), sizes.widest)
    for place, slab, rows in product(places, slabs, halved(at_once, 1)):
        plan = planned(sizes, options, memory, why, place=place, slab=slab, rows=rows, width=width)
        pairs = [pairs_of(sizes.nocc, ranks, rows, rank) if by_pair else 0 for rank in range(ranks)]
        parts = [Part(rank, ranks, owned[rank], pairs[rank]) for rank in range(ranks)]
        stages = [stages_of(plan, options, fitted, part) for part in parts]
        if all(stage.fits for of_rank in stages for stage in of_rank):
            full = [(a, min(sizes.naux, a + slab)) for a in range(0, sizes.naux, slab)]
            said = Exchanges(
                columns=full if columns is None else columns(slab),
                visits=blocks_of(sizes.nocc, ranks, rows) if by_pair else [],
                sums=[options.vectors or sizes.naux] * points,
                same_spin=options.same_spin,
                fitted=fitted,
                kept=kept_shape(sizes.nocc, options, points),
            )
            shares = tuple(_share(sizes, part, said, of_rank) for part, of_rank in zip(parts, stages, strict=True))
            # the rank that needs most, which is the first one
            most = max(stages, key=lambda each: max(stage.nbytes for stage in each))
            return replace(plan, stages=most, shares=shares)
    raise too_little([stage for of_rank in stages for stage in of_rank], memory)


def _share(n: Sizes, part: Part, said: Exchanges, stages: tuple[Stage, ...]) -> Share:
    team = Team("trnchem.dfmp2", (part.ranks,), (part.rank,), torch.device("meta"))
    said.rehearse(team, n)
    return Share(
        rank=part.rank,
        rows=part.rows,
        stages=stages,
        messages=team.tally.messages,
        volume=team.tally.volume,
        exchanges=team.tally.exchanges,
    )


def pairs_of(nocc: int, ranks: int, rows: int, rank: int) -> int:
    """Return pairs that are a rank's to compute: among its own orbitals, and its squares of the chequerboard."""
    blocks = blocks_of(nocc, ranks, rows)
    own = len(cuts(nocc, ranks)[rank])
    shared = sum(
        a.size * b.size for a in blocks for b in blocks if a.owner == rank and b.owner != rank and duty(a, b) == rank
    )
    return own * (own + 1) // 2 + shared
