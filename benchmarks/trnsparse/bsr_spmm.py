"""BSR times dense beside dense torch."""

import ml_dtypes
import numpy as np
import torch

from benchmarks.registry import Bench, Case, Kernel, Peer
from benchmarks.trnsparse._patterns import block_columns, blocky
from trnsparse.bsr_spmm import in_order
from trnsparse.kernels import bsr_spmm as kernels


def _case(side: int, density: float, n: int) -> Case:
    stored = (side // 128) * max(1, round(density * side // 128)) * 128 * 128

    def inputs():
        return blocky(side, density), torch.randn(side, n, generator=torch.Generator().manual_seed(0))

    size = 4 * stored + 8 * side * n
    return Case(name=f"{side}x{side} {density:.0%} x {n} float32", inputs=inputs, flops=2 * stored * n, bytes=size)


def _kernel(side: int, density: float, n: int, dtype: type) -> Kernel:
    rows = [[((int(c) * 128, 128),) for c in row] for row in block_columns(side, density)]
    stored = sum(len(row) for row in rows)
    return Kernel(
        name=f"{side}x{side} {density:.0%} x {n} {np.dtype(dtype).name}",
        kernel=kernels.bsr_spmm,
        inputs=lambda: (np.zeros((128, stored * 128), dtype), np.zeros((side, n), dtype)),
        options={"rows": side, "height": 128, "steps": in_order(rows)[0]},
    )


BENCH = Bench(
    op="trnsparse.bsr_spmm",
    run=lambda a, b: a @ b,
    tests="tests/trnsparse/test_bsr_spmm.py",
    cases=(_case(4096, 0.1, 256), _case(4096, 0.25, 256), _case(4096, 0.25, 512)),
    peers=(
        Peer(name="dense torch", prepare=lambda a, b: (a.to_dense(), b), run=torch.matmul),
        Peer(
            name="scipy bsr",
            requires="scipy",
            devices=("cpu",),
            prepare=lambda a, b: (a.to_scipy(), b.numpy()),
            run=lambda a, b: torch.from_numpy(a @ b),
        ),
    ),
    kernels=(
        *(_kernel(4096, d, 512, t) for t in (np.float32, ml_dtypes.bfloat16) for d in (0.05, 0.25, 0.5)),
        *(_kernel(16384, d, 512, t) for t in (np.float32, ml_dtypes.bfloat16) for d in (0.05, 0.5)),
    ),
)
