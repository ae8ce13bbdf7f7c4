"""``trnrand.binomial`` beside NumPy and torch."""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.registry import Bench, Peer, device
from benchmarks.trnrand._common import case
from trnrand import Generator

N = 10**6
_generator = Generator(1)
_numpy = np.random.default_rng(1)


def _torch(n: int, p: float, count: int) -> torch.Tensor:
    return torch.binomial(torch.full((count,), float(n), device=device()), torch.full((count,), p, device=device()))


BENCH = Bench(
    op="trnrand.binomial",
    run=lambda n, p, count: _generator.binomial(count, n=n, p=p, device=device()),
    tests="tests/trnrand/test_binomial.py",
    slower="accepts or rejects proposals in float64 as on the host, so that every number has the same bits",
    cases=tuple(case(f"10^6 of {n}, {p}", (n, p, N), N, 8, 150) for n, p in ((10, 0.3), (100, 0.4), (10**6, 0.3))),
    peers=(
        Peer(name="numpy.binomial", run=lambda n, p, count: _numpy.binomial(n, p, count), devices=("cpu",)),
        Peer(name="torch.binomial", run=_torch),
    ),
    comparable=None,
    notes="On Trainium the words come from the bits kernel; the rest needs float64 and runs on the host.",
)
