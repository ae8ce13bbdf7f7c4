"""``trnblas.spmv`` beside SciPy."""

from __future__ import annotations

from scipy.linalg import blas

from benchmarks.registry import Bench, Peer
from benchmarks.trnblas._common import F32, F64, as_stored, case
from trnblas import spmv
from trnsci.testing import gaussian


def _scipy(n, alpha, ap, x):  # type: ignore[no-untyped-def]
    return blas.get_blas_funcs("spmv", (ap, x))(n, alpha, ap, x)


BENCH = Bench(
    op="trnblas.packed",
    run=spmv,
    tests="tests/trnblas/test_packed.py",
    cases=tuple(
        case(
            str(n),
            lambda d, n=n: (n, 1.0, gaussian((n * (n + 1) // 2,), 1, d), gaussian((n,), 2, d)),
            2 * n * n,
            n * (n + 1) // 2,
            dtype,
        )
        for n, dtype in ((256, F64), (1024, F32), (1024, F64))
    ),
    peers=(Peer(name="scipy.linalg.blas", run=_scipy, prepare=as_stored, requires="scipy", devices=("cpu",)),),
    tolerance=1e-4,
    notes="The host's BLAS reads the packed triangle directly; the kernels are those for full matrices. Checks and "
    "dispatch take 12 to 20 µs.",
)
