"""Orthogonal rows of batches of small matrices, which ``trnsolver.svd`` runs on the device."""

from __future__ import annotations

import torch

from benchmarks.registry import TARGETS, Bench, Kernel
from trnsolver import svd
from trnsolver.batched_svd import floats
from trnsolver.batches import group
from trnsolver.kernels import batched_svd as kernels


def _kernel(batch: int, n: int, targets: tuple[str, ...] = TARGETS) -> Kernel:
    return Kernel(
        name=f"{batch}x{n}x{n}",
        kernel=kernels.batched_svd,
        inputs=lambda: (torch.empty((batch, n, n), device="meta"),),
        options={"group": group(floats(n)), "sweeps": 6 if n <= 8 else 8},
        targets=targets,
    )


BENCH = Bench(
    op="trnsolver.batched_svd",
    run=svd,
    tests="tests/trnsolver/test_batches.py",
    cases=(),
    peers=(),
    kernels=(_kernel(1024, 32), _kernel(1024, 8, ("trn2",))),
)
