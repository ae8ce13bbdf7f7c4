"""``trnsolver.sqrtm`` beside SciPy's, of a general matrix."""

from __future__ import annotations

import scipy.linalg
import torch

from benchmarks.registry import Bench, Case, Peer
from trnsci.testing import gaussian
from trnsolver import sqrtm


def _case(n: int, dtype: torch.dtype) -> Case:
    def inputs() -> tuple[torch.Tensor]:
        return (gaussian((n, n), 1, dtype=dtype) + 2 * n**0.5 * torch.eye(n, dtype=dtype),)

    size = dtype.itemsize
    return Case(
        name=f"{n}x{n} {str(dtype).removeprefix('torch.')}", inputs=inputs, flops=30 * n**3, bytes=2 * size * n * n
    )


BENCH = Bench(
    op="trnsolver.roots",
    run=sqrtm,
    tests="tests/trnsolver/test_roots.py",
    cases=(_case(64, torch.float64), _case(256, torch.float32), _case(256, torch.float64)),
    peers=(
        Peer(
            name="scipy.linalg.sqrtm in float64",
            run=scipy.linalg.sqrtm,
            prepare=lambda a: (a.double().numpy(),),
            requires="scipy",
            devices=("cpu",),
        ),
    ),
    notes="Whatever the dtype, SciPy is called in float64; the root is then squared, which shows whether there is one.",
)
