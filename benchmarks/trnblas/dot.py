"""``trnblas.dot`` beside torch and SciPy."""

from __future__ import annotations

import torch
from scipy.linalg import blas

from benchmarks.registry import Bench, Peer
from benchmarks.trnblas._common import F32, F64, as_stored, case, kernel
from trnblas import dot
from trnblas.kernels import dot as kernels
from trnsci.testing import gaussian

_SHAPE = (1, 128, 8192)


def _scipy(x, y):  # type: ignore[no-untyped-def]
    return blas.get_blas_funcs("dot", (x, y))(x, y)


BENCH = Bench(
    op="trnblas.dot",
    run=dot,
    tests="tests/trnblas/test_dot.py",
    cases=tuple(
        case(str(n), lambda d, n=n: (gaussian((n,), 1, d), gaussian((n,), 2, d)), 2 * n, 2 * n, dtype)
        for n, dtype in ((1 << 14, F64), (1 << 20, F32), (1 << 20, F64))
    ),
    peers=(
        Peer(name="torch.dot", run=torch.dot),
        Peer(name="scipy.linalg.blas", run=_scipy, prepare=as_stored, requires="scipy", devices=("cpu",)),
    ),
    kernels=(
        kernel("dot 1048576", kernels.dot, _SHAPE, _SHAPE, mode="dot"),
        kernel("compensated 1048576", kernels.dot, _SHAPE, _SHAPE, mode="compensated"),
        kernel("nrm2 1048576", kernels.dot, _SHAPE, None, mode="nrm2"),
    ),
    tolerance=1e-2,
    notes="Sums of a million terms of both signs: fp32 results in different orders differ by their error bounds.",
)
