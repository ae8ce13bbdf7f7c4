"""``trnrand.philox4x32`` on counters."""

from __future__ import annotations

from benchmarks.trnrand._common import counter_bench
from trnrand import philox4x32
from trnrand.kernels import philox as kernels

BENCH = counter_bench("philox", philox4x32, kernels.philox, 2, 20)
