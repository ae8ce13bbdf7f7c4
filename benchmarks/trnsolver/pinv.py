"""``trnsolver.pinv`` beside torch and SciPy. On chip it runs the kernels of `svd`."""

from __future__ import annotations

import scipy.linalg
import torch

from benchmarks.registry import Bench, Case, Peer
from trnsci.testing import gaussian
from trnsolver import pinv


def _case(n: int, dtype: torch.dtype = torch.float64) -> Case:
    def inputs() -> tuple[torch.Tensor, ...]:
        return (gaussian((n, n), 1, dtype=dtype),)

    size = dtype.itemsize
    name = f"{n}x{n} {str(dtype).removeprefix('torch.')}"
    return Case(name=name, inputs=inputs, flops=22 * n**3, bytes=2 * size * n * n)


BENCH = Bench(
    op="trnsolver.pinv",
    run=pinv,
    tests="tests/trnsolver/test_pinv.py",
    slower="checks that operand and result are finite, and waits for the answers",
    cases=(_case(64), _case(256)),
    peers=(
        Peer(name="torch.linalg.pinv", run=torch.linalg.pinv),
        Peer(
            name="scipy.linalg.pinv",
            run=scipy.linalg.pinv,
            prepare=lambda a: (a.numpy(),),
            requires="scipy",
            devices=("cpu",),
        ),
    ),
)
