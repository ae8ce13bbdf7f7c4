"""cuRAND's streams on the host, beside NumPy's generators of other streams."""

from __future__ import annotations

import numpy as np

import trnrand
from benchmarks.registry import Bench, Peer
from benchmarks.trnrand._common import case

N = 10**6

BENCH = Bench(
    op="trnrand.curand",
    run=lambda engine: engine(1, order="default").words(N),
    tests="tests/trnrand/test_curand.py",
    cases=(
        case("10^6 words of XORWOW", (trnrand.XORWOW,), N, 4, 10, devices=("cpu",)),
        case("10^6 words of MRG32k3a", (trnrand.MRG32k3a,), N, 4, 12, devices=("cpu",)),
    ),
    peers=(
        Peer(
            name="numpy MT19937",
            run=lambda engine: np.random.MT19937(1).random_raw(N),
            devices=("cpu",),
        ),
    ),
    comparable=None,
    notes="To compare numbers while a program is ported, seeding and 4096 jumps included. There is no kernel: a chain "
    "draws each word from the one before.",
    devices=("cpu",),
)
