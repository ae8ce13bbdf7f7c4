"""Vector Engine: choosing elements by predicate or by index, with the running maximum attention needs."""

from typing import Any

import numpy as np

from trnsim.isa import accumulator, alu as ops, operands as check
from trnsim.isa.enums import reduce_cmd as cmds
from trnsim.isa.operands import as_fp32, flat, scalar
from trnsim.refusals import forbid, refuse
from trnsim.session import NkiInstruction, Session, instruction
from trnsim.tensors.dtypes import (
    DTYPES,
    FLOATS,
    bool_,
    float32,
    int8,
    int16,
    int32,
    tfloat32,
    to_f32,
    uint8,
    uint16,
    uint32,
)
from trnsim.tensors.tensor import NkiTensor

F32 = np.float32
FP32_MIN = float(np.finfo(F32).min)
_PREDICATES = frozenset({int8, uint8, int16, uint16, bool_})
_SELECTED = DTYPES - {tfloat32, int32, uint32}
_IDS = frozenset({float32, int32})


@instruction
def select_reduce(
    s: Session,
    dst: Any,
    predicate: Any,
    on_true: Any,
    on_false: Any,
    reduce_res: Any = None,
    reduce_cmd: Any = cmds.idle,
    reduce_op: Any = "maximum",
    reverse_pred: bool = False,
) -> NkiInstruction:
    """``dst = on_true where predicate else on_false``, and optionally the running maximum of it, on the Vector Engine.

    ``on_false`` is a number or a [P, 1] tile; ``predicate`` is an 8 or 16-bit integer tile; ``on_true`` is no 32-bit
    integer and no tfloat32, and not in PSUM together with ``predicate``. With ``reduce_cmd`` the maximum of each
    partition goes into the accumulator and, given ``reduce_res`` [P, 1] of a float dtype, out of it.
    """
    fold = ops.reduction(reduce_op, "reduce_op", ("maximum",))
    cmd = accumulator.command(s, reduce_cmd, (cmds.idle, cmds.reset_reduce, cmds.reduce))
    chosen = s.read(predicate, "predicate")
    x = s.read(on_true, "on_true")
    if s.checks:
        check.alike(s, dst, "dst", (on_true, "on_true"), (predicate, "predicate"))
        check.has_dtype(predicate, "predicate", _PREDICATES, rule="predicate-dtype", hint="compare into a uint8 tile")
        hint = "use tensor_copy_predicated for 32-bit integers"
        check.has_dtype(on_true, "on_true", _SELECTED, rule="select-dtype", hint=hint)
        check.plain((dst, "dst"), (predicate, "predicate"), (on_true, "on_true"))
        check.one_psum(on_true, "on_true", predicate, "predicate")
        accumulator.check_result(s, cmd, reduce_res, on_true, "on_true")
        if reduce_res is not None:
            check.has_dtype(reduce_res, "reduce_res", FLOATS, rule="reduce-dtype", hint="make it float32")
    other = scalar(s, on_false, "on_false", on_true, "on_true", f32=False)
    result = total = x
    if s.numerics:
        picked = flat(chosen) == 0 if reverse_pred else flat(chosen) != 0
        result = np.where(picked, to_f32(flat(x)), other)
        total = np.maximum.reduce(result, axis=1, keepdims=True)
    writes = accumulator.finish(s, cmd, fold, dst, result, total=total, data=on_true, reduce_res=reduce_res)
    return s.done("vector", writes, (on_true, predicate, on_false), reduce=fold.name, command=cmd.name, op="select")


_COMPARE = ("equal", "less", "less_equal", "greater", "greater_equal")


@instruction(since=3, hint="use affine_select or select_reduce")
def range_select(
    s: Session,
    dst: Any,
    on_true_tile: Any,
    comp_op0: Any,
    comp_op1: Any,
    bound0: Any,
    bound1: Any,
    reduce_cmd: Any = cmds.reset_reduce,
    reduce_res: Any = None,
    reduce_op: Any = "maximum",
    range_start: Any = 0,
    on_false_value: Any = FP32_MIN,
) -> NkiInstruction:
    """Keep element ``i`` where ``i + range_start`` compares true with both bounds; the rest becomes the least fp32.

    ``on_true_tile`` is of a float dtype, the bounds are float32 [P, 1] tiles, comparisons are fp32 (indices stay below
    2^24). The maximum of each partition goes into the accumulator as ``reduce_cmd`` says and, given ``reduce_res``, out
    of it, before ``dst`` is rounded. Vector Engine of trn2 and newer.
    """
    compare = [
        getattr(np, ops.as_operator(op, role, _COMPARE, rule="comparison").name)
        for op, role in ((comp_op0, "comp_op0"), (comp_op1, "comp_op1"))
    ]
    fold = ops.reduction(reduce_op, "reduce_op", ("maximum",))
    cmd = accumulator.command(s, reduce_cmd, (cmds.idle, cmds.reset_reduce, cmds.reduce))
    start = _range_start(range_start)
    x = s.read(on_true_tile, "on_true_tile")
    bounds = [s.read(b, role) for b, role in ((bound0, "bound0"), (bound1, "bound1"))]
    if s.checks:
        check.alike(s, dst, "dst", (on_true_tile, "on_true_tile"))
        for b, role in ((bound0, "bound0"), (bound1, "bound1")):
            check.column(b, role, on_true_tile, "on_true_tile")
            check.only_f32(b, role)
        _range_rules(on_true_tile, start, on_false_value)
        check.plain((dst, "dst"), (on_true_tile, "on_true_tile"), (bound0, "bound0"), (bound1, "bound1"))
        accumulator.check_result(s, cmd, reduce_res, on_true_tile, "on_true_tile")
    kept = total = x
    if s.numerics:
        values = to_f32(flat(x))
        index = np.arange(start, start + values.shape[1]).astype(F32)[None, :]
        keep = compare[0](index, bounds[0].reshape(-1, 1)) & compare[1](index, bounds[1].reshape(-1, 1))
        kept = np.where(keep, values, F32(FP32_MIN))
        total = np.maximum.reduce(kept, axis=1, keepdims=True)
    writes = accumulator.finish(s, cmd, fold, dst, kept, total=total, data=on_true_tile, reduce_res=reduce_res)
    cost = {"reduce": fold.name, "command": cmd.name, "op": "range_select"}
    return s.done("vector", writes, (on_true_tile, bound0, bound1), cost)


def _range_start(value: Any) -> int:
    if isinstance(value, (int, np.integer)) or (isinstance(value, (float, np.floating)) and float(value).is_integer()):
        return int(value)
    raise refuse("range-start", got=value)


def _range_rules(tile: NkiTensor, start: int, fill: Any) -> None:
    check.has_dtype(tile, "on_true_tile", FLOATS, rule="range-dtype", hint="convert it with tensor_copy")
    last = start + tile.free_size - 1
    if max(abs(start), abs(last)) > 1 << 24:
        raise refuse("range-limit", got=last, limit=1 << 24, start=start)
    forbid(as_fp32(fill, "on_false_value") != F32(FP32_MIN), "range-fill", got=fill, limit=FP32_MIN)


@instruction
def sequence_bounds(s: Session, dst: Any, segment_ids: Any) -> NkiInstruction:
    """First index and end (one past the last) of the run of equal ids each element belongs to, on the GpSimd Engine.

    ``segment_ids`` is [1, n], non-negative; ``dst`` is [1, 2, n], starts then ends. Padding (id 0) gets n and -1. Both
    are float32 or int32 and in SBUF.
    """
    ids = s.read(segment_ids, "segment_ids")
    if s.checks:
        s.operand(dst, "dst")
        _sequence_rules(dst, segment_ids)
    if s.numerics:
        row = flat(ids)[0]
        if s.checks and bool(((row < 0) | (row != np.floor(row))).any()):
            bad = row[(row < 0) | (row != np.floor(row))][0]
            raise refuse("segment-ids", got=float(bad), bad=bad)
        ids = _bounds(row)[None]
    s.write(dst, ids, "dst")
    return s.done("gpsimd", (dst,), (segment_ids,), op="sequence_bounds")


def _bounds(row: np.ndarray) -> np.ndarray:
    n = row.size
    cuts = np.flatnonzero(row[1:] != row[:-1]) + 1
    edges = np.concatenate([[0], cuts, [n]])
    lengths = np.diff(edges)
    padding = row == 0
    starts = np.where(padding, n, np.repeat(edges[:-1], lengths))
    ends = np.where(padding, -1, np.repeat(edges[1:], lengths))
    return np.stack([starts, ends]).astype(np.int32)


def _sequence_rules(dst: NkiTensor, segment_ids: NkiTensor) -> None:
    check.no_psum("gpsimd", (segment_ids, "segment_ids"), (dst, "dst"))
    check.direct((segment_ids, "segment_ids"), (dst, "dst"))
    for t, role in ((segment_ids, "segment_ids"), (dst, "dst")):
        check.has_dtype(t, role, _IDS, rule="sequence-dtype")
        forbid(t.shape[0] != 1, "sequence-partitions", got=t.shape[0], role=role, t=t)
    n = segment_ids.free_size
    check.elements(dst, "dst", 2 * n, f"{n} ids need", hint=f"make dst [1, 2, {n}]")
