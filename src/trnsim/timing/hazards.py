"""Dependencies of an instruction: data, bytes still in use, memory that is not free yet.

`Hazards.admit` is called once per instruction in program order. Tensors the compiler would place are renamed. Each
takes bytes of SBUF or whole banks of PSUM at its first use. Once memory is short it takes those of the oldest dead
tensors, and waits for their last accesses. A tensor that is used again by name keeps its bytes, and serialises.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from trnsim.memory import PSUM, SBUF
from trnsim.timing.regions import COVERS, WITHIN, Overlaps, relation
from trnsim.timing.stream import Region, Stream

# how a successor waits: for the result, for the bytes (free once its own queue has passed), for its turn
RESULT, BYTES, TURN = 1, 0, 2

# regions that are walked before an index of overlaps is asked; halved each time the walk was in vain
_WALKED = 24


@dataclass(slots=True, eq=False)
class Gate:
    """Opens when the last user of some memory has finished, the instruction ``last`` at the time ``end``."""

    left: int = 0
    end: float = 0.0
    last: int = -1
    waiting: list[int | Gate] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Track:
    """The last writer of each region of one memory, its readers since, and the gate of those who held it before.

    ``writer`` and ``readers`` hold regions in the order of their last access. A search walks back from the latest to
    one that wrote all the bytes in question: earlier ones were overwritten, and that write waited for them. A search
    that does not end soon asks an index of overlapping regions.
    """

    regions: list[Region]
    writer: dict[int, int] = field(default_factory=dict)
    readers: dict[int, list[int]] = field(default_factory=dict)
    gate: Gate | None = None
    known: dict[tuple[int, int], int] = field(default_factory=dict)
    steps: int = _WALKED
    seen: set[int] = field(default_factory=set)
    fresh: list[int] = field(default_factory=list)
    overlaps: Overlaps = field(default_factory=Overlaps)

    def read(self, index: int, i: int) -> list[int]:
        """Record that ``i`` reads a region. Return the instructions that wrote what it reads."""
        makers = []
        writer, readers = self.writer, self.readers
        if index not in self.seen:
            self.seen.add(index)
            self.fresh.append(index)
        if writer:
            if next(reversed(writer)) == index:
                # the commonest case: what was written last is read whole
                makers.append(writer[index])
            else:
                for other, how in self._near(index, writer):
                    makers.append(writer[other])
                    if how & WITHIN:
                        self.steps = _WALKED
                        break
        own = readers.pop(index, None)
        if own is None:
            readers[index] = [i]
        else:
            if own[-1] != i:
                own.append(i)
            readers[index] = own
        return makers

    def write(self, index: int, i: int) -> tuple[list[int], list[int]]:
        """Record that ``i`` writes a region. Return its writers since all of it was last written, and its readers."""
        makers, users, gone = [], [], []
        writer, readers = self.writer, self.readers
        if index not in self.seen:
            self.seen.add(index)
            self.fresh.append(index)
        latest = -1
        if writer:
            for other, how in self._near(index, writer):
                makers.append(writer[other])
                if how & COVERS:
                    gone.append(other)
                if how & WITHIN:
                    latest = writer[other]
                    self.steps = _WALKED
                    break
            for other in gone:
                del writer[other]
        writer[index] = i
        if readers:
            gone.clear()
            for other, how in self._near(index, readers, latest):
                seen_by = readers[other]
                users += seen_by if seen_by[0] >= latest else [r for r in seen_by if r >= latest]
                if how & COVERS:
                    gone.append(other)
            for other in gone:
                del readers[other]
        return makers, users

    def _near(self, index: int, live: Mapping[int, Any], since: int = -1) -> Iterator[tuple[int, int]]:
        """Yield the regions of ``live`` accessed after ``since`` that overlap one, latest first, and how they do."""
        known, regions = self.known, self.regions
        steps = self.steps
        for other in reversed(live):
            if since >= 0 and _last(live[other]) < since:
                return
            if not steps:
                break
            steps -= 1
            how = known.get((index, other), -1)
            if how < 0:
                how = known[index, other] = relation(regions[index].operand, regions[other].operand)
            if how:
                yield other, how
        else:
            return
        walked = set(islice(reversed(live), self.steps))
        self.steps = max(1, self.steps // 2)
        near = self._lookup(index).items()
        order = [(_last(live[other]), other, how) for other, how in near if other in live and other not in walked]
        for at, other, how in sorted(order, reverse=True):
            if at < since:
                return
            yield other, how

    def _lookup(self, index: int) -> dict[int, int]:
        """Return all regions that overlap one."""
        for each in self.fresh:
            self.overlaps.add(each, self.regions[each].operand)
        self.fresh.clear()
        return self.overlaps.of(index, self.regions[index].operand)

    def users(self) -> list[int]:
        """Return the instructions whose access no later write covers."""
        instructions = list(self.writer.values())
        for readers in self.readers.values():
            instructions.extend(readers)
        return instructions


def _last(accesses: Any) -> int:
    return accesses if isinstance(accesses, int) else accesses[-1]


class Pool:
    """One on-chip memory: bytes of a partition, handed out in units."""

    def __init__(self, capacity: int, unit: int) -> None:
        self.free = self.capacity = capacity
        self.unit = unit
        self.dead: deque[tuple[int, int]] = deque()
        self.live = 0
        self.peak = 0

    def size(self, nbytes: int) -> int:
        """Return ``nbytes`` rounded up to whole units."""
        return -(-nbytes // self.unit) * self.unit


class Hazards:
    """Dependencies of one core's stream; ``queue[i]`` is filled by the schedule before `admit`.

    With ``roomy`` on-chip memory has no end, and bytes may be written before their readers are done.
    """

    def __init__(
        self, stream: Stream, queue: list[int], end: list[float], done: bytearray, tensor: int, *, roomy: bool = False
    ) -> None:
        self.roomy = roomy
        self.stream = stream
        self.queue = queue
        self.end = end
        self.done = done
        self.tensor = tensor
        self.gates: list[Gate] = []
        self.watched: dict[int, list[Gate]] = {}
        target = stream.target
        self.pools = {
            SBUF: Pool(target.sbuf_filled_bytes, 1),
            PSUM: Pool(target.psum_partition_bytes, target.psum_bank_bytes),
        }
        self.fixed: dict[str, int] = {}
        self._tracks: dict[Any, Track] = {}
        self._dead: set[int] = set()
        self._previous = -1
        self._after = {i for i, indices in enumerate(stream.after) if indices}
        self._ordered = any(kind.ordered for kind in stream.kinds)
        self._written = {region.key for region in stream.regions if region.written}

    def admit(self, i: int) -> dict[int, int]:
        """Return the earlier instructions ``i`` waits for, and how; set ``gates`` to the memory it waits for."""
        stream, queue, tracks = self.stream, self.queue, self._tracks
        regions = stream.regions
        reads, writes = stream.reads[i], stream.writes[i]
        on_tensor = queue[i] == self.tensor
        deps: dict[int, int] = {}
        self.gates.clear()
        written = self._written
        for index in reads:
            region = regions[index]
            if region.key not in written:
                continue
            track = tracks.get(region.key)
            if track is None:
                track = self._open(region)
            for w in track.read(index, i):
                deps[w] = RESULT
        for index in writes:
            region = regions[index]
            track = tracks.get(region.key)
            if track is None:
                track = self._open(region)
            if track.gate is not None and not self.roomy:
                self.gates.append(track.gate)
            # matmuls into one PSUM tile follow each other inside the Tensor Engine
            forward = on_tensor and region.operand.buffer == PSUM
            makers, users = track.write(index, i)
            if self.roomy and region.operand.buffer in self.pools:
                continue
            for w in makers:
                if w not in deps:
                    deps[w] = TURN if forward and queue[w] == self.tensor else BYTES
            for r in users:
                if r not in deps:
                    deps[r] = BYTES
        if i in self._after:
            for index in stream.after[i]:
                deps[stream.position(index)] = RESULT
        if self._ordered:
            self._keep_order(i, deps)
        deps.pop(i, None)
        last = stream.last
        for index in reads + writes:
            region = regions[index]
            if last[region.uid] == i:
                self._close(region)
        return deps

    def _keep_order(self, i: int, deps: dict[int, int]) -> None:
        """Start an instruction inside ``no_reorder`` no earlier than the one before it."""
        if not self.stream.kinds[self.stream.kind[i]].ordered:
            self._previous = -1
            return
        if self._previous >= 0:
            deps.setdefault(self._previous, TURN)
        self._previous = i

    def _open(self, region: Region) -> Track:
        """Allocate a tensor the compiler places at its first use, from dead tensors when no bytes are free."""
        operand = region.operand
        track = self._tracks[region.key] = Track(self.stream.regions)
        pool = self.pools.get(operand.buffer)
        if pool is None or region.key != region.uid:
            return track
        need = pool.size(operand.room)
        while pool.free < need and pool.dead:
            uid, size = pool.dead.popleft()
            old = self._tracks.pop(uid, None)
            pool.free += size
            if old is not None:
                self._hold(track, old)
        pool.free -= need
        pool.live += need
        pool.peak = max(pool.peak, pool.live)
        return track

    def _hold(self, track: Track, old: Track) -> None:
        """Give ``track`` the bytes of ``old``, and make it wait for their users."""
        gate = track.gate
        if gate is None:
            gate = track.gate = Gate()
        done, end = self.done, self.end
        for p in old.users():
            if done[p]:
                if end[p] > gate.end:
                    gate.end, gate.last = end[p], p
            else:
                gate.left += 1
                self.watched.setdefault(p, []).append(gate)
        before = old.gate
        if before is not None:
            if before.left:
                gate.left += 1
                before.waiting.append(gate)
            elif before.end > gate.end:
                gate.end, gate.last = before.end, before.last

    def open_gates(self, p: int, ready: list[tuple[int, Gate]]) -> None:
        """Open the gates that waited for ``p``, which has an end time; add to ``ready`` what they release."""
        for gate in self.watched.pop(p, ()):
            if self.end[p] > gate.end:
                gate.end, gate.last = self.end[p], p
            self._release(gate, ready)

    def _release(self, gate: Gate, ready: list[tuple[int, Gate]]) -> None:
        gate.left -= 1
        if gate.left:
            return
        for each in gate.waiting:
            if isinstance(each, Gate):
                if gate.end > each.end:
                    each.end, each.last = gate.end, gate.last
                self._release(each, ready)
            else:
                ready.append((each, gate))
        gate.waiting.clear()

    def _close(self, region: Region) -> None:
        """Free a tensor's memory for later ones, once its last access is admitted."""
        if region.key != region.uid or region.uid in self._dead:
            return
        pool = self.pools.get(region.operand.buffer)
        if pool is None:
            return
        self._dead.add(region.uid)
        size = pool.size(region.operand.room)
        pool.live -= size
        pool.dead.append((region.uid, size))
