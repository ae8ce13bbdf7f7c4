"""Cost formulas of registers, barriers and collectives."""

from trnsim import fabric
from trnsim.targets import Target
from trnsim.timing.costs import Call, Cost, formula, itemsize

_MOVES = ("register_alloc", "register_move", "rank_id", "collective_permute_implicit_current_processing_rank_id")


def _register_fixed(constant: str, *names: str, times: int = 1, basis: str = "measured", engine: str = "sync") -> None:
    """Register instructions that take a multiple of one constant, on ``engine`` or where it is empty on the call's."""

    @formula(*names)
    def cost(call: Call, target: Target) -> Cost:
        took = times * getattr(target.timing, constant)
        return Cost(engine or call.engine, took, took, basis)


_register_fixed("register", *_MOVES)
_register_fixed("register_load", "register_load", "register_store", "scalar_load", "scalar_store")
_register_fixed("register_alu", "scalar_alu")
# add to the counter, then compare and branch, which is taken to cost as much
_register_fixed("register_alu", "loop_turn", times=2, basis="assumed", engine="")
_register_fixed("core_meeting", "core_barrier", engine="")
# counts are fetched as a register is
_register_fixed("register_load", "all_gather_v_prepare", "all_to_all_v_prepare", basis="assumed")


@formula("sendrecv")
def _sendrecv(call: Call, target: Target) -> Cost:
    time = target.timing
    row = call.reads[0].n * itemsize(call.reads[0].dtype)
    # eight rows on each DMA engine
    move = 8 * (time.dma_packet + row / time.dma_rate)
    engine = "gpsimd" if call.engine == "gpsimd" else "dma.sync"
    return Cost(engine, time.hwdge_issue, time.core_meeting + move, "documented")


_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "all_gather_v", "all_to_all_v")
_PERMUTES = ("collective_permute", "collective_permute_implicit", "collective_permute_implicit_reduce")


@formula(*_COLLECTIVES, "all_gather_v_trigger", "all_to_all_v_trigger", *_PERMUTES)
def _collective(call: Call, target: Target) -> Cost:
    """Time of the fabric; ranks fill chips in order, one rank a core."""
    ranks = int(call.info.get("ranks") or 1)
    kind = "permute" if call.name in _PERMUTES else call.name.removesuffix("_trigger").removesuffix("_v")
    group = fabric.Group(max(2, ranks) if kind == "permute" else ranks, alone=True)
    machine = fabric.machine_named(target=target.name, ranks=group.ranks)
    nbytes = max((o.nbytes for o in (*call.writes, *call.reads)), default=0)
    took = 1e9 * fabric.predict(machine, kind, group, nbytes, target).seconds
    return Cost("cc", took, took, "assumed")
