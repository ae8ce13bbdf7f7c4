"""``spmm_op`` beside SciPy where it is the usual product, and beside dense torch for shortest steps."""

from __future__ import annotations

import torch

import trnsparse
from benchmarks.registry import Bench, Case, Peer
from benchmarks.trnsparse._patterns import scattered


def _case(side: int, density: float, n: int, add: str) -> Case:
    entries = round(side * side * density)

    def inputs():
        return scattered(side, side, density), torch.randn(side, n, generator=torch.Generator().manual_seed(0)), add

    name = f"{side}x{side} {density:.2%} x {n} {'plus-times' if add == 'sum' else 'min-plus'}"
    return Case(name=name, inputs=inputs, flops=2 * entries * n, bytes=12 * entries + 8 * side * n)


def _ours(a: trnsparse.CSRMatrix, b: torch.Tensor, add: str) -> torch.Tensor:
    return trnsparse.spmm_op(a, b, multiply=torch.mul if add == "sum" else torch.add, add=add)


def _steps(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.stack([(a + column).amin(1) for column in b.T], 1)


def _missing_is_infinite(a: trnsparse.CSRMatrix, b: torch.Tensor, add: str) -> tuple[torch.Tensor, torch.Tensor]:
    dense = a.to_dense()
    return dense.masked_fill(dense == 0, float("inf")), b


BENCH = Bench(
    op="trnsparse.semiring",
    run=_ours,
    tests="tests/trnsparse/test_spmm.py",
    cases=(_case(2000, 0.005, 8, "sum"), _case(20000, 0.001, 8, "sum"), _case(2000, 0.005, 8, "amin")),
    peers=(
        Peer(
            name="scipy",
            run=lambda a, b: torch.from_numpy(a @ b),
            prepare=lambda a, b, add: (a.to_scipy(), b.numpy()),
            requires="scipy",
            devices=("cpu",),
            takes=lambda a, b, add: add == "sum",
        ),
        Peer(
            name="torch dense",
            run=_steps,
            prepare=_missing_is_infinite,
            devices=("cpu",),
            takes=lambda a, b, add: add == "amin",
        ),
    ),
    notes="The usual product is that of `spmm`; for others any function of PyTorch multiplies, so every term is "
    "written to memory. It has no kernel: a user's function is not known before it runs.",
    devices=("cpu",),
)
