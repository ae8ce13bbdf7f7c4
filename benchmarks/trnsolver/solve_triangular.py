"""``trnsolver.solve_triangular`` beside torch and SciPy. On chip it runs the kernel of `trnblas.trsm`, twice."""

from __future__ import annotations

import scipy.linalg
import torch

from benchmarks.registry import Bench, Case, Peer
from trnsci.testing import gaussian
from trnsolver import solve_triangular


def _case(*shape: int) -> Case:
    n, batch = shape[-1], shape[0] if len(shape) == 3 else 1
    name = f"{f'{batch}x' if batch > 1 else ''}({n}x{n}), {n} columns, float32"

    def inputs() -> tuple[torch.Tensor, ...]:
        return gaussian(shape, 1).tril() / n + torch.eye(n), gaussian(shape, 2)

    return Case(name=name, inputs=inputs, flops=batch * n**3, bytes=12 * batch * n * n)


BENCH = Bench(
    op="trnsolver.solve_triangular",
    run=lambda a, b: solve_triangular(a, b, upper=False),
    tests="tests/trnsolver/test_solve_triangular.py",
    slower="checks for zeros on the diagonal and for results that are not finite, and waits for the answers",
    cases=(_case(256, 256), _case(1024, 1024), _case(1000, 32, 32)),
    peers=(
        Peer(name="torch.linalg.solve_triangular", run=lambda a, b: torch.linalg.solve_triangular(a, b, upper=False)),
        Peer(
            name="scipy.linalg.solve_triangular",
            run=lambda a, b: scipy.linalg.solve_triangular(a, b, lower=True),
            prepare=lambda a, b: (a.numpy(), b.numpy()),
            requires="scipy",
            devices=("cpu",),
        ),
    ),
)
