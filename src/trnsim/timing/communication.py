"""Cost formulas of registers, barriers and collectives."""

from __future__ import annotations

from trnsim.targets import Target
from trnsim.timing.costs import Call, Cost, formula, itemsize

_MOVES = ("register_alloc", "register_move", "rank_id", "collective_permute_implicit_current_processing_rank_id")


@formula(*_MOVES, "register_load", "register_store")
def _register(call: Call, target: Target) -> Cost:
    took = target.timing.register if call.name in _MOVES else target.timing.register_load
    return Cost("sync", took, took)


@formula("scalar_load", "scalar_store")
def _scalar(call: Call, target: Target) -> Cost:
    return Cost("sync", target.timing.register_load, target.timing.register_load)


@formula("scalar_alu")
def _arithmetic(call: Call, target: Target) -> Cost:
    return Cost("sync", target.timing.register_alu, target.timing.register_alu)


@formula("loop_turn")
def _turn(call: Call, target: Target) -> Cost:
    """Add to the counter, then compare and branch, which is taken to cost as much."""
    return Cost(call.engine, 2 * target.timing.register_alu, 2 * target.timing.register_alu, "assumed")


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
_SHARES = {"all_reduce": 2.0} | dict.fromkeys(("all_gather", "reduce_scatter", "all_to_all"), 1.0)
_SHARES |= dict.fromkeys(("all_gather_v", "all_gather_v_trigger", "all_to_all_v", "all_to_all_v_trigger"), 1.0)


@formula(*_SHARES)
def _collective(call: Call, target: Target) -> Cost:
    """A ring: every rank passes pieces to its neighbour, (ranks - 1) times."""
    ranks = max(1, int(call.info.get("ranks") or 1))
    shares = _SHARES[call.name]
    return _ring(call, target, shares * (ranks - 1) / ranks, max(1.0, shares) * (ranks - 1), ranks)


@formula("all_gather_v_prepare", "all_to_all_v_prepare")
def _prepare(call: Call, target: Target) -> Cost:
    """Counts are fetched as a register is."""
    return Cost("sync", target.timing.register_load, target.timing.register_load, "assumed")


@formula("collective_permute", "collective_permute_implicit", "collective_permute_implicit_reduce")
def _permute(call: Call, target: Target) -> Cost:
    return _ring(call, target, 1.0, 1, max(2, int(call.info.get("ranks") or 2)))


def _ring(call: Call, target: Target, share: float, hops: float, ranks: int) -> Cost:
    time = target.timing
    nbytes = max((o.nbytes for o in (*call.writes, *call.reads)), default=0)
    hop = time.hop_inside if ranks <= target.cores else time.hop_between
    took = hops * hop + share * nbytes / time.link_rate
    return Cost("cc", took, took, "assumed")
