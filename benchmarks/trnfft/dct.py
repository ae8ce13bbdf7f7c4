"""``trnfft.dct`` beside SciPy."""

from __future__ import annotations

import math

import numpy as np
import scipy.fft
import torch

import trnfft
from benchmarks.registry import Bench, Case, Peer
from trnsci.testing import gaussian


def _case(shape: tuple[int, ...], kind: int, dtype: torch.dtype, *, overhead: bool = False) -> Case:
    count = math.prod(shape)
    return Case(
        name=f"type {kind}, {'x'.join(map(str, shape))} {str(dtype).removeprefix('torch.')}",
        inputs=lambda: (gaussian(shape, 1, dtype), kind),
        flops=5 * count * math.ceil(math.log2(shape[-1])) // 2,
        bytes=2 * dtype.itemsize * count,
        overhead=overhead,
    )


def _numpy(x: torch.Tensor, kind: int) -> tuple[np.ndarray, int]:
    return x.numpy(), kind


def _makhoul(x: torch.Tensor, kind: int) -> torch.Tensor:
    """Type 2 by torch's complex transform, as written most often."""
    n = x.shape[-1]
    folded = torch.cat([x[..., ::2], x[..., 1::2].flip(-1)], -1)
    phases = torch.exp(-0.5j * math.pi / n * torch.arange(n, device=x.device))
    return 2 * (torch.fft.fft(folded) * phases).real


BENCH = Bench(
    op="trnfft.dct",
    run=trnfft.dct,
    tests="tests/trnfft/test_dct.py",
    cases=(
        *(_case((256, 4096), kind, torch.float32) for kind in (1, 2, 3, 4)),
        _case((256, 4096), 2, torch.float64),
        *(_case((4096,), kind, torch.float32) for kind in (1, 2, 3, 4)),
        *(_case((10007,), kind, torch.float64) for kind in (1, 2, 3, 4)),
        *(_case((4096, 8), kind, torch.float32) for kind in (2, 3)),
        _case((1 << 20,), 2, torch.float64),
        _case((8,), 2, torch.float32, overhead=True),
        _case((4096, 1024), 2, torch.float32),
    ),
    peers=(
        Peer(name="scipy.fft", run=scipy.fft.dct, prepare=_numpy, requires="scipy", devices=("cpu",)),
        Peer(name="torch, Makhoul", run=_makhoul, devices=("cuda",), takes=lambda x, kind: kind == 2),
    ),
    tolerance=1e-5,
    notes="The row of 8 points is the cost of argument checks and dispatch: a difference in microseconds, at most 5.",
)
