"""``trnfft.fft`` in float64 beside torch and SciPy, and the predicted time of its products in digits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.fft
import torch

import trnfft
from benchmarks.registry import Bench, Case, Kernel, Peer
from trnfft.kernels import exact as kernels
from trnsci.testing import gaussian


def _case(shape: tuple[int, ...]) -> Case:
    count = math.prod(shape)
    return Case(
        name=f"{'x'.join(map(str, shape))} complex128",
        inputs=lambda: (gaussian(shape, 1, torch.complex128),),
        flops=5 * count * math.ceil(math.log2(shape[-1])),
        bytes=32 * count,
    )


def _kernel(name: str, digits: int, n1: int, n2: int, columns: int) -> Kernel:
    def inputs() -> tuple[Any, ...]:
        def empty(*shape: int) -> torch.Tensor:
            return torch.empty(*shape, dtype=torch.bfloat16, device="meta")

        x, first = empty(2, n1, n2, digits, columns), empty(2 * n1, n2, digits, 2 * n1)
        return (x, first) if n2 == 1 else (x, first, empty(2 * n2, 1, digits, 2 * n2))

    return Kernel(name=name, kernel=kernels.exact, inputs=inputs)


def _numpy(x: torch.Tensor) -> tuple[np.ndarray]:
    return (x.numpy(),)


BENCH = Bench(
    op="trnfft.exact",
    run=trnfft.fft,
    tests="tests/trnfft/test_exact.py",
    cases=(_case((64, 4096)), _case((1 << 18,))),
    peers=(
        Peer(name="torch.fft", run=torch.fft.fft),
        Peer(name="scipy.fft", run=scipy.fft.fft, prepare=_numpy, requires="scipy", devices=("cpu",)),
    ),
    kernels=(
        _kernel("fp64, 64 points of 4096 columns", 7, 64, 1, 4096),
        _kernel("compensated, 64 points of 4096 columns", 4, 64, 1, 4096),
        _kernel("fp64, 64 rows of 4096 points", 7, 64, 64, 64),
        _kernel("compensated, 64 rows of 4096 points", 4, 64, 64, 64),
    ),
    tolerance=1e-13,
)
