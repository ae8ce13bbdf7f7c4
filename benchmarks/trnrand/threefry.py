"""``trnrand.threefry4x32`` on counters."""

from __future__ import annotations

import torch

from benchmarks.registry import Bench, Peer, device
from benchmarks.trnrand._common import case, counter_kernels
from trnrand import threefry4x32
from trnrand.kernels import threefry as kernels

N = 10**6
_counter, _key = torch.arange(4 * N).view(N, 4), torch.arange(4)

BENCH = Bench(
    op="trnrand.threefry",
    run=threefry4x32,
    tests="tests/trnrand/test_threefry.py",
    slower="every counter is an operand, and words are integer operations of torch; the peer draws other numbers",
    cases=(case("10^6 counters", (_counter, _key), 4 * N, 4, 30),),
    peers=(
        Peer(
            name="torch.randint",
            run=lambda counter, key: torch.randint(0, 2**31 - 1, (4 * N,), dtype=torch.int32, device=device()),
        ),
    ),
    kernels=counter_kernels(kernels.threefry),
    comparable=None,
)
