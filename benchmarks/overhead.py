"""What `trnsci.drop_in` adds to a call, in processor time: left alone for its size, and substituted.

``python -m benchmarks.overhead`` prints microseconds per call, the least of 5 rounds of 3,000 calls, plain and inside
blocks in one process; ``--write`` keeps them in docs/how-to/unmodified-programs.md. Nothing is gated.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.fft
import scipy.linalg
import torch

import trnsci
from benchmarks.every_function import ONE_THREAD

PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "unmodified-programs.md"
BEGIN, END = "<!-- overhead: begin -->", "<!-- overhead: end -->"
ROUNDS, CALLS = 5, 3000


@dataclass(frozen=True, slots=True)
class Row:
    """Microseconds of one call: plain, in a block that leaves it alone for its size, and in one that takes it."""

    name: str
    plain: float
    below: float
    above: float | None

    @property
    def cells(self) -> tuple[str, ...]:
        """The columns of the table."""
        above = "-" if self.above is None else f"+{self.above - self.plain:.1f}"
        return f"`{self.name}`", f"{self.plain:.1f}", f"+{self.below - self.plain:.1f}", above


def calls() -> dict[str, Callable[[], Any]]:
    """Return the calls by name: products, solutions, transforms of NumPy, SciPy and torch at sizes of no work."""
    rng = np.random.default_rng(0)
    a, b, s = rng.standard_normal((12, 110)), rng.standard_normal((110, 3)), np.eye(3) + 0.1
    v, w = rng.standard_normal(3), rng.standard_normal(64)
    x, spd = torch.randn(8, 8), torch.eye(3) + 0.1
    return {
        "numpy.dot 12x110x3": lambda: np.dot(a, b),
        "numpy.einsum ij,jk->ik": lambda: np.einsum("ij,jk->ik", a, b),
        "numpy.linalg.solve 3x3": lambda: np.linalg.solve(s, v),
        "numpy.linalg.cholesky 3x3": lambda: np.linalg.cholesky(s),
        "numpy.fft.fft 64": lambda: np.fft.fft(w),
        "scipy.linalg.inv 3x3": lambda: scipy.linalg.inv(s),
        "scipy.fft.dct 64": lambda: scipy.fft.dct(w),
        "torch.mm 8x8": lambda: torch.mm(x, x),
        "torch.addmm 8x8": lambda: torch.addmm(x[0], x, x),
        "torch.linalg.cholesky 3x3": lambda: torch.linalg.cholesky(spd),
        "torch.linalg.solve 3x3": lambda: torch.linalg.solve(spd, spd),
        "torch.fft.rfft 8x8": lambda: torch.fft.rfft(x),
    }


def measure_call(call: Callable[[], Any], block: Any) -> float:
    """Return the least microseconds of processor time per call inside a block."""
    with block:
        call()
        least = float("inf")
        for _ in range(ROUNDS):
            start = time.process_time()
            for _ in range(CALLS):
                call()
            least = min(least, time.process_time() - start)
    return least / CALLS * 1e6


def measure(names: list[str]) -> list[Row]:
    """Measure the calls whose name has one of the words, or all of them."""
    rows = []
    for name, call in calls().items():
        if names and not any(word in name for word in names):
            continue
        plain = measure_call(call, nullcontext())
        below = measure_call(call, trnsci.drop_in())
        with trnsci.drop_in(min_size=0) as seen:
            call()
        above = measure_call(call, trnsci.drop_in(min_size=0)) if seen.substituted else None
        rows.append(Row(name, plain, below, above))
    return rows


def table(rows: list[Row]) -> str:
    """Return the rows as Markdown."""
    head = ["| call | plain, µs | left alone for its size, µs | substituted, µs |", "|---|---|---|---|"]
    return "\n".join(head + ["| " + " | ".join(row.cells) + " |" for row in rows])


def main(argv: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="WORD", help="part of a name, e.g. torch or solve; all if left out")
    parser.add_argument("--write", action="store_true", help="write the table into the documentation")
    args = parser.parse_args(argv)
    if args.write and args.names:
        parser.error("--write keeps the whole table, so it cannot be given with a choice of calls")
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        again = [sys.executable, "-m", "benchmarks.overhead", *(sys.argv[1:] if argv is None else argv)]
        return subprocess.run(again, check=False, env=os.environ | ONE_THREAD).returncode
    torch.set_num_threads(1)
    rows = measure(args.names)
    print(table(rows))
    if args.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n{table(rows)}\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
