"""Spilling: when tensors alive together do not fit SBUF, the compiler sends parts of them to HBM and back.

A tensor is moved by the parts its accesses tell apart. The part whose next use is farthest is evicted. One that still
holds what was loaded from HBM is dropped and loaded again, one that was saved before and not written since is dropped;
any other is saved first. Constants and loads of arguments stand where they are first needed. An instruction holds
every tensor it touches whole: one whose tensors exceed SBUF together is refused.
"""

import bisect
import heapq
import itertools
from collections.abc import Iterable, Iterator

from trnsim.errors import CapacityError
from trnsim.memory import HBM, SBUF
from trnsim.records import Operand
from trnsim.timing.costs import Call, itemsize
from trnsim.timing.stream import Kind, Region, Stream, layout_of

# a tensor that accesses cut into more parts than this is moved whole
_MOST = 256


def overflow(stream: Stream) -> int:
    """Return the most bytes of an SBUF partition that tensors alive together take, in program order."""
    rooms = _rooms(stream)
    opened: set[int] = set()
    used = most = 0
    regions = stream.regions
    for i in range(len(stream)):
        touched = {regions[index].uid for index in (*stream.reads[i], *stream.writes[i])}
        for uid in touched:
            if uid in rooms and uid not in opened:
                opened.add(uid)
                used += rooms[uid]
        most = max(most, used)
        for uid in touched:
            if uid in rooms and stream.last[uid] == i:
                used -= rooms[uid]
    return most


def spill_stream(stream: Stream) -> tuple[Stream, int]:
    """Return the stream with saves and reloads put in, and how many; the stream itself when everything fits."""
    capacity = stream.target.sbuf_filled_bytes
    if overflow(stream) <= capacity:
        return stream, 0
    _check_instructions(stream, capacity)
    return _Spiller(stream, int(capacity * stream.target.timing.spill_fill)).run()


def _rooms(stream: Stream) -> dict[int, int]:
    """Return bytes per partition of every SBUF tensor the compiler places."""
    return {r.uid: r.operand.room for r in stream.regions if r.operand.buffer == SBUF and r.key == r.uid}


def _check_instructions(stream: Stream, capacity: int) -> None:
    """Raise when the tensors of one instruction exceed SBUF."""
    rooms, regions = _rooms(stream), stream.regions
    for i in range(len(stream)):
        touched = {regions[index].uid for index in (*stream.reads[i], *stream.writes[i])}
        need = sum(rooms.get(uid, 0) for uid in touched)
        if need > capacity:
            name, line = stream.kinds[stream.kind[i]].call.name, stream.lines[stream.line[i]]
            raise CapacityError(
                where="SBUF",
                required=need,
                available=capacity,
                hint=f"the tensors of one {name} ({line}) take {need} bytes of a partition together; make them smaller",
                target=stream.target.name,
            )


class _Parts:
    """SBUF tensors cut where accesses begin and end; ``of[region]`` are the numbers of the parts a region touches."""

    def __init__(self, stream: Stream) -> None:
        rooms = _rooms(stream)
        cuts: dict[int, set[int]] = {uid: {0, room} for uid, room in rooms.items()}
        for region in stream.regions:
            if region.uid in cuts:
                cuts[region.uid] |= {region.operand.first_byte, region.operand.end_byte}
        self.uid: list[int] = []
        self.span: list[tuple[int, int]] = []
        self.of: dict[int, range] = {}
        edges: dict[int, list[int]] = {}
        first: dict[int, int] = {}
        for uid, bounds in cuts.items():
            ends = sorted(bounds) if len(bounds) <= _MOST else [0, rooms[uid]]
            edges[uid], first[uid] = ends, len(self.uid)
            self.uid += [uid] * (len(ends) - 1)
            self.span += itertools.pairwise(ends)
        for region in stream.regions:
            if region.uid in first:
                ends, base = edges[region.uid], first[region.uid]
                low = bisect.bisect_right(ends, region.operand.first_byte) - 1
                high = bisect.bisect_left(ends, region.operand.end_byte)
                self.of[region.index] = range(base + low, base + max(high, low + 1))

    def size(self, part: int) -> int:
        """Return bytes of a partition a part takes."""
        low, high = self.span[part]
        return high - low

    def join_neighbours(self, parts: Iterable[int]) -> Iterator[tuple[int, int, int]]:
        """Yield tensor, first and last byte of neighbouring parts together."""
        begin = previous = -1
        for part in (*sorted(parts), -1):
            if previous >= 0 and (part != previous + 1 or self.uid[part] != self.uid[previous]):
                yield self.uid[previous], self.span[begin][0], self.span[previous][1]
                begin = part
            elif previous < 0:
                begin = part
            previous = part


class _Spiller:
    def __init__(self, stream: Stream, capacity: int) -> None:
        self.old = stream
        self.capacity = capacity
        self.parts = _Parts(stream)
        self.order = _order_by_need(stream)
        self.uses: dict[int, list[int]] = {}
        for at, i in enumerate(self.order):
            for part in self._list_parts(i):
                self.uses.setdefault(part, []).append(at)
        self.new = Stream(stream.target)
        self.new.kinds = stream.kinds
        self.new.regions = stream.regions
        self.new.lines = stream.lines
        # next use of every part on chip; parts away; those with a valid copy in HBM; the loads that made a part
        self.here: dict[int, int] = {}
        self.away: set[int] = set()
        self.saved: set[int] = set()
        self.loads: dict[int, list[int] | None] = {}
        self.queue: list[tuple[int, int]] = []
        self.used = 0
        self.moves = 0
        self._examples = {r.uid: r.operand for r in stream.regions}
        self._rows: dict[int, int] = {}
        for r in stream.regions:
            self._rows[r.uid] = max(self._rows.get(r.uid, 0), r.operand.end_partition)
        self._moves: dict[tuple[int, int, int, bool], tuple[int, int, int]] = {}

    def _list_parts(self, i: int) -> set[int]:
        of = self.parts.of
        return {part for index in (*self.old.reads[i], *self.old.writes[i]) for part in of.get(index, ())}

    def run(self) -> tuple[Stream, int]:
        regions = self.old.regions
        for at, i in enumerate(self.order):
            touched = self._list_parts(i)
            self._fit({part for part in touched if part not in self.here}, i, touched, at)
            self._copy(i, i)
            self._note(i)
            for part in touched:
                uses = self.uses[part]
                later = bisect.bisect_right(uses, at)
                if later == len(uses):
                    self.used -= self.parts.size(part)
                    del self.here[part]
                else:
                    self.here[part] = uses[later]
                    heapq.heappush(self.queue, (-uses[later], part))
        self.new.last = {}
        for i in range(len(self.new)):
            for index in (*self.new.reads[i], *self.new.writes[i]):
                self.new.last[regions[index].uid] = i
        return self.new, self.moves

    def _fit(self, wanted: set[int], i: int, touched: set[int], at: int) -> None:
        """Bring parts on chip, sending others away when there is no room."""
        if not wanted:
            return
        need = sum(map(self.parts.size, wanted))
        kept, victims = [], set()
        while self.used + need > self.capacity and self.queue:
            later, victim = heapq.heappop(self.queue)
            if self.here.get(victim) != -later:
                continue
            if victim in touched:
                kept.append((later, victim))
                continue
            self.used -= self.parts.size(victim)
            del self.here[victim]
            self.away.add(victim)
            victims.add(victim)
        for entry in kept:
            heapq.heappush(self.queue, entry)
        unsaved = {part for part in victims if not self.loads.get(part) and part not in self.saved}
        self.saved |= unsaved
        for uid, low, high in self.parts.join_neighbours(unsaved):
            self._move(uid, low, high, i, save=True)
        self.used += need
        back = wanted & self.away
        self.away -= back
        for part in wanted:
            self.here[part] = at
        again = sorted({load for part in back for load in self.loads.get(part) or ()})
        for load in again:
            self._copy(load, i)
            self.old.kinds[self.old.kind[load]].count += 1
            self.moves += 1
        for uid, low, high in self.parts.join_neighbours(part for part in back if not self.loads.get(part)):
            self._move(uid, low, high, i, save=False)

    def _note(self, i: int) -> None:
        """Remember which loads made a part, until something else writes it."""
        old = self.old
        transfer = old.kinds[old.kind[i]].transfer
        loads = transfer is not None and transfer.load and transfer.read > 0
        for index in old.writes[i]:
            for part in self.parts.of.get(index, ()):
                self.saved.discard(part)
                known = self.loads.setdefault(part, [])
                if not loads:
                    self.loads[part] = None
                elif known is not None:
                    known.append(i)

    def _copy(self, i: int, at: int) -> None:
        old, new = self.old, self.new
        if i == at and i in old.sync:
            new.sync[len(new)] = old.sync[i]
        # a transfer that spilling adds has an index that no record has
        index, after = (old.index[i], old.after[i]) if i == at else (-1 - len(new), [])
        new.add(old.kind[i], old.line[i], old.reads[i], old.writes[i], index, after)

    def _move(self, uid: int, low: int, high: int, at: int, *, save: bool) -> None:
        """Add a DMA between part of a tensor and its copy in HBM."""
        self.moves += 1
        kind, chip, hbm = self._move_kind(uid, low, high, save)
        self.old.kinds[kind].count += 1
        reads, writes = ((chip,), (hbm,)) if save else ((hbm,), (chip,))
        self.new.add(kind, self.old.line[at], reads, writes, -1 - len(self.new), [])

    def _move_kind(self, uid: int, low: int, high: int, save: bool) -> tuple[int, int, int]:
        known = self._moves.get((uid, low, high, save))
        if known is not None:
            return known
        stream, example, rows = self.old, self._examples[uid], self._rows[uid]
        columns = max(1, (high - low) // itemsize(example.dtype))
        shape, strides = (rows, columns), (columns, 1)
        chip = Operand(uid, 0, rows, low, high, SBUF, example.dtype, shape, strides, uid, example.room)
        far = Operand(
            ("spill", uid), 0, 1, rows * low, rows * high, HBM, example.dtype, shape, strides, -1 - uid, example.room
        )
        indices = []
        for operand in (chip, far):
            indices.append(len(stream.regions))
            region = Region(len(stream.regions), operand, -1)
            region.read = region.written = True
            stream.regions.append(region)
        near, away = layout_of(chip), layout_of(far)
        call = Call("spill", "dma", (away,), (near,), {}) if save else Call("reload", "dma", (near,), (away,), {})
        kind = Kind(len(stream.kinds), call, stream.target)
        stream.kinds.append(kind)
        self._moves[uid, low, high, save] = (kind.index, indices[0], indices[1])
        return self._moves[uid, low, high, save]


def _order_by_need(stream: Stream) -> list[int]:
    """Return the order of instructions with constants and loads of unwritten tensors where they are first needed."""
    regions = stream.regions
    changed = {region.uid for region in regions if region.written}
    waiting: dict[int, list[int]] = {}
    order = []
    for i in range(len(stream)):
        reads, writes = stream.reads[i], stream.writes[i]
        touched = {regions[index].uid for index in (*reads, *writes)}
        kind = stream.kinds[stream.kind[i]]
        makes = kind.call.name == "memset" or (kind.transfer is not None and kind.transfer.load)
        if makes and len(writes) == 1 and regions[writes[0]].operand.buffer == SBUF and not kind.ordered:
            constant = all(regions[index].uid not in changed for index in reads)
            if constant and i not in stream.sync and not stream.after[i]:
                waiting.setdefault(regions[writes[0]].uid, []).append(i)
                continue
        for uid in touched & waiting.keys():
            order += waiting.pop(uid)
        order.append(i)
    return order
