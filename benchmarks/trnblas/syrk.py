"""``trnblas.syrk`` beside SciPy and the whole product."""

from __future__ import annotations

import numpy as np
import torch
from scipy.linalg import blas

from benchmarks.registry import Bench, Peer
from benchmarks.trnblas._common import F32, F64, as_stored, case, kernel
from trnblas import syrk
from trnblas.kernels import syrk as kernels
from trnsci.testing import gaussian


def _scipy(alpha, a):  # type: ignore[no-untyped-def]
    return blas.get_blas_funcs("syrk", (a,))(alpha, a.T, trans=1, lower=1).T


BENCH = Bench(
    op="trnblas.syrk",
    run=syrk,
    tests="tests/trnblas/test_syrk.py",
    cases=tuple(
        case(f"{n}x{n}", lambda d, n=n: (1.0, gaussian((n, n), 1, d)), n * n * (n + 1), 2 * n * n, dtype)
        for n, dtype in ((256, F64), (1024, F32), (1024, F64))
    ),
    peers=(
        Peer(name="scipy.linalg.blas", run=_scipy, prepare=as_stored, requires="scipy", devices=("cpu",)),
        Peer(name="torch, whole product", run=lambda alpha, a: (a @ a.mT).triu()),
    ),
    kernels=(kernel("2048x2048", kernels.syrk, (1, 2048, 2048), None),),
    comparable=lambda made: np.triu(np.asarray(made.cpu() if isinstance(made, torch.Tensor) else made)),
    tolerance=1e-5,
    notes="The kernel computes one triangle: predicted, 0.55 of the whole product of the same size.",
)
