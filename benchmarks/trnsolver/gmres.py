"""``trnsolver.gmres`` beside SciPy's."""

from __future__ import annotations

import scipy.sparse.linalg
import torch

from benchmarks.registry import Bench, Case, Peer
from trnsci.testing import gaussian
from trnsolver import gmres


def _case(n: int, dtype: torch.dtype = torch.float64) -> Case:
    def inputs() -> tuple[torch.Tensor, ...]:
        x = gaussian((n, n), 1, dtype=dtype)
        return x / n**0.5 + 3 * torch.eye(n, dtype=dtype), gaussian((n,), 2, dtype=dtype)

    return Case(name=f"{n} rows float64", inputs=inputs, flops=40 * n * n, bytes=8 * n * n)


BENCH = Bench(
    op="trnsolver.gmres",
    run=lambda a, b: gmres(a, b, tol=1e-8).x,
    tests="tests/trnsolver/test_gmres.py",
    cases=(_case(256), _case(1024)),
    peers=(
        Peer(
            name="scipy gmres",
            run=lambda a, b: scipy.sparse.linalg.gmres(a, b, rtol=1e-8)[0],
            prepare=lambda a, b: (a.numpy(), b.numpy()),
            requires="scipy",
            devices=("cpu",),
        ),
    ),
    tolerance=1e-3,
)
