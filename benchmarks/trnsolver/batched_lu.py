"""LU factors of batches of small matrices, which ``trnsolver.lu_factor`` and ``solve`` run on the device."""

from __future__ import annotations

from benchmarks.trnsolver._common import batched
from trnsolver import lu_factor
from trnsolver.batched.batched_lu import floats
from trnsolver.batched.batches import group
from trnsolver.kernels import batched_lu as kernels

BENCH = batched("batched_lu", lu_factor, kernels.batched_lu, lambda n: {"group": group(floats(n, n))})
