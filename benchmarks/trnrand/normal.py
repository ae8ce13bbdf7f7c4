"""``trnrand.normal`` beside torch and NumPy."""

from __future__ import annotations

import torch

from benchmarks.trnrand._common import stream_bench
from trnrand.kernels import normal as kernels

BENCH = stream_bench("normal", kernels.normal, torch.randn, "standard_normal", (60, 70, 100))
