"""QR factors of batches of small matrices, which ``trnsolver.qr`` runs on the device."""

from __future__ import annotations

from benchmarks.trnsolver._common import batched
from trnsolver import qr
from trnsolver.batched.batched_qr import floats
from trnsolver.batched.batches import group
from trnsolver.kernels import batched_qr as kernels

BENCH = batched("batched_qr", qr, kernels.batched_qr, lambda n: {"group": group(floats(n, n))})
