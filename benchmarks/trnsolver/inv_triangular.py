"""``trnsolver.inv_triangular`` beside torch."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.registry import Bench, Case, Kernel, Peer
from trnsci.testing import gaussian
from trnsolver import inv_triangular
from trnsolver.kernels import inv_triangular as kernels
from trnsolver.tiles import doubling_masks


def _inputs(shape: tuple[int, ...]) -> tuple[Any, ...]:
    return (gaussian(shape, 1).triu() / shape[-1] + torch.eye(shape[-1]),)


def _case(*shape: int) -> Case:
    n = shape[-1]
    batch = shape[0] if len(shape) == 3 else 1
    name = f"{f'{batch}x' if len(shape) == 3 else ''}({shape[-2]}x{n}) float32"
    return Case(name=name, inputs=lambda: _inputs(shape), flops=batch * n**3 // 3, bytes=8 * batch * shape[-2] * n)


def _kernel(*shape: int) -> Kernel:
    def inputs() -> tuple[Any, ...]:
        return torch.empty(shape, device="meta"), doubling_masks(torch.device("cpu"))

    return Kernel(name="x".join(map(str, shape)), kernel=kernels.inv_triangular, inputs=inputs)


BENCH = Bench(
    op="trnsolver.inv_triangular",
    run=inv_triangular,
    tests="tests/trnsolver/test_inv_triangular.py",
    slower="looks for entries that are not finite and for zeros on the diagonal, and waits for the answers",
    cases=(_case(256, 256), _case(1024, 1024), _case(1000, 32, 32)),
    peers=(
        Peer(
            name="torch.linalg.solve_triangular",
            run=lambda a: torch.linalg.solve_triangular(
                a, torch.eye(a.shape[-1], device=a.device).expand(a.shape), upper=True
            ),
        ),
    ),
    kernels=(_kernel(1, 1024, 1024), _kernel(1, 200, 200)),
    tolerance=1e-3,
)
