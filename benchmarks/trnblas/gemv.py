"""``trnblas.gemv`` beside torch, NumPy and SciPy."""

from __future__ import annotations

import numpy as np
import torch
from scipy.linalg import blas

from benchmarks.registry import Bench, Peer
from benchmarks.trnblas._common import F32, F64, as_stored, case, kernel
from trnblas import gemv
from trnblas.kernels import gemv as kernels
from trnsci.testing import gaussian


def _scipy(alpha, a, x):  # type: ignore[no-untyped-def]
    return blas.get_blas_funcs("gemv", (a, x))(alpha, a.T, x, trans=1)


BENCH = Bench(
    op="trnblas.gemv",
    run=gemv,
    tests="tests/trnblas/test_gemv.py",
    cases=tuple(
        case(f"{n}x{n}", lambda d, n=n: (1.0, gaussian((n, n), 1, d), gaussian((n,), 2, d)), 2 * n * n, n * n, dtype)
        for n, dtype in ((256, F64), (1024, F32), (2048, F64))
    ),
    peers=(
        Peer(name="torch.mv", run=lambda alpha, a, x: torch.mv(a, x)),
        Peer(
            name="numpy.matmul",
            run=lambda alpha, a, x: np.matmul(a, x),
            prepare=lambda alpha, a, x: (alpha, a.numpy(), x.numpy()),
            devices=("cpu",),
        ),
        Peer(name="scipy.linalg.blas", run=_scipy, prepare=as_stored, requires="scipy", devices=("cpu",)),
    ),
    kernels=(
        kernel("4096x4096", kernels.gemv, (1, 4096, 4096), (1, 128, 4096)),
        kernel("4096x4096 transposed", kernels.gemv, (1, 4096, 4096), (1, 4096, 1), trans=True),
    ),
    tolerance=1e-4,
    notes="torch.mv is called, MKL's here, which takes longer than OpenBLAS on processors of another maker.",
)
