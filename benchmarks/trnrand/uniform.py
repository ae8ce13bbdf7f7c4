"""``trnrand.uniform`` beside torch and NumPy."""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.registry import Bench, Peer, device
from benchmarks.trnrand._common import case, stream_kernels
from trnrand import Generator
from trnrand.kernels import uniform as kernels

N = 10**7
_generators = {engine: Generator(1, engine=engine) for engine in ("philox4x32", "threefry4x32")}
_numpy = np.random.default_rng(1)
_DTYPES = {torch.float32: np.float32, torch.float64: np.float64}

BENCH = Bench(
    op="trnrand.uniform",
    run=lambda engine, dtype, n: _generators[engine].uniform(n, dtype=dtype, device=device()),
    tests="tests/trnrand/test_uniform.py",
    cases=(
        case("10^7 float32 philox4x32", ("philox4x32", torch.float32, N), N, 4, 21),
        case("10^7 float32 threefry4x32", ("threefry4x32", torch.float32, N), N, 4, 31),
        case("10^7 float64 philox4x32", ("philox4x32", torch.float64, N), N, 8, 42),
        case("10^8 float32 philox4x32", ("philox4x32", torch.float32, 10**8), 10**8, 4, 21, devices=("cuda",)),
    ),
    peers=(
        Peer(name="torch.rand", run=lambda engine, dtype, n: torch.rand(n, dtype=dtype, device=device())),
        Peer(
            name="numpy.random",
            run=lambda engine, dtype, n: _numpy.random(n, dtype=_DTYPES[dtype]),
            devices=("cpu",),
        ),
    ),
    kernels=stream_kernels(kernels.uniform),
    comparable=None,
)
