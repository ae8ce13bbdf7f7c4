"""``trnblas.trsm`` beside SciPy and torch."""

from __future__ import annotations

import torch
from scipy.linalg import blas

from benchmarks.registry import Bench, Peer
from benchmarks.trnblas._common import F32, F64, as_stored, case, dominant, kernel
from trnblas import trsm
from trnblas.kernels import trsm as kernels
from trnsci.testing import gaussian


def _scipy(alpha, a, b):  # type: ignore[no-untyped-def]
    return blas.get_blas_funcs("trsm", (a, b))(alpha, a.T, b.T, side=1, lower=1).T


BENCH = Bench(
    op="trnblas.trsm",
    run=trsm,
    tests="tests/trnblas/test_trsm.py",
    slower="checks for a zero on the diagonal, and waits for the answer",
    cases=tuple(
        case(f"{n}x{n}", lambda d, n=n: (1.0, dominant(n, d), gaussian((n, n), 2, d)), n**3, 3 * n * n, dtype)
        for n, dtype in ((256, F64), (1024, F32), (1024, F64))
    ),
    peers=(
        Peer(name="scipy.linalg.blas", run=_scipy, prepare=as_stored, requires="scipy", devices=("cpu",)),
        Peer(name="torch.linalg", run=lambda alpha, a, b: torch.linalg.solve_triangular(a, b, upper=True)),
    ),
    kernels=(kernel("1024x1024", kernels.trsm, (1, 1024, 1024), (1, 1024, 1024), (8, 128, 128)),),
    tolerance=1e-5,
    notes="Published for trn1: 18.7 ms for the kernel's case.",
)
