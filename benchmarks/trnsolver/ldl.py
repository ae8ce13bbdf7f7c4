"""``trnsolver.ldl`` beside SciPy's."""

from __future__ import annotations

import scipy.linalg
import torch

from benchmarks.registry import Bench, Case, Peer
from trnsci.testing import gaussian
from trnsolver import ldl


def _case(n: int, dtype: torch.dtype = torch.float64) -> Case:
    def inputs() -> tuple[torch.Tensor, ...]:
        return (gaussian((n, n), 1, dtype=dtype) + gaussian((n, n), 1, dtype=dtype).mT,)

    size = dtype.itemsize
    name = f"{n}x{n} {str(dtype).removeprefix('torch.')}"
    return Case(name=name, inputs=inputs, flops=n**3 // 3, bytes=2 * size * n * n)


BENCH = Bench(
    op="trnsolver.ldl",
    run=ldl,
    tests="tests/trnsolver/test_ldl.py",
    cases=(_case(64), _case(256)),
    peers=(
        Peer(
            name="scipy.linalg.ldl",
            run=scipy.linalg.ldl,
            prepare=lambda a: (a.numpy(),),
            requires="scipy",
            devices=("cpu",),
            called=True,
        ),
    ),
    comparable=lambda found: abs(found[1]).sum(),
)
