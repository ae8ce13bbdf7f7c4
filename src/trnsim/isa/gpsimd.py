"""GpSimd Engine: eight processors with native 32-bit integers, each wired to 16 SBUF partitions; none reaches PSUM."""

import math
from typing import Any

import numpy as np

from trnsim.isa import operands as check
from trnsim.isa.alu import OPERATORS, as_operator, dtypes, name_of, native, reduce as fold
from trnsim.isa.operands import as_fp32, flat
from trnsim.isa.words import resize
from trnsim.refusals import forbid, refuse
from trnsim.session import SBUF, NkiInstruction, Session, instruction
from trnsim.tensors.dtypes import cast, same_dtype, to_f32
from trnsim.tensors.tensor import NkiTensor

Array = np.ndarray
_INT32 = (-(2**31), 2**31 - 1)


def as_int32(value: Any, role: str) -> int:
    """Return a 32-bit integer: a number, or a register."""
    if hasattr(value, "__nki_register__"):
        return int(value.value)
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise refuse("int32:as_int32-dtype", got=type(value).__name__, role=role, value=value)
    if not _INT32[0] <= int(value) <= _INT32[1]:
        raise refuse("int32:as_int32-value", got=int(value), limit=_INT32, role=role, value=value)
    return int(value)


def _affine(pattern: Any, offset: Any, channel_multiplier: Any, dst: NkiTensor, checks: bool, numerics: bool) -> Array:
    """``offset + channel · channel_multiplier + Σ index · step`` as ``[P, F]``, in 32-bit integers that wrap."""
    try:
        pairs = [(step, count) for step, count in pattern]
    except (TypeError, ValueError):
        raise refuse("pattern:form", got=pattern) from None
    steps = [(as_int32(step, "a step of pattern"), as_int32(count, "a count of pattern")) for step, count in pairs]
    total = math.prod(count for _, count in steps)
    if checks:
        forbid(len(steps) > 4, "pattern:dimensions", got=len(steps))
        if any(count < 1 for _, count in steps):
            raise refuse("pattern:empty", got=repr(pattern), pattern=pattern)
        if total != dst.free_size:
            raise refuse("pattern:affine-shape", got=total, limit=dst.free_size, shown=[list(p) for p in steps])
    start, by = as_int32(offset, "offset"), as_int32(channel_multiplier, "channel_multiplier")
    if not numerics:
        return np.zeros((1, 1), np.int32)
    row = np.zeros(1, np.int64)
    for step, count in steps:
        row = (row[:, None] + np.arange(count, dtype=np.int64) * step).reshape(-1)
    first = start + by * np.arange(dst.shape[0], dtype=np.int64)
    # int32 arrays wrap
    return row.astype(np.int32) + first.astype(np.int32)[:, None]


@instruction
def iota(s: Session, dst: Any, pattern: Any, offset: Any = 0, channel_multiplier: Any = 0) -> NkiInstruction:
    """``dst[c, w, z, y, x] = offset + c·channel_multiplier + w·step_w + z·step_z + y·step_y + x·step_x``.

    ``pattern`` is up to four ``[step, count]``, outermost first; its counts multiply to the elements per partition of
    ``dst``, a tile in SBUF of any dtype. Arithmetic is 32-bit integer; ``offset`` may be a register.
    """
    s.operand(dst, "dst", (SBUF,))
    if s.checks:
        check.plain((dst, "dst"))
    s.write(dst, _affine(pattern, offset, channel_multiplier, dst, s.checks, s.numerics), "dst", (SBUF,))
    return s.done("gpsimd", (dst,), ())


_COMPARE = ("equal", "not_equal", "greater_equal", "greater", "less_equal", "less")


@instruction
def affine_select(
    s: Session,
    dst: Any,
    pattern: Any,
    channel_multiplier: Any,
    on_true_tile: Any,
    on_false_value: Any,
    cmp_op: Any = OPERATORS["equal"],
    offset: Any = 0,
) -> NkiInstruction:
    """``dst = on_true_tile`` where ``cmp_op(affine, 0)`` holds, else ``on_false_value``; affine as in `iota`.

    Both tiles are in SBUF with the same number of elements; different dtypes convert through fp32.
    ``on_false_value`` is an fp32 number.
    """
    values = s.read(on_true_tile, "on_true_tile", (SBUF,))
    s.operand(dst, "dst", (SBUF,))
    compare = as_operator(cmp_op, "cmp_op", _COMPARE, rule="compare-operator")
    if s.checks:
        check.alike(s, dst, "dst", (on_true_tile, "on_true_tile"))
        check.plain((dst, "dst"), (on_true_tile, "on_true_tile"))
    otherwise = as_fp32(on_false_value, "on_false_value")
    affine = _affine(pattern, offset, channel_multiplier, dst, s.checks, s.numerics)
    if s.numerics:
        keep = getattr(np, compare.name)(affine, 0)
        values = flat(values)
        if not same_dtype(on_true_tile.dtype, dst.dtype):
            values = np.where(keep, to_f32(values), otherwise)
        else:
            # equal dtypes pass unconverted, so that int32 keeps all its bits
            fill = otherwise if values.dtype == np.float32 else cast(np.asarray(otherwise), dst.dtype)
            values = np.where(keep, values, fill)
    s.write(dst, values, "dst", (SBUF,))
    return s.done("gpsimd", (dst,), (on_true_tile,), op=compare.name)


_REDUCE = ("add", "average", "maximum", "bitwise_or", "bitwise_and")


@instruction
def tensor_partition_reduce(s: Session, dst: Any, op: Any, data: Any) -> NkiInstruction:
    """``dst[0, …] = op`` over the partitions of ``data``; add, average, maximum, bitwise_or or bitwise_and.

    ``dst`` has one partition and ``data``'s free elements; both are in SBUF. All-int32 (or uint32) sums and maxima are
    exact modulo 2^32, bitwise operators take integers, everything else is fp32.
    """
    values = s.read(data, "data", (SBUF,))
    s.operand(dst, "dst", (SBUF,))
    average = name_of(op) in ("average", "mean")
    alu = OPERATORS["add"] if average else as_operator(op, "op", _REDUCE, rule="reduction-operator")
    if s.checks:
        forbid(dst.shape[0] != 1, "partition-reduce", got=dst.shape[0], dst=dst, data=data)
        check.elements(dst, "dst", data.free_size, f"data ({data.name}) has", rule="free-size-mismatch")
        dtypes(alu, (data, "data"), (dst, "dst"))
        check.direct((dst, "dst"), (data, "data"))
    if s.numerics:
        values = flat(values)
        if average:
            values = (np.add.reduce(to_f32(values), axis=0, dtype=np.float32) / np.float32(values.shape[0]))[None]
        elif alu.bitvec:
            values = resize(fold(alu, values, 0), data.dtype, dst.dtype)[None]
        elif native(alu, data.dtype, dst.dtype):
            fn: Any = alu.ufunc
            values = fn.reduce(values.astype(np.int64), axis=0)[None].astype(np.uint32).view(dst.dtype)
        else:
            values = fold(alu, values, 0)[None]
    s.write(dst, values, "dst", (SBUF,))
    return s.done("gpsimd", (dst,), (data,), op="average" if average else alu.name, partitions=data.shape[0])
