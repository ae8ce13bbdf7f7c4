"""``trnrand.philox4x32`` on counters."""

from __future__ import annotations

import torch

from benchmarks.registry import Bench, Peer, device
from benchmarks.trnrand._common import case, counter_kernels
from trnrand import philox4x32
from trnrand.kernels import philox as kernels

N = 10**6
_counter, _key = torch.arange(4 * N).view(N, 4), torch.arange(2)

BENCH = Bench(
    op="trnrand.philox",
    run=philox4x32,
    tests="tests/trnrand/test_philox.py",
    slower="every counter is an operand, and words are integer operations of torch; the peer draws other numbers",
    cases=(case("10^6 counters", (_counter, _key), 4 * N, 4, 20),),
    peers=(
        Peer(
            name="torch.randint",
            run=lambda counter, key: torch.randint(0, 2**31 - 1, (4 * N,), dtype=torch.int32, device=device()),
        ),
    ),
    kernels=counter_kernels(kernels.philox),
    comparable=None,
)
