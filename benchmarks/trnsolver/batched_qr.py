"""QR factors of batches of small matrices, which ``trnsolver.qr`` runs on the device."""

from __future__ import annotations

import torch

from benchmarks.registry import TARGETS, Bench, Kernel
from trnsolver import qr
from trnsolver.batched_qr import floats
from trnsolver.batches import group
from trnsolver.kernels import batched_qr as kernels


def _kernel(batch: int, n: int, targets: tuple[str, ...] = TARGETS) -> Kernel:
    return Kernel(
        name=f"{batch}x{n}x{n}",
        kernel=kernels.batched_qr,
        inputs=lambda: (torch.empty((batch, n, n), device="meta"),),
        options={"group": group(floats(n, n))},
        targets=targets,
    )


BENCH = Bench(
    op="trnsolver.batched_qr",
    run=qr,
    tests="tests/trnsolver/test_batches.py",
    cases=(),
    peers=(),
    kernels=(_kernel(1024, 32), _kernel(1024, 8, ("trn2",)), _kernel(1024, 64, ("trn2",))),
)
