"""``trnsolver.qr`` beside torch and SciPy."""

from __future__ import annotations

import scipy.linalg
import torch

from benchmarks.registry import Bench, Case, Peer
from benchmarks.trnsolver._common import case, kernel, scipy_peer
from trnsci.testing import gaussian
from trnsolver import qr
from trnsolver.kernels import qr as kernels


def _case(*shape: int) -> Case:
    m, n = shape[-2:]
    return case(shape, lambda size: gaussian(size, 1), 4 * n * n * (m - n // 3))


BENCH = Bench(
    op="trnsolver.qr",
    run=qr,
    tests="tests/trnsolver/test_qr.py",
    cases=(_case(256, 256), _case(1024, 1024), _case(1000, 32, 32)),
    peers=(
        Peer(name="torch.linalg.qr", run=torch.linalg.qr),
        scipy_peer("scipy.linalg.qr", lambda a: scipy.linalg.qr(a, mode="economic")),
    ),
    kernels=tuple(kernel(kernels.qr, shape) for shape in ((1, 1024, 1024), (1, 16384, 128), (1, 300, 100))),
    tolerance=1e-2,
    comparable=lambda result: abs(result[1]),
)
