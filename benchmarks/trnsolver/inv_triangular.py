"""``trnsolver.inv_triangular`` beside torch."""

from __future__ import annotations

import torch

from benchmarks.registry import Bench, Peer
from benchmarks.trnsolver._common import case, kernel
from trnblas.trsm import doubling_masks
from trnsci.testing import gaussian
from trnsolver import inv_triangular
from trnsolver.kernels import inv_triangular as kernels


def _matrix(shape: tuple[int, ...]) -> torch.Tensor:
    return gaussian(shape, 1).triu() / shape[-1] + torch.eye(shape[-1])


def _tables() -> tuple[torch.Tensor, ...]:
    return (doubling_masks(torch.device("cpu")),)


BENCH = Bench(
    op="trnsolver.inv_triangular",
    run=inv_triangular,
    tests="tests/trnsolver/test_inv_triangular.py",
    slower="checks for entries that are not finite and for zeros on the diagonal, and waits for the answers",
    cases=tuple(case(shape, _matrix, shape[-1] ** 3 // 3) for shape in ((256, 256), (1024, 1024), (1000, 32, 32))),
    peers=(
        Peer(
            name="torch.linalg.solve_triangular",
            run=lambda a: torch.linalg.solve_triangular(
                a, torch.eye(a.shape[-1], device=a.device).expand(a.shape), upper=True
            ),
        ),
    ),
    kernels=tuple(kernel(kernels.inv_triangular, shape, _tables) for shape in ((1, 1024, 1024), (1, 200, 200))),
    tolerance=1e-3,
)
