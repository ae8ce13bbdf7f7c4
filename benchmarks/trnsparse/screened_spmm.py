"""The screened product beside masking and multiplying."""

import numpy as np
import torch

import trnsparse
from benchmarks.registry import Bench, Case, Kernel, Peer
from trnsparse.kernels import screened_spmm as kernels


def _inputs():
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(2048, 2048, generator=generator), torch.randn(2048, 256, generator=generator)
    bounds = torch.exp(-torch.arange(2048) / 200)
    return trnsparse.BSRMatrix.from_dense(a), bounds, b


BENCH = Bench(
    op="trnsparse.screened_spmm",
    run=lambda a, bounds, b: trnsparse.screened_spmm(a, bounds, bounds, b, 1e-3),
    tests="tests/trnsparse/test_screened_spmm.py",
    slower="lists the remaining blocks in every call, and waits for their number",
    cases=(Case(name="2048x2048 x 256 float32", inputs=_inputs, flops=2 * 2048**2 * 256, bytes=4 * 2048 * 2560),),
    peers=(
        Peer(
            name="mask, then dense torch",
            prepare=lambda a, bounds, b: (a.to_dense(), bounds, b),
            run=lambda a, bounds, b: torch.where(torch.outer(bounds, bounds) > 1e-3, a, 0) @ b,
        ),
    ),
    kernels=(
        Kernel(
            name="1024x1024, 36 blocks x 512 float32",
            kernel=kernels.screened_spmm,
            inputs=lambda: (
                np.zeros((128, 36 * 128), np.float32),
                np.zeros((128, 1024), np.float32),
                np.zeros((1024, 1), np.float32),
                np.zeros((128, 1), np.float32),
                np.zeros((1024, 512), np.float32),
            ),
            options={
                "height": 128,
                "pointers": (0, 8, 15, 21, 26, 30, 33, 35, 36),
                "columns": tuple(j for i in range(8) for j in range(8 - i)),
            },
        ),
    ),
)
