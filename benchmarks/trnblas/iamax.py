"""``trnblas.iamax`` beside torch and SciPy."""

from __future__ import annotations

import numpy as np
import torch
from scipy.linalg import blas

from benchmarks.registry import Bench, Peer
from benchmarks.trnblas._common import F32, F64, as_stored, case, kernel
from trnblas import iamax
from trnblas.kernels import iamax as kernels
from trnsci.testing import gaussian


def _scipy(x):  # type: ignore[no-untyped-def]
    return (blas.isamax if x.dtype == "float32" else blas.idamax)(x)


BENCH = Bench(
    op="trnblas.iamax",
    run=iamax,
    tests="tests/trnblas/test_iamax.py",
    cases=tuple(
        case(str(n), lambda d, n=n: (gaussian((n,), 1, d),), n, n, dtype)
        for n, dtype in ((1 << 14, F64), (1 << 20, F32), (1 << 20, F64))
    ),
    peers=(
        Peer(name="torch.argmax(abs)", run=lambda x: torch.argmax(x.abs())),
        Peer(name="numpy.argmax(abs)", run=lambda x: np.abs(x).argmax(), prepare=as_stored, devices=("cpu",)),
        Peer(name="scipy.linalg.blas", run=_scipy, prepare=as_stored, requires="scipy", devices=("cpu",)),
    ),
    kernels=(kernel("iamax 1048576", kernels.iamax, (1, 128, 8192), largest=True),),
    tolerance=0.0,
    notes="NumPy's argmax and argmin are called, since BLAS, which reads once, leaves open what it answers for NaN.",
)
