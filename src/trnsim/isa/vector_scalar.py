"""Vector, Scalar and GpSimd Engines: ``tensor_scalar``, one or two operators with per-partition operands."""

from typing import Any

import numpy as np

from trnsim.isa import alu as ops, operands as check
from trnsim.isa.alu import Alu
from trnsim.isa.enums import engine as eng
from trnsim.isa.operands import flat, not_run, pick, scalar
from trnsim.isa.vector_math import only_vector, step, unary_operand
from trnsim.isa.words import bits, immediate_bits, resize, shift_ok
from trnsim.refusals import forbid, refuse
from trnsim.session import NkiInstruction, Session, instruction
from trnsim.tensors.dtypes import to_f32
from trnsim.tensors.tensor import NkiTensor


@instruction
def tensor_scalar(
    s: Session,
    dst: Any,
    data: Any,
    op0: Any,
    operand0: Any,
    reverse0: bool = False,
    op1: Any = None,
    operand1: Any = None,
    reverse1: bool = False,
    engine: Any = eng.unknown,
) -> NkiInstruction:
    """``dst = (data op0 operand0) op1 operand1`` on the Vector (default), Scalar or GpSimd Engine.

    An operand is a number or a [P, 1] tile broadcast along the free dimensions; ``reverse`` puts it on the left. Unary
    operators take ``None`` or 0. Both operators are arithmetic (fp32 throughout, tile operands float32) or both bitvec
    (integers, exact, Vector Engine only). GpSimd runs only ``rsqrt`` and ``power``; trn2's Scalar Engine multiply,
    multiply-add and add; trn1's Scalar Engine none.
    """
    first = ops.operator(op0, "op0")
    second = None if op1 is None else ops.operator(op1, "op1")
    x = s.read(data, "data")
    if s.checks:
        check.alike(s, dst, "dst", (data, "data"))
        _scalar_rules(s, first, operand0, reverse0, second, operand1, reverse1)
        ops.dtypes(first, (data, "data"), (dst, "dst"))
    where = _scalar_engine(s, first, second, engine)
    if s.checks:
        check.no_psum(where, (data, "data"), (dst, "dst"), (operand0, "operand0"), (operand1, "operand1"))
        if data.dynamic is not None or dst.dynamic is not None:
            _no_address_arithmetic(first, dst, data)
            check.indirect(s, dst, data, "data", where)
    if first.bitvec:
        stages = ((first, operand0, reverse0, "operand0"), (second, operand1, reverse1, "operand1"))
        result = _bit_chain(s, x, data, dst, stages)
    else:
        a = None if first.arity == 1 else scalar(s, operand0, "operand0", data, "data")
        b = None if second is None or second.arity == 1 else scalar(s, operand1, "operand1", data, "data")
        if s.numerics:
            result = step(first, to_f32(flat(x)), a, reverse0)
            if second is not None:
                result = step(second, result, b, reverse1)
        else:
            result = x
    s.write(dst, result, "dst")
    cost = {"op0": first.name, "op1": None if second is None else second.name, "free": engine is eng.unknown}
    return s.done(where, (dst,), (data, operand0, operand1), cost)


_FIRST_ONLY = ("abs_max", "abs_min", "square", "relu")


def _scalar_rules(
    s: Session, first: Alu, operand0: Any, reverse0: bool, second: Alu | None, operand1: Any, reverse1: bool
) -> None:
    unary_operand(first, "op0", operand0, "operand0", reverse0)
    ops.generation(first, s.target, "op0")
    if second is None:
        if operand1 is not None or reverse1:
            raise refuse("unused-operand", got="operand1" if operand1 is not None else "reverse1")
        return
    unary_operand(second, "op1", operand1, "operand1", reverse1)
    ops.generation(second, s.target, "op1")
    forbid(second.name in _FIRST_ONLY, "first-operator", got=second.name, second=second)
    forbid(first.bitvec != second.bitvec, "operator-kind", got=(first.kind, second.kind), first=first, second=second)


def _no_address_arithmetic(alu: Alu, dst: NkiTensor, data: NkiTensor) -> None:
    if (dst.is_addressed("tensor") or data.is_addressed("tensor")) and ops.native(alu, data.dtype, dst.dtype):
        raise refuse("indirect-address", got=(str(data.dtype), str(dst.dtype)), data=data, dst=dst)


_SCALAR_TRN2 = {("multiply", "add"), ("multiply", None), ("add", None)}


def _scalar_engine(s: Session, first: Alu, second: Alu | None, engine: Any) -> str:
    names = (first.name, None if second is None else second.name)
    slow = "rsqrt" in names
    if engine is eng.unknown and not slow:
        return "vector"
    where = pick(s, engine, ("vector", "scalar", "gpsimd"), "gpsimd" if slow else "vector")
    if not s.checks:
        return where
    if first.bitvec and where != "vector":
        raise only_vector(first, "op0", where)
    if where == "vector" and slow:
        hint = "leave engine open (GpSimd), or use nisa.activation(op=nl.rsqrt) on the Scalar Engine"
        raise not_run(where, "rsqrt", ("gpsimd",), hint)
    shown = " and ".join("nl." + n for n in names if n)
    if where == "gpsimd" and not slow and "power" not in names:
        hint = "it runs rsqrt and power; use the Vector Engine, or tensor_tensor for exact 32-bit integers"
        raise not_run(where, f"tensor_scalar with {shown}", ("rsqrt", "power"), hint)
    if where == "scalar" and s.target.generation < 3:
        hint = "use nisa.activation with scale= and bias="
        raise not_run(where, f"tensor_scalar on {s.target.name}", ("vector", "gpsimd"), hint)
    if where == "scalar" and s.target.generation == 3 and names not in _SCALAR_TRN2:
        raise refuse("scalar-operators", got=names, limit=sorted(_SCALAR_TRN2, key=str), shown=shown)
    return where


def _bit_chain(s: Session, x: np.ndarray, data: NkiTensor, dst: NkiTensor, stages: Any) -> np.ndarray:
    """Compute both bitvec stages at ``data``'s width, as bits of ``dst``."""
    result = bits(flat(x)) if s.numerics else x
    for alu, value, reverse, role in stages:
        if alu is None:
            continue
        other = None if alu.arity == 1 else _bit_operand(s, alu, value, role, data)
        if not s.numerics:
            continue
        if other is None:
            result = alu.fn(result)
            continue
        left, right = (other, result) if reverse else (result, other)
        if alu.name.endswith("_shift"):
            shift_ok(right, data.itemsize, "data" if reverse else role)
        result = alu.fn(left, right)
    return resize(result, data.dtype, dst.dtype) if s.numerics else result


def _bit_operand(s: Session, alu: Alu, value: Any, role: str, data: NkiTensor) -> np.ndarray:
    width = data.itemsize
    if type(value) is not NkiTensor:
        return immediate_bits(value, width, role)
    read = s.read(value, role)
    if s.checks:
        check.column(value, role, data, "data")
        ops.dtypes(alu, (value, role))
        check.direct((value, role))
        if value.itemsize > width:
            raise refuse("bitvec-width", got=str(value.dtype), limit=str(data.dtype), role=role, value=value, data=data)
    return bits(read.reshape(read.shape[0], 1), width) if s.numerics else read
