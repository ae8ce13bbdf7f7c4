"""DMA transposes: the last dimension of ``src`` becomes the partition of ``dst``, bits unchanged."""

from typing import Any

import numpy as np

from trnsim.errors import WrongDtype
from trnsim.isa import dge as descriptors, operands as check
from trnsim.isa.dge import Rows
from trnsim.isa.enums import dge_mode as dge, member, oob_mode as oob
from trnsim.refusals import forbid, refuse
from trnsim.session import HBM, SBUF, SHARED_HBM, NkiInstruction, Session, instruction
from trnsim.tensors.dtypes import uint32
from trnsim.tensors.layout import as_shape
from trnsim.tensors.tensor import NkiTensor

_AXES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


@instruction
def dma_transpose(
    s: Session,
    dst: Any,
    src: Any,
    axes: Any = None,
    priority: Any = None,
    dge_mode: Any = dge.unknown,
    oob_mode: Any = oob.error,
) -> NkiInstruction:
    """``dst = src`` with its dimensions permuted: (1, 0), (2, 1, 0) or (3, 1, 2, 0) for 2, 3 and 4 of them.

    Dtypes of 2 or 4 bytes, equal on both sides; ``dst``'s shape is ``src``'s permuted, rank included. Hardware
    descriptors take 2 bytes, a last dimension up to 128 and 16 rows (with more dimensions: 1, 2, 4, 8 or 16, a
    multiple of 16 with the dimension before the last). With ``vector_offset`` on an HBM ``src`` (trn2 on) rows are
    gathered first, by the numbers of a [16…128, n] uint32 tile read column by column.

    Args:
        dst: SBUF tile.
        src: tensor in HBM or SBUF.
        axes: the permutation; only the one for the rank exists.
        priority: class of service 0 (first) to 3, on trn3.
        dge_mode: ``unknown``, ``hwdge`` or ``none``; ``unknown`` or ``swdge`` with ``vector_offset``.
        oob_mode: ``skip`` leaves run-time indices out of bounds out.
    """
    options = descriptors.legacy_order(priority, dge_mode, oob_mode)
    if options is not None:
        priority, dge_mode = None, options.get("dge_mode", dge.unknown)
        oob_mode = options.get("oob_mode", oob.error)
    mode = member(dge, dge_mode, "dge_mode")
    bounds = member(oob, oob_mode, "oob_mode")
    descriptors.operand(s, src, "src")
    descriptors.operand(s, dst, "dst", (SBUF,))
    order = _order(src, axes)
    if s.checks:
        descriptors.check_mode(s, mode, (src,))
        descriptors.check_priority(s, priority)
        _check(s, dst, src, order, mode, bounds)
    _transpose(s, dst, src, order, bounds)
    return descriptors.done(s, dst, (src,), mode.name, transpose=True, priority=priority)


def _transpose(s: Session, dst: NkiTensor, src: NkiTensor, order: tuple[int, ...], bounds: oob) -> None:
    into = dst.exact()
    if src.is_addressed("vector") and s.numerics:
        rows = Rows(s, src, "src", bounds, column_major=True)
        values = rows.gather(s, "src").transpose(order)
        # the gathered dimension is the last one of dst
        if rows.inside.all():
            s.write(into, values, "dst", (SBUF,), compute=False)
        elif rows.inside.any():
            # columns in bounds, the others stay as they are
            for run in _runs(rows.inside):
                done = int(rows.inside[: run.start].sum())
                part = into.slice(into.ndim - 1, run.start, run.stop)
                s.write(part, values[..., done : done + run.stop - run.start], "dst", (SBUF,), compute=False)
        return
    at = descriptors.apply_index(s, src, "src", bounds)
    if at is None:
        s.touch(dst)
        s.touch(src)
        return
    values = s.read(at, "src", descriptors.DEVICE, compute=False)
    if s.numerics:
        values = values.transpose(order)
        if s.checks:
            descriptors.check_disjoint(into, at, moves=True)
    s.write(into, values, "dst", (SBUF,), compute=False)


def _runs(mask: np.ndarray) -> list[slice]:
    """Return maximal runs of true entries."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.astype(np.int8), [0]))))
    return [slice(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def _order(src: NkiTensor, axes: Any) -> tuple[int, ...]:
    order = _AXES.get(src.ndim)
    if order is None:
        raise refuse("transpose-rank", got=src.ndim, limit=(2, 3, 4), src=src)
    if axes is not None and (axes := as_shape(axes, "axes")) != order:
        raise refuse("transpose-axes:order", got=axes, limit=order, src=src)
    return order


def _check(s: Session, dst: NkiTensor, src: NkiTensor, order: tuple[int, ...], mode: dge, bounds: oob) -> None:
    why = ": a transpose keeps the dtype"
    check.one_dtype(dst, "dst", src, "src", rule="transpose-dtype", why=why, hint="convert before or after")
    _check_words(src, (2, 4), "transpose-dtype", "the DMA engines transpose", "use nc_transpose")
    wanted = tuple(src.shape[d] for d in order)
    forbid(dst.shape != wanted, "transpose-shape:check", got=dst.shape, limit=wanted, src=src, dst=dst)
    descriptors.check_written_once(dst)
    descriptors.check_skip(bounds, src.dynamic is not None, "with a static src")
    if src.is_addressed("vector"):
        _check_gather(s, src)
    elif mode is dge.swdge and src.dynamic is None:
        raise refuse("dge-transpose", got="swdge", limit=("unknown", "hwdge", "none"))
    elif mode is dge.hwdge:
        _check_hardware(src)


def _check_words(src: NkiTensor, sizes: tuple[int, ...], rule: str, who: str, instead: str) -> None:
    if src.itemsize not in sizes:
        text = f"src ({src.name}) is {src.dtype}, and {who} {' or '.join(map(str, sizes))}-byte words"
        raise WrongDtype(text, rule=rule, got=src.itemsize, limit=sizes, hint=f"use a 16-bit dtype, or {instead}")


def _check_hardware(src: NkiTensor) -> None:
    _check_words(src, (2,), "hwdge-transpose", "hardware descriptors transpose", "use dge_mode.unknown")
    rows = (16,) if src.ndim == 2 else (1, 2, 4, 8, 16)
    forbid(src.shape[0] not in rows, "hwdge-transpose:rows", got=src.shape[0], limit=rows, src=src)
    if src.ndim > 2 and src.shape[0] * src.shape[-2] % 16:
        raise refuse("hwdge-transpose:blocks", got=src.shape[0] * src.shape[-2], src=src, rows=src.shape[-2])
    forbid(src.shape[-1] > 128, "hwdge-transpose:columns", got=src.shape[-1], src=src)


def _check_gather(s: Session, src: NkiTensor) -> None:
    assert src.dynamic is not None
    index = src.dynamic.index
    if src.buffer.value not in (HBM, SHARED_HBM) or s.target.generation < 3:
        where = (str(src.buffer), s.target.name)
        raise refuse("gather-transpose:check_gather-engine", got=where, limit=("hbm", "trn2"), src=src)
    _check_words(src, (2,), "gather-transpose", "gathered rows are of", "gather with dma_copy, then use nc_transpose")
    hint = "make the row indices uint32"
    check.has_dtype(index, "the index", frozenset({uint32}), rule="gather-transpose", hint=hint)
    held = index.shape[0] * index.shape[1]
    rows, last, parts, columns = src.shape[0], src.shape[-1], index.shape[0], index.shape[1]
    one = "one of them 1"
    several = "128 partitions with several columns"
    limits = (
        (src.ndim != 4 or 1 in src.shape[1:3], f"dimensions 1 and 2 of src are {src.shape[1:3]}", src.shape, one),
        (last <= 128, f"the last dimension of src is {last}", last, 128),
        (rows % 16 == 0, f"src gathers {rows} rows", rows, "a multiple of 16"),
        (held >= rows, f"src gathers {rows} rows and the index holds {held}", held, rows),
        (parts in range(16, 129, 16), f"the index has {parts} partitions", parts, "16, 32, …, 128"),
        (columns == 1 or parts == 128, f"the index has {columns} columns and {parts} partitions", index.shape, several),
    )
    for holds, what, got, limit in limits:
        forbid(not holds, "gather-transpose:check_gather-limit", got=got, limit=limit, what=what, src=src, index=index)
