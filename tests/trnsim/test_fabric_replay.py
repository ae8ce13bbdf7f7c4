"""Closed forms of collectives against a replay of their messages, packet by packet, on the links of a torus.

The replay knows a link's rate, the hop between two chips and the way of every packet, and nothing of loads and
averages: it queues packets at links and returns when the last one has come. Links have the share of their rate that a
collective reaches, which is fitted to runs and is not what is compared. Recursive doubling is not replayed: its fitted
share is of two links, whatever ways its steps take.
"""

import heapq
import itertools
import math

import pytest
import torch

import trnblas
import trnfft
import trnsparse
from trnsci.distributed import Layout, plan
from trnsim import fabric
from trnsim.fabric import MACHINES, Group
from trnsim.targets import target_named

PACKETS = 8


class Torus:
    """Chips in a grid that closes on itself along every axis."""

    def __init__(self, machine, share):
        self.machine, self.grid = machine, machine.grid
        self.hop = target_named(machine.target).timing.hop
        self.rates = [share * rate for rate in machine.links]
        # the first coordinate changes fastest
        self.chips = [place[::-1] for place in itertools.product(*map(range, self.grid[::-1]))]

    def rate(self, here, there):
        (axis,) = [k for k, (a, b) in enumerate(zip(here, there, strict=True)) if a != b]
        return self.rates[axis]

    def way(self, source, target, turn):
        """The shortest way, one axis after the other; of two that are as short, by turns."""
        chips, here = [source], list(source)
        for axis, size in enumerate(self.grid):
            ahead = (target[axis] - here[axis]) % size
            step = 1 if 2 * ahead < size or (2 * ahead == size and turn % 2) else -1
            while here[axis] != target[axis]:
                here[axis] = (here[axis] + step) % size
                chips.append(tuple(here))
        return chips

    def replay(self, packets):
        """Nanoseconds until packets (bytes, way) have come that all start at once; a link sends one after the other."""
        free, last = {}, 0.0
        events = [(0.0, order, nbytes, way) for order, (nbytes, way) in enumerate(packets)]
        heapq.heapify(events)
        while events:
            now, order, nbytes, way = heapq.heappop(events)
            if len(way) == 1:
                last = max(last, now)
                continue
            link = way[0], way[1]
            free[link] = max(now, free.get(link, 0.0)) + nbytes / self.rate(*link)
            heapq.heappush(events, (free[link] + self.hop, order, nbytes, way[1:]))
        return last

    def neighbours(self, chip):
        for axis, size in enumerate(self.grid):
            for step in (1, size - 1):
                yield (*chip[:axis], (chip[axis] + step) % size, *chip[axis + 1 :])

    def rings(self):
        """Two rings through all chips of a plane that have no link in common."""

        def extend(way, used):
            if len(way) == len(self.chips):
                edge = frozenset((way[-1], way[0]))
                if way[0] in self.neighbours(way[-1]) and edge not in used:
                    yield way
                return
            for chip in self.neighbours(way[-1]):
                edge = frozenset((way[-1], chip))
                if chip not in way and edge not in used:
                    yield from extend([*way, chip], used)

        def edges(ring):
            return {frozenset(pair) for pair in itertools.pairwise([*ring, ring[0]])}

        for ring in itertools.islice(extend([self.chips[0]], set()), 2000):
            if other := next(extend([self.chips[0]], edges(ring)), None):
                return ring, other
        raise AssertionError("no two rings")


def _exchange(torus, group, nbytes):
    """Packets of everyone to everyone, in the groups of all cores of a chip."""
    cores = 1 if group.alone else torus.machine.cores
    piece = cores * nbytes / len(torus.chips) / PACKETS
    for turn, offset, source in itertools.product(range(PACKETS), range(1, len(torus.chips)), range(len(torus.chips))):
        target = torus.chips[(source + offset) % len(torus.chips)]
        yield piece, torus.way(torus.chips[source], target, turn)


def _gather(torus, group, nbytes):
    """Packets of every chip round two rings, half of the way in either direction."""
    shared = 1 if group.alone else group.stride
    piece = shared * nbytes / len(torus.chips) / 2 / PACKETS
    half = len(torus.chips) // 2
    for ring, start, _ in itertools.product(torus.rings(), range(len(torus.chips)), range(PACKETS)):
        yield piece, [ring[(start + k) % len(ring)] for k in range(half + 1)]
        yield piece, [ring[(start - k) % len(ring)] for k in range(half)]


def _gather_apart(torus, group, nbytes):
    """Packets round rings of chips that lie apart, of all such groups at once, half of the way in either direction."""
    machine, step, count = torus.machine, group.stride // torus.machine.cores, group.ranks
    piece = machine.cores * nbytes / count / PACKETS
    first = [here for here, _ in fabric.close_ring(machine, count, step)]
    for base, offset in itertools.product(range(0, machine.chips, count * step), range(step)):
        moved = torus.chips[base + offset]
        ring = [tuple((a + b) % n for a, b, n in zip(at, moved, torus.grid, strict=True)) for at in first]
        for start, packet in itertools.product(range(count), range(PACKETS)):
            ahead = (count - packet % 2) // 2
            for sign, hops in ((1, ahead), (-1, count - 1 - ahead)):
                chips = [ring[(start + sign * k) % count] for k in range(hops + 1)]
                ways = [torus.way(here, there, packet // 2) for here, there in itertools.pairwise(chips)]
                yield piece, [chips[0], *(chip for way in ways for chip in way[1:])]


def _neighbours(torus, group, nbytes):
    """Packets to the next rank, where that is on another chip."""
    ranks = group.ranks * group.stride
    for rank, turn in itertools.product(range(ranks), range(PACKETS)):
        here, there = (torus.chips[at // torus.machine.cores] for at in (rank, (rank + group.stride) % ranks))
        if here != there:
            yield nbytes / PACKETS, torus.way(here, there, turn)


def _replayed(machine, kind, group, nbytes):
    time = target_named(machine.target).timing
    share = time.mesh_share if kind == "all_to_all" else time.ring_share
    torus = Torus(machine, share)
    if kind == "all_gather" and group.stride > machine.cores:
        return 1e-9 * (time.collective_start + torus.replay(_gather_apart(torus, group, nbytes)))
    packets = {"all_to_all": _exchange, "permute": _neighbours}.get(kind, _gather)
    phases = 2 if kind == "all_reduce" else 1
    return 1e-9 * (time.collective_start + phases * torus.replay(packets(torus, group, nbytes)))


LARGE = 1 << 28
CASES = [
    *((name, "all_to_all", group) for name in ("trn1", "trn2", "trn2-ultraserver") for group in ("all", "alone")),
    *((name, kind, group) for name in ("trn1", "trn2") for kind in ("all_gather", "reduce_scatter", "all_reduce")
      for group in ("all", "alone", "every")),
    *((name, "permute", group) for name in ("trn1", "trn2") for group in ("all", "every")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "kind", "members"), CASES)
def test_closed_forms_agree_with_a_replay_of_their_messages(name, kind, members):
    machine = MACHINES[name]
    groups = {
        "all": Group(machine.ranks),
        "alone": Group(machine.chips, machine.cores, alone=True),
        "every": Group(machine.chips, machine.cores),
    }
    closed = fabric.predict(machine, kind, groups[members], LARGE).seconds
    assert _replayed(machine, kind, groups[members], LARGE) == pytest.approx(closed, rel=0.15)


@pytest.mark.parametrize(
    ("name", "kind", "ranks", "stride"),
    [
        *(
            (name, kind, 4, stride)
            for name, stride in (("trn1", 8), ("trn2", 32))
            for kind in ("all_gather", "permute")
        ),
        ("trn2", "all_gather", 8, 16),
        ("trn2-ultraserver", "all_gather", 8, 64),
        ("trn2-ultraserver", "all_gather", 4, 128),
        ("trn2-ultraserver", "permute", 4, 128),
    ],
)
def test_groups_of_chips_that_lie_apart_share_links_as_their_messages_do(name, kind, ranks, stride):
    machine, group = MACHINES[name], Group(ranks, stride)
    closed = fabric.predict(machine, kind, group, LARGE).seconds
    assert _replayed(machine, kind, group, LARGE) == pytest.approx(closed, rel=0.15)


def test_exchanges_of_plans_agree_with_a_replay():
    machine, compared = MACHINES["trn2"], set()
    cube = Layout((1024,) * 3, torch.complex64, (16, 8), (0, 1))
    square = Layout((65536, 65536), torch.float32, (16, 8), (0, 1))
    line = Layout((128 * 65536, 128), torch.bfloat16, (128,), (0,))
    plans = (
        plan(trnfft.fftn, cube),
        plan(trnblas.gemm, 1.0, square, square),
        plan(trnsparse.attention, line, line, line, trnsparse.window(8)),
    )
    for exchange in {x for each in plans for x in each.ranks[0].exchanges}:
        kind, group = {"shift": "permute"}.get(exchange.kind, exchange.kind), Group(exchange.ranks, exchange.stride)
        closed = fabric.predict(machine, kind, group, exchange.buffer)
        # those inside a chip have no links, and doubling is not replayed
        if group.ranks * group.stride < machine.ranks or closed.algorithm == "doubling":
            continue
        compared.add(kind)
        assert _replayed(machine, kind, group, exchange.buffer) == pytest.approx(closed.seconds, rel=0.15), exchange
    assert compared == {"all_to_all", "all_gather", "permute"}
    assert math.prod(machine.grid) == machine.chips
