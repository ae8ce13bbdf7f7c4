"""cuRAND's streams on the host."""

from __future__ import annotations

import trnrand
from benchmarks.registry import Bench
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
    peers=(),
    comparable=None,
    notes="To compare numbers while a program is ported, seeding and thousands of jumps included; no library draws "
    "these streams on the host. There is no kernel: a chain draws each word from the one before.",
    devices=("cpu",),
)
