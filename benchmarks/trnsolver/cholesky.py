"""``trnsolver.cholesky`` beside torch and NumPy."""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.registry import Bench, Peer
from benchmarks.trnsolver._common import case, kernel
from trnsci.testing import gaussian
from trnsolver import cholesky
from trnsolver.kernels import cholesky as kernels


def _matrix(shape: tuple[int, ...]) -> torch.Tensor:
    x = gaussian(shape, 1)
    return x @ x.mT / shape[-1] + torch.eye(shape[-1])


BENCH = Bench(
    op="trnsolver.cholesky",
    run=cholesky,
    tests="tests/trnsolver/test_cholesky.py",
    slower="checks that the factor exists and is finite, and waits for the answers",
    cases=tuple(case(shape, _matrix, shape[-1] ** 3 // 3) for shape in ((256, 256), (1024, 1024), (1000, 32, 32))),
    peers=(
        Peer(name="torch.linalg.cholesky", run=torch.linalg.cholesky),
        Peer(name="numpy.linalg.cholesky", run=np.linalg.cholesky, prepare=lambda a: (a.numpy(),), devices=("cpu",)),
    ),
    kernels=tuple(kernel(kernels.cholesky, shape) for shape in ((1, 1024, 1024), (1, 200, 200), (4, 64, 64))),
    tolerance=1e-3,
)
