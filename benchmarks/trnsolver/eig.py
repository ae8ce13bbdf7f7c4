"""``trnsolver.eigvals`` beside torch and SciPy."""

from __future__ import annotations

import scipy.linalg
import torch

from benchmarks.registry import Bench, Case, Peer
from trnsci.testing import gaussian
from trnsolver import eigvals


def _case(n: int, dtype: torch.dtype = torch.float64) -> Case:
    def inputs() -> tuple[torch.Tensor, ...]:
        return (gaussian((n, n), 1, dtype=dtype),)

    size = dtype.itemsize
    name = f"{n}x{n} {str(dtype).removeprefix('torch.')}"
    return Case(name=name, inputs=inputs, flops=10 * n**3, bytes=2 * size * n * n)


BENCH = Bench(
    op="trnsolver.eig",
    run=eigvals,
    tests="tests/trnsolver/test_eig.py",
    cases=(_case(64), _case(256)),
    peers=(
        Peer(name="torch.linalg.eigvals", run=torch.linalg.eigvals),
        Peer(
            name="scipy.linalg.eigvals",
            run=scipy.linalg.eigvals,
            prepare=lambda a: (a.numpy(),),
            requires="scipy",
            devices=("cpu",),
        ),
    ),
    comparable=lambda values: values.abs().sort().values if isinstance(values, torch.Tensor) else sorted(abs(values)),
)
