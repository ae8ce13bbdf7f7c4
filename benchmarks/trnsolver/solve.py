"""``trnsolver.solve`` beside torch and SciPy. On chip it runs the kernels of `lu` and `trnblas.trsm`."""

from __future__ import annotations

import scipy.linalg
import torch

from benchmarks.registry import Bench, Case, Peer
from trnsci.testing import gaussian
from trnsolver import solve


def _case(*shape: int) -> Case:
    n, batch = shape[-1], shape[0] if len(shape) == 3 else 1
    name = f"{f'{batch}x' if batch > 1 else ''}({n}x{n}), 8 columns, float32"

    def inputs() -> tuple[torch.Tensor, ...]:
        return gaussian(shape, 1) + 2 * n**0.5 * torch.eye(n), gaussian((*shape[:-1], 8), 2)

    return Case(
        name=name, inputs=inputs, flops=batch * (2 * n**3 // 3 + 16 * n * n), bytes=4 * batch * (n * n + 16 * n)
    )


BENCH = Bench(
    op="trnsolver.solve",
    run=solve,
    tests="tests/trnsolver/test_solve.py",
    slower="checks for zero pivots, growth in the factors and results that are not finite, and waits for each answer",
    cases=(_case(256, 256), _case(1024, 1024), _case(1000, 32, 32)),
    peers=(
        Peer(name="torch.linalg.solve", run=torch.linalg.solve),
        Peer(
            name="scipy.linalg.solve",
            run=scipy.linalg.solve,
            prepare=lambda a, b: (a.numpy(), b.numpy()),
            requires="scipy",
            devices=("cpu",),
        ),
    ),
)
