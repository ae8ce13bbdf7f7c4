"""``trnfft.fft`` beside torch and SciPy, and the predicted time of whole programs on Trainium."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.fft
import torch

import trnfft
from benchmarks.registry import Bench, Case, Kernel, Peer
from trnfft.device import pass_programs
from trnfft.kernels import fft as kernels
from trnsci.testing import gaussian


def _case(shape: tuple[int, ...], dtype: torch.dtype, *, overhead: bool = False) -> Case:
    count = math.prod(shape)
    return Case(
        name=f"{'x'.join(map(str, shape))} {str(dtype).removeprefix('torch.')}",
        inputs=lambda: (gaussian(shape, 1, dtype),),
        flops=5 * count * math.ceil(math.log2(shape[-1])),
        bytes=2 * dtype.itemsize * count,
        overhead=overhead,
    )


def _kernel(
    name: str, kind: str, shape: tuple[int, ...], dims: tuple[int, ...], n: int = 0, dtype: torch.dtype = torch.float32
) -> Kernel:
    arguments = (kind, shape, dims, n, 1 if kind == "c2r" else -1, "none", dtype)

    def inputs() -> tuple[Any, ...]:
        plane = torch.empty(math.prod(shape), dtype=dtype, device="meta")
        return plane, None if kind == "r2c" else torch.empty_like(plane), *pass_programs.pass_program(*arguments).tables

    def options() -> dict[str, Any]:
        return {"program": pass_programs.pass_program(*arguments).steps}

    return Kernel(name=name, kernel=kernels.fft, inputs=inputs, options=options)


def _numpy(x: torch.Tensor) -> tuple[np.ndarray]:
    return (x.numpy(),)


BENCH = Bench(
    op="trnfft.fft",
    run=trnfft.fft,
    tests="tests/trnfft/test_fft.py",
    cases=(
        _case((8,), torch.complex64, overhead=True),
        _case((4096,), torch.complex64),
        _case((256, 4096), torch.complex64),
        _case((1024, 1024), torch.complex64),
        _case((64, 1009), torch.complex64),
        _case((1 << 20,), torch.complex64),
        _case((256, 4096), torch.float32),
        _case((256, 4096), torch.complex128),
    ),
    peers=(
        Peer(name="torch.fft", run=torch.fft.fft),
        Peer(name="scipy.fft", run=scipy.fft.fft, prepare=_numpy, requires="scipy", devices=("cpu",)),
    ),
    kernels=(
        _kernel("c2c 1024, batch 1024", "c2c", (1024, 1024), (1,)),
        _kernel("c2c 4096, batch 256", "c2c", (256, 4096), (1,)),
        _kernel("c2c 256, batch 32", "c2c", (32, 256), (1,)),
        _kernel("c2c prime 1009, batch 64", "c2c", (64, 1009), (1,)),
        _kernel("c2c 10007 by a chirp, batch 4", "c2c", (4, 10007), (1,)),
        _kernel("c2c 2**20", "c2c", (1, 1 << 20), (1,)),
        _kernel("fft2 1024x1024", "c2c", (1024, 1024), (0, 1)),
        _kernel("r2c 1024, batch 1024", "r2c", (1024, 1024), (1,), 1024),
        _kernel("c2r 1024, batch 1024", "c2r", (1024, 513), (1,), 1024),
        _kernel("r2c 4096, batch 256", "r2c", (256, 4096), (1,), 4096),
        _kernel("c2r 4096, batch 256", "c2r", (256, 2049), (1,), 4096),
        _kernel("rfft2 1024x1024", "r2c", (1024, 1024), (0, 1), 1024),
        _kernel("irfft2 1024x1024", "c2r", (1024, 513), (0, 1), 1024),
        _kernel("r2c 2**20", "r2c", (1, 1 << 20), (1,), 1 << 20),
        _kernel("c2r 2**20", "c2r", (1, (1 << 19) + 1), (1,), 1 << 20),
        _kernel("c2c 65536, batch 64", "c2c", (64, 65536), (1,)),
        _kernel("r2c 65536, batch 64", "r2c", (64, 65536), (1,), 65536),
        _kernel("c2r 65536, batch 64", "c2r", (64, 32769), (1,), 65536),
        _kernel("c2c prime 1009 by a chirp, batch 1024", "c2c", (1024, 1009), (1,)),
        _kernel("c2c 1024, batch 1024, bfloat16", "c2c", (1024, 1024), (1,), dtype=torch.bfloat16),
    ),
    tolerance=1e-5,
    notes="The first row is the cost of argument checks and dispatch: a difference in microseconds, at most 5.",
)
