"""``trnblas.gemm_int`` beside torch's integer product."""

from __future__ import annotations

import torch

from benchmarks.registry import Bench, Case, Peer
from trnblas import gemm_int


def _case(n: int) -> Case:
    def inputs() -> tuple[torch.Tensor, ...]:
        source = torch.Generator().manual_seed(1)
        return tuple(torch.randint(-128, 128, (n, n), dtype=torch.int8, generator=source) for _ in range(2))

    return Case(name=f"{n}x{n} int8", inputs=inputs, flops=2 * n**3, bytes=6 * n * n)


BENCH = Bench(
    op="trnblas.integer",
    run=gemm_int,
    tests="tests/trnblas/test_integer.py",
    cases=(_case(64), _case(512)),
    peers=(
        Peer(name="torch int32 matmul", run=torch.matmul, prepare=lambda a, b: (a.int(), b.int()), devices=("cpu",)),
    ),
)
