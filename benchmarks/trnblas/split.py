"""``gemm`` in four precisions: time and error beside each other, and the split kernel's prediction.

Errors are relative to ``|a| @ |b|``, against float64: a row of the table is ``gemm(..., precision="fp64")``.
"""

from __future__ import annotations

from typing import Any

import torch

import trnblas
from benchmarks.registry import Bench, Peer
from benchmarks.trnblas._common import BF16, F32, case, kernel
from trnblas import gemm
from trnblas.kernels import gemm as whole, split as kernels
from trnblas.split import diagonals, groups
from trnsci.testing import gaussian

_COUNT = diagonals(1024, 0.0, 1 / 32)
_SLICES = (_COUNT, 1, 1024, 1024)


def _bound(precision: Any) -> str:
    return f"{trnblas.error_bound(1024, torch.float32, precision):.1e}"


def _peer(precision: Any) -> Peer:
    name = f"{precision}, error at most {_bound(precision)}"
    return Peer(name=name, run=lambda a, b: gemm(1.0, a, b, precision=precision))


BENCH = Bench(
    op="trnblas.split",
    run=lambda a, b: gemm(1.0, a, b, precision="fp64"),
    tests="tests/trnblas/test_split.py",
    slower="computes in float64, and rounds once",
    cases=tuple(
        case(f"{n}x{n}x{n}", lambda d, n=n: (gaussian((n, n), 1, d), gaussian((n, n), 2, d)), 2 * n**3, 3 * n * n, F32)
        for n in (256, 1024)
    ),
    peers=(_peer("compensated"), _peer("fp32"), _peer("fast")),
    kernels=(
        kernel("1024x1024x1024 fp64 from", kernels.split, _SLICES, _SLICES, dtype=BF16,
               layout=groups(_COUNT, _COUNT, _COUNT, 1024), exact=_COUNT - 3),
        kernel("1024x1024x1024 fp32, for comparison,", whole.gemm, (1, 1024, 1024), (1, 1024, 1024)),
    ),
    tolerance=2e-2,
    notes=f"fp64 rounds once: error at most {_bound('fp64')}. Peers are this op's cheaper policies.",
)  # fmt: skip
