"""Vector Engine: reductions along the free dimensions, running and final, and batch-norm statistics."""

import math
from typing import Any

import numpy as np

from trnsim.isa import accumulator, alu as ops, operands as check
from trnsim.isa.alu import Alu
from trnsim.isa.enums import reduce_cmd as cmds
from trnsim.isa.operands import flat, scalar
from trnsim.isa.vector_math import step, unary_operand
from trnsim.isa.words import resize
from trnsim.refusals import forbid, refuse
from trnsim.session import NkiInstruction, Session, instruction
from trnsim.tensors.dtypes import FP8, bfloat16, bool_, float16, float32, int8, int16, to_f32, uint8, uint16
from trnsim.tensors.tensor import NkiTensor

F32 = np.float32


@instruction
def tensor_reduce(
    s: Session, dst: Any, op: Any, data: Any, axis: Any, negate: bool = False, keepdims: bool = False
) -> NkiInstruction:
    """Fold the last free dimensions of ``data`` (``axis``) into ``dst`` on the Vector Engine.

    ``axis`` is an int or a sequence that ends at the last dimension without gaps and leaves out 0, the partitions.
    ``dst`` has one element for each that is left. Arithmetic folds in fp32 and may ``negate``; bitvec folds integers.
    """
    alu = ops.reduction(op, "op")
    x = s.read(data, "data")
    first = first_reduced_axis(axis, data)
    left = math.prod(data.shape[1:first])
    if s.checks:
        s.operand(dst, "dst")
        check.partitions(dst, "dst", data, "data")
        check.reachable(s, data, "data", data.free_size)
        if dst.free_size != left:
            what = f"reducing axis {_show_axis(axis)} of {data.shape} leaves"
            hint = f"make dst {_kept_shape(data, first, keepdims)}"
            check.elements(dst, "dst", left, what, rule="reduce-shape", hint=hint)
        ops.dtypes(alu, (data, "data"), (dst, "dst"))
        forbid(negate and alu.bitvec, "negate:tensor_reduce", got=True, limit=False, alu=alu)
        check.indirect(s, dst, data, "data")
    if s.numerics:
        x = ops.reduce(alu, x.reshape(x.shape[0], left, -1))
        if alu.bitvec:
            x = resize(x, data.dtype, dst.dtype)
        elif negate:
            x = -x
    s.write(dst, x, "dst")
    return s.done("vector", (dst,), (data,), op=alu.name, negate=bool(negate), keepdims=bool(keepdims))


def _show_axis(axis: Any) -> str:
    return str(tuple(axis) if isinstance(axis, (tuple, list)) else axis)


def _kept_shape(data: NkiTensor, first: int, keepdims: bool) -> list[int]:
    kept = [*data.shape[:first], *([1] * (data.ndim - first) if keepdims else [])]
    return kept if len(kept) > 1 else [*kept, 1]


def first_reduced_axis(axis: Any, data: NkiTensor) -> int:
    """First of the reduced dimensions, which must be the last ones of ``data``."""
    ndim = data.ndim
    try:
        wanted = sorted(int(a.__index__()) for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    except (AttributeError, TypeError):
        raise refuse("reduce-axis:form", got=repr(axis), axis=axis) from None
    axes = [a + ndim if a < 0 else a for a in wanted]
    axes.sort()
    if not axes or axes != list(range(ndim - len(axes), ndim)) or axes[0] < 1:
        legal = [tuple(range(k, ndim)) for k in range(ndim - 1, 0, -1)]
        hint = "use one of " + ", ".join(map(str, legal))
        if 0 in axes:
            hint = (
                "dimension 0 is the partitions: use nc_transpose first, or multiply by a column of ones with nc_matmul"
            )
        raise refuse("reduce-axis:gap", got=tuple(axes), limit=legal, hint=hint, shown=_show_axis(axis), data=data)
    return axes[0]


_CUMULATIVE = ("add", "subtract", "multiply", "maximum", "minimum")
_CUMULATIVE_DTYPES = FP8 | {bfloat16, float16, float32, uint8, uint16, int8, int16, bool_}
_CHAIN = (cmds.reset_reduce, cmds.reduce, cmds.load_reduce)


@instruction
def tensor_scalar_cumulative(
    s: Session, dst: Any, src: Any, op0: Any, op1: Any, imm0: Any, imm1: Any = None, reduce_cmd: Any = cmds.reset_reduce
) -> NkiInstruction:
    """``reg = (src[i] op0 imm0) op1 reg; dst[i] = reg`` along the free dimensions, on the Vector Engine.

    The accumulator ``reg`` starts from ``op1``'s identity (``reset_reduce``), from ``imm1`` (``load_reduce``) or where
    the last accumulating instruction left it (``reduce``). ``op1`` is add, subtract, multiply, maximum or minimum.
    32-bit integers are no input or output.
    """
    first = ops.arithmetic(ops.operator(op0, "op0"), "op0")
    second = ops.reduction(op1, "op1", _CUMULATIVE)
    cmd = accumulator.command(s, reduce_cmd, _CHAIN)
    x = s.read(src, "src")
    if s.checks:
        check.alike(s, dst, "dst", (src, "src"))
        unary_operand(first, "op0", imm0, "imm0", False)
        ops.generation(first, s.target, "op0")
        for t, role in ((src, "src"), (dst, "dst")):
            hint = "convert to float32 with tensor_copy"
            check.has_dtype(t, role, _CUMULATIVE_DTYPES, rule="cumulative-dtype", hint=hint)
        _initial(cmd, imm1, "imm1")
        check.indirect(s, dst, src, "src")
    a = None if first.arity == 1 else scalar(s, imm0, "imm0", src, "src")
    b = scalar(s, imm1, "imm1", src, "src") if cmd is cmds.load_reduce else None
    held = accumulator.start(s, cmd, second, src, b)
    if s.numerics:
        running = _running(second, step(first, to_f32(flat(x)), a), held)
        x, held = running, running[:, -1:]
    accumulator.lanes_of(s).write(s, src, held)
    s.write(dst, x, "dst")
    return s.done("vector", (dst,), (src, imm0, imm1), op0=first.name, op1=second.name, command=cmd.name)


def _initial(cmd: cmds, value: Any, role: str) -> None:
    if (cmd is cmds.load_reduce) != (value is not None):
        raise refuse("reduce-init:initial", got=cmd.name, role=role, state="missing" if value is None else "given")


def _running(alu: Alu, x: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Return all states of ``reg = x[i] op reg``, from ``held``, each rounded to fp32."""
    assert alu.ufunc is not None
    if alu.name == "subtract":
        # x[i] - reg alternates: with every other sign flipped (which rounds nothing) it is a running sum
        sign = np.where(np.arange(x.shape[1]) % 2, F32(-1), F32(1))
        sums = np.concatenate([-held, sign * x], axis=1)
        return np.add.accumulate(sums, axis=1, dtype=F32)[:, 1:] * sign
    return alu.ufunc.accumulate(np.concatenate([held, x], axis=1), axis=1, dtype=F32)[:, 1:]


@instruction
def tensor_scalar_reduce(
    s: Session,
    dst: Any,
    data: Any,
    op0: Any,
    operand0: Any,
    reduce_op: Any,
    reduce_res: Any = None,
    reverse0: bool = False,
    reduce_cmd: Any = cmds.reset_reduce,
    reduce_init: Any = None,
    reduce_res_negate: bool = False,
) -> NkiInstruction:
    """``dst = data op0 operand0`` and a reduction of it into the accumulator, on the Vector Engine.

    ``reduce_op`` is add, multiply, maximum or minimum, over all free dimensions. The accumulator starts as
    ``reduce_cmd`` says and is written to ``reduce_res`` [P, 1], negated on request; ``None`` keeps it for the next
    instruction of the chain.
    """
    first = ops.arithmetic(ops.operator(op0, "op0"), "op0")
    fold = ops.reduction(reduce_op, "reduce_op", ("add", "multiply", "maximum", "minimum"))
    cmd = accumulator.command(s, reduce_cmd, _CHAIN)
    x = s.read(data, "data")
    if s.checks:
        check.alike(s, dst, "dst", (data, "data"))
        unary_operand(first, "op0", operand0, "operand0", False)
        ops.generation(first, s.target, "op0")
        check.no_packed((data, "data"), (dst, "dst"))
        _initial(cmd, reduce_init, "reduce_init")
        forbid(reverse0, "reverse", got=True, limit=False)
        accumulator.check_result(s, cmd, reduce_res, data, "data")
        forbid(reduce_res is None and reduce_res_negate, "negate:tensor_scalar_reduce", got=True, limit=False)
        check.indirect(s, dst, data, "data")
    a = None if first.arity == 1 else scalar(s, operand0, "operand0", data, "data")
    b = scalar(s, reduce_init, "reduce_init", data, "data") if cmd is cmds.load_reduce else None
    result = total = x
    if s.numerics:
        result = step(first, to_f32(flat(x)), a)
        total = ops.reduce(fold, result, 1)[:, None]
    writes = accumulator.finish(
        s, cmd, fold, dst, result, total=total, data=data, reduce_res=reduce_res, init=b, negate=reduce_res_negate
    )
    cost = {"op0": first.name, "reduce": fold.name, "command": cmd.name}
    return s.done("vector", writes, (data, operand0, reduce_init), cost)


@instruction
def bn_stats(s: Session, dst: Any, data: Any) -> NkiInstruction:
    """Count, mean and variance·count of the even and of the odd elements of each partition, on the Vector Engine.

    ``dst`` has 6 elements per partition; ``data`` at most 512 (``nl.tile_size.bn_stats_fmax``).
    """
    x = s.read(data, "data")
    if s.checks:
        s.operand(dst, "dst")
        check.partitions(dst, "dst", data, "data")
        n, limit = data.free_size, s.target.bn_stats_max
        forbid(n > limit, "bn-stats-size", got=n, limit=limit, data=data)
        check.elements(dst, "dst", 6, "bn_stats writes")
        check.plain((data, "data"), (dst, "dst"))
    if s.numerics:
        values = to_f32(flat(x))
        x = np.zeros((values.shape[0], 6), F32)
        for k in (0, 1):
            half = values[:, k::2]
            if half.shape[1]:
                mean = half.mean(axis=1, dtype=F32, keepdims=True)
                x[:, 3 * k] = half.shape[1]
                x[:, 3 * k + 1] = mean[:, 0]
                x[:, 3 * k + 2] = np.square(half - mean).sum(axis=1, dtype=F32)
    s.write(dst, x, "dst")
    return s.done("vector", (dst,), (data,), op="bn_stats")


@instruction
def bn_aggr(s: Session, dst: Any, data: Any) -> NkiInstruction:
    """Mean and variance of each partition from the triples of ``bn_stats``, on the Vector Engine.

    A triple is (count, mean, variance·count). ``data`` has a multiple of 3 elements per partition, ``dst`` has 2.
    """
    x = s.read(data, "data")
    if s.checks:
        s.operand(dst, "dst")
        check.partitions(dst, "dst", data, "data")
        forbid(data.free_size % 3, "bn-aggr-size", got=data.free_size, data=data)
        check.reachable(s, data, "data", data.free_size)
        check.elements(dst, "dst", 2, "bn_aggr writes")
        check.plain((data, "data"), (dst, "dst"))
    if s.numerics:
        triples = to_f32(flat(x)).reshape(x.shape[0], -1, 3)
        n, mean, squares = triples[..., 0], triples[..., 1], triples[..., 2]
        whole = n.sum(axis=1, dtype=F32, keepdims=True)
        centre = (n * mean).sum(axis=1, dtype=F32, keepdims=True) / whole
        variance = (squares + n * np.square(mean - centre)).sum(axis=1, dtype=F32, keepdims=True) / whole
        x = np.concatenate([centre, variance], axis=1)
    s.write(dst, x, "dst")
    return s.done("vector", (dst,), (data,), op="bn_aggr")
