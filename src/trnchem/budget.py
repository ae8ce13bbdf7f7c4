"""What a calculation will do and need, decided before it starts: stages, blocks, bytes and a verdict for each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch

from trnchem.spins import CLOSED, Spins
from trnsci import ArgumentError, CapacityError
from trnsci.console import Table, plain
from trnsci.memory import free_bytes
from trnsci.plans import quantity
from trnsci.precision import Precision
from trnsim import notebook

if TYPE_CHECKING:
    from trnsci.distributed.team import Crossing
    from trntensor.out_of_core import Blocks

Method = Literal["pairs", "laplace", "stochastic"]
Place = Literal["host memory", "device memory", "disk"]

# Auxiliary functions in a slab, unless the budget asks for fewer: enough for the products to run at full speed. In
# small molecules more, as many as have so many squares of orbitals: a slab costs some calls.
SLAB = 64
SQUARES = 1 << 18
# Elements of (ia|jb) held at once: a pair of large molecules, several pairs of small ones.
BLOCK = 1 << 16
# Rows (i, a) of B in one product of the methods without pairs: enough for it to run at full speed.
DEPTH = 1024
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


class Options(NamedTuple):
    """What is computed, and how precisely.

    Attributes:
        precision: of the products.
        method: ``pairs``, ``laplace`` or ``stochastic``.
        samples: random vectors of ``stochastic``.
        same_spin: whether they sample the same-spin energy too.
    """

    precision: Precision
    method: Method
    samples: int
    same_spin: bool = False

    @property
    def vectors(self) -> int | None:
        """Random vectors; ``None`` where nothing is sampled."""
        return self.samples if self.method == "stochastic" else None


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
    """What `dfmp2` will do.

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
        same_spin: whether random vectors sample the same-spin energy too.
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
    why: str
    shares: tuple[Share, ...] = ()
    blocks: Blocks | None = None
    quadrature_error: float = 0.0
    same_spin: bool = False

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
    sizes: Sizes,
    options: Options,
    *,
    memory: int,
    device: bool,
    fused: bool,
    fitted: bool,
    why: str,
) -> MP2Plan:
    """Choose blocks so that every stage fits, preferring B in memory; raise when not even the smallest blocks do.

    Args:
        sizes: of the molecule.
        options: what is computed.
        memory: budget in bytes.
        device: B may stay in device memory.
        fused: the energy may be one call on all of B.
        fitted: the mean field holds fitted integrals, so there is no metric and no fit.
        why: for the printed plan.
    """
    width = pairs_at_once(sizes)
    places: tuple[Place, ...] = ("device memory" if device else "host memory", "disk")
    for place in places:
        if options.method == "pairs":
            choices = [_rows(sizes, memory, width) if place == "disk" else sizes.nocc]
        else:
            choices = halved(orbitals_at_once(sizes), 1)
        widest = min(max(SLAB, SQUARES // sizes.nao**2), sizes.naux)
        for slab, rows in product(halved(widest, sizes.widest), choices):
            blocks = {"place": place, "slab": slab, "rows": rows, "width": width}
            plan = planned(sizes, options, memory, why, **blocks, fused=fused and place != "disk")
            stages = stages_of(plan, options, fitted)
            if all(stage.fits for stage in stages):
                return replace(plan, stages=stages)
    # the last attempt was the smallest there is
    raise too_little(stages, memory)


def planned(sizes: Sizes, options: Options, memory: int, why: str, **chosen: Any) -> MP2Plan:
    """Return the plan of a calculation with what was chosen for it."""
    precision, method, _, same_spin = options
    return MP2Plan(
        method=method, precision=precision, same_spin=same_spin, sizes=sizes, memory=memory, why=why, **chosen
    )


def empty_plan(sizes: Sizes, options: Options, memory: int) -> MP2Plan:
    """Return the plan where no orbital is occupied or none is virtual: no stages, and a correlation energy of 0."""
    why = f"Nothing to correlate: {sizes.nocc} occupied and {sizes.nvir} virtual orbitals."
    return planned(sizes, options, memory, why)


def too_little(stages: Sequence[Stage], memory: int) -> CapacityError:
    """Return the error for a budget that the smallest blocks do not fit into, with one that would do."""
    hungriest = max(stages, key=lambda stage: stage.nbytes)
    hint = f"The stage {hungriest.name!r} needs most, even with B on disk and the smallest blocks."
    enough = -(-hungriest.nbytes // 10**6)
    return CapacityError("host memory for dfmp2", hungriest.nbytes, memory, f"{hint} memory='{enough} MB' would do")


def overhead() -> int:
    """Return bytes that libraries take for themselves with as many threads as torch uses."""
    return OVERHEAD + THREAD_OVERHEAD * (torch.get_num_threads() - 1)


def halved(start: int, least: int) -> list[int]:
    """Return sizes to try, each half the one before."""
    sizes = [max(start, least)]
    while sizes[-1] > least:
        sizes.append(max(least, sizes[-1] // 2))
    return sizes


def _rows(n: Sizes, memory: int, width: int) -> int:
    """Return occupied orbitals in a block read from disk: two blocks and the pair's integrals share the budget."""
    left = memory - overhead() - pair_bytes(n, width)
    return max(1, min(n.nocc, left // (2 * n.nvir * n.naux * n.itemsize)))


def kept_shape(nocc: int, options: Options, points: int) -> tuple[int, int]:
    """Return energies that a calculation keeps one by one: of pairs, or of quadrature points and random vectors."""
    return (nocc, nocc) if options.method == "pairs" else (points, options.vectors or 1)


def pairs_at_once(n: Sizes) -> int:
    """Return pairs whose integrals exist at once: those of one orbital, or all of a small molecule."""
    pairs = max(1, BLOCK // n.nvir**2)
    return n.nocc**2 if n.nocc**2 <= pairs else min(n.nocc, pairs)


def orbitals_at_once(n: Sizes) -> int:
    """Return occupied orbitals in one product of the methods without pairs."""
    return max(1, min(n.nocc, DEPTH // n.nvir))


def quadrature_point(n: Sizes, options: Options, orbitals: int, rows: int, sums: int) -> tuple[str, int, int]:
    """Return what runs at one point of the methods without pairs, its FLOPs, and its bytes beyond B.

    Args:
        n: sizes of the molecule.
        options: what is computed.
        orbitals: occupied ones whose rows are here.
        rows: those of one product.
        sums: bytes in which an element of the sum of products is held, for each set of orbitals.
    """
    samples = options.vectors
    columns, inner = (n.naux, 0) if samples is None else (samples, samples)
    runs = "trnblas.syrk" if samples is None else "trnblas.gemm, trnrand.rademacher"
    flops = orbitals * n.nvir * n.naux * (n.naux + 1 if samples is None else 4 * samples)
    # rows and their scaled copy, which meet the signs; signs, a product and its copy; sums
    nbytes = rows * n.nvir * (2 * n.naux + inner) * n.itemsize
    nbytes += n.naux * columns * (2 * n.itemsize + 8 + sums * n.spins.sets)
    if options.same_spin:
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


def stages_of(blocks: MP2Plan, options: Options, fitted: bool, part: Part | None = None) -> tuple[Stage, ...]:
    """Return the stages of a plan that has none yet, or of one rank of several, and whether each fits its memory."""
    n = blocks.sizes
    size, ranks, own = n.itemsize, 1 if part is None else part.ranks, n.nocc if part is None else part.rows
    row, first = n.nvir * n.naux * size, part is None or part.rank == 0
    # device memory gathers its columns once more when the last one has come
    held = own * row * {"host memory": 1, "device memory": 2, "disk": 0}[blocks.place]
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
    if options.method == "pairs":
        runs = "trntensor.mp2_energy" if blocks.fused else "trnblas.gemm, pair by pair"
        pairs = n.nocc * (n.nocc + 1) // 2 if part is None else part.pairs
        # visiting blocks of other ranks, and from disk two of its own
        visiting = (AHEAD + KEPT if ranks > 1 else 0) + (2 if blocks.place == "disk" else 0)
        nbytes = held + visiting * blocks.rows * row + pair_bytes(n, blocks.width)
        stage("pairs", runs, 2 * pairs * n.nvir**2 * n.naux, nbytes)
    else:
        # a sum over ranks comes with a copy that leaves and parts that come
        runs, flops, nbytes = quadrature_point(n, options, own, blocks.rows, 8 if part is None else 48)
        stage(options.method, runs, flops, held + nbytes)
    return tuple(needs)


def dtype_of(precision: Precision) -> torch.dtype:
    """Return the dtype B is kept in."""
    return torch.float64 if precision == "fp64" else torch.float32


def before_fit(precision: Precision) -> Precision:
    """Return the precision up to B: the fit multiplies errors by a thousand, which eight bits do not survive."""
    return "fp32" if precision == "fast" else precision
