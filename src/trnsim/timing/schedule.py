"""When each instruction runs: engines in order of readiness, dependencies, DMA queues, capacity.

The stream of a core is played on its engines. The compiler's freedom is modelled by one rule: an engine takes the
oldest instruction (in program order) that is ready, looking at most `WINDOW` instructions past the oldest one that has
not started. Everything else is hardware: an instruction is ready when what it reads was written and what it overwrites
was read (with semaphore latency), a tensor the compiler places gets memory when memory is free, and a DMA occupies its
issuing queue, then the engines of the partitions it serves.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Any

from trnsim.memory import PSUM, SBUF
from trnsim.targets import Target
from trnsim.timing.costs import Uncosted
from trnsim.timing.regions import Overlaps
from trnsim.timing.stream import Stream

QUEUES = ("tensor", "vector", "scalar", "gpsimd", "sync", "dma.sync", "dma.scalar")
TENSOR, VECTOR, SCALAR, GPSIMD, SYNC, DMA_SYNC, DMA_SCALAR = range(7)
_QUEUE = {name: number for number, name in enumerate(QUEUES)}

# how far past the oldest waiting instruction the compiler's scheduler is assumed to look
WINDOW = 1000

# why an instruction started when it did
ENGINE, DATA, MEMORY, ORDER, NOTHING = range(5)
REASONS = ("engine busy", "waits for data", "waits for memory", "waits in order", "first")


class Track:
    """Who last wrote and since read the bytes of one memory."""

    __slots__ = ("before", "overlaps", "readers", "writer")

    def __init__(self) -> None:
        self.overlaps = Overlaps()
        self.writer: dict[int, int] = {}
        self.readers: dict[int, list[int]] = {}
        self.before: list[int] = []


class Pool:
    """One on-chip memory shared by tensors the compiler places: oldest dead tensors give way first."""

    def __init__(self, capacity: int, unit: int) -> None:
        self.free = capacity
        self.capacity = capacity
        self.unit = unit
        self.dead: deque[tuple[int, int]] = deque()
        self.peak = 0

    def size(self, nbytes: int) -> int:
        return -(-nbytes // self.unit) * self.unit


class Schedule:
    """The schedule of one core's stream. ``start[i]`` and ``end[i]`` are nanoseconds after the preamble."""

    def __init__(self, stream: Stream, *, sizes: dict[int, tuple[str, int]], outside: frozenset[int], window: int = WINDOW) -> None:
        self.stream = stream
        self.target: Target = stream.target
        self.sizes = sizes
        self.outside = outside
        self.window = window
        n = len(stream)
        self.start = [0.0] * n
        self.end = [0.0] * n
        self.queue = [0] * n
        self.cause = [-1] * n
        self.reason = bytearray(n)
        self.busy = [0.0] * len(QUEUES)
        self.dma_busy = [0.0] * self.target.timing.dma_engines
        self.table_loads = 0
        self.throttled = 0.0
        self.uncosted: dict[str, int] = {}
        self.read_bytes = self.written_bytes = 0
        self._run()

    # -- dependencies -------------------------------------------------------------------------------------------------

    def _deps(self, i: int) -> tuple[dict[int, bool], list[int]]:
        """Earlier instructions ``i`` waits for (True: their result; False: only their place), and those holding its memory."""
        stream = self.stream
        regions = stream.regions
        tracks = self._tracks
        deps: dict[int, bool] = {}
        memory: list[int] = []
        for number in stream.reads[i]:
            region = regions[number]
            track = tracks.get(region.key)
            if track is None:
                track = self._open(region, memory)
            writer = track.writer
            if not writer:
                continue
            for other in track.overlaps.of(number, region.operand):
                w = writer.get(other)
                if w is not None:
                    deps[w] = True
        for number in stream.writes[i]:
            region = regions[number]
            track = tracks.get(region.key)
            if track is None:
                track = self._open(region, memory)
            memory.extend(track.before)
            writer, readers = track.writer, track.readers
            for other in track.overlaps.of(number, region.operand):
                w = writer.get(other)
                if w is not None and w not in deps:
                    deps[w] = False
                found = readers.get(other)
                if found:
                    for r in found:
                        if r not in deps:
                            deps[r] = False
        for number in stream.reads[i]:
            track = tracks[regions[number].key]
            found = track.readers.get(number)
            if found is None:
                track.readers[number] = [i]
            else:
                found.append(i)
        for number in stream.writes[i]:
            region = regions[number]
            track = tracks[region.key]
            writer, readers = track.writer, track.readers
            for other in track.overlaps.of(number, region.operand):
                if track.overlaps.covers(number, other):
                    if other in writer:
                        del writer[other]
                    if other in readers:
                        del readers[other]
            writer[number] = i
        for index in stream.after[i]:
            deps[stream.position(index)] = True
        deps.pop(i, None)
        return deps, memory

    def _open(self, region: Any, memory: list[int]) -> Track:
        """First use of a memory: a tensor the compiler places takes bytes, from dead tensors when none are free."""
        track = self._tracks[region.key] = Track()
        found = self.sizes.get(region.uid)
        if found is None or region.key != region.uid:
            return track
        buffer, nbytes = found
        pool = self._pools[buffer]
        need = pool.size(nbytes)
        while pool.free < need and pool.dead:
            uid, size = pool.dead.popleft()
            old = self._tracks.pop(uid, None)
            pool.free += size
            if old is not None:
                track.before.extend(old.writer.values())
                for readers in old.readers.values():
                    track.before.extend(readers)
        pool.free -= need
        pool.peak = max(pool.peak, pool.capacity - pool.free)
        return track

    def _close(self, i: int) -> None:
        """Tensors whose last access is ``i`` may give their memory to later ones."""
        stream = self.stream
        for number in (*stream.reads[i], *stream.writes[i]):
            region = stream.regions[number]
            if region.key == region.uid and stream.last[region.uid] == i:
                found = self.sizes.get(region.uid)
                if found is not None and region.uid not in self._dead:
                    self._dead.add(region.uid)
                    pool = self._pools[found[0]]
                    pool.dead.append((region.uid, pool.size(found[1])))

    # -- the clock ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        stream, target, time = self.stream, self.target, self.target.timing
        n = len(stream)
        self._tracks: dict[Any, Track] = {}
        self._pools = {SBUF: Pool(target.sbuf_partition_bytes, 1), PSUM: Pool(target.psum_partition_bytes, target.psum_bank_bytes)}
        self._dead: set[int] = set()
        kinds, kind_of = stream.kinds, stream.kind
        start, end, queue_of = self.start, self.end, self.queue
        cause, reason = self.cause, self.reason
        free = [0.0] * len(QUEUES)
        # P: GpSimd begins 1.27 us after the other engines
        free[GPSIMD] = 1270.0 if target.generation > 2 else 0.0
        before = [-1] * len(QUEUES)
        available: list[list[int]] = [[] for _ in QUEUES]
        future: list[list[tuple[float, int]]] = [[] for _ in QUEUES]
        ready = [0.0] * n
        waits = [0] * n
        followers: dict[int, list[tuple[int, bool]]] = {}
        done = bytearray(n)
        issue = self._issue_table()
        sem, sem_pe, sem_dma = time.semaphore, time.semaphore_pe, time.semaphore_dma
        self._engine_free = [0.0] * time.dma_engines
        self._direction = [(True, 0.0)] * time.dma_engines
        self._pe = _Throttle(time)
        self._table: str | None = None
        heappush, heappop = heapq.heappush, heapq.heappop

        def seen(p: int, i: int, result: bool) -> float:
            """When ``i`` may start as far as ``p`` is concerned."""
            qp, qi = queue_of[p], queue_of[i]
            if not result and qp == qi:
                return start[p]
            if qp == TENSOR and qi == TENSOR and self._same_psum(p, i):
                return start[p]
            t = end[p]
            if qp >= DMA_SYNC or kinds[kind_of[p]].transfer is not None:
                return t + sem_dma
            return t + (sem_pe if qi == TENSOR else sem)

        admitted = 0
        oldest = 0
        while oldest < n:
            limit = min(n, oldest + self.window)
            while admitted < limit:
                i = admitted
                admitted += 1
                queue_of[i] = issue[kind_of[i]](i)
                deps, memory = self._deps(i)
                for p in memory:
                    if p != i and p not in deps:
                        deps[p] = False
                missing = 0
                for p, result in deps.items():
                    if done[p]:
                        t = seen(p, i, result)
                        if t > ready[i]:
                            ready[i] = t
                            cause[i] = p
                            reason[i] = DATA if result else MEMORY
                    else:
                        followers.setdefault(p, []).append((i, result))
                        missing += 1
                waits[i] = missing
                self._close(i)
                if not missing:
                    heappush(future[queue_of[i]], (ready[i], i))
            best, at = -1, float("inf")
            for q in range(len(QUEUES)):
                if available[q]:
                    t = free[q]
                elif future[q]:
                    t = future[q][0][0]
                    if t < free[q]:
                        t = free[q]
                else:
                    continue
                if t < at:
                    best, at = q, t
            q = best
            ahead, now = future[q], available[q]
            while ahead and ahead[0][0] <= at:
                heappush(now, heappop(ahead)[1])
            i = heappop(now)
            if free[q] > ready[i]:
                cause[i], reason[i] = before[q], ENGINE
            elif cause[i] < 0:
                reason[i] = NOTHING
            free[q] = self._start(i, q, at)
            before[q] = i
            done[i] = 1
            for j, result in followers.pop(i, ()):
                t = seen(i, j, result)
                if t > ready[j]:
                    ready[j] = t
                    cause[j] = i
                    reason[j] = DATA if result else MEMORY
                waits[j] -= 1
                if not waits[j]:
                    heappush(future[queue_of[j]], (ready[j], j))
            while oldest < n and done[oldest]:
                oldest += 1
        self.sbuf_peak = self._pools[SBUF].peak
        self.psum_peak = self._pools[PSUM].peak
        self._tracks.clear()

    def _same_psum(self, p: int, i: int) -> bool:
        """Matmuls into one PSUM tile forward to each other inside the engine."""
        regions = self.stream.regions
        keys = {regions[number].key for number in self.stream.writes[p]}
        return any(regions[number].key in keys for number in self.stream.writes[i])

    def _issue_table(self) -> list[Any]:
        """For each kind, a function giving the queue of one of its instructions."""
        table = []
        for kind in self.stream.kinds:
            if kind.transfer is not None:
                table.append(self._dma_queue)
                continue
            cost = kind.cost
            if isinstance(cost, Uncosted):
                self.uncosted[cost.name] = self.uncosted.get(cost.name, 0) + kind.count
                number = _QUEUE.get(kind.call.engine, SYNC)
            else:
                number = _QUEUE[cost.engine]
            table.append(lambda i, number=number: number)
        return table

    def _mode(self, i: int) -> str:
        """Who writes the descriptors of DMA ``i``; see `trnsim.timing.dma`."""
        transfer = self.stream.kinds[self.stream.kind[i]].transfer
        assert transfer is not None
        mode = transfer.mode
        if mode in ("swdge", "hwdge"):
            return mode
        if mode == "none" or self.target.generation == 2:
            return "static"
        regions = self.stream.regions
        for number in (*self.stream.writes[i], *self.stream.reads[i]):
            if regions[number].uid in self.outside:
                return "swdge"
        return "hwdge"

    def _dma_queue(self, i: int) -> int:
        transfer = self.stream.kinds[self.stream.kind[i]].transfer
        assert transfer is not None
        if self._mode(i) == "swdge":
            return GPSIMD
        if transfer.trigger in ("sync", "scalar"):
            return DMA_SYNC if transfer.trigger == "sync" else DMA_SCALAR
        return DMA_SYNC if transfer.load else DMA_SCALAR

    def _start(self, i: int, q: int, at: float) -> float:
        """Run instruction ``i`` on queue ``q`` at ``at``; returns when the queue takes the next one."""
        kind = self.stream.kinds[self.stream.kind[i]]
        if kind.transfer is not None:
            return self._start_dma(i, q, at)
        cost = kind.cost
        self.start[i] = at
        if isinstance(cost, Uncosted):
            self.end[i] = at
            return at
        busy, done = cost.busy, cost.done
        if q == TENSOR:
            busy, done = self._pe.run(at, busy, done)
        elif cost.table is not None and cost.table != self._table:
            self._table = cost.table
            self.table_loads += 1
            busy += self.target.timing.act_table
            done += self.target.timing.act_table
        self.busy[q] += busy
        self.end[i] = at + done
        return at + busy

    def _start_dma(self, i: int, q: int, at: float) -> float:
        time = self.target.timing
        transfer = self.stream.kinds[self.stream.kind[i]].transfer
        assert transfer is not None
        mode = self._mode(i)
        if mode == "swdge":
            busy, delay = time.swdge_issue + time.swdge_row * transfer.descriptors, time.swdge_start
        elif mode == "hwdge":
            busy, delay = time.hwdge_issue, time.hwdge_start
        else:
            busy, delay = time.static_issue, time.static_start
        arrive = at + delay
        finish = arrive
        engine_free = self._engine_free
        stretch = time.dma_read_stretch if transfer.load else 1.0
        direction, turnaround = self._direction, time.dma_turnaround
        for e, work, packets in transfer.work:
            begin = engine_free[e]
            load, before = direction[e]
            if begin <= arrive:
                begin = arrive
            elif load != transfer.load:
                # queued behind the other direction: the rings alternate packet by packet
                work += turnaround * (before if before < packets else packets)
            direction[e] = (transfer.load, packets)
            engine_free[e] = begin + work
            self.dma_busy[e] += work
            stop = begin + work * stretch
            if stop > finish:
                finish = stop
        self.start[i] = at
        self.end[i] = finish + (time.dma_load if transfer.load else time.dma_store)
        self.busy[q] += busy
        self.read_bytes += transfer.read
        self.written_bytes += transfer.written
        return at + busy


class _Throttle:
    """P: the Tensor Engine runs at half speed until a window of 3.4 us was busy, and again after an idle one."""

    def __init__(self, time: Any) -> None:
        self.time = time
        self.slow = bool(time.pe_throttle)
        self.window = 0
        self.used = 0.0
        self.until = 0.0
        self.lost = 0.0
        self.free = 0.0

    def run(self, at: float, busy: float, done: float) -> tuple[float, float]:
        time = self.time
        if time.pe_throttle:
            self._advance(at)
        if at > self.free + 1.0:
            busy += time.pe_stall
            done += time.pe_stall
        if self.slow:
            self.lost += busy
            busy, done = 2 * busy, 2 * busy + (done - busy) * 1.23
        self.free = at + busy
        if time.pe_throttle:
            self._use(max(at, self.until), at + done)
            self.until = max(self.until, at + done)
        return busy, done

    def _use(self, begin: float, stop: float) -> None:
        """Count busy time, closing the windows it spans."""
        width = self.time.pe_window
        while True:
            edge = (self.window + 1) * width
            if stop <= edge:
                self.used += max(0.0, stop - begin)
                return
            self.used += max(0.0, edge - begin)
            begin = max(begin, edge)
            self._close()

    def _advance(self, at: float) -> None:
        while at >= (self.window + 1) * self.time.pe_window:
            self._close()

    def _close(self) -> None:
        share = self.used / self.time.pe_window
        if share >= self.time.pe_promote:
            self.slow = False
        elif share < self.time.pe_demote:
            self.slow = True
        self.used = 0.0
        self.window += 1
