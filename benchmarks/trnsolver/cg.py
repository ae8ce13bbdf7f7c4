"""``trnsolver.cg`` beside SciPy; the fused kernel takes 16 steps a program."""

from __future__ import annotations

from typing import Any

import scipy.sparse.linalg
import torch

from benchmarks.registry import Bench, Case, Kernel, Peer
from trnsci.testing import gaussian
from trnsolver import cg
from trnsolver.kernels import cg as kernels


def _case(n: int) -> Case:
    def inputs() -> tuple[Any, ...]:
        x = gaussian((n, n), 1)
        return x @ x.mT / n + torch.eye(n), gaussian((n,), 2)

    return Case(name=f"{n} rows float32", inputs=inputs, flops=40 * n * n, bytes=4 * n * n)


def _kernel(n: int, k: int) -> Kernel:
    def inputs() -> tuple[Any, ...]:
        return torch.empty(n, n, device="meta"), *(torch.empty(n, k, device="meta") for _ in range(3))

    return Kernel(name=f"{n} rows, {k} columns, 16 steps", kernel=kernels.cg, inputs=inputs, options={"steps": 16})


BENCH = Bench(
    op="trnsolver.cg",
    run=lambda a, b: cg(a, b, tol=1e-5).x,
    tests="tests/trnsolver/test_cg.py",
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
    notes="Ours claims no residual that was not computed afresh: one product more than SciPy's, of ten here.",
)
