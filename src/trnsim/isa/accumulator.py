"""The Vector Engine's accumulator registers: one fp32 per lane, shared by every instruction that reduces into them.

A lane belongs to a partition. ``reset_reduce`` starts from the operator's identity, ``load_reduce`` from a given value,
``reduce`` goes on from what the lane holds; after ``idle`` (or before anything ran) a lane holds nothing defined, and
going on from it is an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trnsim.errors import ReadUninitialized, WrongArgument
from trnsim.isa.alu import Alu
from trnsim.isa.enums import member, reduce_cmd
from trnsim.language.tensor import NkiTensor
from trnsim.session import Session

F32 = np.float32
_KEY = "vector_accumulator"


class Lanes:
    """``values`` [128, 1], which of them are defined, and which read of unwritten memory one depends on (0: none)."""

    __slots__ = ("defined", "origin", "values")

    def __init__(self, n: int) -> None:
        self.values = np.zeros((n, 1), F32)
        self.defined = np.zeros(n, bool)
        self.origin = np.zeros(n, np.int64)


def _lanes(s: Session) -> Lanes:
    lanes = s.state.get(_KEY)
    if lanes is None:
        lanes = s.state[_KEY] = Lanes(s.target.partitions)
    return lanes


def command(s: Session, value: Any, allowed: tuple[reduce_cmd, ...]) -> reduce_cmd:
    """``value`` as one of the reduce commands this instruction knows."""
    cmd = member(reduce_cmd, value, "reduce_cmd")
    if cmd not in allowed:
        raise WrongArgument(
            f"reduce_cmd is {cmd.name}, which {s.instr} does not know",
            rule="reduce-cmd",
            got=cmd.name,
            limit=[c.name for c in allowed],
            hint=f"use {' or '.join('nisa.reduce_cmd.' + c.name for c in allowed)}",
        )
    return cmd


def start(s: Session, cmd: reduce_cmd, alu: Alu, like: NkiTensor, init: Any = None) -> np.ndarray:
    """Return what the lanes of ``like``'s partitions hold when the instruction begins, [P, 1]."""
    first = like.partition_start
    end = first + like.shape[0]
    if cmd is reduce_cmd.reduce:
        lanes = _lanes(s)
        if s.checks and not lanes.defined[first:end].all():
            missing = first + int(np.argmin(lanes.defined[first:end]))
            raise ReadUninitialized(
                f"reduce_cmd.reduce goes on from the accumulator of partition {missing}, which holds nothing defined",
                rule="accumulator",
                got=missing,
                limit=(first, end),
                hint="begin the chain with reset_reduce; idle instructions leave the accumulator undefined",
            )
        return s.lanes(lanes.values[first:end], lanes.origin[first:end])
    value = alu.identity if cmd is not reduce_cmd.load_reduce else init
    if not s.numerics:
        return np.zeros((1, 1), F32)
    return np.full((like.shape[0], 1), value, F32)


def store(s: Session, like: NkiTensor, values: np.ndarray) -> None:
    """Leave ``values`` [P, 1] in the lanes of ``like``'s partitions."""
    lanes = _lanes(s)
    first = like.partition_start
    end = first + like.shape[0]
    lanes.defined[first:end] = True
    lanes.origin[first:end] = 0
    if s.numerics:
        lanes.values[first:end] = values


def forget(s: Session) -> None:
    """The lanes hold nothing defined any more."""
    _lanes(s).defined[:] = False


def fold(s: Session, cmd: reduce_cmd, alu: Alu, like: NkiTensor, total: np.ndarray, init: Any = None) -> np.ndarray:
    """Accumulate ``total`` [P, 1], the reduction of this instruction's results, and give the lanes' new contents."""
    held: Any = F32(alu.identity) if cmd is reduce_cmd.reset_reduce else start(s, cmd, alu, like, init)
    if s.numerics:
        with np.errstate(all="ignore"):
            held = alu.fn(held, total)
    store(s, like, held)
    return np.asarray(held)


def idle_result(reduce_res: Any) -> None:
    """``idle`` accumulates nothing, so there is nothing to write out."""
    if reduce_res is not None:
        raise WrongArgument(
            "reduce_res is given and reduce_cmd is idle, which accumulates nothing",
            rule="reduce-cmd",
            got="idle",
            limit=["reset_reduce", "reduce"],
            hint="pass reduce_cmd=nisa.reduce_cmd.reset_reduce, or leave reduce_res out",
        )
