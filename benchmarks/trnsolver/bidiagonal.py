"""``trnsolver.gebrd`` beside the singular values it is a step towards: no library of Python's has a bidiagonal form."""

from __future__ import annotations

import torch

from benchmarks.registry import Bench, Case, Peer
from trnsci.testing import gaussian
from trnsolver import gebrd


def _case(m: int, n: int, dtype: torch.dtype = torch.float64) -> Case:
    def inputs() -> tuple[torch.Tensor, ...]:
        return (gaussian((m, n), 1, dtype=dtype),)

    name = f"{m}x{n} {str(dtype).removeprefix('torch.')}"
    return Case(name=name, inputs=inputs, flops=4 * n * n * m - 4 * n**3 // 3, bytes=2 * dtype.itemsize * m * n)


BENCH = Bench(
    op="trnsolver.bidiagonal",
    run=gebrd,
    tests="tests/trnsolver/test_bidiagonal.py",
    cases=(_case(64, 64), _case(256, 128)),
    peers=(Peer(name="torch.linalg.svdvals", run=torch.linalg.svdvals),),
    comparable=None,
)
