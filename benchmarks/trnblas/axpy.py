"""``trnblas.axpy`` beside torch and SciPy."""

from __future__ import annotations

import torch
from scipy.linalg import blas

from benchmarks.registry import Bench, Peer
from benchmarks.trnblas._common import F32, F64, case, kernel, to_fortran
from trnblas import axpy
from trnblas.kernels import axpy as kernels
from trnsci.testing import gaussian

_COMBINED = {"kinds": (("a", "1"),)}


def _scipy(x, y, a):  # type: ignore[no-untyped-def]
    return blas.get_blas_funcs("axpy", (x, y))(x, y.copy(), a=a)


BENCH = Bench(
    op="trnblas.axpy",
    run=axpy,
    tests="tests/trnblas/test_axpy.py",
    cases=tuple(
        case(str(n), lambda d, n=n: (gaussian((n,), 1, d), gaussian((n,), 2, d), 2.0), 2 * n, 3 * n, dtype)
        for n, dtype in ((1 << 14, F64), (1 << 20, F32), (1 << 20, F64))
    ),
    peers=(
        Peer(name="torch.add", run=lambda x, y, a: torch.add(y, x, alpha=a)),
        Peer(name="scipy.linalg.blas", run=_scipy, prepare=to_fortran, requires="scipy", devices=("cpu",)),
    ),
    kernels=(kernel("1048576", kernels.axpy, (2, 128, 8192), (128, 2), **_COMBINED),),
    tolerance=1e-6,
    notes="Below some ten thousand elements, argument checks and dispatch (5 µs) take nearly all of the time.",
)
