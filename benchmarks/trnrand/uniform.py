"""``trnrand.uniform`` beside torch and NumPy."""

from __future__ import annotations

import torch

from benchmarks.trnrand._common import stream_bench
from trnrand.kernels import uniform as kernels

BENCH = stream_bench("uniform", kernels.uniform, torch.rand, "random", (21, 31, 42))
