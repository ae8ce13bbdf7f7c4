"""``trntensor.fuse`` beside torch with its intermediate in memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benchmarks.registry import Bench, Case, Kernel, Peer
from trnsci.testing import gaussian
from trntensor import fuse
from trntensor.kernels import fuse as kernels

PROGRAM = fuse("ik,jk->ij", epilogue=lambda t, x, y: t * t / (x + y), extras=("i", "j"), reduce="ij->i")


def _case(m: int, n: int, k: int, dtype: torch.dtype) -> Case:
    def inputs() -> tuple[Any, ...]:
        row, column = (gaussian((size,), size, dtype).abs() + 1 for size in (m, n))
        return gaussian((m, k), 1, dtype), gaussian((n, k), 2, dtype), row, column

    return Case(
        name=f"{m}x{n}x{k} {str(dtype).removeprefix('torch.')}",
        inputs=inputs,
        flops=m * n * (2 * k + 4),
        bytes=dtype.itemsize * (m * k + n * k + 2 * m + n),
    )


def _torch(a: Tensor, b: Tensor, x: Tensor, y: Tensor) -> Tensor:
    t = a @ b.mT
    return (t * t / (x[:, None] + y)).sum(1)


def _kernel(m: int, n: int, k: int) -> Kernel:
    def inputs() -> tuple[Any, ...]:
        shapes = (1, k, m), (1, k, n), (1, m, 1), (1, 1, n)
        return tuple(torch.empty(shape, device="meta") for shape in shapes)

    options = {"code": tuple(map(tuple, PROGRAM.code)), "keep": "bm"}
    return Kernel(name=f"{m}x{n}x{k} float32", kernel=kernels.fuse, inputs=inputs, options=options)


BENCH = Bench(
    op="trntensor.fuse",
    run=PROGRAM,
    tests="tests/trntensor/test_fuse.py",
    slower="checks and arranges every operand on the host",
    cases=(_case(2048, 2048, 64, torch.float32), _case(4096, 4096, 256, torch.float32)),
    peers=(Peer(name="torch, in memory", run=_torch),),
    kernels=(_kernel(2048, 2048, 512), _kernel(200, 300, 77)),
    tolerance=1e-4,
)
