"""``trnblas.symm`` beside SciPy and the whole product."""

from __future__ import annotations

from scipy.linalg import blas

from benchmarks.registry import Bench, Peer
from benchmarks.trnblas._common import F32, F64, as_stored, case, kernel
from trnblas import symm
from trnblas.kernels import symm as kernels
from trnsci.testing import gaussian


def _scipy(alpha, a, b):  # type: ignore[no-untyped-def]
    return blas.get_blas_funcs("symm", (a, b))(alpha, a.T, b.T, side=1, lower=1).T


def _torch(alpha, a, b):  # type: ignore[no-untyped-def]
    return (a.triu() + a.triu(1).mT) @ b


BENCH = Bench(
    op="trnblas.symm",
    run=symm,
    tests="tests/trnblas/test_symm.py",
    slower="reads one triangle and mirrors it; the peer is given the whole matrix",
    cases=tuple(
        case(
            f"{n}x{n}", lambda d, n=n: (1.0, gaussian((n, n), 1, d), gaussian((n, n), 2, d)), 2 * n**3, 3 * n * n, dtype
        )
        for n, dtype in ((256, F64), (1024, F32), (1024, F64))
    ),
    peers=(
        Peer(name="scipy.linalg.blas", run=_scipy, prepare=as_stored, requires="scipy", devices=("cpu",)),
        Peer(name="torch, whole matrix", run=_torch),
    ),
    kernels=(kernel("1024x1024", kernels.symm, (1, 1024, 1024), (1, 1024, 1024)),),
    tolerance=1e-5,
)
