"""Every public function beside its counterpart at three sizes, in processor time of one thread.

``python -m benchmarks.every_function [NAME ...]`` prints a row for each, the largest ratio first; ``--write`` keeps all
of them in docs/every-function.md, and what a call costs in docs/how-to/overhead.md. Ours and theirs take turns; the
least of several rounds counts. Nothing is gated.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import timeit
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks import counterparts, report
from benchmarks.counterparts import SIZES, Work

ROOT = Path(__file__).parent.parent
PAGE, OVERHEAD = ROOT / "docs" / "every-function.md", ROOT / "docs" / "how-to" / "overhead.md"
BEGIN, END = "<!-- every-function:begin -->", "<!-- every-function:end -->"
# read when NumPy and torch are imported; time of other threads would be nobody's
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
# seconds of a round, and rounds
ROUND, ROUNDS = 2e-3, 12


@dataclass(frozen=True, slots=True)
class Row:
    """Microseconds of a call, ours and the counterpart's, at each size."""

    name: str
    beside: str
    microseconds: dict[str, tuple[float, float]]

    @property
    def ratio(self) -> float:
        """The largest ratio of all sizes."""
        return max(ours / theirs for ours, theirs in self.microseconds.values())


def measure(ours: Work, theirs: Work) -> tuple[float, float]:
    """Return microseconds per call of two contenders that take turns, the least of all rounds."""
    works = (ours, theirs)
    # the first call compiles, plans and fills caches
    once = [min(_timed(work, 1) for _ in range(2)) for work in works]
    calls = [max(1, min(50, round(ROUND * 1e6 / max(one, 1.0)))) for one in once]
    rounds = ROUNDS if max(once) < 1e5 else 2
    least = [[_timed(*each) for each in zip(works, calls, strict=True)] for _ in range(rounds)]
    return min(pair[0] for pair in least), min(pair[1] for pair in least)


def _timed(work: Work, calls: int) -> float:
    return timeit.timeit(work, number=calls, timer=time.thread_time) / calls * 1e6


def measure_all(names: list[str]) -> list[Row]:
    """Measure the functions that are named, or all of them, and return their rows, the largest ratio first."""
    found: dict[str, Row] = {}
    for library in counterparts.MODULES:
        if names and not any(name.partition(".")[0] == library for name in names):
            continue
        for size, n in SIZES.items():
            for name, (ours, beside, theirs) in counterparts.cases(library, n).items():
                if not names or library in names or name.partition(" ")[0] in names:
                    row = found.setdefault(name, Row(name, beside, {}))
                    row.microseconds[size] = measure(ours, theirs)
    return sorted(found.values(), key=lambda row: -row.ratio)


def table(rows: list[Row]) -> str:
    """Return the rows as Markdown: times of the tiny size, ratios of all."""
    sizes = list(SIZES)
    lines = [
        "| function | beside | " + " | ".join(f"{size}, ours" for size in sizes) + " | " + " | ".join(sizes) + " |",
        "|---" * (2 + 2 * len(sizes)) + "|",
    ]
    for row in rows:
        times = [
            report.duration(row.microseconds[size][0] * 1e-6) if size in row.microseconds else "" for size in sizes
        ]
        ratios = [_ratio(*row.microseconds[size]) for size in sizes]
        lines.append(f"| `{row.name}` | {row.beside} | " + " | ".join((*times, *ratios)) + " |")
    return "\n".join(lines)


def _ratio(ours: float, theirs: float) -> str:
    ratio = ours / theirs
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}" if ratio >= 1 else f"{ratio:.2f}"


def overhead(rows: list[Row]) -> str:
    """Return what calls of the tiny size cost over their counterparts, by name."""
    lines = ["| function | beside | ours | theirs | difference |", "|---|---|---|---|---|"]
    for row in sorted(rows, key=lambda row: row.name):
        ours, theirs = row.microseconds["tiny"]
        lines.append(f"| `{row.name}` | {row.beside} | {ours:.1f} µs | {theirs:.1f} µs | {ours - theirs:.1f} µs |")
    return "\n".join(lines)


def written(page: str, rows: str) -> str:
    """Return a page with the rows between its marks."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{rows}\n{END}{rest.partition(END)[2]}"


def main(argv: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.every_function", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="e.g. trnblas.gemm or trnblas; all when left out")
    parser.add_argument("--write", action="store_true", help="write the tables into the documentation")
    args = parser.parse_args(argv)
    if args.write and args.names:
        parser.error("--write keeps whole tables, so it cannot be given with a choice of functions")
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        again = [sys.executable, "-m", "benchmarks.every_function", *(sys.argv[1:] if argv is None else argv)]
        return subprocess.run(again, check=False, env=os.environ | ONE_THREAD).returncode
    torch.set_num_threads(1)
    rows = measure_all(args.names)
    print(table(rows))
    if args.write:
        for page, lines in ((PAGE, table(rows)), (OVERHEAD, overhead(rows))):
            page.write_text(written(page.read_text(encoding="utf-8"), lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
