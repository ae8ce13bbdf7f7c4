"""Write the table of ``docs/how-to/unmodified-programs.md``: what became of programs of others, and on Trainium would.

``python -m tools.programs_page`` runs every program of ``tests/trnsci/programs`` plainly, then on PyTorch and on the
simulator through ``trnsci run``. It needs the extra ``programs`` and takes some minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from trnsci.plans import seconds

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "how-to" / "unmodified-programs.md"
PROGRAMS = ROOT / "tests" / "trnsci" / "programs"
BEGIN, END = "<!-- programs: begin -->\n", "<!-- programs: end -->"
TARGET = "trn2"
# what each does, and with whose library
WHAT = {
    "gaussian_process": ("ten steps of a Gaussian process", "GPyTorch"),
    "spherical_harmonics": ("a transform on the sphere, and its gradient", "torch-harmonics"),
    "fourier_operator": ("three steps of a Fourier neural operator", "neuraloperator"),
    "sparse_poisson": ("the Poisson equation by conjugate gradients", "SciPy"),
    "spectral_flow": ("two solitons, 150 Runge-Kutta steps", "NumPy"),
    "correlation_energy": ("the DF-MP2 energy of water", "PySCF"),
}


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-W", "ignore", *words], capture_output=True, text=True, check=True)


def _numbers(value: Any) -> list[float]:
    return [x for item in value for x in _numbers(item)] if isinstance(value, list) else [float(value)]


def _through(program: Path, backend: str) -> tuple[list[float], dict[str, Any]]:
    """Run a program through the suite; return its numbers, and the report."""
    done = _run("-m", "trnsci.cli", "run", "--json", "--min-size", "0", "--backend", backend, str(program))
    answer = next(line for line in done.stderr.splitlines() if line.startswith("["))
    return _numbers(json.loads(answer)), json.loads(done.stdout)


def _error(got: list[float], want: list[float]) -> float:
    """The largest difference, relative to the largest number."""
    return max(abs(g - w) for g, w in zip(got, want, strict=True)) / max(map(abs, want))


def _predicted(report: dict[str, Any]) -> str:
    """What kernels and dispatches take, with the kernels' interval; and how many calls nothing predicts."""
    there = [op["predicted_seconds"][TARGET] for op in report["ops"] if TARGET in op["predicted_seconds"]]
    if not there:
        return "not predicted: no op with a kernel ran"
    kernels, resident = (sum(part[name] for part in there) for name in ("kernel", "resident"))
    low, high = (sum(part["kernel_interval"][end] for part in there) for end in (0, 1))
    missing = sum(op["calls"] for op in report["ops"] if TARGET not in op["predicted_seconds"])
    words = f"{seconds(kernels)} ({seconds(low)} to {seconds(high)}), {seconds(resident)} with dispatches"
    return f"{words}; {missing} calls have no kernel" if missing else words


def _row(name: str) -> str:
    program = PROGRAMS / f"{name}.py"
    want = _numbers(json.loads(_run(str(program)).stdout))
    errors, report = [], {}
    for backend in ("simulator", "pytorch"):
        got, report = _through(program, backend)
        errors.append(_error(got, want))
    calls = report["substituted"]
    ours = Counter({call["became"]: 0 for call in calls if call["became"]})
    for call in calls:
        if call["became"]:
            ours[call["became"]] += call["calls"]
    beside = {plain["op"] for plain in report["plain_torch"]}
    seen = len({call["called"].removeprefix("torch.") for call in calls} | beside)
    left = "; ".join(sorted(f"{c['called']}: {c['why_not']}" for c in calls if not c["became"])) or "-"
    became = ", ".join(f"`{analog}` {n}" for analog, n in ours.most_common()) or "-"
    title, library = WHAT[name]
    cells = (title, library, str(seen), became, left, f"{errors[1]:.1e}, {errors[0]:.1e}", _predicted(report))
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Run the programs and write the table."""
    header = (
        "program",
        "with",
        "operators seen",
        "became ours, calls",
        "left alone",
        "error on PyTorch, on the simulator",
        f"kernels on {TARGET}, predicted",
    )
    rows = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    for name in WHAT:
        print(name, flush=True)
        rows.append(_row(name))
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(before + BEGIN + "\n".join(rows) + "\n" + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
