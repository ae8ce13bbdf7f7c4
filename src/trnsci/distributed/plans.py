"""Plans of sharded calls: what every rank computes, holds, sends and waits for, before anything runs."""

from __future__ import annotations

import itertools
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import _disable_current_modes

import trnsim
from trnsci import config
from trnsci.backends import SCOPE, Scope, entered
from trnsci.config import TargetName
from trnsci.distributed.arguments import by_name, checked, inside, mapped
from trnsci.distributed.calls import find
from trnsci.distributed.parts import Layout, Part, Sharded
from trnsci.distributed.team import Crossing, OnChip, Team
from trnsci.errors import ArgumentError
from trnsci.kernel_launcher import simulated
from trnsci.memory import MemoryMeter
from trnsci.planning import Recorder
from trnsci.plans import Step, quantity, seconds
from trnsci.specs import tensors_in


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlan:
    """One rank of a sharded call. ``volume`` is what it receives, ``peak_bytes`` what it holds at its worst moment."""

    coordinate: tuple[int, ...]
    steps: tuple[Step, ...]
    peak_bytes: int
    messages: int
    volume: int
    exchanges: tuple[Crossing, ...]
    on_chip: OnChip | None = None

    @property
    def flops(self) -> int:
        """Floating-point operations of this rank."""
        return sum(step.cost.flops for step in self.steps)

    def predicted(self, target: TargetName) -> float | None:
        """Predicted seconds on one core per rank: kernels, then messages over NeuronLink, nothing overlapped."""
        parts = [step.predicted(target) for step in self.steps]
        if any(part is None for part in parts):
            return None
        return sum(part for part in parts if part is not None) + self.predicted_messages(target)

    def predicted_messages(self, target: TargetName) -> float:
        """Predicted seconds of the messages alone: one hop per rank passed, and the bytes at the link's rate.

        These are the simulator's cost formulas of collectives on a ring. Ranks fill devices in order, so a hop stays
        inside one where all that take part fit on it.
        """
        hardware = trnsim.targets.target_named(target)
        time = hardware.timing
        total = 0.0
        for crossing in self.exchanges:
            hop = time.hop_inside if crossing.reach <= hardware.cores else time.hop_between
            total += (crossing.ranks - 1) * hop + crossing.nbytes / time.link_rate
        return 1e-9 * total


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedPlan:
    """What a sharded call will do, rank by rank."""

    op: str
    operands: tuple[str, ...]
    mesh: tuple[int, ...]
    ranks: tuple[RankPlan, ...]

    @property
    def flops(self) -> int:
        """Floating-point operations of all ranks together."""
        return sum(rank.flops for rank in self.ranks)

    @property
    def peak_bytes(self) -> int:
        """The most any rank holds."""
        return max(rank.peak_bytes for rank in self.ranks)

    @property
    def volume(self) -> int:
        """The most any rank receives."""
        return max(rank.volume for rank in self.ranks)

    @property
    def predicted(self) -> dict[str, float]:
        """Predicted seconds of the slowest rank, per generation that has kernels for every step."""
        seconds: dict[str, float] = {}
        for target in config.TARGETS:
            times = [rank.predicted(target) for rank in self.ranks]
            if all(time is not None for time in times):
                seconds[target] = max(time for time in times if time is not None)
        return seconds

    @property
    def on_chip(self) -> OnChip | None:
        """The kernel that would do all of the call on each rank's core, exchange included, where there is one."""
        return self.ranks[0].on_chip

    @property
    def predicted_on_chip(self) -> dict[str, float]:
        """Predicted seconds of that kernel on a core per rank. Functions do not launch it yet."""
        kernel = self.on_chip
        if kernel is None or kernel.refusal:
            return {}
        program = simulated(pkgutil.resolve_name(kernel.name))
        operands = [torch.empty(shape, dtype=kernel.dtype, device="meta") for shape in kernel.operands]
        count = len(self.ranks)
        seconds: dict[str, float] = {}
        for target in config.TARGETS:
            run = trnsim.profile(program, target=target, numerics=False, ranks=count)
            seconds[target] = run(*operands, ranks=count)[1].total_s
        return seconds

    def __str__(self) -> str:
        lines = [f"{self.op} on {'x'.join(map(str, self.mesh))} ranks"]
        lines += [f"  {operand}" for operand in self.operands]
        lines.append("  rank    work        peak      messages  received")
        for rank in self.ranks:
            lines.append(
                f"  {','.join(map(str, rank.coordinate)):<6}  {quantity(rank.flops, 'FLOP'):<10}  "
                f"{quantity(rank.peak_bytes, 'B'):<8}  {rank.messages:<8}  {quantity(rank.volume, 'B')}"
            )
        predicted = "  ".join(f"{target} {seconds(time)}" for target, time in self.predicted.items())
        lines.append(f"  predicted, one core per rank: {predicted or 'nothing, no kernel takes every step'}")
        if self.on_chip is not None:
            verdict = f"cannot take it: {self.on_chip.refusal}" if self.on_chip.refusal else "could exchange on chip"
            lines.append(f"  {self.on_chip.name} {verdict}; products and exchange run apart")
        return "\n".join(lines)


def plan(function: Callable[..., Any], *args: Any, **kwargs: Any) -> ShardedPlan:
    """Return what a call on sharded arrays would do on every rank, without doing it.

    Operands are DTensors, or `Layout` values, which need no ranks and no memory: plan for machines you do not have.

    Example:
        >>> import trnblas
        >>> from trnsci.distributed import Layout, plan
        >>> rows = Layout((4096, 4096), torch.float32, (4,), (0,))
        >>> plan(trnblas.gemm, 1.0, rows, rows).ranks[0].messages
        3
    """
    algorithm = find(function)
    bound = {
        k: mapped(v, DTensor, lambda x: Part.of("plan", x).layout) for k, v in by_name(algorithm, args, kwargs).items()
    }
    layouts = [x for value in bound.values() for x in inside(value) if isinstance(x, Layout)]
    meshes = {layout.mesh for layout in layouts}
    if len(meshes) != 1:
        raise ArgumentError(algorithm.name, "mesh", sorted(meshes), "operands sharded over one mesh")
    checked(algorithm, bound)
    mesh = meshes.pop()
    every = itertools.product(*map(range, mesh))
    ranks = tuple(_ranked(algorithm, bound, mesh, coordinate) for coordinate in every)
    return ShardedPlan(op=algorithm.name, operands=tuple(map(str, layouts)), mesh=mesh, ranks=ranks)


def _ranked(algorithm: Any, bound: dict[str, Any], mesh: tuple[int, ...], coordinate: tuple[int, ...]) -> RankPlan:
    team = Team(algorithm.name, mesh, coordinate, torch.device("meta"))

    def part(layout: Layout) -> Part:
        return Part(torch.empty(layout.local_shape(coordinate), dtype=layout.dtype, device="meta"), layout)

    parts = {name: mapped(value, Layout, part) for name, value in bound.items()}
    parts = {name: x.for_rank(coordinate) if isinstance(x, Sharded) else x for name, x in parts.items()}
    every = [x for value in parts.values() for x in inside(value)]
    given = [x.local for x in every if isinstance(x, Part)]
    given += [tensor for x in every if isinstance(x, Sharded) for tensor in x.held()]
    meter = MemoryMeter(given, "meta")
    recorder = _Metered(meter)
    scope = replace(SCOPE.get() or Scope(), interceptor=recorder)
    with torch.no_grad(), entered(scope), meter:
        algorithm.fn(team, **parts)
    tally = team.tally
    return RankPlan(
        coordinate=coordinate,
        steps=tuple(recorder.steps),
        peak_bytes=meter.peak,
        messages=tally.messages,
        volume=tally.volume,
        exchanges=tally.exchanges,
        on_chip=tally.on_chip,
    )


class _Metered(Recorder):
    """Notes steps, and has their results metered but not the shapes that working out their cost takes."""

    def __init__(self, meter: MemoryMeter) -> None:
        super().__init__(())
        self.meter = meter

    def call(self, call: Any, out: Any = None) -> Any:
        with _disable_current_modes():
            result = super().call(call, out)
        for tensor in tensors_in(result):
            self.meter.note(tensor)
        self.meter.peak = max(self.meter.peak, self.meter.live + self.steps[-1].cost.workspace)
        return result
