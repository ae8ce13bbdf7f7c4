"""Laws of one uniform beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.registry import Bench, Peer, device
from benchmarks.trnrand._common import case
from trnrand import Generator

N = 10**7
_generator = Generator(1)
_numpy = np.random.default_rng(1)
_NUMPY = {"cauchy": "standard_cauchy"}


def _peer(law: str, count: int) -> Any:
    return getattr(_numpy, _NUMPY.get(law, law))(size=count)


BENCH = Bench(
    op="trnrand.inverse",
    run=lambda law, count: getattr(_generator, law)(count, device=device()),
    tests="tests/trnrand/test_inverse.py",
    cases=tuple(
        case(f"10^7 {law}", (law, N), N, 4, 60) for law in ("exponential", "laplace", "cauchy", "gumbel", "logistic")
    ),
    peers=(Peer(name="numpy", run=_peer, devices=("cpu",)),),
    comparable=None,
    notes="Results are float32; NumPy's are float64. On Trainium the words come from the bits kernel.",
)
