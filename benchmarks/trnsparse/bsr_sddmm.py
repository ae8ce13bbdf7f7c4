"""Products at stored blocks beside the dense product."""

import numpy as np
import torch

import trnsparse
from benchmarks.registry import Bench, Case, Kernel, Peer
from benchmarks.trnsparse._patterns import blocky
from trnsparse.kernels import bsr_sddmm as kernels


def _inputs():
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(4096, 128, generator=generator), torch.randn(128, 4096, generator=generator)
    return blocky(4096, 0.1), a, b


BENCH = Bench(
    op="trnsparse.bsr_sddmm",
    run=lambda pattern, a, b: trnsparse.sddmm(pattern, a, b).values,
    tests="tests/trnsparse/test_bsr_sddmm.py",
    slower="gathers the operands of every block before one batched product",
    cases=(
        Case(
            name="4096x4096 10% x 128 float32",
            inputs=_inputs,
            flops=2 * 96 * 128**3,
            bytes=4 * (2 * 4096 * 128 + 96 * 128**2),
        ),
    ),
    peers=(
        Peer(
            name="dense torch, gathered",
            prepare=lambda pattern, a, b: (pattern, a, b),
            run=lambda pattern, a, b: (
                (a @ b).reshape(32, 128, 32, 128).transpose(1, 2)[pattern.block_rows, pattern.indices]
            ),
        ),
    ),
    kernels=(
        Kernel(
            name="2048x2048 25% x 128 float32",
            kernel=kernels.bsr_sddmm,
            inputs=lambda: (np.zeros((128, 2048), np.float32), np.zeros((128, 2048), np.float32)),
            options={
                "pointers": tuple(range(0, 65, 4)),
                "columns": tuple(range(4)) * 16,
                "block": (128, 128),
            },
        ),
    ),
)
