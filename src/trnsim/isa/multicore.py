"""Instructions with which the two NeuronCores of a logical core meet: exchange a tile, wait for each other."""

from typing import Any

from trnsim.cores import Device, Post
from trnsim.isa import operands as check
from trnsim.isa.enums import dma_engine as dma, engine as eng, member
from trnsim.isa.operands import not_run
from trnsim.refusals import forbid, refuse
from trnsim.session import SBUF, SHARED_HBM, NkiInstruction, Session, instruction
from trnsim.tensors.layout import as_index

# bytes per partition the GpSimd's own DMA moves, by size of an element
_GPSIMD_BYTES = {4: 1024, 2: 512, 1: 256}
_BARRIER_ENGINES = (eng.tensor, eng.vector, eng.scalar, eng.gpsimd, eng.sync)


def two_cores(s: Session, what: str) -> Device:
    """Return what connects the two cores of this launch; refuse a launch on one."""
    device: Device | None = s.machine
    if device is None or device.cores < 2:
        raise refuse("lnc", got=1, what=what)
    return device


def _core(value: Any, role: str) -> int:
    core = as_index(value)
    forbid(core not in (0, 1), "core", got=core, limit=(0, 1), role=role)
    return core


@instruction(since=3, hint="trn1 runs a kernel on one core")
def sendrecv(
    s: Session, src: Any, dst: Any, send_to_rank: Any, recv_from_rank: Any, pipe_id: Any, dma_engine: Any = dma.dma
) -> NkiInstruction:
    """Send ``src`` to core ``send_to_rank`` and receive what core ``recv_from_rank`` sends into ``dst``.

    ``src`` and ``dst`` [P, free...] are in SBUF and have one shape and dtype. The k-th call on a pipe meets the other
    core's k-th call on that pipe; pipes go on independently. ``dma_engine.gpsimd_dma`` moves at most 1024, 512 or 256
    bytes per partition of 32-, 16- and 8-bit types.
    """
    device = two_cores(s, "sendrecv")
    mode = member(dma, dma_engine, "dma_engine")
    send, receive = _core(send_to_rank, "send_to_rank"), _core(recv_from_rank, "recv_from_rank")
    pipe = as_index(pipe_id)
    values, poison = s.take_elements(src, "src", (SBUF,))
    s.operand(dst, "dst", (SBUF,), compute=False)
    forbid(pipe < 0, "pipe", got=pipe)
    hint = "sendrecv does not convert; copy src with tensor_copy first"
    check.one_dtype(src, "src", dst, "dst", rule="sendrecv-dtype", hint=hint)
    forbid(src.shape != dst.shape, "sendrecv-shape:sendrecv", got=src.shape, limit=dst.shape)
    row = src.free_size * src.itemsize
    if mode is dma.gpsimd_dma and row > _GPSIMD_BYTES[src.itemsize]:
        raise refuse("gpsimd-dma-size", got=row, limit=_GPSIMD_BYTES[src.itemsize], src=src)
    k = device.exchange(s, Post(values.copy(), dst, send, receive, s.line(), poison), pipe)
    engine = "gpsimd" if mode is dma.gpsimd_dma else "dma"
    cost = {"bytes": src.size * src.itemsize, "peer": receive, "pipe": pipe, "mode": mode.name}
    return s.done(engine, (dst,), (src,), **cost, sync=("sendrecv", s.rank, pipe, k))


@instruction(since=3, hint="trn1 runs a kernel on one core")
def core_barrier(s: Session, data: Any, cores: Any, engine: Any = eng.gpsimd) -> NkiInstruction:
    """Wait until both cores are here.

    What they wrote to ``data``, a ``shared_hbm`` tensor, can then be read by either.
    """
    device = two_cores(s, "core_barrier")
    on = member(eng, engine, "engine")
    if on is eng.unknown:
        on = eng.gpsimd
    if on not in _BARRIER_ENGINES:
        raise not_run(on.name, "core_barrier", tuple(e.name for e in _BARRIER_ENGINES), "use engine.gpsimd")
    try:
        named = tuple(as_index(c) for c in cores)
    except TypeError:
        named = (cores,)
    forbid(named != (0, 1), "cores", got=cores, limit=(0, 1))
    s.operand(data, "data", (SHARED_HBM,), compute=False)
    k = device.barrier(s, data)
    barrier = s.done(on.name, (data,), (data,), sync=("barrier", s.rank, k))
    # both cores pass their barriers in the order of the program, whatever each of them waits for
    if "barrier" in s.state:
        barrier.depends_on(s.state["barrier"])
    s.state["barrier"] = barrier
    return barrier
