"""Scalar Engine: ``func(data * scale + bias)``, one element in, one element out, in fp32.

The engine has one fp32 accumulator register per lane (128). ``reduce_cmd`` says what an instruction does with them, and
``reduce_res`` reads them out. They outlive an instruction, and are unknown until one resets them.
"""

from typing import Any

import numpy as np

from trnsim.isa import accumulator, operands as check
from trnsim.isa.activations import Activation, activation_named, warn_out_of_range
from trnsim.isa.alu import as_operator, name_of, operator
from trnsim.isa.enums import reduce_cmd as cmd
from trnsim.isa.operands import flat, scalar, scratch
from trnsim.refusals import forbid, refuse
from trnsim.session import NkiInstruction, Session, instruction
from trnsim.tensors.dtypes import DTYPES, tfloat32, to_f32
from trnsim.tensors.tensor import NkiTensor

F32 = np.float32
# arithmetic on arrays is Any to a type checker
Array = Any
_COMMANDS = (cmd.idle, cmd.reset, cmd.reduce, cmd.reset_reduce)
_BIASES = DTYPES - {tfloat32}
_IDENTITY = {"add": 0.0, "maximum": -np.inf, "minimum": np.inf, "abs_max": 0.0, "abs_min": np.inf}


def _fold(reduce_op: str, values: Array) -> Array:
    """Reduce fp32 ``values [P, F]`` along the free dimension, to [P, 1]."""
    if not reduce_op.startswith("abs"):
        return getattr(np, reduce_op).reduce(values, axis=1, keepdims=True)
    # abs_max and abs_min keep the sign, and the later of two equal magnitudes wins
    backwards = values[:, ::-1]
    sizes = np.abs(backwards)
    pick = sizes.argmax(axis=1) if reduce_op == "abs_max" else sizes.argmin(axis=1)
    return np.take_along_axis(backwards, pick[:, None], axis=1)


def _accumulate(s: Session, command: cmd, reduce_op: str, values: Array, data: NkiTensor, reduce_res: Any) -> None:
    """Do ``command`` to the accumulators with activated ``values [P, F]``, then read them into ``reduce_res``."""
    lanes = accumulator.lanes_of(s, "scalar")
    if command is cmd.reset:
        lanes.write(s, data, F32(_IDENTITY[reduce_op]))
    elif command is cmd.reset_reduce:
        lanes.write(s, data, _fold(reduce_op, values))
    elif command is cmd.reduce:
        before = lanes.read(s, data, "reduce_cmd.reduce")
        lanes.write(s, data, _fold(reduce_op, np.concatenate([before, _fold(reduce_op, values)], axis=1)))
    if reduce_res is not None:
        s.write(reduce_res, lanes.read(s, data, "reduce_res"), "reduce_res")


def _reduction(
    s: Session, reduce_op: Any, reduce_cmd: Any, reduce_res: Any, data: NkiTensor, allowed: tuple[str, ...]
) -> tuple[cmd, str]:
    """Check the reduction arguments; gives the command and the operator's name."""
    command = accumulator.command(s, reduce_cmd, _COMMANDS)
    name = "add"
    if reduce_op is not None:
        name = as_operator(reduce_op, "reduce_op", allowed, rule="reduce-op").name
    elif s.checks and len(allowed) > 1 and command in (cmd.reduce, cmd.reset_reduce):
        raise refuse("reduce-op", limit=list(allowed), command=command, names=", ".join("nl." + n for n in allowed))
    if reduce_res is not None and s.checks:
        accumulator.result_column(s, reduce_res, data, "data")
    return command, name


def _check_tiles(s: Session, dst: Any, data: NkiTensor) -> None:
    check.alike(s, dst, "dst", (data, "data"))
    check.no_packed((dst, "dst"), (data, "data"))
    check.indirect(s, dst, data, "data", "scalar")


def _finish(
    s: Session,
    dst: NkiTensor,
    function: Activation,
    data: NkiTensor,
    x: Array,
    *,
    command: cmd,
    reduce_op: str,
    reduce_res: Any,
    slope: Any = None,
) -> None:
    """Apply the function to ``x [P, F]``, write the result, and do the reduction."""
    if not s.numerics:
        s.write(dst, x, "dst")
        if command is not cmd.idle or reduce_res is not None:
            _accumulate(s, command, reduce_op, np.zeros((data.shape[0], 1), F32), data, reduce_res)
        return
    if function.narrow and s.checks:
        warn_out_of_range(function, x, s.line())
    if type(function.fn) is np.ufunc and slope is None:
        y = function.fn(x, out=scratch(s, "activation", x.shape))
    else:
        y = function.fn(x) if slope is None else function.fn(x, slope)
    s.write(dst, y, "dst")
    if command is not cmd.idle or reduce_res is not None:
        _accumulate(s, command, reduce_op, y, data, reduce_res)


@instruction
def activation(
    s: Session,
    dst: Any,
    op: Any,
    data: Any,
    bias: Any = None,
    scale: Any = 1.0,
    reduce_op: Any = None,
    reduce_res: Any = None,
    reduce_cmd: Any = cmd.idle,
) -> NkiInstruction:
    """``dst = op(data * scale + bias)``, with an optional sum along the free dimension into the accumulators.

    ``data`` and ``dst`` are ``[N, …]`` tiles in SBUF or PSUM with the same number of elements. ``scale`` is a number or
    an fp32 ``[N, 1]`` tile; ``bias`` is a ``[N, 1]`` tile of any dtype but tfloat32, or (from trn2 on) a number.
    ``reduce_op`` is ``nl.add``; ``reduce_cmd`` is idle, reset, reduce or reset_reduce; ``reduce_res [N, 1]`` receives
    the accumulators after the command.
    """
    reduction = (reduce_op, reduce_cmd, reduce_res)
    return _activate(s, dst, op, data, bias=bias, scale=scale, reduction=reduction)


def _activate(
    s: Session, dst: Any, op: Any, data: Any, *, bias: Any, scale: Any, reduction: tuple[Any, Any, Any]
) -> NkiInstruction:
    """Run an activation; ``reduction`` is its operator, its command and where the accumulators go."""
    function = activation_named(op)
    reduce_op, reduce_cmd, reduce_res = reduction
    values = s.read(data, "data")
    if s.checks:
        _check_tiles(s, dst, data)
        if bias is not None:
            _check_bias(s, function, bias)
    scaled = None if type(scale) is float and scale == 1.0 else scalar(s, scale, "scale", data, "data")
    added = None if bias is None else scalar(s, bias, "bias", data, "data", f32=False)
    command, folded_by = _reduction(s, reduce_op, reduce_cmd, reduce_res, data, ("add",))
    if s.numerics:
        values = flat(to_f32(values))
        if scaled is not None or added is not None:
            values = values if scaled is None else values * scaled
            values = values if added is None else values + added
    _finish(s, dst, function, data, values, command=command, reduce_op=folded_by, reduce_res=reduce_res)
    writes = (dst,) if reduce_res is None else (dst, reduce_res)
    return s.done("scalar", writes, (data, bias, scale), op=function.name, reduce=command.name)


def _check_bias(s: Session, function: Activation, bias: Any) -> None:
    if isinstance(bias, NkiTensor):
        check.has_dtype(bias, "bias", _BIASES, hint="allocate it as nl.float32")
    elif s.target.generation < 3:
        raise refuse("bias:constant", got=bias)
    forbid(function.name == "reciprocal" and s.target.generation < 3, "bias:function", got="reciprocal")


@instruction
def activation_reduce(
    s: Session, dst: Any, op: Any, data: Any, reduce_op: Any, reduce_res: Any, bias: Any = None, scale: Any = 1.0
) -> NkiInstruction:
    """`activation` with ``reduce_cmd.reset_reduce``: also ``reduce_res = sum(dst)`` along all free dimensions."""
    reduction = (as_operator(reduce_op, "reduce_op", ("add",), rule="reduce-op"), cmd.reset_reduce, reduce_res)
    return _activate(s, dst, op, data, bias=bias, scale=scale, reduction=reduction)


_STAGES = {
    ("multiply", "add"),
    ("multiply", "subtract"),
    ("multiply", "bypass"),
    ("add", "bypass"),
    ("subtract", "bypass"),
    ("bypass", "bypass"),
}
_REDUCTIONS = ("add", "maximum", "minimum", "abs_max", "abs_min")


def _stage(op: Any, role: str) -> str:
    """Return the name of a tensor-scalar stage's operator."""
    return "bypass" if op is None or name_of(op) == "bypass" else operator(op, role).name


@instruction(since=4, hint="use activation, which multiplies by scale and adds bias")
def activate2(
    s: Session,
    dst: Any,
    op: Any,
    data: Any,
    imm0: Any,
    imm1: Any,
    op0: Any,
    op1: Any,
    relu_param: Any = 0.0,
    reverse0: bool = False,
    reverse1: bool = False,
    reduce_op: Any = None,
    reduce_res: Any = None,
    reduce_cmd: Any = cmd.idle,
) -> NkiInstruction:
    """``dst = op((data op0 imm0) op1 imm1)`` with an optional reduction; trn3.

    ``(op0, op1)`` is one of (multiply, add), (multiply, subtract), (multiply, bypass), (add, bypass),
    (subtract, bypass), (bypass, bypass); ``reverse0`` and ``reverse1`` swap an operator's sides. Immediates are numbers
    or ``[N, 1]`` tiles (of one dtype when both are). ``relu_param`` is prelu's slope for negative values.
    ``reduce_op`` is add, maximum, minimum, abs_max or abs_min.
    """
    function = activation_named(op)
    values = s.read(data, "data")
    first, second = _stage(op0, "op0"), _stage(op1, "op1")
    if s.checks:
        _check_tiles(s, dst, data)
        _check_stages(first, second, reverse0, reverse1)
        if isinstance(imm0, NkiTensor) and isinstance(imm1, NkiTensor):
            check.one_dtype(imm0, "imm0", imm1, "imm1", rule="operand-dtype", hint="convert one with tensor_copy")
    left = scalar(s, imm0, "imm0", data, "data", f32=False) if first != "bypass" else None
    right = scalar(s, imm1, "imm1", data, "data", f32=False) if second != "bypass" else None
    slope = scalar(s, relu_param, "relu_param", data, "data", f32=False)
    command, reduction = _reduction(s, reduce_op, reduce_cmd, reduce_res, data, _REDUCTIONS)
    if s.numerics:
        values = flat(to_f32(values))
        values = _compute_stage(first, values, left, reverse0)
        values = _compute_stage(second, values, right, reverse1)
    slope = slope if function.name == "prelu" else None
    _finish(s, dst, function, data, values, command=command, reduce_op=reduction, reduce_res=reduce_res, slope=slope)
    writes = (dst,) if reduce_res is None else (dst, reduce_res)
    cost = {"op": function.name, "op0": first, "op1": second, "reduce": command.name}
    return s.done("scalar", writes, (data, imm0, imm1, relu_param), cost)


def _check_stages(first: str, second: str, reverse0: bool, reverse1: bool) -> None:
    if (first, second) not in _STAGES:
        names = ", ".join(f"({a}, {b})" for a, b in sorted(_STAGES))
        raise refuse("activate2-stages:pair", got=(first, second), limit=sorted(_STAGES), names=names)
    for reverse, stage, n in ((reverse0, first, 0), (reverse1, second, 1)):
        forbid(reverse and stage == "bypass", "activate2-stages:reverse", got=stage, n=n)


def _compute_stage(stage: str, x: Array, imm: Any, reverse: bool) -> Array:
    if stage == "bypass":
        return x
    if stage == "multiply":
        return x * imm
    if stage == "add":
        return x + imm
    return imm - x if reverse else x - imm
