"""Vector Engine of trn3: the exponential with a running sum, made for softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from trnsim.errors import HardwareLimit, WrongArgument, WrongDtype
from trnsim.isa import accumulator
from trnsim.isa.alu import OPERATORS
from trnsim.isa.enums import reduce_cmd as cmd
from trnsim.isa.operands import alike, column, count, direct, flat, indirect, scalar
from trnsim.language.dtypes import (
    bfloat16,
    float8_e4m3,
    float8_e5m2,
    float16,
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
from trnsim.language.tensor import NkiTensor
from trnsim.session import NkiInstruction, Session, instruction

_FLOATS = (float8_e4m3, float8_e5m2, float16, bfloat16, float32)
_SOURCES = frozenset({*_FLOATS, int8, int16, int32, uint8, uint16, uint32})
_RESULTS = frozenset({*_FLOATS, tfloat32, int8, int16, int32, uint8, uint16})
_SUMS = frozenset({*_FLOATS, tfloat32})
_COMMANDS = (cmd.idle, cmd.reset_reduce, cmd.reduce, cmd.load_reduce)


def _dtype(t: NkiTensor, role: str, allowed: frozenset[Any]) -> None:
    if t.dtype not in allowed:
        names = sorted(str(d) for d in allowed)
        raise WrongDtype(
            f"{role} ({t.name}) is {t.dtype}",
            rule="operand-dtype",
            got=str(t.dtype),
            limit=names,
            hint=f"use one of {', '.join(names)}",
        )


@instruction(
    since=4,
    hint="use activation(op=nl.exp) on the Scalar Engine, with bias for the maximum and reduce_op=nl.add for the sum",
)
def exponential(
    s: Session,
    dst: Any,
    src: Any,
    max_value: Any = 0.0,
    reduce_res: Any = None,
    reduce_cmd: Any = cmd.idle,
    reduce_init: Any = 0.0,
    name: Any = None,
) -> NkiInstruction:
    """``dst = exp(src - max_value)`` and, on demand, its sum along the free dimensions in the accumulators; trn3.

    ``src`` and ``dst`` are tiles of up to four dimensions with the same elements. ``max_value`` and ``reduce_init`` are
    numbers or fp32 ``[P, 1]`` tiles; ``reduce_init`` belongs to ``load_reduce``. ``reduce_res [P, 1]`` gets the sum.
    """
    values = s.read(src, "src")
    command = accumulator.command(s, reduce_cmd, _COMMANDS)
    if s.checks:
        s.operand(dst, "dst")
        _check(s, dst, src, reduce_res, command)
        if command is not cmd.load_reduce and (type(reduce_init) is NkiTensor or reduce_init not in (None, 0)):
            raise WrongArgument(
                f"reduce_init is given and reduce_cmd is {command.name}",
                rule="reduce-init",
                got=command.name,
                limit="load_reduce",
                hint="only load_reduce starts from reduce_init; leave it at 0.0",
            )
    shift = scalar(s, max_value, "max_value", src, "src")
    init = (
        scalar(s, 0.0 if reduce_init is None else reduce_init, "reduce_init", src, "src")
        if command is cmd.load_reduce
        else None
    )
    total = values
    if s.numerics:
        with np.errstate(all="ignore"):
            values = np.exp(flat(to_f32(values)) - shift)
            if command is not cmd.idle:
                total = np.add.reduce(values, axis=1, keepdims=True)
    s.write(dst, values, "dst")
    if command is cmd.idle:
        # the reference leaves the accumulators unknown after idle
        accumulator.forget(s)
    else:
        total = accumulator.fold(s, command, OPERATORS["add"], src, total, init)
        if reduce_res is not None:
            s.write(reduce_res, total, "reduce_res")
    writes = (dst,) if reduce_res is None else (dst, reduce_res)
    pointers = count(max_value) + count(reduce_init)
    return s.done(
        "vector",
        writes,
        (src, max_value, reduce_init),
        op="exp",
        reduce=command.name,
        readout=len(writes) > 1,
        pointers=pointers,
    )


def _check(s: Session, dst: NkiTensor, src: NkiTensor, reduce_res: Any, command: cmd) -> None:
    alike(s, dst, "dst", (src, "src"))
    _dtype(src, "src", _SOURCES)
    _dtype(dst, "dst", _RESULTS)
    for t, role in ((src, "src"), (dst, "dst")):
        if t.ndim > 4:
            raise HardwareLimit(
                f"{role} ({t.name}) has {t.ndim} dimensions",
                rule="rank",
                got=t.ndim,
                limit=4,
                hint="merge dimensions with flatten_dims",
            )
    if dst.dynamic is not None or src.dynamic is not None:
        indirect(s, dst, src, "src")
    if reduce_res is None:
        return
    if command is cmd.idle:
        accumulator.idle_result(reduce_res)
    s.operand(reduce_res, "reduce_res")
    column(reduce_res, "reduce_res", src, "src")
    _dtype(reduce_res, "reduce_res", _SUMS)
    direct((reduce_res, "reduce_res"))
