"""Orthogonal rows of batches of small matrices, which ``trnsolver.svd`` runs on the device."""

from __future__ import annotations

from benchmarks.trnsolver._common import batched
from trnsolver import svd
from trnsolver.batched.batched_svd import floats
from trnsolver.batched.batches import group
from trnsolver.kernels import batched_svd as kernels

BENCH = batched(
    "batched_svd",
    svd,
    kernels.batched_svd,
    lambda n: {"group": group(floats(n)), "sweeps": 6 if n <= 8 else 8},
    ((1024, 32), (1024, 8)),
)
