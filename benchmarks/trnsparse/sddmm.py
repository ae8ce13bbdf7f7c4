"""Sampled products beside torch and the dense product."""

import numpy as np
import torch

import trnsparse
from benchmarks.registry import Bench, Case, Kernel, Peer
from benchmarks.trnsparse._patterns import scattered
from trnsparse.kernels import sddmm as kernels


def _case(side: int, density: float, d: int) -> Case:
    entries = round(side * side * density)

    def inputs():
        generator = torch.Generator().manual_seed(0)
        a, b = torch.randn(side, d, generator=generator), torch.randn(d, side, generator=generator)
        return scattered(side, side, density), a, b

    size = 12 * entries + 8 * side * d
    return Case(name=f"{side}x{side} {density:.1%} x {d} float32", inputs=inputs, flops=2 * entries * d, bytes=size)


BENCH = Bench(
    op="trnsparse.sddmm",
    run=lambda pattern, a, b: trnsparse.sddmm(pattern, a, b).values,
    tests="tests/trnsparse/test_sddmm.py",
    cases=(_case(4096, 0.01, 64),),
    peers=(
        Peer(
            name="dense torch, gathered",
            prepare=lambda pattern, a, b: (pattern.to_coo(), a, b),
            run=lambda pattern, a, b: (a @ b)[pattern.row, pattern.col],
        ),
        Peer(
            name="torch.sparse.sampled_addmm",
            prepare=lambda pattern, a, b: (pattern.to_torch(), a, b),
            run=lambda pattern, a, b: torch.sparse.sampled_addmm(pattern, a, b, beta=0.0).values(),
            devices=("cpu",),
        ),
    ),
    kernels=(
        Kernel(
            name="16384 entries x 64 float32",
            kernel=kernels.sddmm,
            inputs=lambda: (
                37 * np.arange(2 * 16384, dtype=np.int32).reshape(16384, 2) % 1024,
                np.zeros((1024, 64), np.float32),
                np.zeros((1024, 64), np.float32),
            ),
            targets=("trn2", "trn3"),
        ),
    ),
)
