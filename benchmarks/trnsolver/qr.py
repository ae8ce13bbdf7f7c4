"""``trnsolver.qr`` beside torch and SciPy."""

from __future__ import annotations

from typing import Any

import scipy.linalg
import torch

from benchmarks.registry import Bench, Case, Kernel, Peer
from trnsci.testing import gaussian
from trnsolver import qr
from trnsolver.kernels import qr as kernels
from trnsolver.tiles import identity


def _inputs(shape: tuple[int, ...]) -> tuple[Any, ...]:
    return (gaussian(shape, 1),)


def _case(*shape: int) -> Case:
    n = shape[-1]
    batch = shape[0] if len(shape) == 3 else 1
    name = f"{f'{batch}x' if len(shape) == 3 else ''}({shape[-2]}x{n}) float32"
    return Case(
        name=name,
        inputs=lambda: _inputs(shape),
        flops=4 * batch * n * n * (shape[-2] - n // 3),
        bytes=8 * batch * shape[-2] * n,
    )


def _kernel(*shape: int) -> Kernel:
    def inputs() -> tuple[Any, ...]:
        return torch.empty(shape, device="meta"), identity(torch.device("cpu"))

    return Kernel(name="x".join(map(str, shape)), kernel=kernels.qr, inputs=inputs)


BENCH = Bench(
    op="trnsolver.qr",
    run=qr,
    tests="tests/trnsolver/test_qr.py",
    cases=(_case(256, 256), _case(1024, 1024), _case(1000, 32, 32)),
    peers=(
        Peer(name="torch.linalg.qr", run=torch.linalg.qr),
        Peer(
            name="scipy.linalg.qr",
            run=lambda a: scipy.linalg.qr(a, mode="economic"),
            prepare=lambda a: (a.numpy(),),
            requires="scipy",
            devices=("cpu",),
        ),
    ),
    kernels=(_kernel(1, 1024, 1024), _kernel(1, 16384, 128), _kernel(1, 300, 100)),
    tolerance=1e-2,
    comparable=lambda result: abs(result[1]),
)
