"""``trnrand.poisson`` beside NumPy and torch."""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.registry import Bench, Peer, device
from benchmarks.trnrand._common import case
from trnrand import Generator

N = 10**6
_generator = Generator(1)
_numpy = np.random.default_rng(1)

BENCH = Bench(
    op="trnrand.poisson",
    run=lambda rate, n: _generator.poisson(n, rate=rate, device=device()),
    tests="tests/trnrand/test_poisson.py",
    slower="accepts or rejects proposals in float64 as on the host, so that every number has the same bits",
    cases=tuple(case(f"10^6 rate {rate}", (rate, N), N, 8, 120) for rate in (1.0, 4.0, 100.0, 1e6)),
    peers=(
        Peer(name="numpy.poisson", run=lambda rate, n: _numpy.poisson(rate, size=n), devices=("cpu",)),
        Peer(
            name="torch.poisson",
            run=lambda rate, n: torch.poisson(torch.full((n,), rate, dtype=torch.float64, device=device())),
        ),
    ),
    comparable=None,
    notes="On Trainium the words come from the bits kernel; the rest needs float64 and runs on the host.",
)
