"""``trnsolver.davidson`` beside SciPy's ARPACK, on a matrix that is nearly diagonal."""

from __future__ import annotations

import scipy.sparse.linalg
import torch

from benchmarks.registry import Bench, Case, Peer
from trnsci.testing import gaussian
from trnsolver import davidson


def _case(n: int, dtype: torch.dtype = torch.float64) -> Case:
    def inputs() -> tuple[torch.Tensor, ...]:
        x = gaussian((n, n), 1, dtype=dtype)
        return (torch.diag(torch.arange(1.0, n + 1, dtype=dtype)) + 0.01 * (x + x.mT),)

    return Case(name=f"{n} rows float64", inputs=inputs, flops=40 * n * n, bytes=8 * n * n)


BENCH = Bench(
    op="trnsolver.davidson",
    run=lambda a: davidson(a, 4, tol=1e-8).values,
    tests="tests/trnsolver/test_davidson.py",
    cases=(_case(256), _case(1024)),
    peers=(
        Peer(
            name="scipy eigsh",
            run=lambda a: scipy.sparse.linalg.eigsh(a, 4, which="SA", tol=1e-8)[0],
            prepare=lambda a: (a.numpy(),),
            requires="scipy",
            devices=("cpu",),
        ),
    ),
    tolerance=1e-3,
)
