"""The demonstration behind ``make demo``: one product, planned, run on two backends, held to its stated bound."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

import trnsci
from trnsci import show
from trnsci.config import BackendName
from trnsci.plans import seconds
from trnsci.show import Table
from trnsci.testing.bounds import gemm_bound

M, K, N = 1000, 700, 1300
BACKENDS: tuple[BackendName, ...] = ("pytorch", "simulator")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One backend's result beside the float64 answer. ``worst`` is the largest error over its own bound."""

    backend: str
    measured_seconds: float
    largest_error: float
    worst: float


def demo(*, as_json: bool = False) -> int:
    """Run it and print it; the exit status is one when a result leaves its bound."""
    import trnblas

    rng = np.random.default_rng(2024)
    left, right = rng.standard_normal((M, K)), rng.standard_normal((K, N))
    a, b = torch.from_numpy(left).float(), torch.from_numpy(right).float()
    exact = a.double().numpy() @ b.double().numpy()
    bound = gemm_bound(a, b).numpy()
    _say(f"a [{M}, {K}] times b [{K}, {N}] in float32 with trnblas.gemm: sizes no tile divides.", as_json)

    outcomes, plans = [], []
    for name in BACKENDS:
        with trnsci.backend(name):
            _say(f"planning and running on {name} ...", as_json)
            plans.append(trnsci.plan(trnblas.gemm, 1.0, a, b))
            start = time.perf_counter()
            c = trnblas.gemm(1.0, a, b)
            elapsed = time.perf_counter() - start
        error = np.abs(c.double().numpy() - exact)
        outcomes.append(
            Outcome(
                backend=name,
                measured_seconds=elapsed,
                largest_error=float(error.max()),
                worst=float((error / bound).max()),
            )
        )
    # written so that a NaN fails
    within = all(outcome.worst <= 1.0 for outcome in outcomes)
    if as_json:
        show.as_json({"shape": [M, K, N], "outcomes": [asdict(outcome) for outcome in outcomes], "within": within})
        return int(not within)
    print(f"\n{plans[-1]}\n")
    rows = [
        (o.backend, seconds(o.measured_seconds), f"{o.largest_error:.2e}", f"{o.worst:.1%} of its bound")
        for o in outcomes
    ]
    show.tables(Table("Against NumPy in float64", ("backend", "time on this machine", "largest error", "worst"), rows))
    verdict = "Both are within" if within else "Not both are within"
    print(f"\n{verdict} the error bound that gemm states.")
    command = sys.argv[0] if Path(sys.argv[0]).name == "trnsci" else "trnsci"
    print(f"Next: {command} info; {command} explain trnblas.gemm --shapes 512x512,512x512; docs/tour.md")
    return int(not within)


def _say(text: str, as_json: bool) -> None:
    print(text, file=sys.stderr if as_json else sys.stdout, flush=True)
