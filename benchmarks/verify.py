"""The gate: an op's tests run first, and while they are red there is no speed to report.

``python -m benchmarks.verify [OP ...]`` runs the gate alone.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from dataclasses import dataclass

from benchmarks import registry

GROUP = "not slow and not cuda and not neuron"
WORKERS = ("-n", "auto", "--maxprocesses", "8")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an op may be reported, and pytest's closing line."""

    op: str
    green: bool
    line: str


def verify(bench: registry.Bench, device: str = "cpu") -> Verdict:
    """Run the tests of one op in a process of their own; for a GPU's figures all that need one, once."""
    green, line = _gpu() if device == "cuda" else _run(GROUP, bench.tests)
    return Verdict(op=bench.op, green=green, line=line)


@functools.cache
def _gpu() -> tuple[bool, str]:
    # files without such tests take longer to read than those with some take to run
    paths = sorted((registry.ROOT / "tests").rglob("test_*.py"))
    return _run("cuda and not slow", *(str(path) for path in paths if "pytest.mark.cuda" in path.read_text()))


def _run(group: str, *tests: str) -> tuple[bool, str]:
    """Whether a group of tests is green, and pytest's closing line."""
    command = [sys.executable, "-m", "pytest", "-q", *WORKERS, "-m", group, *tests]
    one_thread = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=registry.ROOT, env=os.environ | one_thread, capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.strip()] or done.stderr.splitlines() or ["no output"]
    if done.returncode:
        # what failed, by name
        print(*lines[-20:], sep="\n", file=sys.stderr, flush=True)
    return done.returncode == 0, lines[-1].strip("= ")


def main(ops: list[str]) -> int:
    """Print one verdict per op; the exit status is one if any is red."""
    red = False
    for op in ops or registry.names():
        verdict = verify(registry.load(op))
        red |= not verdict.green
        print(f"{op}: {'green' if verdict.green else 'RED'}: {verdict.line}", flush=True)
    return int(red)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
