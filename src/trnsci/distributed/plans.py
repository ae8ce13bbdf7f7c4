"""Plans of sharded calls: what every rank computes, holds, sends and waits for, before anything runs."""

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch.distributed.tensor import DTensor

from trnsci import config
from trnsci.backends import SCOPE, Scope, entering
from trnsci.config import TargetName
from trnsci.distributed.arguments import by_name, check_whole, inside, map_values
from trnsci.distributed.calls import find, refuse_sharded
from trnsci.distributed.parts import Layout, Part, Sharded
from trnsci.distributed.team import Crossing, Moment, Team
from trnsci.errors import ArgumentError
from trnsci.memory import MemoryMeter
from trnsci.planning import Recorder
from trnsci.plans import Step, quantity, seconds
from trnsci.specs import tensors_in
from trnsci.torch_internals import disable_modes
from trnsim import fabric
from trnsim.fabric import Machine

# What takes the time of a rank that computes.
COMPUTING = "Tensor Engine"
_KINDS = {"shift": "permute"}
# Ranks up to which each is played where parts are unequal.
_PLAYED = 64


class Prediction(NamedTuple):
    """Predicted seconds of a rank.

    Attributes:
        total: with exchanges that travel while the rank computes.
        computing: of its kernels.
        exchanging: of its exchanges.
        limit: what takes most: the Tensor Engine, links, a chip's memory, EFA or latency.
    """

    total: float
    computing: float
    exchanging: float
    limit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlan:
    """One rank of a sharded call. ``volume`` is what it receives, ``peak_bytes`` what it holds at its worst moment."""

    coordinate: tuple[int, ...]
    steps: tuple[Step, ...]
    peak_bytes: int
    messages: int
    volume: int
    exchanges: tuple[Crossing, ...]
    moments: tuple[Moment, ...] = ()

    @property
    def flops(self) -> int:
        """Floating-point operations of this rank."""
        return sum(step.cost.flops for step in self.steps)

    def predicted(self, target: TargetName, machine: Machine | None = None) -> Prediction | None:
        """Return predicted seconds on one core per rank, or None where a step has no kernel.

        Exchanges of a rank follow one another. One that was started travels while the rank computes, until its result
        is needed.
        """
        times = [step.predicted(target) for step in self.steps]
        if any(time is None for time in times):
            return None
        machine = machine or fabric.machine_named(target=target)
        taken = [self._crossing(crossing, machine) for crossing in self.exchanges]
        now = link = 0.0
        done, ends = 0, dict[int, float]()
        for moment in (*self.moments, Moment(len(times), -1, False)):
            now += sum(time for time in times[done : moment.step] if time is not None)
            done = moment.step
            if moment.begins:
                link = max(link, now) + taken[moment.exchange].seconds
                ends[moment.exchange] = link
            else:
                now = max(now, ends.get(moment.exchange, now))
        computing = sum(time for time in times if time is not None)
        shares = {COMPUTING: computing}
        for estimate in taken:
            shares[estimate.limit] = shares.get(estimate.limit, 0.0) + estimate.seconds
        exchanging = sum(estimate.seconds for estimate in taken)
        return Prediction(now, computing, exchanging, max(shares, key=shares.__getitem__))

    def predicted_messages(self, target: TargetName, machine: Machine | None = None) -> float:
        """Return predicted seconds of the exchanges alone, one after the other."""
        known = machine or fabric.machine_named(target=target)
        return sum(self._crossing(crossing, known).seconds for crossing in self.exchanges)

    @staticmethod
    def _crossing(crossing: Crossing, machine: Machine) -> fabric.Estimate:
        group = fabric.Group(crossing.ranks, crossing.stride)
        return fabric.predict(machine, _KINDS.get(crossing.kind, crossing.kind), group, crossing.buffer)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedPlan:
    """Plan of a sharded call. Ranks with equal shapes and a like position in the mesh are of one class.

    Attributes:
        op: name of the function.
        operands: in words.
        mesh: its sizes.
        classes: a rank of every class.
        members: of each rank, in the order of the mesh, the index of its class.
    """

    op: str
    operands: tuple[str, ...]
    mesh: tuple[int, ...]
    classes: tuple[RankPlan, ...]
    members: tuple[int, ...]

    @property
    def ranks(self) -> tuple[RankPlan, ...]:
        """Every rank, in the order of the mesh."""
        every = itertools.product(*map(range, self.mesh))
        return tuple(replace(self.classes[k], coordinate=at) for k, at in zip(self.members, every, strict=True))

    @property
    def flops(self) -> int:
        """Floating-point operations of all ranks together."""
        return sum(count * self.classes[k].flops for k, count in Counter(self.members).items())

    @property
    def peak_bytes(self) -> int:
        """The most any rank holds."""
        return max(rank.peak_bytes for rank in self.classes)

    @property
    def volume(self) -> int:
        """The most any rank receives."""
        return max(rank.volume for rank in self.classes)

    def slowest(self, target: TargetName, machine: str | None = None) -> Prediction | None:
        """Return the prediction for the slowest rank, by default on the smallest machine that has enough cores."""
        known = fabric.machine_named(machine, target, len(self.members))
        times = [rank.predicted(target, known) for rank in self.classes]
        if any(time is None for time in times):
            return None
        return max(time for time in times if time is not None)

    @property
    def predicted(self) -> dict[str, float]:
        """Predicted seconds of the slowest rank, per generation that has kernels for every step."""
        every = {target: self.slowest(target) for target in config.TARGETS}
        return {target: time.total for target, time in every.items() if time is not None}

    def __str__(self) -> str:
        lines = [f"{self.op} on {'x'.join(map(str, self.mesh))} ranks"]
        lines += [f"  {operand}" for operand in self.operands]
        lines.append("  rank    work        peak      messages  received")
        alike = Counter(self.members)
        for index, rank in enumerate(self.classes):
            others = f"  and {alike[index] - 1} like it" if alike[index] > 1 else ""
            lines.append(
                f"  {','.join(map(str, rank.coordinate)):<6}  {quantity(rank.flops, 'FLOP'):<10}  "
                f"{quantity(rank.peak_bytes, 'B'):<8}  {rank.messages:<8}  {quantity(rank.volume, 'B')}{others}"
            )
        every = {target: self.slowest(target) for target in config.TARGETS}
        predicted = "  ".join(f"{at} {seconds(x.total)} ({x.limit})" for at, x in every.items() if x is not None)
        lines.append(f"  predicted, one core per rank: {predicted or 'nothing, no kernel takes every step'}")
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
        k: map_values(v, DTensor, lambda x: Part.of("plan", x).layout)
        for k, v in by_name(algorithm, args, kwargs).items()
    }
    layouts = [x for value in bound.values() for x in inside(value) if isinstance(x, Layout)]
    meshes = {layout.mesh for layout in layouts}
    if len(meshes) != 1:
        raise ArgumentError(algorithm.name, "mesh", sorted(meshes), "operands sharded over one mesh")
    check_whole(algorithm, bound)
    mesh, classes, members = meshes.pop(), dict[Any, tuple[int, RankPlan]](), list[int]()
    sparse = [x for value in bound.values() for x in inside(value) if isinstance(x, Sharded)]
    for coordinate in itertools.product(*map(range, mesh)):
        kind = _class_of(layouts, sparse, mesh, coordinate)
        if kind not in classes:
            classes[kind] = len(classes), _play_rank(algorithm, bound, mesh, coordinate)
        members.append(classes[kind][0])
    ranks = tuple(rank for _, rank in classes.values())
    operands = tuple(map(str, layouts))
    return ShardedPlan(op=algorithm.name, operands=operands, mesh=mesh, classes=ranks, members=tuple(members))


class Proposal(NamedTuple):
    """Meshes for a call, the fastest first, with the seconds of each and a remark on every size that does not pay."""

    plans: tuple[ShardedPlan, ...]
    seconds: tuple[float, ...]
    remarks: tuple[str, ...]


def propose(function: Callable[..., Any], *args: Any, ranks: int, target: TargetName = "trn2") -> Proposal:
    """Compare meshes of up to ``ranks`` ranks for a call: rows, and grids that are as square as can be.

    Args:
        function: a public function with a sharded algorithm.
        args: its arguments; `Layout` values say shapes and dtypes, their own mesh does not count.
        ranks: the most there are; powers of two up to it are compared.
        target: generation to predict for.

    Returns:
        The plans by predicted time. A mesh that is slower than one of fewer ranks has a remark.

    Example:
        >>> import trnblas
        >>> from trnsci.distributed import Layout, propose
        >>> square = Layout((512, 512), torch.float32, (1,), (0,))
        >>> propose(trnblas.gemm, 1.0, square, square, ranks=4).plans[0].mesh
        (4,)
    """
    compared: list[tuple[float, ShardedPlan]] = []
    remarks = []
    least: dict[int, float] = {}
    for count in (2**k for k in range(ranks.bit_length())):
        side = 2 ** (count.bit_length() // 2)
        for mesh in {(count,), (side, count // side)} if count // side > 1 else {(count,)}:
            laid = map_values(list(args), Layout, functools.partial(_lay_out, mesh=mesh))
            sharded = plan(function, *laid)
            time = sharded.slowest(target)
            if time is None:
                reason = f"no kernel of {target} takes every step, so that meshes cannot be compared"
                raise refuse_sharded(find(function).name, reason)
            least[count] = min(time.total, least.get(count, time.total))
            compared.append((time.total, sharded))
        best = min(least, key=least.__getitem__)
        if best < count:
            remarks.append(f"{count} ranks take {seconds(least[count])}, {best} take {seconds(least[best])}")
    compared.sort(key=lambda pair: (pair[0], len(pair[1].members)))
    return Proposal(tuple(x for _, x in compared), tuple(time for time, _ in compared), tuple(remarks))


def _lay_out(layout: Layout, mesh: tuple[int, ...]) -> Layout:
    """Cut the first axes of an array along the axes of a mesh."""
    places = tuple(axis if axis < len(layout.shape) else None for axis in range(len(mesh)))
    return Layout(layout.shape, layout.dtype, mesh, places)


def _class_of(
    layouts: Sequence[Layout], others: Sequence[Sharded], mesh: tuple[int, ...], coordinate: tuple[int, ...]
) -> Any:
    """Return what ranks that do the same have in common: shapes of their parts, and first, last or between others."""
    last = tuple(size - 1 for size in mesh)
    if math.prod(mesh) <= _PLAYED and any(x.local_shape(last) != x.local_shape((0,) * len(mesh)) for x in layouts):
        # where parts are unequal, those of the ranks that one exchanges with matter as well
        return coordinate
    shapes = tuple(x.local_shape(coordinate) for x in layouts)
    sizes = tuple(x.class_of(coordinate) for x in others)
    ends = tuple((at == 0, at == size - 1) for at, size in zip(coordinate, mesh, strict=True))
    return shapes, sizes, ends


def _play_rank(algorithm: Any, bound: dict[str, Any], mesh: tuple[int, ...], coordinate: tuple[int, ...]) -> RankPlan:
    team = Team(algorithm.name, mesh, coordinate, torch.device("meta"))

    def part(layout: Layout) -> Part:
        return Part(torch.empty(layout.local_shape(coordinate), dtype=layout.dtype, device="meta"), layout)

    parts = map_values(map_values(bound, Layout, part), Sharded, lambda x: x.for_rank(coordinate))
    every = [x for value in parts.values() for x in inside(value)]
    given = [x.local for x in every if isinstance(x, Part)]
    given += [tensor for x in every if isinstance(x, Sharded) for tensor in x.held()]
    meter = MemoryMeter(given, "meta")
    recorder = _Metered(meter)
    team.steps = lambda: len(recorder.steps)
    scope = replace(SCOPE.get() or Scope(), interceptor=recorder)
    with torch.no_grad(), entering(scope), meter:
        algorithm.fn(team, **parts)
    tally = team.tally
    return RankPlan(
        coordinate=coordinate,
        steps=tuple(recorder.steps),
        peak_bytes=meter.peak,
        messages=tally.messages,
        volume=tally.volume,
        exchanges=tuple(tally.exchanges),
        moments=tuple(tally.moments),
    )


class _Metered(Recorder):
    """Notes steps, and has their results metered but not the shapes that working out their cost takes."""

    def __init__(self, meter: MemoryMeter) -> None:
        super().__init__(())
        self.meter = meter

    def call(self, call: Any, out: Any = None) -> Any:
        with disable_modes():
            result = super().call(call, out)
        for tensor in tensors_in(result):
            self.meter.note(tensor)
        self.meter.peak = max(self.meter.peak, self.meter.live + self.steps[-1].cost.workspace)
        return result
