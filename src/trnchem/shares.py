"""How a calculation is cut between ranks: whose rows, whose pairs, what visits whom, and what that costs each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch

from trnchem.budget import (
    SLAB,
    MP2Plan,
    Options,
    Place,
    Share,
    Sizes,
    Stage,
    halved,
    kept_shape,
    orbitals_at_once,
    overhead,
    pair_bytes,
    pairs_at_once,
    quadrature_point,
    slab_bytes,
    too_little,
)
from trnsci.distributed import Team

# Blocks that a rank's rows are cut into, at least: enough that ranks share the last pairs evenly.
BLOCKS = 4
# Visiting blocks that are on their way, and that stay, the newest among them.
AHEAD, KEPT = 2, 2

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


def exchanges(
    team: Team,
    n: Sizes,
    columns: Columns,
    visits: Sequence[Block],
    sums: Sequence[int],
    same_spin: bool,
    fitted: bool,
    kept: tuple[int, int],
) -> None:
    """Make the exchanges of one rank on shapes alone, in the order the calculation makes them.

    Without visits there are no pairs, and ``sums`` are the columns of the matrices that are added up instead, with a
    row more where ``same_spin`` is sampled. ``kept`` is the shape of the energies that are kept one by one.
    """
    ranks, here = team.size(0), team.here(0)
    held, dtype = cuts(n.nocc, ranks), torch.float64 if n.itemsize == 8 else torch.float32

    def empty(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    everything = packed_size(n, kept)
    team.broadcast(0, empty(everything), (everything,), torch.float64, 0)
    if not fitted:
        team.all_reduce(0, empty(n.nao, n.nao))
        team.broadcast(0, empty(n.naux, n.naux, dtype=dtype), (n.naux, n.naux), dtype, 0)
    for start in range(0, len(columns), ranks):
        widths = [last - first for first, last in columns[start : start + ranks]]
        widths += [0] * (ranks - len(widths))
        pieces = [empty(len(rows), widths[here], n.nvir, dtype=dtype) for rows in held]
        team.all_to_all(0, pieces, [(len(held[here]), width, n.nvir) for width in widths])
    if same_spin and sums:
        team.all_reduce(0, empty(2, sums[0], n.nocc, n.nvir))
    for width in sums:
        team.all_reduce(0, empty(n.spins.sets, n.naux + same_spin, width))
    if visits:
        for block in visits:
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
    width = pairs_at_once(sizes)
    most = max(len(rows) for rows in cuts(sizes.nocc, ranks))
    sums = [options.vectors or sizes.naux] * points
    method = options.method
    places: tuple[Place, ...] = ("host memory", "disk")
    for place in places:
        for slab in halved(min(SLAB, sizes.naux), sizes.widest):
            for rows in halved(max(1, most // BLOCKS) if method == "pairs" else orbitals_at_once(sizes), 1):
                args = (sizes, ranks, options, place, slab, rows, width, fitted)
                stages = [_stages(*args, rank, memory) for rank in range(ranks)]
                if all(stage.fits for of_rank in stages for stage in of_rank):
                    full = [(a, min(sizes.naux, a + slab)) for a in range(0, sizes.naux, slab)]
                    slabs = full if columns is None else columns(slab)
                    visits = blocks_of(sizes.nocc, ranks, rows) if method == "pairs" else []
                    kept = kept_shape(sizes, options, points)
                    return MP2Plan(
                        method=method,
                        precision=options.precision,
                        same_spin=options.same_spin,
                        sizes=sizes,
                        place=place,
                        slab=slab,
                        rows=rows,
                        width=width,
                        fused=False,
                        memory=memory,
                        # the rank that needs most, which is the first one
                        stages=max(stages, key=lambda each: max(stage.nbytes for stage in each)),
                        why=why,
                        shares=tuple(
                            _share(
                                sizes, ranks, visits, slabs, sums, options.same_spin, fitted, kept, rank, stages[rank]
                            )
                            for rank in range(ranks)
                        ),
                    )
    raise too_little([stage for of_rank in stages for stage in of_rank], memory)


def _share(
    n: Sizes,
    ranks: int,
    visits: Sequence[Block],
    slabs: Columns,
    sums: Sequence[int],
    same_spin: bool,
    fitted: bool,
    kept: tuple[int, int],
    rank: int,
    stages: tuple[Stage, ...],
) -> Share:
    team = Team("trnchem.dfmp2", (ranks,), (rank,), torch.device("meta"))
    exchanges(team, n, slabs, visits, sums, same_spin, fitted, kept)
    return Share(
        rank=rank,
        rows=len(cuts(n.nocc, ranks)[rank]),
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


def _stages(
    n: Sizes,
    ranks: int,
    options: Options,
    place: Place,
    slab: int,
    rows: int,
    width: int,
    fitted: bool,
    rank: int,
    memory: int,
) -> tuple[Stage, ...]:
    size, own = n.itemsize, len(cuts(n.nocc, ranks)[rank])
    row = n.nvir * n.naux * size
    held = own * row if place == "host memory" else 0
    X = 0 if fitted else n.naux**2 * size
    needs = []

    def stage(name: str, runs: str, flops: int, nbytes: int) -> None:
        total = nbytes + overhead()
        needs.append(Stage(name=name, runs=runs, flops=flops, nbytes=total, fits=total <= memory))

    if not fitted:
        runs = "trnsolver.cholesky, trnsolver.inv_triangular on the first rank"
        # the sum of (mn|mn) over ranks, with what is sent and what comes
        others = n.naux**2 * size + 6 * 8 * n.nao**2
        stage("metric", runs, 0 if rank else 2 * n.naux**3 // 3, held + max(others, 0 if rank else 4 * n.naux**2 * 8))
    flops = 2 * n.naux * n.nao * n.nocc * (n.nao + n.nvir) // ranks
    # two exchanges are under way at once: what leaves, what comes
    moving = 2 * slab * n.nvir * size * (n.nocc + ranks * own)
    stage("integrals", "PySCF, trnblas.gemm or trnsparse.spmm", flops, held + X + slab_bytes(n, slab) + moving)
    if not fitted:
        stage("fit", "trnblas.gemm", 2 * own * n.nvir * n.naux**2, held + X + 3 * row)
    if options.method == "pairs":
        visiting = (AHEAD + KEPT) * rows * row if ranks > 1 else 0
        # from disk, two blocks of the rank's own
        read = 2 * rows * row if place == "disk" else 0
        flops = 2 * pairs_of(n.nocc, ranks, rows, rank) * n.nvir**2 * n.naux
        stage("pairs", "trnblas.gemm, pair by pair", flops, held + visiting + read + pair_bytes(n, width))
        return tuple(needs)
    # the sum over ranks comes with a copy that leaves and parts that come
    runs, flops, nbytes = quadrature_point(n, options, own, rows, 48)
    stage(options.method, runs, flops, held + nbytes)
    return tuple(needs)
