"""``trnsolver.lanczos`` beside SciPy's ARPACK."""

from __future__ import annotations

import scipy.sparse.linalg
import torch

from benchmarks.registry import Bench, Case, Peer
from trnsci.testing import gaussian
from trnsolver import lanczos


def _case(n: int, dtype: torch.dtype = torch.float64) -> Case:
    def inputs() -> tuple[torch.Tensor, ...]:
        x = gaussian((n, n), 1, dtype=dtype)
        return (x + x.mT,)

    return Case(name=f"{n} rows float64", inputs=inputs, flops=40 * n * n, bytes=8 * n * n)


BENCH = Bench(
    op="trnsolver.lanczos",
    run=lambda a: lanczos(a, 4, tol=1e-8).values,
    tests="tests/trnsolver/test_lanczos.py",
    cases=(_case(256), _case(1024)),
    peers=(
        Peer(
            name="scipy eigsh",
            run=lambda a: scipy.sparse.linalg.eigsh(a, 4, which="LA", tol=1e-8)[0][::-1].copy(),
            prepare=lambda a: (a.numpy(),),
            requires="scipy",
            devices=("cpu",),
        ),
    ),
    tolerance=1e-3,
)
