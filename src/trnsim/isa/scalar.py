"""Scalar Engine: ``func(data * scale + bias)``, one element in, one element out, in fp32.

The engine has one fp32 accumulator register per lane (128). ``reduce_cmd`` says what an instruction does with them, and
``reduce_res`` reads them out. They outlive an instruction, and are unknown until one resets them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trnsim.errors import ReadUninitialized, WrongArgument, WrongDtype, WrongEngine
from trnsim.isa.activations import Activation, activation_named, warn_out_of_range
from trnsim.isa.alu import name_of, operator
from trnsim.isa.enums import member
from trnsim.isa.enums import reduce_cmd as cmd
from trnsim.isa.operands import alike, column, count, direct, flat, indirect, same_dtype, scalar, scratch, unpacked
from trnsim.language.dtypes import tfloat32, to_f32
from trnsim.language.tensor import NkiTensor
from trnsim.session import NkiInstruction, Session, instruction

F32 = np.float32
# arithmetic on arrays is Any to a type checker
Array = Any
_COMMANDS = (cmd.idle, cmd.reset, cmd.reduce, cmd.reset_reduce)
_IDENTITY = {"add": 0.0, "maximum": -np.inf, "minimum": np.inf, "abs_max": 0.0, "abs_min": np.inf}


class Registers:
    """The accumulators: one fp32 value per lane; a lane is unknown until an instruction has set it."""

    __slots__ = ("known", "origin", "values")

    def __init__(self, lanes: int) -> None:
        self.values = np.zeros(lanes, F32)
        self.known = np.zeros(lanes, bool)
        self.origin = np.zeros(lanes, np.int64)

    def set(self, lanes: slice, values: Any) -> None:
        self.values[lanes] = values
        self.known[lanes] = True
        self.origin[lanes] = 0

    def get(self, s: Session, lanes: slice, what: str) -> Array:
        known = self.known[lanes]
        if s.checks and not known.all():
            lane = lanes.start + int(np.argmin(known))
            raise ReadUninitialized(
                f"{what} reads the Scalar Engine's accumulator of lane {lane}, which nothing has set",
                rule="accumulator",
                got=lane,
                limit="a lane that was reset",
                hint="begin with reduce_cmd.reset_reduce (or reset)",
            )
        return s.lanes(self.values[lanes], self.origin[lanes])


def _registers(s: Session) -> Registers:
    registers = s.state.get("scalar.registers")
    if registers is None:
        registers = s.state["scalar.registers"] = Registers(s.target.partitions)
    return registers


def _fold(reduce_op: str, values: Array) -> Array:
    """Reduce fp32 ``values [P, F]`` along the free dimension."""
    if reduce_op == "add":
        return np.add.reduce(values, axis=1)
    if reduce_op == "maximum":
        return np.maximum.reduce(values, axis=1)
    if reduce_op == "minimum":
        return np.minimum.reduce(values, axis=1)
    # abs_max and abs_min keep the sign, and the later of two equal magnitudes wins
    backwards = values[:, ::-1]
    sizes = np.abs(backwards)
    pick = sizes.argmax(axis=1) if reduce_op == "abs_max" else sizes.argmin(axis=1)
    return backwards[np.arange(values.shape[0]), pick]


def _accumulate(s: Session, command: cmd, reduce_op: str, values: Array, data: NkiTensor, reduce_res: Any) -> None:
    """Do ``command`` to the registers with activated ``values [P, F]``, then read them into ``reduce_res``."""
    registers = _registers(s)
    start = data.partition_start
    lanes = slice(start, start + data.shape[0])
    if command is cmd.reset:
        registers.set(lanes, F32(_IDENTITY[reduce_op]))
    elif command is cmd.reset_reduce:
        registers.set(lanes, _fold(reduce_op, values))
    elif command is cmd.reduce:
        before = registers.get(s, lanes, "reduce_cmd.reduce")
        registers.set(lanes, _fold(reduce_op, np.stack([before, _fold(reduce_op, values)], axis=1)))
    if reduce_res is not None:
        s.write(reduce_res, registers.get(s, lanes, "reduce_res").reshape(-1, 1), "reduce_res")


def _reduction(
    s: Session, reduce_op: Any, reduce_cmd: Any, reduce_res: Any, data: NkiTensor, allowed: tuple[str, ...]
) -> tuple[cmd, str]:
    """Check the reduction arguments; gives the command and the operator's name."""
    command = member(cmd, reduce_cmd, "reduce_cmd")
    if s.checks and command not in _COMMANDS:
        raise WrongArgument(
            f"reduce_cmd is {command.name}, which the Scalar Engine lacks",
            rule="reduce-cmd",
            got=command.name,
            limit=[c.name for c in _COMMANDS],
            hint="start with reset_reduce and add the initial value afterwards",
        )
    name = "add"
    if reduce_op is not None:
        name = operator(reduce_op, "reduce_op").name
        if name not in allowed:
            raise WrongArgument(
                f"reduce_op is nl.{name}, and this instruction reduces with {', '.join('nl.' + n for n in allowed)}",
                rule="reduce-op",
                got=name,
                limit=list(allowed),
                hint="reduce the result with tensor_reduce on the Vector Engine",
            )
    elif s.checks and len(allowed) > 1 and command in (cmd.reduce, cmd.reset_reduce):
        raise WrongArgument(
            f"reduce_cmd is {command.name} and reduce_op is None",
            rule="reduce-op",
            got=None,
            limit=list(allowed),
            hint=f"name the reduction: {', '.join('nl.' + n for n in allowed)}",
        )
    if reduce_res is not None and s.checks:
        s.operand(reduce_res, "reduce_res")
        column(reduce_res, "reduce_res", data, "data")
        unpacked((reduce_res, "reduce_res"))
        direct((reduce_res, "reduce_res"))
    return command, name


def _check_tiles(s: Session, dst: Any, data: NkiTensor) -> None:
    s.operand(dst, "dst")
    alike(s, dst, "dst", (data, "data"))
    unpacked((dst, "dst"), (data, "data"))
    if dst.dynamic is not None or data.dynamic is not None:
        indirect(s, dst, data, "data", "scalar")


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
    with np.errstate(all="ignore"):
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
    name: Any = None,
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
            with np.errstate(all="ignore"):
                values = values if scaled is None else values * scaled
                values = values if added is None else values + added
    _finish(s, dst, function, data, values, command=command, reduce_op=folded_by, reduce_res=reduce_res)
    writes = (dst,) if reduce_res is None else (dst, reduce_res)
    pointers = count(bias) + count(scale)
    return s.done(
        "scalar",
        writes,
        (data, bias, scale),
        op=function.name,
        reduce=command.name,
        readout=len(writes) > 1,
        pointers=pointers,
    )


def _check_bias(s: Session, function: Activation, bias: Any) -> None:
    if isinstance(bias, NkiTensor):
        if bias.dtype is tfloat32:
            raise WrongDtype(
                f"bias ({bias.name}) is tfloat32",
                rule="operand-dtype",
                got="tfloat32",
                limit="any other dtype",
                hint="allocate it as nl.float32",
            )
    elif s.target.generation < 3:
        raise WrongEngine(
            f"bias is the number {bias!r}, and trn1 takes a [N, 1] tile",
            rule="bias",
            got=bias,
            limit="trn2",
            hint="fill a (N, 1) tile with memset and pass it",
        )
    if function.name == "reciprocal" and s.target.generation < 3:
        raise WrongEngine(
            "trn1's Scalar Engine takes no bias with nl.reciprocal",
            rule="bias",
            got="reciprocal",
            limit="trn2",
            hint="add on the Vector Engine first",
        )


@instruction
def activation_reduce(
    s: Session,
    dst: Any,
    op: Any,
    data: Any,
    reduce_op: Any,
    reduce_res: Any,
    bias: Any = None,
    scale: Any = 1.0,
    name: Any = None,
) -> NkiInstruction:
    """`activation` with ``reduce_cmd.reset_reduce``: also ``reduce_res = sum(dst)`` along all free dimensions."""
    if reduce_op is None:
        raise WrongArgument(
            "reduce_op is None", rule="reduce-op", got=None, limit=["add"], hint="pass reduce_op=nl.add"
        )
    reduction = (reduce_op, cmd.reset_reduce, reduce_res)
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
    name: Any = None,
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
        if isinstance(imm0, NkiTensor) and isinstance(imm1, NkiTensor) and not same_dtype(imm0.dtype, imm1.dtype):
            raise WrongDtype(
                f"imm0 is {imm0.dtype} and imm1 is {imm1.dtype}",
                rule="operand-dtype",
                got=(str(imm0.dtype), str(imm1.dtype)),
                limit="one dtype",
                hint="convert one with tensor_copy",
            )
    left = scalar(s, imm0, "imm0", data, "data", f32=False) if first != "bypass" else None
    right = scalar(s, imm1, "imm1", data, "data", f32=False) if second != "bypass" else None
    slope = scalar(s, relu_param, "relu_param", data, "data", f32=False)
    command, reduction = _reduction(s, reduce_op, reduce_cmd, reduce_res, data, _REDUCTIONS)
    if s.numerics:
        values = flat(to_f32(values))
        with np.errstate(all="ignore"):
            values = _compute_stage(first, values, left, reverse0)
            values = _compute_stage(second, values, right, reverse1)
    slope = slope if function.name == "prelu" else None
    _finish(s, dst, function, data, values, command=command, reduce_op=reduction, reduce_res=reduce_res, slope=slope)
    writes = (dst,) if reduce_res is None else (dst, reduce_res)
    return s.done(
        "scalar",
        writes,
        (data, imm0, imm1, relu_param),
        op=function.name,
        op0=first,
        op1=second,
        reduce=command.name,
        readout=len(writes) > 1,
        pointers=count(imm0) + count(imm1) + count(relu_param),
    )


def _check_stages(first: str, second: str, reverse0: bool, reverse1: bool) -> None:
    if (first, second) not in _STAGES:
        raise WrongArgument(
            f"(op0, op1) is ({first}, {second})",
            rule="activate2-stages",
            got=(first, second),
            limit=sorted(_STAGES),
            hint="op1 needs op0; the Scalar Engine knows " + ", ".join(f"({a}, {b})" for a, b in sorted(_STAGES)),
        )
    for reverse, stage, n in ((reverse0, first, 0), (reverse1, second, 1)):
        if reverse and stage == "bypass":
            raise WrongArgument(
                f"reverse{n} is set and op{n} is bypass",
                rule="activate2-stages",
                got=stage,
                hint=f"drop reverse{n}, or name op{n}",
            )


def _compute_stage(stage: str, x: Array, imm: Any, reverse: bool) -> Array:
    if stage == "bypass":
        return x
    if stage == "multiply":
        return x * imm
    if stage == "add":
        return x + imm
    return imm - x if reverse else x - imm
