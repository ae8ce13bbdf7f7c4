"""``trnfft.rfft`` on the host beside torch and SciPy: lengths that are powers, odd, and prime."""

from __future__ import annotations

import math

import numpy as np
import scipy.fft
import torch

import trnfft
from benchmarks.registry import Bench, Case, Peer
from trnsci.testing import gaussian


def _case(shape: tuple[int, ...], dtype: torch.dtype, *, overhead: bool = False) -> Case:
    count = math.prod(shape)
    return Case(
        name=f"{'x'.join(map(str, shape))} {str(dtype).removeprefix('torch.')}",
        inputs=lambda: (gaussian(shape, 1, dtype),),
        flops=5 * count * math.ceil(math.log2(shape[-1])) // 2,
        bytes=2 * dtype.itemsize * count,
        overhead=overhead,
    )


def _numpy(x: torch.Tensor) -> tuple[np.ndarray]:
    return (x.numpy(),)


BENCH = Bench(
    op="trnfft.host",
    run=trnfft.rfft,
    tests="tests/trnfft/test_host.py",
    cases=(
        _case((8,), torch.float32, overhead=True),
        _case((4096,), torch.float32),
        _case((10005,), torch.float32),
        _case((10007,), torch.float32),
        _case((10007,), torch.float64),
        _case((64, 10007), torch.float32),
        _case((1601, 400), torch.float32),
        _case((1 << 20,), torch.float32),
    ),
    peers=(
        Peer(name="torch.fft", run=torch.fft.rfft),
        Peer(name="scipy.fft", run=scipy.fft.rfft, prepare=_numpy, requires="scipy", devices=("cpu",)),
    ),
    tolerance=1e-5,
    notes="10005 is 3 x 5 x 23 x 29; 10007 is prime. The first row is a difference in microseconds, at most 20.",
)
