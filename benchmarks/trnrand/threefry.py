"""``trnrand.threefry4x32`` on counters."""

from __future__ import annotations

from benchmarks.trnrand._common import counter_bench
from trnrand import threefry4x32
from trnrand.kernels import threefry as kernels

BENCH = counter_bench("threefry", threefry4x32, kernels.threefry, 4, 30)
