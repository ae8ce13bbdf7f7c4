"""Eigenvalues and vectors of batches of small matrices, which ``trnsolver.eigh`` runs on the device."""

from __future__ import annotations

import torch

from benchmarks.registry import TARGETS, Bench, Kernel
from trnsolver import eigh
from trnsolver.batched_eigh import batch_sweeps, floats
from trnsolver.batches import group
from trnsolver.kernels import batched_eigh as kernels


def _kernel(batch: int, n: int, targets: tuple[str, ...] = TARGETS) -> Kernel:
    return Kernel(
        name=f"{batch}x{n}x{n}",
        kernel=kernels.batched_eigh,
        inputs=lambda: (torch.empty((batch, n, n), device="meta"),),
        options={"group": group(floats(n)), "sweeps": batch_sweeps(n)},
        targets=targets,
    )


BENCH = Bench(
    op="trnsolver.batched_eigh",
    run=eigh,
    tests="tests/trnsolver/test_batches.py",
    cases=(),
    peers=(),
    kernels=(_kernel(1024, 32), _kernel(1024, 8, ("trn2",)), _kernel(256, 64, ("trn2",))),
)
