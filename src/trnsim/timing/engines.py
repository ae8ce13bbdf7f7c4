"""Resources of a schedule: the Tensor Engine's activity monitor, the DMA engines, meeting points between cores."""

from collections.abc import Iterable
from typing import Any

from trnsim.constants import Timing
from trnsim.timing.costs import Cost
from trnsim.timing.dma import Transfer
from trnsim.timing.stream import Stream


class Throttle:
    """The Tensor Engine's clock: half speed until a window of 3.4 us was busy, and again after an idle one.

    ``busy`` is how long any part of the array worked, ``lost`` what half speed cost, in nanoseconds.
    """

    def __init__(self, time: Timing) -> None:
        self.time = time
        self.slow = time.pe_window > 0
        self.lost = 0.0
        self.busy = 0.0
        self._window = 0
        self._edge = time.pe_window
        self._used = 0.0
        self._until = 0.0
        self._free = -1.0

    def run(self, at: float, cost: Cost) -> tuple[float, float, float]:
        """Return the interval, the latency and the time to the next tile of a matmul that starts at ``at``."""
        busy, done, array = cost.busy, cost.done, cost.array
        assert array is not None
        slot = array.slot
        if self.time.pe_window:
            while at >= self._edge:
                self._close()
            if self.slow:
                self.lost += array.stream
                busy += array.stream
                done += array.stream + self.time.pe_depth_half - self.time.pe_depth
                slot += min(slot, array.stream)
        if at > self._free + 1.0:
            restart = array.restart_half if self.slow else array.restart
            busy, done, slot = busy + restart, done + restart, slot + restart
        if self.time.pe_window:
            self._note(at, at + done)
        self.busy += max(0.0, at + busy - max(at, self._free))
        self._free = max(self._free, at + busy)
        return busy, done, slot

    def _note(self, begin: float, stop: float) -> None:
        """Count the array as busy from ``begin`` to ``stop``."""
        begin = max(begin, self._until)
        while stop > self._edge:
            self._used += max(0.0, self._edge - begin)
            begin = max(begin, self._edge)
            self._close()
        if stop > begin:
            self._used += stop - begin
        self._until = max(self._until, stop)

    def _close(self) -> None:
        """End a window: the share of it that was busy sets the clock of the next."""
        share = self._used / self.time.pe_window
        if share >= self.time.pe_promote:
            self.slow = False
        elif share < self.time.pe_demote:
            self.slow = True
        self._used = 0.0
        self._window += 1
        self._edge = (self._window + 1) * self.time.pe_window


class DmaEngines:
    """The DMA engines of one core, each serving what reaches it in order.

    ``cores`` run at once on one HBM stack, whose rate they share; ``busy`` is how long each engine moved data.
    """

    def __init__(self, time: Timing, cores: int = 1) -> None:
        self.time = time
        # bytes of HBM an engine may move in a nanosecond when all engines of all cores do
        self.share = time.hbm_rate / (time.dma_engines * cores) if cores > 1 else float("inf")
        self.busy = [0.0] * time.dma_engines
        self.begin = 0.0
        self._free = [0.0] * time.dma_engines
        self._last = [(True, 0.0)] * time.dma_engines

    def move(self, transfer: Transfer, arrive: float) -> float:
        """Play a transfer whose descriptors reach the engines at ``arrive``. Return when its last byte lands.

        ``begin`` is set to the time its first byte moved.
        """
        time = self.time
        free, last, used = self._free, self._last, self.busy
        stretch = time.dma_read_stretch if transfer.load else 1.0
        finish = arrive
        first = float("inf")
        slower = max(1.0, transfer.rate / self.share)
        for e, work, packets in transfer.work:
            work *= slower
            begin = free[e]
            load, before = last[e]
            if begin <= arrive:
                begin = arrive
            elif load != transfer.load:
                # queued behind the other direction: the rings alternate packet by packet
                work += time.dma_turnaround * (before if before < packets else packets)
            last[e] = (transfer.load, packets)
            free[e] = begin + work
            used[e] += work
            if begin < first:
                first = begin
            stop = begin + work * stretch
            if stop > finish:
                finish = stop
        self.begin = first
        return finish + (time.dma_load if transfer.load else time.dma_store)


class Meetings:
    """Where cores and ranks wait for each other until the last has arrived."""

    def __init__(self, streams: Iterable[Stream]) -> None:
        self._parties: dict[Any, int] = {}
        self._here: dict[Any, list[tuple[Any, int, float]]] = {}
        for stream in streams:
            for key in stream.sync.values():
                self._parties[key] = self._parties.get(key, 0) + 1

    def arrive(self, key: Any, who: Any, i: int, at: float) -> bool:
        """Record that ``who`` reaches instruction ``i`` at ``at``. If it is the last, release the others: True."""
        here = self._here.setdefault(key, [])
        here.append((who, i, at))
        if len(here) < self._parties.get(key, 1):
            return False
        for other, j, _ in here:
            if other is not who:
                other.meet(j, at, who, i)
        del self._here[key]
        return True
