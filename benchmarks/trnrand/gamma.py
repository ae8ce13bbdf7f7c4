"""``trnrand.gamma`` beside NumPy and torch."""

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
    op="trnrand.gamma",
    run=lambda shape, n, dtype: _generator.gamma(n, shape=shape, dtype=dtype, device=device()),
    tests="tests/trnrand/test_gamma.py",
    slower="accepts or rejects proposals in float64 as on the host, so that every number has the same bits",
    cases=(
        *(case(f"10^6 float64 shape {a}", (a, N, torch.float64), N, 8, 150) for a in (0.5, 2.5, 100.0)),
        case("10^7 float32 shape 2.5", (2.5, 10 * N, torch.float32), 10 * N, 4, 150, devices=("cuda",)),
    ),
    peers=(
        Peer(name="numpy.gamma", run=lambda shape, n, dtype: _numpy.gamma(shape, size=n), devices=("cpu",)),
        Peer(
            name="torch._standard_gamma",
            run=lambda shape, n, dtype: torch._standard_gamma(torch.full((n,), shape, dtype=dtype, device=device())),
        ),
    ),
    comparable=None,
    notes="On Trainium the words come from the bits kernel; the rest needs float64 and runs on the host.",
)
