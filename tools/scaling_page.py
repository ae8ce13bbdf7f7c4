"""Write ``docs/trnchem/scaling.md``: DF-MP2 of a large molecule on 1 to 64 cores, predicted from the plans.

``python -m tools.scaling_page`` writes the page from the recorded times of kernels; ``--record`` has the time model
predict those again first, which takes a few minutes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

import torch

import trnblas
import trnsci
import trnsim
from trnchem.budget import MP2Plan, Sizes, blocks_of, cuts, duty, make_plan, overhead
from trnsci.config import TARGETS, TargetName
from trnsci.distributed import RankPlan
from trnsci.errors import CapacityError
from trnsci.plans import quantity, seconds as in_words
from trntensor.kernels import mp2_energy as kernels
from trntensor.mp2_energy import piece

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "trnchem" / "scaling.md"
RECORD = ROOT / "tools" / "scaling.json"
CORES = (1, 2, 4, 8, 16, 32, 64)
# Vancomycin, and per element: electrons, orbitals of the core, functions of cc-pVTZ and of cc-pVTZ-RI.
ATOMS = {"C": 66, "H": 75, "Cl": 2, "N": 9, "O": 24}
ELEMENTS = {"H": (1, 0, 14, 30), "C": (6, 1, 30, 81), "N": (7, 1, 30, 81), "O": (8, 1, 30, 81), "Cl": (17, 5, 34, 122)}
WIDEST = 9
# Auxiliary functions in a product of the transformation when it is timed; longer ones take as much longer.
COLUMNS = 8


def molecule() -> Sizes:
    """The sizes of the calculation, in float32, with frozen core."""
    electrons, core, nao, naux = (sum(ATOMS[e] * facts[k] for e, facts in ELEMENTS.items()) for k in range(4))
    nocc = electrons // 2
    return Sizes(nao=nao, nocc=nocc - core, nvir=nao - nocc, naux=naux, widest=WIDEST, itemsize=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Laws:
    """Predicted seconds of kernels at the molecule's sizes.

    Attributes:
        launch: of a program of pairs, before and after its work.
        turn: of an orbital's rows, transposed.
        pair: of a pair.
        function: of an auxiliary function, transformed.
        fit: of an orbital's rows, fitted.
        binds: what the pair kernel waits for.
    """

    launch: float
    turn: float
    pair: float
    function: float
    fit: float
    binds: str


def predict(target: TargetName) -> Laws:
    """Ask the time model."""
    n = molecule()
    one, two, four = (_pairs(n, *shape, target) for shape in ((1, 1), (1, 2), (2, 2)))
    # seconds of i orbitals with j others: launch + (i + j) turn + i j pair
    pair = (four.total_s - two.total_s) - (two.total_s - one.total_s)
    turn = two.total_s - one.total_s - pair
    # half the transformation from either side, for twice as many functions less once as many
    times = [
        _gemm(target, (n.nocc, n.nao), (n.nao, w * n.nao)) + _gemm(target, (n.nocc * w, n.nao), (n.nao, n.nvir))
        for w in (COLUMNS, 2 * COLUMNS)
    ]
    return Laws(
        launch=one.total_s - 2 * turn - pair,
        turn=turn,
        pair=pair,
        function=(times[1] - times[0]) / COLUMNS,
        fit=_gemm(target, (n.nvir, n.naux), (n.naux, n.naux)),
        binds=four.binds,
    )


def _pairs(n: Sizes, i: int, j: int, target: TargetName) -> Any:
    shapes = (i, n.nvir, n.naux), (1, i), (1, n.nvir), (n.nvir, 1), (j, n.nvir, n.naux), (1, j)
    operands = [torch.empty(shape, device="meta") for shape in shapes]
    return trnsim.profile(kernels.mp2_energy, target=target, numerics=False)(*operands)[1]


def _gemm(target: TargetName, *shapes: tuple[int, int]) -> float:
    a, b = (torch.empty(shape, device="meta") for shape in shapes)
    seconds = trnsci.plan(trnblas.gemm, 1.0, a, b).steps[0].predicted(target)
    assert seconds is not None
    return seconds


def recorded() -> dict[str, Laws]:
    """The kernels' times as they were predicted last."""
    return {target: Laws(**facts) for target, facts in json.loads(RECORD.read_text())["laws"].items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One number of cores: seconds of the busiest one by stage, of pairs if evenly shared, and what it holds."""

    cores: int
    plan: MP2Plan | None
    transform: float
    fit: float
    pairs: float
    shared: float
    messages: float

    @property
    def seconds(self) -> float:
        """All stages, nothing overlapped, no rank helped by another."""
        return self.transform + self.fit + self.pairs + self.messages

    @property
    def balanced(self) -> float:
        """The same with pairs shared evenly."""
        return self.seconds - self.pairs + self.shared


def rows(target: TargetName, laws: Laws) -> Iterator[Row]:
    """Every number of cores on one generation."""
    n, hardware = molecule(), trnsim.targets.target_named(target)
    for cores in CORES:
        plan = _plan(n, cores, hardware.hbm_bytes // hardware.cores)
        # where it does not fit, time is that of a core with memory enough
        assumed = plan or _plan(n, cores, 1 << 50)
        assert assumed is not None
        orbitals = [len(own) for own in cuts(n.nocc, cores)]
        pairs = [_pair_seconds(n, cores, assumed.rows, rank, laws) for rank in range(cores)]
        yield Row(
            cores=cores,
            plan=plan,
            transform=-(-n.naux // cores) * laws.function,
            fit=max(orbitals) * laws.fit,
            pairs=max(pairs),
            shared=sum(pairs) / cores,
            messages=max(_messages(share, target) for share in assumed.shares),
        )


@cache
def _plan(n: Sizes, cores: int, memory: int) -> MP2Plan | None:
    # what libraries take on a host is not taken on a device, and the pair kernel takes its copies
    try:
        left = memory + overhead() - _copies(n)
        found = make_plan(MP2Plan(method="pairs", precision="fp32", sizes=n, memory=left), ranks=cores)
    except CapacityError:
        return None
    return None if found.place == "disk" else found


def _copies(n: Sizes) -> int:
    """Bytes of the rows a program of pairs transposes, of both its sides."""
    return 2 * piece(n.nvir, n.naux) * n.nvir * n.naux * n.itemsize


def _pair_seconds(n: Sizes, cores: int, height: int, rank: int, laws: Laws) -> float:
    """Pairs among a rank's own blocks, and those of its blocks with visitors that are its to do."""
    blocks = blocks_of(n.nocc, cores, height)
    mine = [block for block in blocks if block.owner == rank]
    width, total = piece(n.nvir, n.naux), 0.0
    for a, b in combinations_with_replacement(mine, 2):
        total += _within(a.size, width, laws) if a == b else _between(a.size, b.size, width, laws)
    for a, b in product(mine, blocks):
        if b.owner != rank and duty(a, b) == rank:
            total += _between(a.size, b.size, width, laws)
    return total


def _between(i: int, j: int, width: int, laws: Laws) -> float:
    """All pairs of i orbitals with j others, in programs of at most ``width`` with ``width``."""
    rows, columns = -(-i // width), -(-j // width)
    return rows * columns * laws.launch + (i * columns + j * rows) * laws.turn + i * j * laws.pair


def _within(i: int, width: int, laws: Laws) -> float:
    """All pairs among i orbitals: every piece with itself and with each other one."""
    pieces = -(-i // width)
    return pieces * (pieces + 1) // 2 * laws.launch + i * pieces * laws.turn + i * (i + 1) // 2 * laws.pair


def _messages(share: Any, target: TargetName) -> float:
    exchanges = share.exchanges
    rank = RankPlan(
        coordinate=(share.rank,), steps=(), peak_bytes=0, messages=0, volume=share.volume, exchanges=exchanges
    )
    return rank.predicted_messages(target)


def page(laws: Mapping[str, Laws]) -> str:
    """The page."""
    n = molecule()
    B = n.nocc * n.nvir * n.naux * 4
    formula = "".join(f"{e}{ATOMS[e]}" for e in ATOMS)
    memory = {t: trnsim.targets.TARGETS[t].hbm_bytes / trnsim.targets.TARGETS[t].cores for t in TARGETS}
    parts = [
        f"""# DF-MP2 on many cores

Everything on this page is *predicted*: nothing here has run on more than one core of Trainium. It is written by
`python -m tools.scaling_page` from the plans of [`dfmp2`](dfmp2.md) and the [time model](../concepts/timing.md).

The molecule is vancomycin, {formula}, in cc-pVTZ with cc-pVTZ-RI and frozen core:
{n.nao} basis functions, {n.nocc} occupied and {n.nvir} virtual orbitals, {n.naux} auxiliary functions.

## Why one core is not enough

| | |
|---|--:|
| B, `[{n.nocc}, {n.nvir}, {n.naux}]` in float32 | {_gb(B)} |
| integrals `(mn|P)`, packed; processed in slabs | {_gb(n.nao * (n.nao + 1) // 2 * n.naux * 4)} |
| the fitting matrix, on every core | {_gb(n.naux**2 * 4)} |
| HBM of a core on {", ".join(TARGETS)} | {", ".join(_gb(memory[t]) for t in TARGETS)} |

B is cut along occupied orbitals. A core holds its own rows, the fitting matrix while it fits, blocks of other cores'
rows that visit (two in use and two in transit), and what the pair kernel transposes. Slabs of integrals take what
is left, which is why memory per core does not fall like B.

## What a core does

The busiest core, with enough memory. *Received* is everything: orbitals, slabs on their way to the owners of rows, and
blocks of B that visit.

{_work(n)}
"""
    ]
    for target in TARGETS:
        parts.append(_section(target, laws[target], memory[target]))
    parts.append(_assumptions(laws))
    return "\n".join(parts)


def _work(n: Sizes) -> str:
    lines = ["| cores | orbitals | arithmetic | messages | received |", "|--:|--:|--:|--:|--:|"]
    for cores in CORES:
        plan = _plan(n, cores, 1 << 50)
        assert plan is not None
        most = max(plan.shares, key=lambda share: share.flops)
        volume = max(share.volume for share in plan.shares)
        messages = max(share.messages for share in plan.shares)
        work = quantity(most.flops, "FLOP")
        lines.append(f"| {cores} | {most.rows} | {work} | {messages} | {_gb(volume) if volume else 'nothing'} |")
    return "\n".join(lines)


def _section(target: TargetName, laws: Laws, memory: float) -> str:
    n, found = molecule(), list(rows(target, laws))
    alone = found[0].seconds
    lines = [
        f"## {target}",
        "",
        "| cores | B per core | memory per core | fits | transform | fit | pairs | messages | all, predicted "
        "| efficiency | with pairs shared evenly | limited by |",
        "|--:|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for row in found:
        own = -(-n.nocc // row.cores) * n.nvir * n.naux * 4
        held = _gb(row.plan.peak_bytes - overhead() + _copies(n)) if row.plan else f"over {_gb(memory)}"
        cells = [
            str(row.cores),
            _gb(own),
            held,
            "yes" if row.plan else "no",
            *(_time(t) for t in (row.transform, row.fit, row.pairs, row.messages, row.seconds)),
            f"{alone / row.cores / row.seconds:.0%}",
            f"{alone / row.cores / row.balanced:.0%}",
            _limit(row, laws),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _limit(row: Row, laws: Laws) -> str:
    if row.plan is None:
        return "memory"
    idle = row.pairs - row.shared
    losses = {"the link": row.messages, "balance": idle}
    worst = max(losses, key=losses.__getitem__)
    return worst if losses[worst] > 0.1 * row.seconds else f"{laws.binds} engine"


def _assumptions(laws: Mapping[str, Laws]) -> str:
    width = piece(molecule().nvir, molecule().naux)
    steps = "\n".join(
        f"| {t} | {_time(law.pair)} | {_time(law.turn)} | {_time(law.function)} | {_time(law.fit)} |"
        for t, law in laws.items()
    )
    return f"""## How it is calculated

| | a pair | an orbital transposed | an auxiliary function transformed | an orbital fitted |
|---|--:|--:|--:|--:|
{steps}

- Rows that do not fit show the time of cores with enough memory; efficiency is against one such core.
- The time of pairs is that of the kernel behind [`trntensor.mp2_energy`](../trntensor/mp2_energy.md) on blocks of
  orbitals, in programs of at most {width} orbitals on either side. It is linear in orbitals and in pairs, and is
  extrapolated from programs of one, two and four pairs at these sizes. `dfmp2` on several ranks multiplies with
  `trnblas.gemm` instead, pair by pair, and adds up on the host; it does not use the kernel yet.
- Transformation and fit are products of `trnblas.gemm` in float32, timed at the molecule's sizes. Float32 is not enough
  for the energy of such a molecule ([error bound](dfmp2.md#error-bound)); the table is about time and memory.
- Messages are those of the busiest rank in the plan, by [the fabric](../how-to/many-chips.md#the-fabric), with nothing
  hidden behind arithmetic. Its constants are fitted to runs on trn1; trn2 and trn3 are by trn1's shares of link rate.
- *Efficiency* counts a core that waits for the busiest one. Ranks of `dfmp2` that are free take pairs from others, so
  the truth lies between it and the next column.
- Integrals over atomic orbitals, their way to the device, and the metric's factorisation are the host's work and are
  not counted.
"""


def _gb(nbytes: float) -> str:
    return f"{nbytes / 1e9:.3g} GB"


def _time(seconds: float) -> str:
    return in_words(seconds).replace("us", "µs") if seconds else "nothing"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.scaling_page", description="Write the page on scaling.")
    parser.add_argument("--record", action="store_true", help="predict the kernels' times again")
    if parser.parse_args().record:
        laws = {target: asdict(predict(target)) for target in TARGETS}
        RECORD.write_text(json.dumps({"laws": laws}, indent=1) + "\n")
    PAGE.write_text(page(recorded()), encoding="utf-8")


if __name__ == "__main__":
    main()
