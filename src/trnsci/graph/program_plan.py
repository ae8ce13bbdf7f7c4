"""Plans of programs: launches, sizes and predicted times, and what the same calls would take one by one."""

from __future__ import annotations

import functools
from collections.abc import Callable
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
from trnsci.links import link
from trnsci.plans import quantity, seconds
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


@dataclass(frozen=True, eq=False)
class ProgramPlan:
    """What a program will do: its launches, where the graph is split and why, its size, and predicted times.

    Attributes:
        name: of the function.
        launches: programs started, in order.
        compilations: how many of them differ.
        instructions, matmuls: of the longest program, bodies of loops counted once.
        hbm_bytes: arguments, constants and intermediates of the largest program.
        splits: operators that stay with torch, and why.
        left: ops of the suite that no kernel takes, and why.
    """

    name: str
    launches: int
    compilations: int
    instructions: int
    matmuls: int
    hbm_bytes: int
    splits: tuple[str, ...]
    left: tuple[str, ...]
    compiled: Compiled = field(repr=False)
    traced: GraphModule = field(repr=False)
    compile_for: Callable[[TargetName], Compiled] = field(repr=False)
    _times: dict[object, ProgramTime] = field(default_factory=dict, repr=False)

    def __reduce__(self) -> NoReturn:
        hint = "Keep str(plan), or pickle the program and plan it there"
        raise UnsupportedError("ProgramPlan", [("pickle", "it holds code generated in this process")], hint=hint)

    def __deepcopy__(self, memo: Any) -> ProgramPlan:
        return self

    def predict(self, target: TargetName) -> ProgramTime:
        """Return the predicted time as programs on a generation."""
        return self._known(("program", target), lambda: _predict_program(self.compile_for(target), target))

    def predict_calls(self, target: TargetName) -> ProgramTime:
        """Return the predicted time of the same calls one by one, each started by itself.

        Operators of torch are counted by what starting them costs alone; views start nothing.
        """
        return self._known(("calls", target), lambda: _predict_calls(self.traced, target))

    def _known(self, key: object, build: Callable[[], ProgramTime]) -> ProgramTime:
        if key not in self._times:
            self._times[key] = build()
        return self._times[key]

    @property
    def on_chip(self) -> tuple[int, int]:
        """Most bytes of an SBUF partition, and most PSUM banks, that one program holds on the configured generation."""
        reports = [
            _report(segment, config.TARGET.get(), (1,) * len(segment.loops)) for segment in self.compiled.segments
        ]
        return max((r.sbuf_bytes for r in reports), default=0), max((r.psum_banks for r in reports), default=0)

    def __str__(self) -> str:
        sbuf, psum = self.on_chip
        kinds = f", {self.compilations} to compile" if self.compilations != self.launches else ""
        lines = [
            f"{self.name}: {_count(self.launches, 'launch', 'launches')}{kinds}; the longest program has "
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


def _count(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"


def plan_program(name: str, build: Callable[[TargetName], Any]) -> ProgramPlan:
    """Return the plan of a program that is built for a generation where it is asked about it."""
    built = build(config.TARGET.get())
    compiled: Compiled = built.compiled
    sizes = [size_of(segment) for segment in compiled.segments]
    return ProgramPlan(
        name=name,
        launches=len(compiled.segments),
        compilations=len(compiled.segments),
        instructions=max((size.instructions for size in sizes), default=0),
        matmuls=max((size.matmuls for size in sizes), default=0),
        hbm_bytes=compiled.hbm_bytes,
        splits=compiled.splits,
        left=tuple(f"{op}: {why}" for op, why in compiled.left.items()),
        compiled=compiled,
        traced=built.traced,
        compile_for=lambda target: build(target).compiled,
    )


@functools.lru_cache(maxsize=512)
def _report(segment: Segment, target: TargetName, turns: tuple[int, ...] = ()) -> _Account:
    """Return the timing model's account of one launch; loops take two turns unless told otherwise."""
    predictor = Predictor(target)
    static = {"turns": turns or tuple(min(2, count) for count in segment.loops)} if segment.loops else {}
    predictor.launch(segment.kernel, segment.shapes(), 1, static)
    return _Account(predictor.seconds, predictor.low, predictor.high, *predictor.on_chip)


class _Account(NamedTuple):
    seconds: float
    low: float
    high: float
    sbuf_bytes: int
    psum_banks: int


def _predict_program(compiled: Compiled, target: TargetName) -> ProgramTime:
    """Add up the programs. A loop's turns after the second take what its third one takes."""
    total = [0.0, 0.0, 0.0]
    for segment in compiled.segments:
        base = _report(segment, target)
        figures = list(base[:3])
        few = tuple(min(2, count) for count in segment.loops)
        for index, count in enumerate(segment.loops):
            if count > 2:
                more = _report(segment, target, (*few[:index], 3, *few[index + 1 :]))
                figures = [f + (count - 2) * (m - b) for f, m, b in zip(figures, more[:3], base[:3], strict=True)]
        total = [a + b for a, b in zip(total, figures, strict=True)]
    launches, hosted = len(compiled.segments), 0
    for call in compiled.hosted:
        if call.node.target is REPEAT:
            loop = CALLS[_index(call.node)]
            inner = _predict_calls(loop.body, target)
            total = [t + loop.count * x for t, x in zip(total, inner[:3], strict=True)]
            hosted += loop.count * (inner.launches + inner.hosted)
        else:
            hosted += 1
    over = link(target)
    return ProgramTime(
        total[0], total[1], total[2], launches, hosted, total[0] + launches * over.graph + hosted * over.dispatch
    )


def _predict_calls(traced: GraphModule, target: TargetName) -> ProgramTime:
    known = {op.registered: op for op in ops.all_ops()}
    figures, launches, hosted = [0.0, 0.0, 0.0], 0, 0
    for node in traced.graph.nodes:
        if node.op != "call_function":
            continue
        if node.target is REPEAT:
            loop = CALLS[node.args[0]]
            inner = _predict_calls(loop.body, target)
            figures = [f + loop.count * x for f, x in zip(figures, inner[:3], strict=True)]
            launches, hosted = launches + loop.count * inner.launches, hosted + loop.count * inner.hosted
        elif node.target is LAUNCH:
            launches += 1
        elif node.target in known:
            call = known[node.target].kind(*map_arg(node.args, _meta), **map_arg(node.kwargs, _meta))
            predicted = prediction(freeze(call), target)
            if predicted is None:
                hosted += 1
                continue
            figures = [f + x for f, x in zip(figures, (predicted.seconds, predicted.low, predicted.high), strict=True)]
            launches += max(1, predicted.programs)
        elif _starts(node):
            hosted += 1
    over = link(target)
    return ProgramTime(
        figures[0], figures[1], figures[2], launches, hosted, figures[0] + (launches + hosted) * over.dispatch
    )


def _index(node: Any) -> int:
    """Return the index of the loop of a node."""
    return int(node.args[0])


def _meta(node: Node) -> Any:
    value = node.meta["val"]
    return torch.empty(value.shape, dtype=value.dtype, device="meta") if isinstance(value, Tensor) else value


def _starts(node: Node) -> bool:
    """Return whether an operator of torch starts work: views and bookkeeping do not."""
    target: Any = node.target
    return getattr(target, "namespace", "") == "aten" and not target.is_view
