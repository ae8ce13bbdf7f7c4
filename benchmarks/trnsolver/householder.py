"""``trnsolver.geqrf`` beside torch."""

from __future__ import annotations

import torch
import torch.linalg

from benchmarks.registry import Bench, Case, Peer
from trnsci.testing import gaussian
from trnsolver import geqrf


def _case(n: int, dtype: torch.dtype = torch.float64) -> Case:
    def inputs() -> tuple[torch.Tensor, ...]:
        return (gaussian((n, n), 1, dtype=dtype),)

    size = dtype.itemsize
    name = f"{n}x{n} {str(dtype).removeprefix('torch.')}"
    return Case(name=name, inputs=inputs, flops=4 * n**3 // 3, bytes=2 * size * n * n)


BENCH = Bench(
    op="trnsolver.householder",
    run=geqrf,
    tests="tests/trnsolver/test_householder.py",
    cases=(_case(64), _case(256)),
    peers=(Peer(name="torch.geqrf", run=torch.geqrf),),
    comparable=lambda found: found[0],
)
