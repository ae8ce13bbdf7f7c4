"""The accumulators of the Vector and the Scalar Engine: one fp32 per lane, shared by the instructions that reduce.

A lane belongs to a partition. ``reset_reduce`` starts from the operator's identity, ``load_reduce`` from a given value,
``reduce`` continues from what the lane holds. Before anything ran, and on the Vector Engine after ``idle``, a lane
holds nothing defined, and to continue from it is an error.
"""

from typing import Any

import numpy as np

from trnsim.isa import operands as check
from trnsim.isa.alu import Alu
from trnsim.isa.enums import member, reduce_cmd
from trnsim.refusals import forbid, refuse
from trnsim.session import Session
from trnsim.tensors.tensor import NkiTensor

F32 = np.float32


class Lanes:
    """``values`` [128, 1], which of them are defined, and which read of unwritten memory one depends on (0: none)."""

    __slots__ = ("defined", "origin", "values")

    def __init__(self, n: int) -> None:
        self.values = np.zeros((n, 1), F32)
        self.defined = np.zeros(n, bool)
        self.origin = np.zeros(n, np.int64)

    def read(self, s: Session, like: NkiTensor, what: str) -> np.ndarray:
        """Return what the lanes of ``like``'s partitions hold, [P, 1]; ``what`` asks for it."""
        rows = slice(like.partition_start, like.partition_start + like.shape[0])
        if s.checks and not self.defined[rows].all():
            lane = rows.start + int(np.argmin(self.defined[rows]))
            raise refuse("accumulator", got=lane, limit=(rows.start, rows.stop), what=what)
        return s.lanes(self.values[rows], self.origin[rows])

    def write(self, s: Session, like: NkiTensor, values: Any) -> None:
        """Leave ``values`` [P, 1] in the lanes of ``like``'s partitions."""
        rows = slice(like.partition_start, like.partition_start + like.shape[0])
        self.defined[rows] = True
        self.origin[rows] = 0
        if s.numerics:
            self.values[rows] = values


def lanes_of(s: Session, engine: str = "vector") -> Lanes:
    """Return the accumulators of an engine."""
    name = f"{engine} accumulators"
    lanes = s.state.get(name)
    if lanes is None:
        lanes = s.state[name] = Lanes(s.target.partitions)
    return lanes


def command(s: Session, value: Any, allowed: tuple[reduce_cmd, ...]) -> reduce_cmd:
    """``value`` as one of the reduce commands this instruction knows."""
    cmd = member(reduce_cmd, value, "reduce_cmd")
    if cmd not in allowed and s.checks:
        raise refuse(
            "reduce-cmd:command",
            got=cmd.name,
            limit=[c.name for c in allowed],
            s=s,
            names=" or ".join("nisa.reduce_cmd." + c.name for c in allowed),
        )
    return cmd


def start(s: Session, cmd: reduce_cmd, alu: Alu, like: NkiTensor, init: Any = None) -> np.ndarray:
    """Return what the lanes of ``like``'s partitions hold when the instruction begins, [P, 1]."""
    if cmd is reduce_cmd.reduce:
        return lanes_of(s).read(s, like, "reduce_cmd.reduce")
    value = alu.identity if cmd is not reduce_cmd.load_reduce else init
    if not s.numerics:
        return np.zeros((1, 1), F32)
    return np.full((like.shape[0], 1), value, F32)


def finish(
    s: Session,
    cmd: reduce_cmd,
    alu: Alu,
    dst: NkiTensor,
    values: np.ndarray,
    *,
    total: np.ndarray,
    data: NkiTensor,
    reduce_res: Any,
    init: Any = None,
    negate: bool = False,
) -> tuple[NkiTensor, ...]:
    """Write ``values`` to ``dst``, accumulate their reduction ``total`` [P, 1] and read it out into ``reduce_res``.

    Returns the tiles written.
    """
    if cmd is reduce_cmd.idle:
        # the reference leaves the accumulators unknown after idle
        lanes_of(s).defined[:] = False
        s.write(dst, values, "dst")
        return (dst,)
    held: Any = F32(alu.identity) if cmd is reduce_cmd.reset_reduce else start(s, cmd, alu, data, init)
    if s.numerics:
        held = alu.fn(held, total)
    lanes_of(s).write(s, data, held)
    s.write(dst, values, "dst")
    if reduce_res is None:
        return (dst,)
    s.write(reduce_res, np.asarray(-held if negate else held), "reduce_res")
    return dst, reduce_res


def check_result(s: Session, cmd: reduce_cmd, reduce_res: Any, like: NkiTensor, like_role: str) -> None:
    """Check the [P, 1] tile that receives the accumulators, if there is one; ``idle`` accumulates nothing."""
    if reduce_res is None:
        return
    forbid(cmd is reduce_cmd.idle, "reduce-cmd:check_result", got="idle", limit=["reset_reduce", "reduce"])
    result_column(s, reduce_res, like, like_role)


def result_column(s: Session, reduce_res: Any, like: NkiTensor, like_role: str) -> None:
    """Check the [P, 1] tile that receives the accumulators."""
    s.operand(reduce_res, "reduce_res")
    check.column(reduce_res, "reduce_res", like, like_role)
    check.plain((reduce_res, "reduce_res"))
