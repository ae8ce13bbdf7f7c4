"""DMA engines: data movement between HBM and SBUF, conversions and sums on the way. PSUM is out of their reach."""

from typing import Any

import numpy as np

from trnsim.isa import dge as descriptors, operands as check
from trnsim.isa.alu import reduction
from trnsim.isa.dge import Rows
from trnsim.isa.enums import dge_mode as dge, engine as eng, member, oob_mode as oob
from trnsim.refusals import forbid, refuse
from trnsim.session import SBUF, NkiInstruction, Session, current, instruction
from trnsim.tensors.dtypes import DTYPES, PACKED, int64, same_dtype, to_f32
from trnsim.tensors.objects import MemoryRegion
from trnsim.tensors.tensor import NkiTensor
from trnsim.versions import FIRST


@instruction
def dma_copy(
    s: Session,
    dst: Any,
    src: Any,
    priority: Any = None,
    oob_mode: Any = oob.error,
    dge_mode: Any = dge.unknown,
    engine: Any = eng.unknown,
) -> NkiInstruction:
    """``dst = src``, element by element in row-major order; shapes may differ, element counts may not.

    Equal dtypes keep their bits; others convert to fp32 and on to ``dst``'s dtype. A view with ``scalar_offset`` or a
    run-time `select` starts where a register or a [1, 1] tile says; one with ``vector_offset`` or `vector_select` takes
    (``src``) or fills (``dst``) a row of HBM for each row index. Of equal indices the last row written stays.

    Args:
        dst: tensor in SBUF or HBM.
        src: tensor in SBUF or HBM.
        priority: class of service 0 (first) to 3, on trn3.
        oob_mode: ``error`` refuses a run-time index out of bounds, ``skip`` leaves that row (or transfer) out.
        dge_mode: who makes descriptors: ``none`` (before the launch), ``swdge`` (GpSimd), ``hwdge`` (from trn2 on;
            equal dtypes, no row indices), ``unknown`` (the compiler chooses).
        engine: ``sync`` or ``scalar``, to ask for hardware descriptors.
    """
    options = descriptors.legacy_order(priority, oob_mode, dge_mode, engine)
    if options is not None:
        priority, oob_mode = None, options.get("oob_mode", oob.error)
        dge_mode, engine = options.get("dge_mode", dge.unknown), options.get("engine", eng.unknown)
    mode = member(dge, dge_mode, "dge_mode")
    bounds = member(oob, oob_mode, "oob_mode")
    asked = member(eng, engine, "engine")
    descriptors.operand(s, src, "src")
    descriptors.operand(s, dst, "dst")
    if s.checks:
        descriptors.check_mode(s, mode, (dst, src))
        descriptors.check_engine(asked, mode)
        descriptors.check_priority(s, priority)
        _check_copy(dst, src, mode)
    _copy(s, dst, src, bounds)
    return descriptors.done(s, dst, (src,), mode.name, engine=asked.name, priority=priority)


@instruction
def dma_compute(
    s: Session,
    dst: Any,
    srcs: Any,
    reduce_op: Any,
    scales: Any = None,
    unique_indices: bool = True,
    oob_mode: Any = oob.error,
) -> NkiInstruction:
    """``dst = srcs[0] + srcs[1] + …`` in fp32 by the DMA engines, up to 16 sources of equal element count.

    With ``vector_offset`` there are two sources, and one repeats ``dst``: rows of HBM are added to (``dst`` and a
    source in HBM with the same row indices, the other in SBUF), or added from (``dst`` and a source the same SBUF tile,
    the other rows of HBM).

    Args:
        dst: tensor in SBUF or HBM.
        srcs: list of tensors in SBUF or HBM.
        reduce_op: ``nl.add``.
        scales: ``None``, or 1.0 for each source: the hardware knows no other.
        unique_indices: row indices differ from each other; must be True with ``vector_offset``.
        oob_mode: ``error``, or ``skip`` with ``vector_offset``.
    """
    reduction(reduce_op, "reduce_op", ("add",))
    bounds = member(oob, oob_mode, "oob_mode")
    if not isinstance(srcs, (list, tuple)) or not 1 <= len(srcs) <= 16:
        raise refuse(
            "dma-sources:dma_compute",
            got=len(srcs) if isinstance(srcs, (list, tuple)) else type(srcs).__name__,
            limit=(1, 16),
            kind=type(srcs).__name__,
            count=len(srcs) if isinstance(srcs, (list, tuple)) else 1,
        )
    _check_scales(scales, len(srcs))
    descriptors.operand(s, dst, "dst")
    for i, src in enumerate(srcs):
        descriptors.operand(s, src, f"srcs[{i}]")
    indirect = any(t.is_addressed("vector") for t in (dst, *srcs))
    if s.checks:
        _check_compute(s, dst, srcs, bounds, indirect, unique_indices)
    _sum(s, dst, srcs, bounds, indirect)
    return descriptors.done(s, dst, tuple(srcs), "swdge" if indirect else "none", op="add", sources=len(srcs))


def _copy(s: Session, dst: NkiTensor, src: NkiTensor, bounds: oob) -> None:
    """Move the elements; row indices and offsets out of bounds are left out when ``bounds`` says so."""
    at, into = descriptors.apply_index(s, src, "src", bounds), descriptors.apply_index(s, dst, "dst", bounds)
    if at is None or into is None:
        s.touch(dst)
        s.touch(src)
        return
    if not s.numerics:
        s.write(into, s.read(at, "src", descriptors.DEVICE, compute=False), "dst", descriptors.DEVICE, compute=False)
        return
    convert = not same_dtype(src.dtype, dst.dtype)
    if not convert:
        into = into.exact()
    if not at.is_addressed("vector") and not into.is_addressed("vector"):
        values = s.read(at, "src", descriptors.DEVICE, compute=False)
        if s.checks:
            descriptors.check_disjoint(into, at)
        values = (to_f32(values) if convert else values).reshape(into.shape)
        s.write(into, values, "dst", descriptors.DEVICE, compute=False)
        return
    taken = Rows(s, at, "src", bounds) if at.is_addressed("vector") else None
    given = Rows(s, into, "dst", bounds) if into.is_addressed("vector") else None
    if s.checks:
        descriptors.check_disjoint(into, at, given, taken)
    values = taken.gather(s, "src") if taken is not None else s.read(at, "src", descriptors.DEVICE, compute=False)
    if convert:
        values = to_f32(values)
    if given is None:
        assert taken is not None
        if taken.inside.all():
            s.write(into, values.reshape(into.shape), "dst", descriptors.DEVICE, compute=False)
        else:
            descriptors.write_where(s, into, taken.inside, values)
        return
    if taken is not None:
        # rows that are in bounds on both sides
        both = given.inside & taken.inside
        values, given.index = values[both[taken.inside]], given.index[both[given.inside]]
    else:
        values = values.reshape(into.shape)[given.inside]
    given.scatter(s, values)


def _sum(s: Session, dst: NkiTensor, srcs: Any, bounds: oob, indirect: bool) -> None:
    where = descriptors.DEVICE
    if not s.numerics:
        for i, src in enumerate(srcs):
            s.read(src, f"srcs[{i}]", where, compute=False)
        s.write(dst, np.zeros((1, 1), np.float32), "dst", where, compute=False)
        return
    if not indirect:
        total = None
        for i, src in enumerate(srcs):
            part = to_f32(s.read(src, f"srcs[{i}]", where, compute=False)).reshape(dst.shape)
            if s.checks:
                descriptors.check_disjoint(dst, src)
            total = part if total is None else total + part
        s.write(dst, total, "dst", where, compute=False)
        return
    far = next(i for i, src in enumerate(srcs) if src.is_addressed("vector"))
    rows = Rows(s, srcs[far], f"srcs[{far}]", bounds)
    near = to_f32(s.read(srcs[1 - far], f"srcs[{1 - far}]", where, compute=False))
    count = rows.inside.size
    if not len(rows.index):
        s.touch(dst)
        return
    if dst.is_addressed("vector") and s.checks:
        _check_unique(rows.index)
    total = to_f32(rows.gather(s, f"srcs[{far}]")).reshape(len(rows.index), -1) + near.reshape(count, -1)[rows.inside]
    if dst.is_addressed("vector"):
        Rows(s, dst, "dst", bounds).scatter(s, total)
    elif rows.inside.all():
        s.write(dst, total.reshape(dst.shape), "dst", where, compute=False)
    else:
        descriptors.write_where(s, dst, rows.inside, total)


def _check_copy(dst: NkiTensor, src: NkiTensor, mode: dge) -> None:
    _check_size(src, "src", dst)
    if not same_dtype(src.dtype, dst.dtype):
        if mode is dge.hwdge:
            hint = "reinterpret with .view(), or convert with dge_mode.swdge or none"
            check.one_dtype(src, "src", dst, "dst", rule="hwdge-dtype", why=", and hwdge moves bytes", hint=hint)
        if not {src.dtype, dst.dtype}.isdisjoint(PACKED | {int64}):
            why = ": DMA does not convert packed and 64-bit types"
            check.one_dtype(src, "src", dst, "dst", rule="dma-packed", why=why, hint="view both as the same dtype")
    descriptors.check_index(src, "src")
    descriptors.check_index(dst, "dst")
    descriptors.check_written_once(dst)
    if src.is_addressed("vector") and dst.is_addressed("vector") and src.shape[0] != dst.shape[0]:
        raise refuse("dma-size:check_copy", got=src.shape[0], limit=dst.shape[0])


def _check_size(src: NkiTensor, role: str, dst: NkiTensor) -> None:
    forbid(src.size != dst.size, "dma-size:check_size", got=src.size, limit=dst.size, role=role, src=src, dst=dst)


def _check_scales(scales: Any, count: int) -> None:
    if scales is None:
        return
    if not isinstance(scales, (list, tuple)) or len(scales) != count or any(x != 1 for x in scales):
        raise refuse("dma-scales", got=scales, limit=[1.0] * count, count=count)


def _check_compute(s: Session, dst: NkiTensor, srcs: Any, bounds: oob, indirect: bool, unique_indices: Any) -> None:
    for i, t in enumerate(srcs):
        _check_size(t, f"srcs[{i}]", dst)
    for t, role in ((dst, "dst"), *((t, f"srcs[{i}]") for i, t in enumerate(srcs))):
        why, hint = ", which DMA does not convert", "sum before quantising"
        check.has_dtype(t, role, DTYPES - PACKED - {int64}, rule="dma-packed", why=why, hint=hint)
        if t.dynamic is not None and not t.is_addressed("vector"):
            raise refuse("dma-static", got="scalar_offset", role=role, t=t)
        descriptors.check_index(t, role)
    descriptors.check_written_once(dst)
    descriptors.check_skip(bounds, indirect, "without a vector_offset")
    descriptors.check_mode(s, dge.swdge if indirect else dge.none, (dst, *srcs))
    if indirect:
        _check_update(s, dst, srcs, unique_indices)


def _check_update(s: Session, dst: NkiTensor, srcs: Any, unique_indices: Any) -> None:
    """Check a read-modify-write by row indices: two sources, one of them ``dst`` itself."""
    forbid(len(srcs) != 2, "dma-sources:check_update", got=len(srcs))
    forbid(not unique_indices, "unique-indices:check_update", got=False, limit=True)
    far = [t for t in srcs if t.is_addressed("vector")]
    near = [t for t in srcs if not t.is_addressed("vector")]
    if (
        len(far) != 1
        or (not dst.is_addressed("vector") and not _same_memory(near[0], dst))
        or (dst.is_addressed("vector") and not _same_memory(far[0], dst))
    ):
        raise refuse("dma-update", got=[t.name for t in srcs], limit=dst.name)
    descriptors.operand(s, near[0], "the source without vector_offset", (SBUF,))
    if not dst.is_addressed("vector"):
        descriptors.operand(s, dst, "dst", (SBUF,))


def _same_memory(a: NkiTensor, b: NkiTensor) -> bool:
    first, second = (t.dynamic.index if t.dynamic is not None else None for t in (a, b))
    same_index = first is second or (first is not None and second is not None and _same_memory(first, second))
    return (
        a.storage is b.storage
        and a.offset == b.offset
        and a.size == b.size
        and same_dtype(a.dtype, b.dtype)
        and (a.get_pattern() == b.get_pattern() or (a.is_contiguous() and b.is_contiguous()))
        and same_index
    )


def _check_unique(index: np.ndarray) -> None:
    values, counts = np.unique(index, return_counts=True)
    if (counts > 1).any():
        twice = [int(v) for v in values[counts > 1][:4]]
        raise refuse("unique-indices:check_unique", got=twice, twice=twice, times=int(counts.max()))


def move_partitions(t: Any, shape: tuple[int, ...]) -> Any:
    """Copy a tile to other partitions for a reshape of NKI 0.3; ``None`` where a reshape is a view."""
    s = current()
    if s is None or s.nki != FIRST or t.buffer is not MemoryRegion.sbuf:
        return None
    dst = s.allocate(shape, t.dtype, MemoryRegion.sbuf)
    dma_copy(dst, t)
    return dst
