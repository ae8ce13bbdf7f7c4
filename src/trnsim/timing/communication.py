"""Cost formulas of registers, barriers and collectives."""

from __future__ import annotations

from trnsim.targets import Target
from trnsim.timing.costs import Call, Cost, formula, itemsize

_MOVES = ("register_alloc", "register_move", "rank_id", "collective_permute_implicit_current_processing_rank_id")


@formula(*_MOVES, "register_load", "register_store")
def _register(call: Call, target: Target) -> Cost:
    took = target.timing.register if call.name in _MOVES else target.timing.register_load
    return Cost("sync", took, took)


@formula("core_barrier")
def _barrier(call: Call, target: Target) -> Cost:
    return Cost(call.engine, target.timing.core_meeting, target.timing.core_meeting)


@formula("sendrecv")
def _sendrecv(call: Call, target: Target) -> Cost:
    time = target.timing
    row = call.reads[0].n * itemsize(call.reads[0].dtype)
    # eight rows on each DMA engine
    move = 8 * (time.dma_packet + row / time.dma_rate)
    engine = "gpsimd" if call.engine == "gpsimd" else "dma.sync"
    return Cost(engine, time.hwdge_issue, time.core_meeting + move, "documented")


# how often each rank's share crosses a link, in units of the largest operand
_SHARES = {"all_reduce": 2.0} | dict.fromkeys(
    ("all_gather", "all_gather_v", "reduce_scatter", "all_to_all", "all_to_all_v"), 1.0
)


@formula(*_SHARES)
def _collective(call: Call, target: Target) -> Cost:
    """A ring: every rank passes pieces to its neighbour, (ranks - 1) times."""
    ranks = max(1, int(call.info.get("ranks") or 1))
    shares = _SHARES[call.name]
    return _ring(call, target, shares * (ranks - 1) / ranks, max(1.0, shares) * (ranks - 1), ranks)


@formula("collective_permute", "collective_permute_implicit", "collective_permute_implicit_reduce")
def _permute(call: Call, target: Target) -> Cost:
    return _ring(call, target, 1.0, 1, max(2, int(call.info.get("ranks") or 2)))


def _ring(call: Call, target: Target, share: float, hops: float, ranks: int) -> Cost:
    time = target.timing
    nbytes = max((o.nbytes for o in (*call.writes, *call.reads)), default=0)
    hop = time.hop_inside if ranks <= target.cores else time.hop_between
    took = hops * hop + share * nbytes / time.link_rate
    return Cost("cc", took, took, "assumed")
