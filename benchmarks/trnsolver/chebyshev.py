"""``trnsolver.chebyshev`` beside SciPy's conjugate gradients; the fused kernel takes 16 steps a program."""

from __future__ import annotations

from typing import Any

import scipy.sparse.linalg
import torch

from benchmarks.registry import Bench, Case, Kernel, Peer
from trnsci.nki import P_MAX
from trnsci.testing import gaussian
from trnsolver import chebyshev
from trnsolver.kernels import chebyshev as kernels


def _case(n: int) -> Case:
    def inputs() -> tuple[Any, ...]:
        x = gaussian((n, n), 1)
        return x @ x.mT / n + torch.eye(n), gaussian((n,), 2)

    return Case(name=f"{n} rows float32", inputs=inputs, flops=40 * n * n, bytes=4 * n * n)


def _kernel(n: int, k: int) -> Kernel:
    def inputs() -> tuple[Any, ...]:
        vectors = (torch.empty(n, k, device="meta") for _ in range(3))
        return torch.empty(n, n, device="meta"), *vectors, torch.empty(P_MAX, 32, device="meta")

    return Kernel(name=f"{n} rows, {k} columns, 16 steps", kernel=kernels.chebyshev, inputs=inputs)


BENCH = Bench(
    op="trnsolver.chebyshev",
    run=lambda a, b: chebyshev(a, b, low=1.0, high=5.0, tol=1e-5).x,
    tests="tests/trnsolver/test_chebyshev.py",
    cases=(_case(256), _case(1024)),
    peers=(
        Peer(
            name="scipy cg",
            run=lambda a, b: scipy.sparse.linalg.cg(a, b, rtol=1e-5)[0],
            prepare=lambda a, b: (a.numpy(), b.numpy()),
            requires="scipy",
            devices=("cpu",),
        ),
    ),
    kernels=(_kernel(1024, 1), _kernel(300, 4)),
    notes="The eigenvalues lie between 1 and 5. Conjugate gradients do not need to know that, and take fewer steps.",
)
