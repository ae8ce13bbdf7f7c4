"""Write the table of efficiencies into docs/how-to/many-chips.md: ``python -m tools.many_chips_page``.

Efficiency is the longer of ideal kernels and exchanges by the predicted time of the slowest rank. Ideal kernels are
those of the fewest cores of a call, divided by how many more cores there are.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

import trnblas
import trnfft
import trnsolver
import trnsparse
import trntensor
from trnsci.distributed import Layout, plan

PAGE = Path(__file__).parents[1] / "docs/how-to/many-chips.md"
BEGIN, END = "<!-- efficiencies: written by tools.many_chips_page -->", "<!-- end of efficiencies -->"
# Cores, and the mesh: rows and columns of chips, then of the cores of a chip.
MESHES = {64: (2, 4, 4, 2), 512: (8, 8, 2, 4), 4096: (16, 32, 4, 2)}


class Case(NamedTuple):
    """A row: the call on a number of cores, and what issue and papers ask for."""

    name: str
    call: Callable[[int], tuple[Any, Sequence[Any]]]
    cores: tuple[int, ...]
    bars: tuple[str, ...]
    # of the work on the fewest cores, per number of cores
    work: tuple[int, ...] = (1, 1, 1)


def _gemm(cores: int) -> tuple[Any, Sequence[Any]]:
    n = 262144 if cores == 4096 else 65536
    square = Layout((n, n), torch.bfloat16, MESHES[cores], (0, 1, 0, 1))
    return trnblas.gemm, (1.0, square, square)


def _fftn(cores: int) -> tuple[Any, Sequence[Any]]:
    side = 2 ** (int(math.log2(cores)) // 2)
    return trnfft.fftn, (Layout((2048,) * 3, torch.complex64, (cores // side, side), (0, 1)),)


def _qr(cores: int) -> tuple[Any, Sequence[Any]]:
    return trnsolver.qr, (Layout((10**8, 128), torch.float32, MESHES[cores], (0,) * 4),)


def _attention(cores: int) -> tuple[Any, Sequence[Any]]:
    positions = Layout((10**6, 128), torch.bfloat16, (cores,), (0,))
    return trnsparse.attention, (positions, positions, positions)


def _mp2(cores: int) -> tuple[Any, Sequence[Any]]:
    ranks = min(cores, 256)
    occ, vir = (Layout((n,), torch.float32, (ranks,), (None,)) for n in (256, 1024))
    return trntensor.mp2_energy, (Layout((256, 1024, 4096), torch.float32, (ranks,), (0,)), occ, vir)


CASES = (
    Case("gemm, 64k / 64k / 262k, bfloat16", _gemm, (64, 512, 4096), ("92 %", "85 %", "70 %"), (1, 1, 64)),
    Case("fftn, 2048³, complex64", _fftn, (64, 512, 4096), ("165 ms", "44 ms", "28 ms")),
    Case("tall qr, 10⁸ x 128, float32", _qr, (64, 512, 4096), ("90 %", "85 %", "75 %")),
    Case("attention, 10⁶ positions of 128, bfloat16", _attention, (64, 512), ("85 %", "75 %"), (1, 1)),
    Case("mp2_energy, 256 x 1024 x 4096, float32", _mp2, (64,), ("92 %",), (1,)),
)


def rows(case: Case) -> Iterator[str]:
    """Yield the lines of one call."""
    base = 0.0
    for cores, bar, work in zip(case.cores, case.bars, case.work, strict=True):
        function, operands = case.call(cores)
        found = plan(function, *operands).slowest("trn2")
        if found is None:
            yield f"| {case.name} | {cores} | no kernel for every step | | | | | {bar} |"
            continue
        base = base or found.computing * cores
        efficiency = max(base * work / cores, found.exchanging) / found.total
        time = f"{1e3 * found.total:.3g} ms | {1e3 * found.computing:.3g} ms | {1e3 * found.exchanging:.3g} ms"
        yield f"| {case.name} | {cores} | {time} | {efficiency:.0%} | {found.limit} | {bar} |"


def main() -> int:
    """Compute the table and put it into the page."""
    lines = ["| call, trn2 | cores | predicted | kernels | exchanges | efficiency | limited by | asked |"]
    lines.append("|---|--:|--:|--:|--:|--:|---|--:|")
    for case in CASES:
        for line in rows(case):
            lines.append(line)
            print(line, flush=True)
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{rest.split(END)[1]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
