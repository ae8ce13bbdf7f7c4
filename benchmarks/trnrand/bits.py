"""``trnrand.bits`` beside NumPy's and torch's raw integers."""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.registry import Bench, Peer, device
from benchmarks.trnrand._common import case, stream_kernels
from trnrand import bits
from trnrand.kernels import bits as kernels

N = 10**7
_numpy = np.random.Generator(np.random.Philox(1))

BENCH = Bench(
    op="trnrand.bits",
    run=lambda engine, n: bits(1, 0, n, engine=engine, device=device()),
    tests="tests/trnrand/test_bits.py",
    cases=(
        case("10^7 philox4x32", ("philox4x32", N), N, 4, 20),
        case("10^7 threefry4x32", ("threefry4x32", N), N, 4, 30),
    ),
    peers=(
        Peer(
            name="torch.randint",
            run=lambda engine, n: torch.randint(0, 2**31 - 1, (n,), dtype=torch.int32, device=device()),
        ),
        Peer(
            name="numpy Philox",
            run=lambda engine, n: _numpy.integers(0, 2**32, n, dtype=np.uint32),
            devices=("cpu",),
        ),
    ),
    kernels=stream_kernels(kernels.bits),
    comparable=None,
)
