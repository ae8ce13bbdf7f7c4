"""Plans of programs: launches, sizes and predicted times, and what the same calls would take one by one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from trnsci import config, ops
from trnsci.config import TargetName
from trnsci.errors import UnsupportedError
from trnsci.graph.compilation import Compiled, size_of
from trnsci.graph.source import Segment
from trnsci.graph.tracing import CALLS, LAUNCH, REPEAT
from trnsci.kernel_launcher import Predictor
from trnsci.links import Link, link
from trnsci.neuron import logical_cores
from trnsci.plans import Step, quantity, seconds
from trnsci.predict import prediction
from trnsci.specs import freeze


class ProgramTime(NamedTuple):
    """Predicted seconds: of kernels, with their interval, and with what starting them costs.

    ``launches`` counts starts on the device; ``hosted`` the operators that torch runs in between.
    """

    kernels: float
    low: float
    high: float
    launches: int
    hosted: int
    total: float

    def plus(self, other: ProgramTime, times: int = 1) -> ProgramTime:
        """Return the sum with another, taken a number of times."""
        return ProgramTime._make(one + times * two for one, two in zip(self, other, strict=True))


_NOTHING = ProgramTime(0.0, 0.0, 0.0, 0, 0, 0.0)


@dataclass(frozen=True, eq=False)
class ProgramPlan:
    """Plan of a program: its launches, where the graph is split and why, its size, and predicted times.

    Attributes:
        name: of the function.
        launches: programs started, in order, each of them another.
        instructions, matmuls: of the longest program, bodies of loops counted once.
        hbm_bytes: arguments, constants and intermediates of the largest program.
        splits: operators that stay with torch, and why.
        left: ops of the suite that no kernel takes, and why.
    """

    name: str
    launches: int
    instructions: int
    matmuls: int
    hbm_bytes: int
    splits: tuple[str, ...]
    left: tuple[str, ...]
    compiled: Compiled = field(repr=False)
    traced: GraphModule = field(repr=False)
    compile_for: Callable[[TargetName], Compiled] = field(repr=False)

    def __reduce__(self) -> NoReturn:
        hint = "Keep str(plan), or pickle the program and plan it there"
        raise UnsupportedError("ProgramPlan", [("pickle", "it holds code generated in this process")], hint=hint)

    def __deepcopy__(self, memo: Any) -> ProgramPlan:
        return self

    def predict(self, target: TargetName) -> ProgramTime:
        """Return the predicted time as programs on a generation."""
        return _predict_program(self.compile_for(target), target)

    def predict_calls(self, target: TargetName) -> ProgramTime:
        """Return the predicted time of the same calls one by one, each started by itself.

        Operators of torch are counted by what starting them costs alone; views start nothing.
        """
        return _predict_calls(self.traced, target)

    @property
    def on_chip(self) -> tuple[int, int]:
        """Most bytes of an SBUF partition, and most PSUM banks, that one program holds on the configured generation."""
        held = [_time_segment(segment, config.TARGET.get())[1] for segment in self.compiled.segments]
        return max((sbuf for sbuf, _ in held), default=0), max((banks for _, banks in held), default=0)

    def __str__(self) -> str:
        sbuf, psum = self.on_chip
        lines = [
            f"{self.name}: {self.launches} {'launch' if self.launches == 1 else 'launches'}; the longest program has "
            f"{self.instructions:,} instructions, {self.matmuls:,} of them matmuls",
            f"  at most {sbuf / 1024:.4g} KiB of an SBUF partition, {psum} PSUM banks, "
            f"{quantity(self.hbm_bytes, 'B')} of HBM",
        ]
        for target in config.TARGETS:
            one, each = self.predict(target), self.predict_calls(target)
            lines.append(
                f"  {target}: {seconds(one.total)} with launches, kernels {seconds(one.kernels)} "
                f"({seconds(one.low)} to {seconds(one.high)}); one by one {seconds(each.total)} with "
                f"{each.launches + each.hosted} dispatches"
            )
        lines += [f"  split at {split}" for split in self.splits]
        lines += [f"  no kernel takes {left}" for left in self.left]
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class ProgramStep(Step):
    """A run of a program as a ledger has it; ``call`` is its operands without data."""

    compiled: Compiled = field(compare=False, repr=False)
    target: TargetName

    def predicted(self, target: TargetName) -> float | None:
        """Return predicted seconds of its kernels on the generation it was made for."""
        return _predict_program(self.compiled, target).kernels if target == self.target else None

    @property
    def error_bound(self) -> None:
        """Nothing is stated of several ops together."""

    __reduce__ = ProgramPlan.__reduce__


def plan_program(name: str, build: Callable[[TargetName], Any]) -> ProgramPlan:
    """Return the plan of a program that is built for a generation where it is asked about it."""
    built = build(config.TARGET.get())
    compiled: Compiled = built.compiled
    sizes = [size_of(segment) for segment in compiled.segments]
    return ProgramPlan(
        name=name,
        launches=len(compiled.segments),
        instructions=max((size.instructions for size in sizes), default=0),
        matmuls=max((size.matmuls for size in sizes), default=0),
        hbm_bytes=compiled.hbm_bytes,
        splits=compiled.splits,
        left=tuple(f"{op}: {why}" for op, why in compiled.left.items()),
        compiled=compiled,
        traced=built.traced,
        compile_for=lambda target: build(target).compiled,
    )


def _time_segment(segment: Segment, target: TargetName, turns: Sequence[int] = ()) -> tuple[ProgramTime, Any]:
    """Return the time of one launch, and what it holds on chip; loops take one turn unless ``turns`` has others."""
    return _time_launch(segment, target, tuple(turns or [1] * len(segment.loops)), logical_cores(target), link(target))


@functools.lru_cache(maxsize=512)
def _time_launch(segment: Segment, target: TargetName, turns: Any, cores: int, over: Link) -> tuple[ProgramTime, Any]:
    predictor = Predictor(target)
    predictor.launch(segment.kernel, segment.shapes(), cores, {"turns": turns} if turns else {})
    seconds = predictor.seconds
    return ProgramTime(seconds, predictor.low, predictor.high, 1, 0, seconds + over.graph), predictor.on_chip


def _predict_program(compiled: Compiled, target: TargetName) -> ProgramTime:
    """Add up the programs. A loop's turns after the second take what its third one takes."""
    total, hosted = _NOTHING, ProgramTime(0.0, 0.0, 0.0, 0, 1, link(target).dispatch)
    for segment in compiled.segments:
        # the turns of a loop that ends by a value are unknown, and one is predicted
        few = [min(2, count) or 1 for count in segment.loops]
        base, _ = _time_segment(segment, target, few)
        total = total.plus(base)
        for index, count in enumerate(segment.loops):
            if count > 2:
                more, _ = _time_segment(segment, target, [*few[:index], 3, *few[index + 1 :]])
                total = total.plus(more, count - 2).plus(base, 2 - count)
    for call in compiled.host_calls:
        if call.node.target is REPEAT:
            time = _predict_loop(call.node, target)
            # of its launches each is started by torch
            total = total.plus(time._replace(launches=0, hosted=time.launches + time.hosted))
        else:
            total = total.plus(hosted)
    return total


def _predict_loop(node: Any, target: TargetName) -> ProgramTime:
    loop = CALLS[node.args[0]]
    return _NOTHING.plus(_predict_calls(loop.body, target), loop.count or 1)


def _predict_calls(traced: GraphModule, target: TargetName) -> ProgramTime:
    known = {op.registered: op for op in ops.all_ops()}
    total, dispatch = _NOTHING, link(target).dispatch
    hosted = ProgramTime(0.0, 0.0, 0.0, 0, 1, dispatch)
    for node in traced.graph.nodes:
        if node.op != "call_function":
            continue
        if node.target is REPEAT:
            total = total.plus(_predict_loop(node, target))
        elif node.target is LAUNCH:
            total = total.plus(ProgramTime(0.0, 0.0, 0.0, 1, 0, dispatch))
        elif node.target in known:
            call = known[node.target].kind(*map_arg(node.args, _meta), **map_arg(node.kwargs, _meta))
            time = prediction(freeze(call), target)
            if time is None:
                total = total.plus(hosted)
                continue
            started = max(1, time.programs)
            whole = time.seconds + started * dispatch
            total = total.plus(ProgramTime(time.seconds, time.low, time.high, started, 0, whole))
        elif _starts(node):
            total = total.plus(hosted)
    return total


def _meta(node: Node) -> Any:
    value = node.meta["val"]
    return torch.empty(value.shape, dtype=value.dtype, device="meta") if isinstance(value, Tensor) else value


def _starts(node: Node) -> bool:
    """Return whether an operator of torch starts work: views and bookkeeping do not."""
    target: Any = node.target
    return getattr(target, "namespace", "") == "aten" and not target.is_view
