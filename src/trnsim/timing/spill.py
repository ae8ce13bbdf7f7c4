"""What the compiler does when tensors alive together do not fit SBUF: it sends some to HBM and brings them back.

The tensor whose next use is farthest is evicted. One that still holds what was loaded from HBM is dropped and loaded
again; any other is saved first.
"""

from __future__ import annotations

import bisect
import heapq

from trnsim.memory import HBM, SBUF
from trnsim.records import Operand
from trnsim.timing.costs import Call, itemsize
from trnsim.timing.stream import Kind, Region, Stream, layout_of


def overflow(stream: Stream) -> int:
    """Most bytes of an SBUF partition that tensors alive together take, in program order."""
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


def spilled(stream: Stream) -> tuple[Stream, int]:
    """Return the stream with saves and reloads put in, and how many; the stream itself when everything fits."""
    capacity = stream.target.sbuf_filled_bytes
    if overflow(stream) <= capacity:
        return stream, 0
    return _Spiller(stream, capacity).run()


def _rooms(stream: Stream) -> dict[int, int]:
    """Return bytes per partition of every SBUF tensor the compiler places."""
    return {r.uid: r.operand.room for r in stream.regions if r.operand.buffer == SBUF and r.key == r.uid}


class _Spiller:
    def __init__(self, stream: Stream, capacity: int) -> None:
        self.old = stream
        self.capacity = capacity
        self.rooms = _rooms(stream)
        self.uses: dict[int, list[int]] = {}
        regions = stream.regions
        for i in range(len(stream)):
            for uid in {regions[index].uid for index in (*stream.reads[i], *stream.writes[i])}:
                if uid in self.rooms:
                    self.uses.setdefault(uid, []).append(i)
        self.new = Stream(stream.target)
        self.new.kinds = stream.kinds
        self.new.regions = stream.regions
        self.new.lines = stream.lines
        self.here: dict[int, int] = {}
        self.away: set[int] = set()
        self.loads: dict[int, list[int] | None] = {}
        self.queue: list[tuple[int, int]] = []
        self.used = 0
        self.moves = 0
        self._moves: dict[tuple[int, bool], tuple[int, int, int]] = {}

    def run(self) -> tuple[Stream, int]:
        old, regions = self.old, self.old.regions
        for i in range(len(old)):
            touched = {regions[index].uid for index in (*old.reads[i], *old.writes[i])}
            mine = [uid for uid in touched if uid in self.rooms]
            for uid in mine:
                if uid not in self.here:
                    self._fit(uid, i, touched)
            self._copy(i, i)
            self._note(i)
            for uid in mine:
                uses = self.uses[uid]
                later = bisect.bisect_right(uses, i)
                if later == len(uses):
                    self.used -= self.rooms[uid]
                    del self.here[uid]
                else:
                    self.here[uid] = uses[later]
                    heapq.heappush(self.queue, (-uses[later], uid))
        self.new.last = {}
        for i in range(len(self.new)):
            for index in (*self.new.reads[i], *self.new.writes[i]):
                self.new.last[regions[index].uid] = i
        return self.new, self.moves

    def _fit(self, uid: int, i: int, touched: set[int]) -> None:
        """Bring ``uid`` on chip, sending others away when there is no room."""
        need = self.rooms[uid]
        kept = []
        while self.used + need > self.capacity and self.queue:
            later, victim = heapq.heappop(self.queue)
            if self.here.get(victim) != -later:
                continue
            if victim in touched:
                kept.append((later, victim))
                continue
            self._evict(victim, i)
        for entry in kept:
            heapq.heappush(self.queue, entry)
        self.used += need
        self.here[uid] = i
        if uid in self.away:
            self.away.discard(uid)
            loads = self.loads.get(uid)
            if loads:
                for load in loads:
                    self._copy(load, i)
                    self.old.kinds[self.old.kind[load]].count += 1
                    self.moves += 1
            else:
                self._move(uid, i, save=False)

    def _evict(self, uid: int, i: int) -> None:
        self.used -= self.rooms[uid]
        del self.here[uid]
        self.away.add(uid)
        if not self.loads.get(uid):
            self._move(uid, i, save=True)

    def _note(self, i: int) -> None:
        """Remember which loads made a tensor, until something else writes it."""
        old = self.old
        transfer = old.kinds[old.kind[i]].transfer
        loads = transfer is not None and transfer.load and transfer.read > 0
        for index in old.writes[i]:
            uid = old.regions[index].uid
            if uid not in self.rooms:
                continue
            if not loads:
                self.loads[uid] = None
            else:
                known = self.loads.setdefault(uid, [])
                if known is not None:
                    known.append(i)

    def _copy(self, i: int, at: int) -> None:
        old, new = self.old, self.new
        if i == at and i in old.sync:
            new.sync[len(new)] = old.sync[i]
        index, after = (old.index[i], old.after[i]) if i == at else (old.index[at] - 1, [])
        new.add(old.kind[i], old.line[i], old.reads[i], old.writes[i], index, after)

    def _move(self, uid: int, at: int, *, save: bool) -> None:
        """Add a DMA between a tensor and its copy in HBM."""
        self.moves += 1
        kind, chip, hbm = self._move_kind(uid, save)
        self.old.kinds[kind].count += 1
        reads, writes = ((chip,), (hbm,)) if save else ((hbm,), (chip,))
        self.new.add(kind, self.old.line[at], reads, writes, self.old.index[at] - 1, [])

    def _move_kind(self, uid: int, save: bool) -> tuple[int, int, int]:
        known = self._moves.get((uid, save))
        if known is not None:
            return known
        stream = self.old
        example = next(r.operand for r in stream.regions if r.uid == uid)
        rows = max(r.operand.end_partition for r in stream.regions if r.uid == uid)
        item = itemsize(example.dtype)
        columns = max(1, example.room // item)
        shape, strides = (rows, columns), (columns, 1)
        chip = Operand(uid, 0, rows, 0, example.room, SBUF, example.dtype, shape, strides, uid, example.room)
        far = Operand(
            ("spill", uid), 0, 1, 0, rows * example.room, HBM, example.dtype, shape, strides, -1 - uid, example.room
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
        self._moves[uid, save] = (kind.index, indices[0], indices[1])
        return self._moves[uid, save]
