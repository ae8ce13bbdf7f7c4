"""Write the tables of scaling into docs/how-to/many-chips.md: ``python -m tools.many_chips_page``.

``--record`` plans the calls first, those that are named or all, and keeps the figures in ``many_chips.json``, which
``python -m tools.pictures scaling`` draws. Efficiency is the longer of ideal kernels and exchanges by the predicted
time of the slowest rank. Ideal kernels are those of the fewest cores of a call, divided by how many more there are.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

import trnblas
import trnfft
import trnsolver
import trnsparse
import trntensor
from trnsci.distributed import Layout, plan
from trnsparse.csr import CSRMatrix
from trnsparse.row_sharded import RowSharded

PAGE = Path(__file__).parents[1] / "docs/how-to/many-chips.md"
RECORD = Path(__file__).parent / "many_chips.json"
BEGIN, END = "<!-- efficiencies: written by tools.many_chips_page -->", "<!-- end of efficiencies -->"
# Cores, and the mesh: rows and columns of chips, then of the cores of a chip.
MESHES = {64: (2, 4, 4, 2), 512: (8, 8, 2, 4), 4096: (16, 32, 4, 2)}
CORES = (64, 512, 4096)
F32, BF16 = torch.float32, torch.bfloat16
# Rows of a core in the weak rows of sparse matrices, points of a grid that is so wide.
ROWS, WIDTH = 10**6, 1000


class Case(NamedTuple):
    """A call on several numbers of cores.

    Attributes:
        name: in the table.
        call: the function and its operands on so many cores.
        asked: of each number of cores, a share of the ideal or seconds.
        work: of the fewest cores, per number of cores; None where it grows with them.
    """

    name: str
    call: Callable[[int], tuple[Any, Sequence[Any]]]
    asked: dict[int, str]
    work: tuple[int, ...] | None = (1, 1, 1)


class Stencil(RowSharded):
    """Five points of a grid, cut along rows, without entries: what a plan reads of a matrix that fits no host."""

    def __init__(self, cores: int) -> None:
        n = cores * ROWS
        self.shape, self.mesh, self.is_near, self._nnz = (n, n), (cores,), True, 5 * n
        self.touched: Any = _Touched(cores)
        beside = [(rank > 0) + (rank < cores - 1) for rank in range(cores)]
        self._sizes: Any = [((5 * ROWS,), (ROWS, ROWS + WIDTH * count)) for count in beside]
        self._neighbours = [{("from", k): WIDTH for k in range(count)} for count in beside]
        index = torch.empty(0, dtype=torch.int64, device="meta")
        self.local = CSRMatrix._rebuilt({"indptr": index, "indices": index}, torch.empty(0, device="meta"), (0, n))


class _Touched(NamedTuple):
    cores: int

    def __getitem__(self, rank: Any) -> Any:
        return torch.arange(max(0, rank * ROWS - WIDTH), min(self.cores * ROWS, (rank + 1) * ROWS + WIDTH))


def _gemm(n: Callable[[int], int]) -> Callable[[int], tuple[Any, Sequence[Any]]]:
    def call(cores: int) -> tuple[Any, Sequence[Any]]:
        square = Layout((n(cores), n(cores)), BF16, MESHES[cores], (0, 1, 0, 1))
        return trnblas.gemm, (1.0, square, square)

    return call


def _fftn(cores: int) -> tuple[Any, Sequence[Any]]:
    return trnfft.fftn, (Layout((2048,) * 3, torch.complex64, (cores // 8, 8), (0, 1)),)


def _qr(rows: Callable[[int], int]) -> Callable[[int], tuple[Any, Sequence[Any]]]:
    return lambda cores: (trnsolver.qr, (Layout((rows(cores), 128), F32, MESHES[cores], (0,) * 4),))


def _mp2(cores: int) -> tuple[Any, Sequence[Any]]:
    mesh = {64: (64,), 512: (64, 8), 4096: (64, 64)}[cores]
    energies = [Layout((n,), F32, mesh, (None,) * len(mesh)) for n in (256, 1024)]
    return trntensor.mp2_energy, (Layout((256, 1024, 4096), F32, mesh, (0, 2)[: len(mesh)]), *energies)


def _sparse(function: Any) -> Callable[[int], tuple[Any, Sequence[Any]]]:
    return lambda cores: (function, (Stencil(cores), Layout((cores * ROWS,), F32, (cores,), (0,))))


def _bars(*shares: str) -> dict[int, str]:
    return dict(zip(CORES, shares, strict=False))


CASES = {
    "gemm": Case(
        "gemm, 64k / 64k / 262k, bfloat16",
        _gemm(lambda cores: 262144 if cores == 4096 else 65536),
        _bars("92 %", "85 %", "70 %"),
        (1, 1, 64),
    ),
    "fftn": Case("fftn, 2048³, complex64", _fftn, _bars("165 ms", "44 ms", "28 ms")),
    "qr": Case("tall qr, 10⁸ x 128, float32", _qr(lambda cores: 10**8), _bars("90 %", "85 %", "75 %")),
    "mp2": Case("mp2_energy, 256 x 1024 x 4096, float32", _mp2, _bars("92 %", "75 %", "40 %")),
    "gemm weak": Case(
        "gemm, weak, 8,192² a core, bfloat16", _gemm(lambda cores: 8192 * math.isqrt(cores)), _bars("", "", ""), None
    ),
    "qr weak": Case(
        "tall qr, weak, 1.6 · 10⁶ rows a core, float32", _qr(lambda cores: 1562500 * cores), _bars("", "", ""), None
    ),
    "spmv weak": Case(
        "spmv, weak, 10⁶ rows of five a core, float32", _sparse(trnsparse.spmv), _bars("90 %", "85 %", "80 %"), None
    ),
    "cg weak": Case(
        "cg, weak, a step, 10⁶ rows of five a core, float32",
        _sparse(trnsolver.cg),
        _bars("90 %", "85 %"),
        None,
    ),
}


def record(names: Sequence[str]) -> None:
    """Plan calls, and keep their predictions."""
    known = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for name in names or CASES:
        case = CASES[name]
        for cores in case.asked:
            function, operands = case.call(cores)
            found = plan(function, *operands).slowest("trn2")
            assert found is not None, "no kernel takes every step"
            known.setdefault(name, {})[str(cores)] = [*found[:3], found.limit]
            print(name, cores, found, flush=True)
            RECORD.write_text(json.dumps(known, indent=1) + "\n")


def efficiency(name: str, figures: dict[str, Any], cores: int) -> float:
    """Return the share of the longer of ideal kernels and exchanges in the predicted time."""
    case, (total, computing, exchanging, _) = CASES[name], figures[str(cores)]
    if case.work is None:
        return float(computing / total)
    fewest = next(iter(case.asked))
    ideal = figures[str(fewest)][1] * fewest * case.work[CORES.index(cores)] / cores
    return max(ideal, exchanging) / total


def page() -> str:
    """Return the page with the tables of the record."""
    lines = ["| call, trn2 | cores | predicted | kernels | exchanges | efficiency | limited by | asked | met |"]
    lines.append("|---|--:|--:|--:|--:|--:|---|--:|---|")
    known = json.loads(RECORD.read_text())
    for name, figures in ((name, known[name]) for name in CASES):
        case = CASES[name]
        for cores, (total, computing, exchanging, limit) in figures.items():
            asked, share = case.asked[int(cores)], efficiency(name, figures, int(cores))
            number = float(asked.split()[0]) if asked else 0.0
            is_met = 1e3 * total <= number if asked.endswith("ms") else 100 * share >= number
            times = " | ".join(f"{1e3 * each:.3g} ms" for each in (total, computing, exchanging))
            met = ("yes" if is_met else "no") if asked else ""
            lines.append(f"| {case.name} | {cores} | {times} | {share:.0%} | {limit} | {asked} | {met} |")
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    return f"{before}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{rest.split(END)[1]}"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.many_chips_page", description="Write tables of scaling.")
    parser.add_argument("--record", nargs="*", metavar="NAME", help=f"plan again: {', '.join(CASES)}")
    names = parser.parse_args().record
    if names is not None:
        record(names)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
