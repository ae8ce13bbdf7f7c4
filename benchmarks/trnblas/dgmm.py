"""``trnblas.dgmm`` beside torch and NumPy."""

from __future__ import annotations

import torch

from benchmarks.registry import Bench, Peer
from benchmarks.trnblas._common import F32, F64, case, kernel
from trnblas import dgmm
from trnblas.kernels import dgmm as kernels
from trnsci.testing import gaussian

BENCH = Bench(
    op="trnblas.dgmm",
    run=dgmm,
    tests="tests/trnblas/test_dgmm.py",
    cases=tuple(
        case(f"{n}x{n}", lambda d, n=n: (gaussian((n, n), 1, d), gaussian((n,), 2, d)), n * n, 2 * n * n, dtype)
        for n, dtype in ((512, F64), (2048, F32), (2048, F64))
    ),
    peers=(
        Peer(name="torch.mul", run=torch.mul),
        Peer(
            name="numpy.multiply",
            run=lambda a, x: a * x,
            prepare=lambda a, x: (a.numpy(), x.numpy()),
            devices=("cpu",),
        ),
    ),
    kernels=(kernel("4096x4096", kernels.dgmm, (4096, 4096), (4096, 1)),),
    tolerance=1e-6,
    notes="Results of 32 MB and more are written into large pages, which NumPy asks for and torch does not.",
)
