"""Plan of a calculation on each rank, decided before it starts: stages, blocks, bytes and verdicts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

import torch

from trnchem.orbitals import CLOSED, Orbitals, Spins
from trnsci import ArgumentError, CapacityError
from trnsci.console import Table, plain
from trnsci.distributed import Team
from trnsci.memory import free_bytes
from trnsci.plans import quantity
from trnsci.precision import Precision
from trnsim import notebook

if TYPE_CHECKING:
    from trnchem.integrals import Source
    from trnsci.distributed.team import Crossing
    from trntensor.out_of_core import Blocks

Method = Literal["pairs", "laplace", "stochastic", "rpa"]
Place = Literal["host memory", "device memory", "disk"]

# Auxiliary functions in a slab, unless the budget asks for fewer: enough for the products to run at full speed. In
# small molecules more, as many as have so many squares of orbitals: a slab costs some calls.
SLAB = 64
SQUARES = 1 << 18
# Elements of (ia|jb) held at once: a pair of large molecules, several pairs of small ones.
BLOCK = 1 << 16
# Rows (i, a) of B in one product of the methods without pairs: enough for it to run at full speed.
DEPTH = 1024
# Blocks that a rank's rows are cut into, at least: enough that ranks share the last pairs evenly.
BLOCKS = 4
# Blocks that visit a rank: how many are on their way, and how many stay, the newest among them.
AHEAD, KEPT = 2, 2
# What BLAS, HDF5 and PySCF's integrals allocate for themselves when first used, with the holes it leaves, and what each
# further thread adds. 13 MB were measured on an AMD processor; BLAS has larger buffers on others. Pages of code are not
# counted: they are of files, and the system drops them when it needs memory. tests/trnchem/test_budget.py measures.
OVERHEAD = 28 << 20
THREAD_OVERHEAD = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Numbers of orbitals and functions, and bytes of an element; occupied orbitals are those of all spins."""

    nao: int
    nocc: int
    nvir: int
    naux: int
    widest: int
    itemsize: int
    spins: Spins = CLOSED

    @classmethod
    def of(cls, chosen: Orbitals, integrals: Source, precision: Precision) -> Self:
        """Count orbitals and functions."""
        return cls(
            nao=len(chosen.C_occ),
            nocc=len(chosen.e_occ),
            nvir=chosen.e_vir.shape[1],
            naux=integrals.naux,
            widest=integrals.widest,
            itemsize=dtype_of(precision).itemsize,
            spins=chosen.spins,
        )


class Part(NamedTuple):
    """One of several ranks: which, how many occupied orbitals are its, and how many pairs it has to compute."""

    rank: int
    ranks: int
    rows: int
    pairs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage: what runs, how much arithmetic it is, the bytes it holds, and whether they fit."""

    name: str
    runs: str
    flops: int
    nbytes: int
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One rank of several: its rows of B, what it computes if no other helps it, and what it holds and receives.

    ``exchanges`` are the messages as its link sees them; ``volume`` is in bytes. The same for the same plan: which rank
    computes a pair depends on who is free, what is sent does not.
    """

    rank: int
    rows: int
    stages: tuple[Stage, ...]
    messages: int
    volume: int
    exchanges: tuple[Crossing, ...]

    @property
    def flops(self) -> int:
        """Floating-point operations, integrals not counted."""
        return sum(stage.flops for stage in self.stages)

    @property
    def peak_bytes(self) -> int:
        """Bytes of the hungriest stage."""
        return max(stage.nbytes for stage in self.stages)


@dataclass(frozen=True, slots=True, kw_only=True)
class MP2Plan:
    """Plan of `dfmp2`.

    Attributes:
        method: ``pairs``, ``laplace`` or ``stochastic``.
        precision: of the products.
        sizes: orbitals and auxiliary functions.
        place: where B is kept.
        slab: auxiliary functions transformed at once.
        rows: occupied orbitals taken from B at once.
        width: pairs whose integrals exist at once.
        fused: the energy is one call of ``trntensor.mp2_energy``.
        memory: the budget in bytes.
        stages: with a verdict each.
        why: where the products run, and why.
        shares: of each rank, where several share the work; the rest is then of the one that needs most memory.
        blocks: of B on the device that computes the pairs, where B is brought to one.
        quadrature_error: relative, of ``1/D``, for the methods without pairs.
        samples: random vectors; ``None`` where nothing is sampled.
        same_spin: whether they sample the same-spin energy too.
        amplitudes: whether densities are computed, and not the energy.
    """

    method: Method
    precision: Precision
    sizes: Sizes
    place: Place = "host memory"
    slab: int = 0
    rows: int = 0
    width: int = 0
    fused: bool = False
    memory: int
    stages: tuple[Stage, ...] = ()
    why: str = ""
    shares: tuple[Share, ...] = ()
    blocks: Blocks | None = None
    quadrature_error: float = 0.0
    samples: int | None = None
    same_spin: bool = False
    amplitudes: bool = False

    @property
    def peak_bytes(self) -> int:
        """Bytes of the hungriest stage; none where there is nothing to correlate."""
        return max((stage.nbytes for stage in self.stages), default=0)

    @property
    def flops(self) -> int:
        """Floating-point operations of all stages and ranks, integrals not counted."""
        return sum(share.flops for share in self.shares) or sum(stage.flops for stage in self.stages)

    def table(self) -> Table:
        """Return the stages as a table."""
        rows = [
            (s.name, s.runs, quantity(s.flops, "FLOP"), quantity(s.nbytes, "B"), "fits" if s.fits else "too large")
            for s in self.stages
        ]
        n = self.sizes
        up = n.spins.up
        occupied = f"{n.nocc} occupied" if up is None else f"{up} + {n.nocc - up} occupied"
        title = f"DF-MP2: {occupied}, {n.nvir} virtual, {n.naux} auxiliary; {self.precision}; B in {self.place}"
        note = f"Budget {quantity(self.memory, 'B')}, at most {quantity(self.peak_bytes, 'B')} needed. {self.why}"
        return Table(title, ("stage", "runs", "arithmetic", "memory", "verdict"), rows, note)

    def shares_table(self) -> Table:
        """Return the ranks as a table."""
        rows = [
            (
                str(s.rank),
                str(s.rows),
                quantity(s.flops, "FLOP"),
                quantity(s.peak_bytes, "B"),
                str(s.messages),
                quantity(s.volume, "B"),
            )
            for s in self.shares
        ]
        head = ("rank", "orbitals", "arithmetic", "memory", "messages", "received")
        return Table(
            f"{len(rows)} ranks", head, rows, "Arithmetic is as planned; a rank that is free takes some of another's."
        )

    def __repr__(self) -> str:
        n = self.sizes
        return f"<MP2Plan {self.method}, {self.precision}: {n.nocc} occupied, {n.nvir} virtual, {n.naux} auxiliary>"

    def _repr_html_(self) -> str:
        tables = (self.table(), *([self.shares_table()] if self.shares else []))
        return "".join(
            notebook.fragment(t.title, notebook.table(t.header, t.rows), notebook.lines([t.note])) for t in tables
        )

    def __str__(self) -> str:
        return "\n".join(plain(table) for table in (self.table(), *([self.shares_table()] if self.shares else [])))


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


def pairs_of(nocc: int, ranks: int, rows: int, rank: int) -> int:
    """Return pairs that are a rank's to compute: among its own orbitals, and its squares of the chequerboard."""
    blocks = blocks_of(nocc, ranks, rows)
    own = len(cuts(nocc, ranks)[rank])
    shared = sum(
        a.size * b.size for a in blocks for b in blocks if a.owner == rank and b.owner != rank and duty(a, b) == rank
    )
    return own * (own + 1) // 2 + shared


def memory_bytes(memory: int | str | None) -> int:
    """Read ``memory=``: bytes, ``"2 GB"``, or ``None`` for what the machine has free.

    Example:
        >>> memory_bytes("1.5 GB")
        1500000000
    """
    if memory is None:
        return free_bytes()
    if isinstance(memory, int) and not isinstance(memory, bool) and memory > 0:
        return memory
    text = memory if isinstance(memory, str) else ""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kMGT]?)(i?)B?\s*", text, re.IGNORECASE)
    if match is None or not float(match[1]):
        raise ArgumentError("dfmp2", "memory", memory, "bytes, or a size such as '2 GB'")
    scale = (1024 if match[3] else 1000) ** " kmgt".index(match[2].lower() or " ")
    return int(float(match[1]) * scale)


def make_plan(
    draft: MP2Plan,
    *,
    ranks: int | None = None,
    device: bool = False,
    fused: bool = False,
    fitted: bool = False,
    columns: Callable[[int], Sequence[tuple[int, int]]] | None = None,
    points: int = 0,
) -> MP2Plan:
    """Choose blocks so that every stage fits, preferring B in memory; raise when not even the smallest blocks do.

    Args:
        draft: what is computed, of which sizes, and with how much memory on each rank.
        ranks: how many share the work; ``None`` where it is not shared.
        device: B may stay in device memory.
        fused: the energy may be one call on all of B.
        fitted: every rank's mean field holds fitted integrals, so there is no metric and no fit.
        columns: first and last auxiliary function of every slab of a given width; by default slabs are full.
        points: of the quadrature, for the methods without pairs.
    """
    n, width, by_pair = draft.sizes, pairs_at_once(draft.sizes), draft.method == "pairs" and not draft.amplitudes
    count, owned = ranks or 0, [len(rows) for rows in cuts(n.nocc, ranks or 1)]
    places: tuple[Place, ...] = ("device memory" if device else "host memory", "disk")
    slabs = halving_sizes(min(SLAB if ranks else max(SLAB, SQUARES // n.nao**2), n.naux), n.widest)
    for place in places:
        if ranks is None and by_pair:
            choices = [_rows(n, draft.memory, width) if place == "disk" else n.nocc]
        elif by_pair:
            choices = halving_sizes(max(owned) // BLOCKS, 1)
        else:
            choices = halving_sizes(n.nocc if draft.amplitudes else orbitals_at_once(n), 1)
        for slab, rows in product(slabs, choices):
            plan = replace(draft, place=place, slab=slab, rows=rows, width=width, fused=fused and place != "disk")
            parts = [
                Part(rank, count, owned[rank], pairs_of(n.nocc, count, rows, rank) if by_pair else 0)
                for rank in range(count)
            ]
            stages = [stages_of(plan, fitted, part) for part in parts or (None,)]
            if all(stage.fits for of_rank in stages for stage in of_rank):
                full = [(a, min(n.naux, a + slab)) for a in range(0, n.naux, slab)]
                slabs_of = full if columns is None else columns(slab)
                shares = [
                    _share(plan, part, of_rank, slabs_of, points, fitted)
                    for part, of_rank in zip(parts, stages, strict=False)
                ]
                # the rank that needs most, which is the first one
                most = max(stages, key=lambda each: max(stage.nbytes for stage in each))
                return replace(plan, stages=most, shares=tuple(shares))
    # the last attempt was the smallest there is
    hungriest = max((stage for of_rank in stages for stage in of_rank), key=lambda stage: stage.nbytes)
    hint = f"The stage {hungriest.name!r} needs most, even with B on disk and the smallest blocks."
    enough = f"{hint} memory='{-(-hungriest.nbytes // 10**6)} MB' would do"
    raise CapacityError("host memory for dfmp2", hungriest.nbytes, draft.memory, enough)


def _share(
    plan: MP2Plan,
    part: Part,
    stages: tuple[Stage, ...],
    columns: Sequence[tuple[int, int]],
    points: int,
    fitted: bool,
) -> Share:
    """Make the exchanges of one rank on shapes alone, in the order the calculation makes them, and count them."""
    n, ranks, here = plan.sizes, part.ranks, part.rank
    team = Team("trnchem.dfmp2", (ranks,), (here,), torch.device("meta"))
    held, dtype = cuts(n.nocc, ranks), dtype_of(plan.precision)

    def empty(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    everything = packed_size(n, kept_shape(plan, points))
    team.broadcast(0, empty(everything), (everything,), torch.float64, 0)
    if not fitted:
        team.all_reduce(0, empty(n.nao, n.nao))
        team.broadcast(0, empty(n.naux, n.naux, dtype=dtype), (n.naux, n.naux), dtype, 0)
    for start in range(0, len(columns), ranks):
        widths = [last - first for first, last in columns[start : start + ranks]]
        widths += [0] * (ranks - len(widths))
        pieces = [empty(len(rows), widths[here], n.nvir, dtype=dtype) for rows in held]
        team.all_to_all(0, pieces, [(len(held[here]), width, n.nvir) for width in widths])
    if plan.method == "pairs":
        for block in blocks_of(n.nocc, ranks, plan.rows):
            shape = (block.size, n.nvir, n.naux)
            team.broadcast(0, empty(*shape, dtype=dtype), shape, dtype, block.owner)
        team.all_reduce(0, empty(3, n.nocc, n.nocc))
    elif points:
        width = plan.samples or n.naux
        if plan.same_spin:
            team.all_reduce(0, empty(2, width, n.nocc, n.nvir))
        for _ in range(points):
            team.all_reduce(0, empty(n.spins.sets, n.naux + plan.same_spin, width))
    return Share(
        rank=here,
        rows=part.rows,
        stages=stages,
        messages=team.tally.messages,
        volume=team.tally.volume,
        exchanges=tuple(team.tally.exchanges),
    )


def packed_size(n: Sizes, kept: tuple[int, int]) -> int:
    """Return numbers that the first rank tells the others before the start: orbitals, energies and what is finished."""
    return (n.nao + 1) * (n.nocc + n.spins.sets * n.nvir) + 3 * math.prod(kept)


def overhead() -> int:
    """Return bytes that libraries take for themselves with as many threads as torch uses."""
    return OVERHEAD + THREAD_OVERHEAD * (torch.get_num_threads() - 1)


def halving_sizes(start: int, least: int) -> list[int]:
    """Return sizes to try, each half the one before."""
    sizes = [max(start, least)]
    while sizes[-1] > least:
        sizes.append(max(least, sizes[-1] // 2))
    return sizes


def _rows(n: Sizes, memory: int, width: int) -> int:
    """Return occupied orbitals in a block read from disk: two blocks and the pair's integrals share the budget."""
    left = memory - overhead() - pair_bytes(n, width)
    return max(1, min(n.nocc, left // (2 * n.nvir * n.naux * n.itemsize)))


def kept_shape(plan: MP2Plan, points: int) -> tuple[int, int]:
    """Return energies that a calculation keeps one by one: of pairs, or of quadrature points and random vectors."""
    return (plan.sizes.nocc, plan.sizes.nocc) if plan.method == "pairs" else (points, plan.samples or 1)


def pairs_at_once(n: Sizes) -> int:
    """Return pairs whose integrals exist at once: those of one orbital, or all of a small molecule."""
    pairs = max(1, BLOCK // n.nvir**2)
    return n.nocc**2 if n.nocc**2 <= pairs else min(n.nocc, pairs)


def orbitals_at_once(n: Sizes) -> int:
    """Return occupied orbitals in one product of the methods without pairs."""
    return max(1, min(n.nocc, DEPTH // n.nvir))


def quadrature_point(plan: MP2Plan, orbitals: int, sums: int) -> tuple[str, int, int]:
    """Return what runs at one point of the methods without pairs, its FLOPs, and its bytes beyond B.

    Args:
        plan: of the calculation.
        orbitals: occupied ones whose rows are here.
        sums: bytes in which an element of the sum of products is held, for each set of orbitals.
    """
    n, samples = plan.sizes, plan.samples
    columns, inner = (n.naux, 0) if samples is None else (samples, samples)
    runs = "trnblas.syrk" if samples is None else "trnblas.gemm, trnrand.rademacher"
    flops = orbitals * n.nvir * n.naux * (n.naux + 1 if samples is None else 4 * samples)
    # rows and their scaled copy, which meet the signs; signs, a product and its copy; sums
    nbytes = plan.rows * n.nvir * (2 * n.naux + inner) * n.itemsize
    nbytes += n.naux * columns * (2 * n.itemsize + 8 + sums * n.spins.sets)
    if plan.same_spin:
        # two images of B and their scaled copies, of all orbitals, and two products; the images are summed over ranks
        flops += 4 * orbitals * n.nocc * n.nvir * columns
        nbytes += columns * n.nocc * (n.nvir * (6 * n.itemsize + 2 * sums) + 3 * orbitals * n.itemsize)
    return f"{runs}, at every quadrature point", flops, nbytes


def slab_bytes(n: Sizes, slab: int) -> int:
    """Return what transforming a slab takes."""
    packed, size = n.nao * (n.nao + 1) // 2, n.itemsize
    # both spins come together in one array; the next slab of a file is read ahead, and fp32 has a copy
    blocks = 1 + n.spins.sets
    each = packed * (16 + size % 8) + n.nao**2 * size + 2 * n.nao * n.nocc * size + blocks * n.nocc * n.nvir * size
    return slab * each + 8 * n.nao**2


def pair_bytes(n: Sizes, width: int) -> int:
    """Return what the integrals of as many pairs and the denominators of all pairs of spins take."""
    return (3 * width + 2 * n.spins.sets - 1) * n.nvir**2 * n.itemsize


def stages_of(blocks: MP2Plan, fitted: bool, part: Part | None) -> tuple[Stage, ...]:
    """Return the stages of a plan that has none yet, or of one rank of several, and whether each fits its memory."""
    n = blocks.sizes
    size, ranks, own = n.itemsize, 1 if part is None else part.ranks, n.nocc if part is None else part.rows
    row, first = n.nvir * n.naux * size, part is None or part.rank == 0
    # device memory gathers its columns once more when the last one has come
    held = own * row * {"host memory": 1, "device memory": 2, "disk": 0}[blocks.place]
    # B, and the density of three-index integrals
    held *= 1 + blocks.amplitudes
    X = 0 if fitted else n.naux**2 * size
    needs = []

    def stage(name: str, runs: str, flops: int, nbytes: int) -> None:
        total = nbytes + overhead()
        needs.append(Stage(name=name, runs=runs, flops=flops, nbytes=total, fits=total <= blocks.memory))

    if not fitted:
        runs = "trnsolver.cholesky, trnsolver.inv_triangular" + (" on the first rank" if part else "")
        nbytes = 4 * n.naux**2 * 8 if first else 0
        if part is not None:
            # the sum of (mn|mn) over ranks, with what is sent and what comes
            nbytes = held + max(nbytes, X + 6 * 8 * n.nao**2)
        stage("metric", runs, 2 * n.naux**3 // 3 if first else 0, nbytes)
    flops = 2 * n.naux * n.nao * n.nocc * (n.nao + n.nvir) // ranks
    # two exchanges are under way at once: what leaves, what comes
    moving = 0 if part is None else 2 * blocks.slab * n.nvir * size * (n.nocc + ranks * own)
    nbytes = held + X + slab_bytes(n, blocks.slab) + moving
    stage("integrals", "PySCF, trnblas.gemm or trnsparse.spmm", flops, nbytes)
    if not fitted:
        stage("fit", "trnblas.gemm", 2 * own * n.nvir * n.naux**2, held + X + 3 * row)
    if blocks.amplitudes:
        flops = 4 * (n.nocc * n.nvir) ** 2 * n.naux + 2 * (n.nocc * n.nvir) ** 2 * (n.nocc + n.nvir)
        block = min(blocks.rows, n.nocc) * n.nvir * (n.naux if blocks.place == "disk" else n.nvir)
        nbytes = held + X + 16 * n.naux**2 + (4 * n.nocc * n.nvir**2 + 2 * block) * size + 4 * row
        stage("amplitudes", "trnblas.gemm, orbital by orbital", flops + 4 * own * n.nvir * n.naux**2, nbytes)
        # integrals, their derivatives, and the density of three indices on atomic orbitals
        flops = 2 * n.naux * n.nao * (2 * n.nocc * n.nvir + n.nao * n.nocc + n.nao**2)
        nbytes = held + X + 8 * blocks.slab * (9 * n.nao**2 + 2 * n.nao * n.nocc + n.nocc * n.nvir) + 8 * 20 * n.nao**2
        stage("response", "trnblas.gemm, trnsolver.cg", flops, nbytes)
    elif blocks.method == "pairs":
        runs = "trntensor.mp2_energy" if blocks.fused else "trnblas.gemm, pair by pair"
        pairs = n.nocc * (n.nocc + 1) // 2 if part is None else part.pairs
        # visiting blocks of other ranks, and from disk two of its own
        visiting = (AHEAD + KEPT if ranks > 1 else 0) + (2 if blocks.place == "disk" else 0)
        nbytes = held + visiting * blocks.rows * row + pair_bytes(n, blocks.width)
        stage("pairs", runs, 2 * pairs * n.nvir**2 * n.naux, nbytes)
    else:
        # a sum over ranks comes with a copy that leaves and parts that come
        runs, flops, nbytes = quadrature_point(blocks, own, 8 if part is None else 48)
        stage(blocks.method, runs, flops, held + nbytes)
    return tuple(needs)


def dtype_of(precision: Precision) -> torch.dtype:
    """Return the dtype B is kept in."""
    return torch.float64 if precision == "fp64" else torch.float32


def before_fit(precision: Precision) -> Precision:
    """Return the precision up to B: the fit multiplies errors by a thousand, which eight bits do not survive."""
    return "fp32" if precision == "fast" else precision
