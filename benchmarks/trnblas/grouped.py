"""``trnblas.grouped_gemm`` beside a loop of torch products."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.registry import Bench, Case, Kernel, Peer
from benchmarks.trnblas._common import F32
from trnblas import grouped_gemm
from trnblas.kernels import grouped as kernels
from trnsci.testing import gaussian

_SHAPES = [(256 + 64 * g, 128 + 32 * g, 512 - 32 * g) for g in range(8)]


def _inputs() -> tuple[Any, ...]:
    lefts = [gaussian((m, k), g) for g, (m, k, _) in enumerate(_SHAPES)]
    return 1.0, lefts, [gaussian((k, n), g + 9) for g, (_, k, n) in enumerate(_SHAPES)]


def _meta() -> tuple[Any, ...]:
    lefts = torch.empty(sum(m * k for m, k, _ in _SHAPES), dtype=F32, device="meta")
    return lefts, torch.empty(sum(k * n for _, k, n in _SHAPES), dtype=F32, device="meta")


BENCH = Bench(
    op="trnblas.grouped",
    run=grouped_gemm,
    tests="tests/trnblas/test_grouped.py",
    cases=(
        Case(
            name="8 shapes float32",
            inputs=_inputs,
            flops=sum(2 * m * k * n for m, k, n in _SHAPES),
            bytes=4 * sum(m * k + k * n + m * n for m, k, n in _SHAPES),
        ),
    ),
    peers=(Peer(name="torch.matmul, one by one", run=lambda alpha, a, b: [x @ y for x, y in zip(a, b, strict=True)]),),
    kernels=(
        Kernel(name="8 shapes float32", kernel=kernels.grouped, inputs=_meta, options={"shapes": tuple(_SHAPES)}),
    ),
    comparable=lambda products: torch.cat([x.flatten() for x in products]),
    tolerance=1e-5,
)
