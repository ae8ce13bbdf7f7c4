"""``trnblas.gbmv`` beside SciPy."""

from __future__ import annotations

from scipy.linalg import blas

from benchmarks.registry import Bench, Peer
from benchmarks.trnblas._common import as_stored, case, kernel
from trnblas import gbmv
from trnblas.kernels import banded as kernels
from trnsci.testing import gaussian

_KL, _KU = 4, 3


def _scipy(m, n, kl, ku, alpha, a, x):  # type: ignore[no-untyped-def]
    return blas.dgbmv(m, n, kl, ku, alpha, a, x)


BENCH = Bench(
    op="trnblas.banded",
    run=gbmv,
    tests="tests/trnblas/test_banded.py",
    cases=tuple(
        case(
            f"{n}, 8 diagonals",
            lambda d, n=n: (n, n, _KL, _KU, 1.0, gaussian((_KL + _KU + 1, n), 1, d), gaussian((n,), 2, d)),
            16 * n,
            10 * n,
        )
        for n in (1024, 1 << 17)
    ),
    peers=(Peer(name="scipy.linalg.blas", run=_scipy, prepare=as_stored, requires="scipy", devices=("cpu",)),),
    kernels=(kernel("131072, 8 diagonals", kernels.banded, (1, 8, 128, 1024), (1, 8, 128, 1024)),),
    tolerance=1e-6,
    notes="SciPy copies diagonals that are contiguous by rows, as torch stores them; both columns include that.",
)
