"""Triangular systems of batches of small matrices, which ``solve``, ``inv`` and ``lstsq`` run on the device."""

from __future__ import annotations

import torch

from benchmarks.registry import TARGETS, Bench, Kernel
from trnsolver import solve_triangular
from trnsolver.batched.batched_triangular import floats
from trnsolver.batched.batches import group
from trnsolver.kernels import batched_triangular as kernels


def _kernel(batch: int, n: int, columns: int, targets: tuple[str, ...] = TARGETS) -> Kernel:
    shapes = (batch, n, n), (batch, n, columns)
    return Kernel(
        name=f"{batch}x{n}x{n}, {columns} columns",
        kernel=kernels.batched_triangular,
        inputs=lambda: tuple(torch.empty(shape, device="meta") for shape in shapes),
        options={"lower": True, "unit": False, "group": group(floats(n, columns))},
        targets=targets,
    )


BENCH = Bench(
    op="trnsolver.batched_triangular",
    run=solve_triangular,
    tests="tests/trnsolver/test_batches.py",
    cases=(),
    peers=(),
    kernels=(_kernel(1024, 32, 1), _kernel(1024, 32, 32, ("trn2",))),
)
