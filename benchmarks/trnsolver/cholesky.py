"""``trnsolver.cholesky`` beside torch and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from benchmarks.registry import Bench, Case, Kernel, Peer
from trnsci.testing import gaussian
from trnsolver import cholesky
from trnsolver.kernels import cholesky as kernels
from trnsolver.tiles import identity


def _inputs(shape: tuple[int, ...]) -> tuple[Any, ...]:
    x = gaussian(shape, 1)
    return (x @ x.mT / shape[-1] + torch.eye(shape[-1]),)


def _case(*shape: int) -> Case:
    n = shape[-1]
    batch = shape[0] if len(shape) == 3 else 1
    name = f"{f'{batch}x' if len(shape) == 3 else ''}({shape[-2]}x{n}) float32"
    return Case(name=name, inputs=lambda: _inputs(shape), flops=batch * n**3 // 3, bytes=8 * batch * shape[-2] * n)


def _kernel(*shape: int) -> Kernel:
    def inputs() -> tuple[Any, ...]:
        return torch.empty(shape, device="meta"), identity(torch.device("cpu"))

    return Kernel(name="x".join(map(str, shape)), kernel=kernels.cholesky, inputs=inputs)


BENCH = Bench(
    op="trnsolver.cholesky",
    run=cholesky,
    tests="tests/trnsolver/test_cholesky.py",
    slower="looks whether the factor exists and is finite, and waits for the answers",
    cases=(_case(256, 256), _case(1024, 1024), _case(1000, 32, 32)),
    peers=(
        Peer(name="torch.linalg.cholesky", run=torch.linalg.cholesky),
        Peer(name="numpy.linalg.cholesky", run=np.linalg.cholesky, prepare=lambda a: (a.numpy(),), devices=("cpu",)),
    ),
    kernels=(_kernel(1, 1024, 1024), _kernel(1, 200, 200), _kernel(4, 64, 64)),
    tolerance=1e-3,
)
