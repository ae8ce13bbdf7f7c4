"""``trnblas.syr`` beside SciPy."""

from __future__ import annotations

from scipy.linalg import blas

from benchmarks.registry import Bench, Peer
from benchmarks.trnblas._common import F32, F64, as_stored, case
from trnblas import syr
from trnsci.testing import gaussian


def _scipy(alpha, x, lower, a):  # type: ignore[no-untyped-def]
    return blas.get_blas_funcs("syr", (a, x))(alpha, x, lower=1 - lower, a=a.T).T


BENCH = Bench(
    op="trnblas.syr",
    run=syr,
    tests="tests/trnblas/test_syr.py",
    cases=tuple(
        case(str(n), lambda d, n=n: (1.0, gaussian((n,), 1, d), 1, gaussian((n, n), 2, d)), n * n, 2 * n * n, dtype)
        for n, dtype in ((256, F64), (1024, F32), (1024, F64))
    ),
    peers=(Peer(name="scipy.linalg.blas", run=_scipy, prepare=as_stored, requires="scipy", devices=("cpu",)),),
    tolerance=1e-5,
    notes="The kernel is syrk's. Both copy the matrix, since a new one is returned. Checks and dispatch take 14 µs, "
    "and two to five times that where the matrix drives their code out of the caches.",
)
