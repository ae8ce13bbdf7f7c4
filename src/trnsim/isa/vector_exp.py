"""Vector Engine of trn3: the exponential with a running sum, made for softmax."""

from typing import Any

import numpy as np

from trnsim.isa import accumulator, operands as check
from trnsim.isa.alu import OPERATORS
from trnsim.isa.enums import reduce_cmd as cmd
from trnsim.isa.operands import flat, scalar
from trnsim.refusals import forbid, refuse
from trnsim.session import NkiInstruction, Session, instruction
from trnsim.tensors.dtypes import FLOATS, INTEGERS, bool_, float8_e4m3fn, tfloat32, to_f32, uint32
from trnsim.tensors.tensor import NkiTensor

_SUMS = FLOATS - {float8_e4m3fn}
_SOURCES = (_SUMS | INTEGERS) - {tfloat32, bool_}
_RESULTS = (_SUMS | INTEGERS) - {uint32, bool_}
_COMMANDS = (cmd.idle, cmd.reset_reduce, cmd.reduce, cmd.load_reduce)


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
) -> NkiInstruction:
    """``dst = exp(src - max_value)`` and, on demand, its sum along the free dimensions in the accumulators; trn3.

    ``src`` and ``dst`` are tiles of up to four dimensions with the same elements. ``max_value`` and ``reduce_init`` are
    numbers or fp32 ``[P, 1]`` tiles; ``reduce_init`` belongs to ``load_reduce``. ``reduce_res [P, 1]`` gets the sum.
    """
    values = s.read(src, "src")
    command = accumulator.command(s, reduce_cmd, _COMMANDS)
    if s.checks:
        _check(s, dst, src)
        accumulator.check_result(s, command, reduce_res, src, "src")
        if reduce_res is not None:
            check.has_dtype(reduce_res, "reduce_res", _SUMS)
        if command is not cmd.load_reduce and (type(reduce_init) is NkiTensor or reduce_init not in (None, 0)):
            raise refuse("reduce-init:exponential", got=command.name)
    shift = scalar(s, max_value, "max_value", src, "src")
    init = None
    if command is cmd.load_reduce:
        init = scalar(s, 0.0 if reduce_init is None else reduce_init, "reduce_init", src, "src")
    total = values
    if s.numerics:
        values = np.exp(flat(to_f32(values)) - shift)
        if command is not cmd.idle:
            total = np.add.reduce(values, axis=1, keepdims=True)
    add = OPERATORS["add"]
    writes = accumulator.finish(s, command, add, dst, values, total=total, data=src, reduce_res=reduce_res, init=init)
    return s.done("vector", writes, (src, max_value, reduce_init), op="exp", reduce=command.name)


def _check(s: Session, dst: NkiTensor, src: NkiTensor) -> None:
    check.alike(s, dst, "dst", (src, "src"))
    check.has_dtype(src, "src", _SOURCES)
    check.has_dtype(dst, "dst", _RESULTS)
    for t, role in ((src, "src"), (dst, "dst")):
        forbid(t.ndim > 4, "rank", got=t.ndim, role=role, t=t)
    check.indirect(s, dst, src, "src")
