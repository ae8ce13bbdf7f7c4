"""Machines of many chips, from ``targets.toml``, and the time of collectives between their cores.

Sources: SDK is the architecture, collectives and EFA pages of the Neuron documentation (2.33); N is derived from them.
Rates are GB/s, times nanoseconds. How much of a link's rate a collective reaches is fitted to published runs on trn1
(`benchmarks.calibration.collectives`); no public run measures the links of trn2 and trn3, whose times are by trn1's
shares of link rate.
"""

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from trnsim.refusals import refuse
from trnsim.tables import read_table
from trnsim.targets import Target, target_named

# Bytes up to which the run time exchanges directly (mesh), and up to which by recursive doubling; then in rings. SDK
MESH_BYTES, DOUBLING_BYTES = 1e6, 56e6
# Bytes that a tensor of a collective holds safely.
BUFFER_BYTES = 2 << 30
_PHASES = {"all_reduce": 2, "broadcast": 2}
_GATHERS = ("all_gather", "reduce_scatter", "all_reduce", "broadcast")
KINDS = (*_GATHERS, "all_to_all", "permute")
# Places in the torus of two chips, from one to the other.
Way = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Chips that NeuronLink joins, and their network.

    Attributes:
        name: as users write it.
        target: generation of its cores.
        chips: in one NeuronLink domain.
        cores: physical cores of a chip.
        grid: sizes of the torus; empty where a switch joins the chips.
        links: rate of one link each way along every axis of the torus, or of a chip's links to the switch.
        levels: switches between two chips.
        efa: network rate of a chip.
    """

    name: str
    target: str
    chips: int
    cores: int
    grid: tuple[int, ...] = ()
    links: tuple[float, ...]
    levels: int = 0
    efa: float

    @property
    def ranks(self) -> int:
        """Cores of one NeuronLink domain."""
        return self.chips * self.cores


def _machine(name: str, links: list[float], grid: tuple[int, ...] = (), **more: Any) -> Machine:
    return Machine(name=name, links=tuple(links), grid=tuple(grid), **more)


MACHINES = {name: _machine(name, **fields) for name, fields in read_table("targets.toml")["machines"].items()}


def machine_named(name: str | None = None, target: str = "trn2", ranks: int = 1) -> Machine:
    """Return a machine by name, or the smallest of a generation whose NeuronLink domain has ``ranks`` cores."""
    if name is not None:
        if name not in MACHINES:
            raise refuse("machine", got=name, limit=sorted(MACHINES))
        return MACHINES[name]
    known = [machine for machine in MACHINES.values() if machine.target == target]
    return next((machine for machine in known if machine.ranks >= ranks), max(known, key=lambda m: (m.ranks, -m.efa)))


class Group(NamedTuple):
    """Ranks ``0, stride, 2 * stride, ...``; the ranks between them form groups that do the same at the same time.

    Attributes:
        ranks: of one group.
        stride: distance of neighbours.
        alone: whether nothing else uses the links, as when a collective is measured.
    """

    ranks: int
    stride: int = 1
    alone: bool = False


class Estimate(NamedTuple):
    """Predicted time of a collective.

    Attributes:
        seconds: it takes.
        algorithm: mesh, doubling, ring, hierarchical, or inside one chip.
        limit: the largest part: latency, chip (inside one), links or EFA.
    """

    seconds: float
    algorithm: str
    limit: str


class _Region(NamedTuple):
    """The chips of one domain that a group spans.

    Attributes:
        members: ranks of the group in the domain.
        chips: it spans.
        nodes: domains of the group.
        diameter: hops between the farthest two chips.
        load: nanoseconds a byte that every chip sends to all others keeps the busiest links.
        ring: rate of the slowest link in a ring, both directions, and of two rings where all chips take part.
        active: ranks of a chip that exchange at the same time.
        share: groups whose rings pass one link.
        stride: of a group that is not alone.
    """

    members: int
    chips: int
    nodes: int
    diameter: int
    load: float
    ring: float
    active: int
    share: float
    stride: int


@functools.lru_cache(maxsize=4096)
def _region(machine: Machine, group: Group) -> _Region:
    members = max(1, min(group.ranks, machine.ranks // group.stride))
    chips = min(machine.chips, -(-members * group.stride // machine.cores))
    in_chip = max(1, min(group.ranks, machine.cores // group.stride))
    if machine.grid:
        left, sizes = chips, []
        for size in machine.grid:
            sizes.append(min(size, left))
            left = -(-left // size)
        used = [(n, size, rate) for n, size, rate in zip(sizes, machine.grid, machine.links, strict=True) if n > 1]
        # along a closed ring half the way is the farthest and a quarter the average; along a line all and a third
        diameter = sum(n // 2 if n == size else n - 1 for n, size, _ in used)
        load = max(
            ((n / 4 if n == size else (n * n - 1) / (3 * n)) / _width(n, size, rate) for n, size, rate in used),
            default=0.0,
        )
        rings = 2 if chips == machine.chips else 1
        ring = rings * 2 * min((rate for *_, rate in used), default=machine.links[0])
    else:
        diameter, load, ring = machine.levels if chips > 1 else 0, 1 / machine.links[0], machine.links[0]
    nodes = -(-group.ranks // members)
    active, stride = (in_chip, 1) if group.alone else (machine.cores, group.stride)
    share = float(stride)
    if machine.grid and stride > machine.cores and members > 1:
        # a half goes round in either direction, and every core of a chip has a ring
        ways = close_ring(machine, members, stride // machine.cores)
        loads = _busiest_link(machine, members, stride // machine.cores, [*ways, *(way[::-1] for way in ways)])
        ring, share = 2 / (machine.cores * loads), 1.0
    return _Region(members, chips, nodes, diameter, load, ring, active, share, stride)


def _busiest_link(machine: Machine, members: int, step: int, ways: Sequence[Way]) -> float:
    """Return nanoseconds that a byte along every way, in the groups of all chips, keeps the busiest link.

    Half-way round an axis a half takes either side.
    """
    loads: dict[tuple[int, int, tuple[int, ...]], float] = defaultdict(float)
    for base, offset in itertools.product(range(0, machine.chips, members * step), range(step)):
        first = _locate_chip(machine, base + offset)
        for here, there in ways:
            at = [(a + b) % n for a, b, n in zip(first, here, machine.grid, strict=True)]
            for axis, size in enumerate(machine.grid):
                ahead = (there[axis] - here[axis]) % size
                for sign, hops in ((1, ahead), (-1, size - ahead)):
                    for k in range(hops if 2 * hops <= size else 0):
                        link = (*at[:axis], (at[axis] + sign * k) % size, *at[axis + 1 :])
                        loads[axis, sign, link] += 0.5 if 2 * hops == size else 1.0
                at[axis] = (at[axis] + ahead) % size
    return max(load / machine.links[axis] for (axis, *_), load in loads.items())


def close_ring(machine: Machine, members: int, step: int) -> list[Way]:
    """Return the hops of a ring through every ``step``-th chip, which goes on to the nearest one left."""
    left = [_locate_chip(machine, k * step) for k in range(members)]
    ring = [left.pop(0)]

    def delay(there: tuple[int, ...]) -> float:
        axes = zip(ring[-1], there, machine.grid, machine.links, strict=True)
        return sum(min((a - b) % n, (b - a) % n) / rate for a, b, n, rate in axes)

    while left:
        ring.append(left.pop(left.index(min(left, key=delay))))
    return [*itertools.pairwise(ring), (ring[-1], ring[0])]


def _locate_chip(machine: Machine, chip: int) -> tuple[int, ...]:
    """Return the place of a chip in the torus, whose first axis changes fastest."""
    return tuple(map(int, np.unravel_index(chip, machine.grid, order="F")))


def _width(n: int, size: int, rate: float) -> float:
    """Return the rate at which an average chip sends along one axis, both ways."""
    return 2 * rate if n == size else 2 * rate * (n - 1) / n


def predict(machine: Machine, kind: str, group: Group, nbytes: float, target: Target | None = None) -> Estimate:
    """Return the predicted time of a collective.

    Args:
        machine: from `MACHINES`.
        kind: ``all_reduce``, ``all_gather``, ``reduce_scatter``, ``broadcast``, ``all_to_all`` or ``permute``.
        group: the ranks.
        nbytes: of the largest buffer of a rank: the result of a gather, the operand of a reduction or an exchange.
        target: constants of a machine that was measured.
    """
    if kind not in KINDS:
        raise refuse("collective-kind", got=kind, limit=KINDS)
    if group.ranks < 2 or nbytes <= 0:
        return Estimate(0.0, "nothing", "nothing")
    time = (target or target_named(machine.target)).timing
    region = _region(machine, group)
    if kind == "permute":
        algorithm, parts = "neighbours", _permute(machine, region, group, nbytes, time)
    elif region.nodes == 1:
        algorithm, parts = _inside(machine, kind, region, group.ranks, nbytes, time)
    else:
        algorithm, parts = _between(machine, kind, region, group, nbytes, time)
    return Estimate(1e-9 * sum(parts.values()), algorithm, max(parts, key=parts.__getitem__))


def _inside(
    machine: Machine, kind: str, region: _Region, ranks: int, nbytes: float, time: Any
) -> tuple[str, dict[str, float]]:
    """Return the algorithm inside one domain, as the run time chooses it by size, and its time by what takes it."""
    phases = _PHASES.get(kind, 1)
    moved = phases * nbytes * (ranks - 1) / ranks
    if region.chips == 1:
        return "inside a chip", {"latency": time.collective_start, "chip": moved / (time.chip_share * time.link_rate)}
    if kind == "all_to_all" or nbytes < MESH_BYTES:
        latency = time.collective_start + phases * region.diameter * time.hop
        if kind == "all_to_all" and not can_exchange(ranks, region.stride):
            # one message after the other, where the run time has no exchange of such a group
            latency += (ranks - 1) * time.hop
        # the average way counts the one of no length, from a chip to itself
        carried = phases * nbytes if machine.grid else moved
        return "mesh", {"latency": latency, "links": carried * region.active * region.load / time.mesh_share}
    steps = phases * math.log2(ranks)
    if nbytes < DOUBLING_BYTES and not machine.levels:
        rate = time.doubling_share * min(region.ring, 2 * machine.links[0])
        return "doubling", {
            "latency": time.collective_start + steps * time.doubling_step,
            "links": moved * region.share / rate,
        }
    latency = time.collective_start + phases * region.chips / 2 * time.hop
    return "ring", {"latency": latency, "links": moved * region.share / (time.ring_share * region.ring)}


def _between(
    machine: Machine, kind: str, region: _Region, group: Group, nbytes: float, time: Any
) -> tuple[str, dict[str, float]]:
    """Return the algorithm between domains: each same-indexed rank across them, and the rest inside."""
    phases, nodes, members = _PHASES.get(kind, 1), region.nodes, region.members
    network = time.efa_share * machine.efa * machine.chips
    senders = members if group.alone else machine.ranks
    if machine.target == "trn1" and kind in _GATHERS and nbytes >= MESH_BYTES:
        # SDK: a flat ring only on trn1, at large sizes
        moved = phases * nbytes * (group.ranks - 1) / group.ranks
        rings = 1.0 if group.alone else machine.ranks / members
        latency = phases * (group.ranks - 1) * time.efa_step
        return "flat ring", {"latency": latency, "EFA": moved * rings / network}
    here = nbytes * (nodes - 1) / nodes if kind == "all_to_all" else phases * nbytes * (nodes - 1) / nodes / members
    parts = {"latency": phases * math.ceil(math.log2(nodes)) * time.hop_between, "EFA": here * senders / network}
    if members > 1:
        inner = nbytes / nodes if kind == "all_to_all" else nbytes
        for name, part in _inside(machine, kind, region, members, inner, time)[1].items():
            parts[name] = parts.get(name, 0.0) + part
    return "hierarchical", parts


def _permute(machine: Machine, region: _Region, group: Group, nbytes: float, time: Any) -> dict[str, float]:
    """Pass a buffer to the next rank of the group; the slowest of the ways between neighbours counts."""
    chip = nbytes / (time.chip_share * time.link_rate)
    if region.nodes > 1:
        crossing = 1.0 if group.alone else min(group.stride, machine.ranks)
        return {"latency": time.hop_between, "EFA": nbytes * crossing / (time.efa_share * machine.efa * machine.chips)}
    if region.chips == 1:
        return {"latency": time.collective_start, "chip": chip}
    far, load = 1, min(group.stride, 1 if group.alone else machine.cores) / machine.links[0]
    if machine.grid and group.stride > machine.cores:
        step, count = group.stride // machine.cores, region.members
        chips = [_locate_chip(machine, k % count * step) for k in range(count + 1)]
        ways = [*itertools.pairwise(chips)]
        far, load = region.diameter, machine.cores * _busiest_link(machine, count, step, ways)
    links = nbytes * load / time.ring_share
    slower = {"links": links} if links > chip else {"chip": chip}
    return {"latency": time.collective_start + far * time.hop, **slower}


def can_exchange(ranks: int, stride: int = 1) -> bool:
    """Return whether ``all_to_all`` serves a group of this size, by every public account."""
    return stride == 1 and (ranks in (4, 8) or ranks % 32 == 0)


def can_exchange_among(ranks: Sequence[int], world: int) -> bool:
    """Return whether ``all_to_all`` serves these ranks of a world: they follow one another and divide it."""
    count = len(ranks)
    return world % count == 0 and [*ranks] == [*range(ranks[0], ranks[0] + count)] and can_exchange(count)


def refusal(machine: Machine, kind: str, ranks: tuple[int, ...], nbytes: int = 0) -> str:
    """Return the reason for which the run time refuses a collective of a group, or an empty text."""
    here = machine.ranks
    nodes: dict[int, list[int]] = {}
    for rank in ranks:
        nodes.setdefault(rank // here, []).append(rank % here)
    if len({tuple(sorted(local)) for local in nodes.values()}) > 1:
        return "groups across nodes have the same local ranks on each"
    if nbytes > BUFFER_BYTES:
        return f"a buffer of {nbytes} bytes, and a tensor holds {BUFFER_BYTES} safely"
    if kind == "all_to_all" and machine.grid and len(nodes) == 1:
        count = len(ranks)
        if sorted(ranks) != list(range(min(ranks), min(ranks) + count)):
            return f"all_to_all of ranks {list(ranks)}: they are not contiguous"
        if not can_exchange(count):
            return f"all_to_all of {count} ranks: groups have 4, 8 or a multiple of 32"
    return ""


def check_group(machine: Machine, kind: str, ranks: tuple[int, ...], nbytes: int = 0) -> None:
    """Raise where the run time would refuse a group or a buffer."""
    if reason := refusal(machine, kind, ranks, nbytes):
        raise refuse("collective-group", got=ranks, limit=machine.name, reason=reason)
