"""What a profile says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trnsim.targets import Target
from trnsim.timing.schedule import QUEUES, Schedule


@dataclass
class Report:
    """A prediction."""

    kernel: str
    target: Target
    schedules: list[Schedule]
    total_s: float
    active_s: float
    busy_s: dict[str, float]

    @classmethod
    def of(cls, kernel: str, target: Target, schedules: list[Schedule]) -> Report:
        time = target.timing
        first = min((min(s.start) for s in schedules if len(s.stream)), default=0.0)
        last = max((max(s.end) for s in schedules if len(s.stream)), default=0.0)
        busy = {q: sum(s.busy[i] for s in schedules) * 1e-9 for i, q in enumerate(QUEUES)}
        busy["dma"] = sum(max(s.dma_busy) for s in schedules) * 1e-9
        return cls(kernel, target, schedules, (time.preamble + last + time.postamble) * 1e-9, (last - first) * 1e-9, busy)

    @property
    def benchmark_s(self) -> float:
        return self.active_s + self.target.timing.launch * 1e-9

    def __str__(self) -> str:
        rows = [f"{self.kernel} on {self.target}: predicted {self.total_s * 1e6:.2f} us total, {self.active_s * 1e6:.2f} us active"]
        for q, b in self.busy_s.items():
            rows.append(f"  {q:12s} {b * 1e6:12.2f} us {100 * b / max(self.active_s, 1e-12):6.1f} %")
        for s in self.schedules:
            rows.append(f"  sbuf {s.sbuf_peak} psum {s.psum_peak} read {s.read_bytes} written {s.written_bytes} uncosted {s.uncosted} n={len(s.stream)}")
        return "\n".join(rows)
