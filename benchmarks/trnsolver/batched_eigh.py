"""Eigenvalues and vectors of batches of small matrices, which ``trnsolver.eigh`` runs on the device."""

from __future__ import annotations

from benchmarks.trnsolver._common import batched
from trnsolver import eigh
from trnsolver.batched.batched_eigh import batch_sweeps, floats
from trnsolver.batched.batches import group
from trnsolver.kernels import batched_eigh as kernels

BENCH = batched(
    "batched_eigh",
    eigh,
    kernels.batched_eigh,
    lambda n: {"group": group(floats(n)), "sweeps": batch_sweeps(n)},
    ((1024, 32), (1024, 8), (256, 64)),
)
