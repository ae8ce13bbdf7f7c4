"""Vector Engine: element-wise arithmetic and bit operations, with the engines that share them."""

from typing import Any

import numpy as np

from trnsim.errors import KernelError
from trnsim.isa import alu as ops, operands as check
from trnsim.isa.alu import Alu
from trnsim.isa.enums import engine as eng
from trnsim.isa.operands import flat, not_run, pick, scalar, scratch
from trnsim.refusals import forbid, refuse
from trnsim.session import NkiInstruction, Session, instruction
from trnsim.tensors.dtypes import to_f32
from trnsim.tensors.tensor import NkiTensor

F32 = np.float32


@instruction
def tensor_tensor(s: Session, dst: Any, data1: Any, data2: Any, op: Any, engine: Any = eng.unknown) -> NkiInstruction:
    """``dst = data1 op data2``, element by element, on the Vector or GpSimd Engine.

    All three have the same partitions and elements per partition; ``data1`` and ``data2`` are not both in PSUM.
    Bitvec operators take integers and run on the Vector Engine. Arithmetic is fp32, except that GpSimd computes exactly
    (modulo 2^32) when every tile is int32 or uint32; left open, the engine is GpSimd for those (unless a tile is in
    PSUM) and for ``nl.power``, else Vector.
    """
    alu = ops.binary(op, "op")
    x = s.read(data1, "data1")
    y = s.read(data2, "data2")
    if s.checks:
        check.alike(s, dst, "dst", (data1, "data1"), (data2, "data2"))
        ops.generation(alu, s.target, "op")
        ops.dtypes(alu, (data1, "data1"), (data2, "data2"), (dst, "dst"))
        check.one_psum(data1, "data1", data2, "data2")
        check.direct((data2, "data2"))
    native = ops.native(alu, data1.dtype, data2.dtype, dst.dtype)
    where = _pair_engine(s, alu, native, engine, dst, data1, data2)
    if s.checks and (data1.dynamic is not None or dst.dynamic is not None):
        check.indirect(s, dst, data1, "data1", where)
    if s.numerics:
        if x.shape != y.shape:
            x, y = flat(x), flat(y)
        if alu.bitvec:
            result = ops.bitvec(alu, x, y, dst.dtype, "data2")
        elif native and where == "gpsimd":
            result = ops.integer(alu, x, y, dst.dtype)
        elif alu.fn is alu.ufunc:
            result = alu.ufunc(to_f32(x), to_f32(y), out=scratch(s, "pair", x.shape))
        else:
            result = alu.fn(to_f32(x), to_f32(y))
        s.write(dst, result, "dst")
    else:
        s.write(dst, x, "dst")
    return s.done(where, (dst,), (data1, data2), op=alu.name)


def _pair_engine(
    s: Session, alu: Alu, native: bool, engine: Any, dst: NkiTensor, data1: NkiTensor, data2: NkiTensor
) -> str:
    tiles = ((data1, "data1"), (data2, "data2"), (dst, "dst"))
    psum = any(t.buffer.value == "psum" for t, _ in tiles)
    default = "gpsimd" if alu.name == "power" or (native and not psum) else "vector"
    where = pick(s, engine, ("vector", "gpsimd"), default)
    if not s.checks:
        return where
    if alu.bitvec and where == "gpsimd":
        raise only_vector(alu, "op", where)
    if alu.name == "power" and where == "vector":
        hint = "leave engine open (GpSimd), or raise to a constant power with tensor_scalar"
        raise not_run(where, "tensor_tensor with nl.power", ("gpsimd",), hint)
    check.no_psum(where, *tiles)
    return where


def only_vector(alu: Alu, role: str, got: str) -> KernelError:
    """Return the error for a bitvec operator on another engine."""
    what = f"{role}={alu!r}: bitvec operators are the Vector Engine's"
    return not_run(got, what, ("vector",), "leave engine open or pass nisa.engine.vector")


def step(alu: Alu, x: np.ndarray, operand: Any, reverse: bool = False) -> np.ndarray:
    """One fp32 stage of an instruction: ``x op operand``, reversed on request, or ``op x``."""
    if alu.arity == 1:
        return alu.fn(x)
    return alu.fn(operand, x) if reverse else alu.fn(x, operand)


def unary_operand(alu: Alu, role: str, value: Any, value_role: str, reverse: bool) -> None:
    """Unary operators take ``None`` or 0, binary ones a value."""
    if alu.arity == 2:
        if value is None:
            raise refuse("missing-operand", role=role, alu=alu, value_role=value_role)
        return
    if value is not None and (type(value) is NkiTensor or not isinstance(value, (int, float, np.number)) or value != 0):
        shown = f"tile {value.name}" if type(value) is NkiTensor else repr(value)
        raise refuse("unary-operand:operand", got=shown, limit=(None, 0), role=role, alu=alu, value_role=value_role)
    forbid(reverse, "unary-operand:reverse", got=True, limit=False, role=role, alu=alu)


@instruction
def scalar_tensor_tensor(
    s: Session,
    dst: Any,
    data: Any,
    op0: Any,
    operand0: Any,
    op1: Any,
    operand1: Any,
    reverse0: bool = False,
    reverse1: bool = False,
) -> NkiInstruction:
    """``dst = (data op0 operand0) op1 operand1`` on the Vector Engine: a scalar stage, then a tile stage, in fp32.

    ``operand0`` is a number or a [P, 1] tile, ``operand1`` a tile as large as ``data``; ``data`` and ``operand1`` are
    not both in PSUM. Both operators are arithmetic.
    """
    first = ops.arithmetic(ops.operator(op0, "op0"), "op0")
    second = ops.arithmetic(ops.binary(op1, "op1"), "op1")
    x = s.read(data, "data")
    y = s.read(operand1, "operand1")
    if s.checks:
        check.alike(s, dst, "dst", (data, "data"), (operand1, "operand1"))
        unary_operand(first, "op0", operand0, "operand0", reverse0)
        for alu, role in ((first, "op0"), (second, "op1")):
            ops.generation(alu, s.target, role)
        check.plain((data, "data"), (operand1, "operand1"), (dst, "dst"))
        check.one_psum(data, "data", operand1, "operand1")
    a = None if first.arity == 1 else scalar(s, operand0, "operand0", data, "data", f32=False)
    if s.numerics:
        result = step(first, to_f32(flat(x)), a, reverse0)
        result = step(second, result, to_f32(flat(y)), reverse1)
    else:
        result = x
    s.write(dst, result, "dst")
    return s.done("vector", (dst,), (data, operand1, operand0), op0=first.name, op1=second.name)


@instruction
def reciprocal(s: Session, dst: Any, data: Any) -> NkiInstruction:
    """``dst = 1 / data`` in fp32 on the Vector Engine."""
    x = s.read(data, "data")
    if s.checks:
        check.alike(s, dst, "dst", (data, "data"))
        check.plain((data, "data"), (dst, "dst"))
    if s.numerics:
        x = np.divide(F32(1), to_f32(x))
    s.write(dst, x, "dst")
    return s.done("vector", (dst,), (data,), op="reciprocal")


@instruction
def tensor_tensor_scan(
    s: Session,
    dst: Any,
    data0: Any,
    data1: Any,
    initial: Any,
    op0: Any,
    op1: Any,
    reverse0: bool = False,
    reverse1: bool = False,
) -> NkiInstruction:
    """``state = (data0[i] op0 state) op1 data1[i]; dst[i] = state`` along the free dimensions, on the Vector Engine.

    The state is fp32 and begins as ``initial``, a number or a [P, 1] tile. ``reverse0`` puts the state on the left of
    ``op0``, ``reverse1`` puts ``data1`` on the left of ``op1``. ``data0`` and ``data1`` are not both in PSUM.
    """
    first = ops.arithmetic(ops.binary(op0, "op0"), "op0")
    second = ops.arithmetic(ops.binary(op1, "op1"), "op1")
    x = s.read(data0, "data0")
    y = s.read(data1, "data1")
    if s.checks:
        check.alike(s, dst, "dst", (data0, "data0"), (data1, "data1"))
        for alu, role in ((first, "op0"), (second, "op1")):
            ops.generation(alu, s.target, role)
        check.plain((data0, "data0"), (data1, "data1"), (dst, "dst"))
        check.one_psum(data0, "data0", data1, "data1")
    state = scalar(s, initial, "initial", data0, "data0", f32=False)
    states = _scan(first, second, to_f32(flat(x)), to_f32(flat(y)), state, reverse0, reverse1) if s.numerics else x
    s.write(dst, states, "dst")
    return s.done("vector", (dst,), (data0, data1, initial), op0=first.name, op1=second.name)


def _scan(
    first: Alu, second: Alu, x: np.ndarray, y: np.ndarray, state: Any, reverse0: bool, reverse1: bool
) -> np.ndarray:
    # one row per step, so that each step runs over contiguous memory
    x, y = np.ascontiguousarray(x.T), np.ascontiguousarray(y.T)
    states = np.empty(x.shape, F32)
    state = np.broadcast_to(np.asarray(state, F32).reshape(-1), x.shape[1:])
    f, g = first.fn, second.fn
    for i in range(x.shape[0]):
        mixed = f(state, x[i]) if reverse0 else f(x[i], state)
        states[i] = state = g(y[i], mixed) if reverse1 else g(mixed, y[i])
    return states.T
