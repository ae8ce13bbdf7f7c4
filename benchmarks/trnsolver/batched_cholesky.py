"""Cholesky factors of batches of small matrices, which ``trnsolver.cholesky`` runs on the device."""

from __future__ import annotations

from benchmarks.trnsolver._common import batched
from trnsolver import cholesky
from trnsolver.batched.batched_cholesky import floats
from trnsolver.batched.batches import group
from trnsolver.kernels import batched_cholesky as kernels

BENCH = batched("batched_cholesky", cholesky, kernels.batched_cholesky, lambda n: {"group": group(floats(n))})
