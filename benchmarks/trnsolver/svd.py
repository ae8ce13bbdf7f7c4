"""``trnsolver.svd`` beside torch and SciPy. On chip it runs its own kernel and that of `qr`."""

from __future__ import annotations

from typing import Any

import scipy.linalg
import torch

from benchmarks.registry import TARGETS, Bench, Case, Kernel, Peer
from trnsci.testing import gaussian
from trnsolver import svd
from trnsolver.jacobi import masks, sweeps
from trnsolver.kernels import svd as kernels


def _case(m: int, n: int) -> Case:
    return Case(
        name=f"({m}x{n}) float32",
        inputs=lambda: (gaussian((m, n), 1),),
        flops=20 * m * n * min(m, n),
        bytes=4 * (m * n + m * m + n * n),
    )


def _kernel(*shape: int, targets: tuple[str, ...] = TARGETS, slow: bool = False) -> Kernel:
    def inputs() -> tuple[Any, ...]:
        return torch.empty(shape, device="meta"), *masks(shape[-1], torch.device("cpu"))

    return Kernel(
        name="x".join(map(str, shape)),
        kernel=kernels.svd,
        inputs=inputs,
        options={"sweeps": sweeps(shape[-1])},
        targets=targets,
        slow=slow,
    )


BENCH = Bench(
    op="trnsolver.svd",
    run=svd,
    tests="tests/trnsolver/test_svd.py",
    cases=(_case(256, 256), _case(512, 128)),
    peers=(
        Peer(name="torch.linalg.svd", run=torch.linalg.svd),
        Peer(
            name="scipy.linalg.svd",
            run=scipy.linalg.svd,
            prepare=lambda a: (a.numpy(),),
            requires="scipy",
            devices=("cpu",),
        ),
    ),
    kernels=(_kernel(1, 128, 128), _kernel(1, 512, 512, targets=("trn2",), slow=True), _kernel(4, 32, 32)),
    comparable=lambda result: result[1],
)
