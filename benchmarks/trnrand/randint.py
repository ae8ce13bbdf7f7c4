"""``trnrand.randint`` beside NumPy and torch."""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.registry import Bench, Peer, device
from benchmarks.trnrand._common import case
from trnrand import Generator

N = 10**7
_generator = Generator(1)
_numpy = np.random.default_rng(1)

BENCH = Bench(
    op="trnrand.randint",
    run=lambda high, count: _generator.randint(count, high=high, device=device()),
    tests="tests/trnrand/test_randint.py",
    slower="rejects words that would bias the numbers, where torch takes a remainder",
    cases=tuple(case(f"10^7 below {high}", (high, N), N, 8, 40) for high in (100, 3 * 10**9, 10**18)),
    peers=(
        Peer(name="numpy.integers", run=lambda high, count: _numpy.integers(0, high, count), devices=("cpu",)),
        Peer(name="torch.randint", run=lambda high, count: torch.randint(high, (count,), device=device())),
    ),
    comparable=None,
    notes="torch.randint takes a remainder and is biased. Beyond 2^32 every attempt of a number reads a block of four "
    "words of its own, so that any part of a draw can be had alone; NumPy reads one number of 64 bits. On Trainium the "
    "words come from the bits kernel.",
)
