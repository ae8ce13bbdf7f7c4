"""``trnsolver.svd`` beside torch and SciPy. On chip it runs its own kernel and that of `qr`."""

from __future__ import annotations

import scipy.linalg
import torch

from benchmarks.registry import TARGETS, Bench, Case, Kernel, Peer
from benchmarks.trnsolver._common import kernel, scipy_peer
from trnsci.testing import gaussian
from trnsolver import svd
from trnsolver.eigen.jacobi import masks, sweeps
from trnsolver.kernels import svd as kernels


def _case(m: int, n: int) -> Case:
    return Case(
        name=f"({m}x{n}) float32",
        inputs=lambda: (gaussian((m, n), 1),),
        flops=20 * m * n * min(m, n),
        bytes=4 * (m * n + m * m + n * n),
    )


def _kernel(*shape: int, targets: tuple[str, ...] = TARGETS, slow: bool = False) -> Kernel:
    n = shape[-1]
    options = {"sweeps": sweeps(n)}
    return kernel(
        kernels.svd, shape, lambda: masks(n, torch.device("cpu")), options=options, targets=targets, slow=slow
    )


BENCH = Bench(
    op="trnsolver.svd",
    run=svd,
    tests="tests/trnsolver/test_svd.py",
    cases=(_case(256, 256), _case(512, 128)),
    peers=(
        Peer(name="torch.linalg.svd", run=torch.linalg.svd),
        scipy_peer("scipy.linalg.svd", scipy.linalg.svd),
    ),
    kernels=(_kernel(1, 128, 128), _kernel(1, 512, 512, targets=("trn2",), slow=True), _kernel(4, 32, 32)),
    comparable=lambda result: result[1],
)
