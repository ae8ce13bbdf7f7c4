"""``trnfft.fft`` in float64 beside torch and SciPy, and the predicted time of its products in digits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.fft
import torch

import trnfft
from benchmarks.registry import Bench, Case, Kernel, Peer
from trnfft.device import digit_programs
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


def _kernel(name: str, precision: str, lengths: tuple[int, ...], columns: int) -> Kernel:
    arguments = (lengths, columns, -1, precision)

    def inputs() -> tuple[Any, ...]:
        made = digit_programs.digit_program(*arguments)
        points = math.prod(axis.length for axis in made.axes)
        x = torch.empty(2, points, made.count, columns, dtype=torch.bfloat16, device="meta")
        return x, made.tables

    def options() -> dict[str, Any]:
        return {"program": digit_programs.digit_program(*arguments).steps}

    return Kernel(name=name, kernel=kernels.exact, inputs=inputs, options=options)


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
        _kernel("fp64, 64 points of 4096 columns", "fp64", (64,), 4096),
        _kernel("compensated, 64 points of 4096 columns", "compensated", (64,), 4096),
        _kernel("fp64, 64 rows of 4096 points", "fp64", (4096,), 64),
        _kernel("compensated, 64 rows of 4096 points", "compensated", (4096,), 64),
        _kernel("fp64, 64 rows of 16384 points", "fp64", (16384,), 64),
        _kernel("fp64, one row of 2**18 points", "fp64", (1 << 18,), 1),
        _kernel("fp64, 64 rows of the prime 1009", "fp64", (1009,), 64),
        _kernel("fp64, 512 x 512, both axes", "fp64", (512, 512), 1),
    ),
    tolerance=1e-13,
)
