"""When each instruction runs.

A list scheduler plays the stream of a core on its engines and DMA queues. One rule models the compiler's freedom: a
queue starts the first instruction in program order that is ready, and looks at most `WINDOW` instructions past the
oldest one that has not started. A load counts as standing where its data is first needed. The rest is hardware:
dependencies with semaphore latency, engines that run one instruction at a time, the Tensor Engine's clock, function
tables, DMA.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from trnsim.targets import Target
from trnsim.timing.costs import Cost
from trnsim.timing.engines import DmaEngines, Meetings, Throttle
from trnsim.timing.hazards import BYTES, RESULT, TURN, Gate, Hazards
from trnsim.timing.order import issue_positions, results
from trnsim.timing.stream import Kind, Stream

QUEUES = ("tensor", "vector", "scalar", "gpsimd", "sync", "dma.sync", "dma.scalar", "cc")
TENSOR, VECTOR, SCALAR, GPSIMD, SYNC, DMA_SYNC, DMA_SCALAR, COLLECTIVE = range(8)
_QUEUE = {name: index for index, name in enumerate(QUEUES)}

WINDOW = 300

# why an instruction started when it did: it waited for its queue, for data, for memory, or for nothing
BUSY, DATA, MEMORY, FREE = range(4)
REASONS = ("engine", "data", "memory", "start")

# who writes a DMA's descriptors
STATIC, SWDGE, HWDGE = range(3)
MODES = ("static", "swdge", "hwdge")

NEVER = float("inf")


class Schedule:
    """The schedule of one core's stream. ``start[i]`` and ``end[i]`` are nanoseconds after the preamble.

    ``cause[i]`` is the instruction that delayed ``i`` longest, ``reason[i]`` how, ``moving[i]`` when the first byte of
    a DMA moved, ``held[i]`` the schedule and instruction it met; ``decisive`` holds the critical path.
    """

    def __init__(
        self,
        stream: Stream,
        *,
        given: frozenset[int] = frozenset(),
        window: int = WINDOW,
        cores: int = 1,
        meetings: Meetings | None = None,
        progress: Callable[[int, int], None] | None = None,
        roomy: bool = False,
    ) -> None:
        self.stream = stream
        self.target: Target = stream.target
        self.window = window
        self.cores = cores
        self.progress = progress
        self.roomy = roomy
        n = len(stream)
        self.start = [0.0] * n
        self.end = [0.0] * n
        self.queue = [0] * n
        self.cause = [-1] * n
        self.reason = bytearray(n)
        self.mode = bytearray(n)
        self.moving: dict[int, float] = {}
        self.decisive: set[int] = set()
        self.held: dict[int, tuple[Schedule, int]] = {}
        self.busy = [0.0] * len(QUEUES)
        self.count = [0] * len(QUEUES)
        # of these, issuing transfers
        self.issued_busy = [0.0] * len(QUEUES)
        self.issued_count = [0] * len(QUEUES)
        self.table_loads: set[int] = set()
        self.assumed = 0.0
        self.uncosted: dict[str, int] = {}
        self.read_bytes = self.written_bytes = 0
        self.flops = 0
        self.sbuf_peak = self.psum_peak = 0
        self._outside = given | results(stream)
        self.throttle = Throttle(self.target.timing)
        self.dma = DmaEngines(self.target.timing, cores)
        self._meetings = meetings or Meetings(())
        self._met: list[tuple[int, float]] = []
        # P: the first table an activation needs is loaded when the kernel starts
        self._table = self.first_table = next(filter(None, (kind.cost.table for kind in stream.kinds)), None)
        # when parts of the Tensor Engine's array are free, and who had them: each cell, any of them, all at once
        self._cells = [(0.0, -1)] * 16
        self._any_cell = self._all_cells = (0.0, -1)
        self._last_issue = -1.0
        self._behind: set[int] = set()
        self._fixed = [self._queue_of(kind) for kind in stream.kinds]

    def play(self) -> Iterator[float]:
        """Run to the end, yielding the time of each step before taking it."""
        stream, time = self.stream, self.target.timing
        n = len(stream)
        start, end, queue_of = self.start, self.end, self.queue
        cause, reason = self.cause, self.reason
        kind_of, fixed, sync = stream.kind, self._fixed, stream.sync
        position = issue_positions(stream)
        done = bytearray(n)
        hazards = Hazards(stream, queue_of, end, done, TENSOR, roomy=self.roomy)
        watched = hazards.watched
        free = [0.0] * len(QUEUES)
        free[GPSIMD] = time.gpsimd_begin
        if self.first_table is not None:
            free[SCALAR] = self.busy[SCALAR] = time.act_table
        before = [-1] * len(QUEUES)
        available: list[list[tuple[int, int]]] = [[] for _ in QUEUES]
        future: list[list[tuple[float, int]]] = [[] for _ in QUEUES]
        ready = [0.0] * n
        waits = [0] * n
        followers: dict[int, list[tuple[int, int]]] = {}
        wake = [time.semaphore] * len(QUEUES)
        wake[TENSOR] = time.semaphore_pe
        wake_dma = time.semaphore_dma
        is_dma = [kind.transfer is not None for kind in stream.kinds]
        wake_swdge = [
            time.semaphore_swdge + time.semaphore_swdge_row * (kind.transfer.descriptors if kind.transfer else 0)
            for kind in stream.kinds
        ]
        heappush, heappop = heapq.heappush, heapq.heappop
        queues = sorted(
            {q for q in fixed if q >= 0} | ({SCALAR, GPSIMD, DMA_SYNC, DMA_SCALAR} if -1 in fixed else set())
        )
        met = self._met

        def seen(p: int, i: int, how: int) -> float:
            """Return when ``i`` may start, as far as its dependency on ``p`` is concerned."""
            qi = queue_of[i]
            if how == TURN:
                return start[p]
            if how == BYTES and queue_of[p] == qi and is_dma[kind_of[p]] == is_dma[kind_of[i]]:
                # An engine accesses memory in the order of its instructions, a ring in that of its descriptors. But a
                # transfer outlives the instruction that issued it.
                return start[p]
            if is_dma[kind_of[p]]:
                return end[p] + wake_dma
            if qi == GPSIMD and is_dma[kind_of[i]]:
                return end[p] + wake_swdge[kind_of[i]]
            return end[p] + wake[qi]

        def satisfy(j: int, t: float, p: int, why: int) -> None:
            """Mark one dependency of ``j`` as satisfied at time ``t``, by ``p``. Queue ``j`` when none is left."""
            if t > ready[j]:
                ready[j] = t
                cause[j] = p
                reason[j] = why
            waits[j] -= 1
            if not waits[j]:
                heappush(future[queue_of[j]], (ready[j], j))

        def satisfy_followers(i: int) -> None:
            """Satisfy every dependency on ``i``, which now has an end time."""
            done[i] = 1
            for j, how in followers.pop(i, ()):
                satisfy(j, seen(i, j, how), i, DATA if how == RESULT else MEMORY)
            if i in watched:
                let: list[tuple[int, Gate]] = []
                hazards.open_gates(i, let)
                for j, gate in let:
                    satisfy(j, gate.end + wake[queue_of[j]], gate.last, MEMORY)

        admitted = oldest = stretch = 0
        while oldest < n:
            while met:
                i, at = met.pop()
                q = queue_of[i]
                free[q] = self._begin(i, q, at)
                satisfy_followers(i)
            while oldest < n and done[oldest]:
                oldest += 1
                stretch = 0
            limit = oldest + self.window + stretch
            if limit > n:
                limit = n
            while admitted < limit:
                i = admitted
                admitted += 1
                q = fixed[kind_of[i]]
                queue_of[i] = q = self._dma_queue(i) if q < 0 else q
                missing = 0
                latest = 0.0
                for p, how in hazards.admit(i).items():
                    if done[p]:
                        t = seen(p, i, how)
                        if t > latest:
                            latest = t
                            cause[i] = p
                            reason[i] = DATA if how == RESULT else MEMORY
                    else:
                        if p in followers:
                            followers[p].append((i, how))
                        else:
                            followers[p] = [(i, how)]
                        missing += 1
                for gate in hazards.gates:
                    if gate.left:
                        gate.waiting.append(i)
                        missing += 1
                    elif gate.end + wake[q] > latest:
                        latest = gate.end + wake[q]
                        cause[i], reason[i] = gate.last, MEMORY
                ready[i] = latest
                waits[i] = missing
                if not missing:
                    heappush(future[q], (latest, i))
            q, at = -1, NEVER
            for candidate in queues:
                if available[candidate]:
                    t = free[candidate]
                elif future[candidate]:
                    t = future[candidate][0][0]
                    if t < free[candidate]:
                        t = free[candidate]
                else:
                    continue
                if t < at:
                    q, at = candidate, t
            if q < 0 and oldest < n and admitted < n:
                # every queue waits for an instruction beyond the window
                stretch += self.window
                continue
            if oldest >= n:
                break
            yield at
            if met or q < 0:
                continue
            ahead, now = future[q], available[q]
            while ahead and ahead[0][0] <= at:
                i = heappop(ahead)[1]
                heappush(now, (position[i], i))
            i = heappop(now)[1]
            if free[q] > ready[i] or (ready[i] <= 0.0 and before[q] >= 0):
                cause[i], reason[i] = before[q], BUSY
            elif cause[i] < 0:
                reason[i] = FREE
            before[q] = i
            if sync and i in sync and not self._meetings.arrive(sync[i], self, i, at):
                free[q] = NEVER
                continue
            free[q] = self._begin(i, q, at)
            satisfy_followers(i)
            if self.progress is not None and not oldest & 8191:
                self.progress(oldest, n)
        self.sbuf_peak = hazards.pools["sbuf"].peak
        self.psum_peak = hazards.pools["psum"].peak

    def meet(self, i: int, at: float, who: Schedule, j: int) -> None:
        """Let instruction ``i`` start at ``at``, when ``j`` of the schedule ``who`` arrived last at their meeting."""
        self._met.append((i, at))
        self.held[i] = (who, j)

    def _queue_of(self, kind: Kind) -> int:
        """Return the queue of a kind's instructions; -1 for transfers, whose queue depends on the instruction."""
        if kind.transfer is not None:
            return -1
        if kind.cost.basis == "nothing":
            self.uncosted[kind.call.name] = self.uncosted.get(kind.call.name, 0) + kind.count
        return _QUEUE.get(kind.cost.engine, SYNC)

    def _dma_queue(self, i: int) -> int:
        """Choose who writes the descriptors of DMA ``i``, and the queue that issues it."""
        stream = self.stream
        transfer = stream.kinds[stream.kind[i]].transfer
        assert transfer is not None
        mode = transfer.mode
        if mode == "hwdge":
            self.mode[i] = HWDGE
        elif mode == "swdge":
            self.mode[i] = SWDGE
        elif mode == "none" or self.target.generation == 2 or len(transfer.work) < 2:
            self.mode[i] = STATIC
        else:
            regions = stream.regions
            ours = all(regions[index].uid not in self._outside for index in (*stream.writes[i], *stream.reads[i]))
            self.mode[i] = HWDGE if ours else SWDGE
        if self.mode[i] == SWDGE:
            return GPSIMD
        if self.mode[i] == STATIC:
            return DMA_SYNC if self.target.generation > 2 or transfer.load else DMA_SCALAR
        if transfer.trigger in ("sync", "scalar"):
            return DMA_SYNC if transfer.trigger == "sync" else SCALAR
        # P: the trigger of a hardware-generated store takes the Scalar Engine's time
        return SCALAR if transfer.written and not transfer.load else DMA_SYNC

    def _begin(self, i: int, q: int, at: float) -> float:
        """Run instruction ``i`` on queue ``q`` at ``at``. Return when the queue can start the next one."""
        kind = self.stream.kinds[self.stream.kind[i]]
        self.count[q] += 1
        if kind.transfer is not None:
            return self._begin_dma(i, q, at)
        cost = kind.cost
        self.start[i] = at
        busy, done = cost.busy, cost.done
        if cost.array is not None:
            return self._multiply(i, cost, at)
        if cost.table is not None and cost.table != self._table:
            self._table = cost.table
            self.table_loads.add(i)
            load = self.target.timing.act_table
            busy += load
            done += load
        if cost.basis == "assumed":
            self.assumed += busy
        self.busy[q] += busy
        self.end[i] = at + done
        return at + busy

    def _multiply(self, i: int, cost: Cost, at: float) -> float:
        """Run a matmul when its part of the array is free. Return when another part can start the next one."""
        assert cost.array is not None
        mine = cost.array.cells
        until, before = self._any_cell if mine is None else max(self._all_cells, *(self._cells[cell] for cell in mine))
        if until > at:
            self.start[i] = at = until
            self.cause[i], self.reason[i] = before, BUSY
        busy, done, slot = self.throttle.run(at, cost)
        if mine is None:
            self._all_cells = (at + busy, i)
        else:
            for cell in mine:
                self._cells[cell] = (at + busy, i)
            self._any_cell = max(self._any_cell, (at + busy, i))
        self.flops += cost.flops
        self.busy[TENSOR] = self.throttle.busy
        self.end[i] = at + done
        return at + slot

    def issue(self, i: int) -> tuple[float, float]:
        """Return how long DMA ``i`` occupies its queue, and the delay until its first byte can move."""
        time = self.target.timing
        transfer = self.stream.kinds[self.stream.kind[i]].transfer
        assert transfer is not None
        if self.mode[i] == SWDGE:
            start = time.swdge_start if transfer.load else time.swdge_start_store
            busy = time.swdge_issue + time.swdge_row * transfer.descriptors
            return busy + (time.swdge_pair if self.cores > 1 else 0.0), start
        if self.mode[i] == HWDGE:
            busy = time.hwdge_issue + time.hwdge_row * transfer.descriptors
            if self.queue[i] == DMA_SYNC:
                busy += time.hwdge_sync + (time.hwdge_again if i in self._behind else 0.0)
            if not transfer.load:
                return busy, time.hwdge_start_store
            return busy, time.hwdge_start if self.queue[i] == DMA_SYNC else time.hwdge_start_other
        return time.static_issue, time.static_start

    def _begin_dma(self, i: int, q: int, at: float) -> float:
        transfer = self.stream.kinds[self.stream.kind[i]].transfer
        assert transfer is not None
        self.start[i] = at
        if q == DMA_SYNC and self.mode[i] == HWDGE and at <= self._last_issue:
            self._behind.add(i)
        busy, delay = self.issue(i)
        if q == DMA_SYNC:
            self._last_issue = at + busy
        # no byte moves before its descriptor is written
        self.end[i] = max(self.dma.move(transfer, at + delay), at + busy)
        self.moving[i] = self.dma.begin
        self.busy[q] += busy
        self.issued_busy[q] += busy
        self.issued_count[q] += 1
        self.read_bytes += transfer.read
        self.written_bytes += transfer.written
        return at + busy
