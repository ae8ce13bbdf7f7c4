"""``trnsolver.geqrf`` beside torch."""

from __future__ import annotations

from typing import Any

import torch
import torch.linalg

from benchmarks.registry import Bench, Case, Kernel, Peer
from trnblas.trsm import doubling_masks
from trnsci.testing import gaussian
from trnsolver import geqrf
from trnsolver.kernels import householder as kernels


def _case(n: int, dtype: torch.dtype = torch.float64) -> Case:
    def inputs() -> tuple[torch.Tensor, ...]:
        return (gaussian((n, n), 1, dtype=dtype),)

    size = dtype.itemsize
    name = f"{n}x{n} {str(dtype).removeprefix('torch.')}"
    return Case(name=name, inputs=inputs, flops=4 * n**3 // 3, bytes=2 * size * n * n)


def _kernel(*shape: int) -> Kernel:
    def inputs() -> tuple[Any, ...]:
        return torch.empty(shape, device="meta"), doubling_masks(torch.device("cpu"))

    return Kernel(name="x".join(map(str, shape)), kernel=kernels.householder, inputs=inputs)


BENCH = Bench(
    op="trnsolver.householder",
    run=geqrf,
    tests="tests/trnsolver/test_householder.py",
    slower="checks that the factors are finite, and waits for the answer",
    cases=(_case(64), _case(256)),
    peers=(Peer(name="torch.geqrf", run=torch.geqrf),),
    kernels=(_kernel(1, 1024, 1024), _kernel(1, 300, 100)),
    comparable=lambda found: found[0],
)
