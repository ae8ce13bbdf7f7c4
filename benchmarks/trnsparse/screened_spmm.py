"""The screened product beside masking and multiplying."""

import torch

import trnsparse
from benchmarks.registry import Bench, Case, Peer


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
)
