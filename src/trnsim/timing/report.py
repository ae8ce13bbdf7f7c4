"""Report of a profile: a value to read, print, compare and save."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trnsim.constants import LAUNCH_UNCERTAINTY, LEVEL, WIDENING
from trnsim.refusals import refuse
from trnsim.targets import Target
from trnsim.terminal import escape_controls
from trnsim.timing.asking import Relief, ask_reliefs
from trnsim.timing.costs import Call, itemsize
from trnsim.timing.likeness import Nearest, Traits, find_nearest, find_traits
from trnsim.timing.path import ROOM, Step, critical_path
from trnsim.timing.schedule import MODES, QUEUES, REASONS, Schedule

if TYPE_CHECKING:
    from trnsim.timing.profile import Recording

# static loops are unrolled: programs of this size are slow to compile
MANY_INSTRUCTIONS = 100_000


class Use(NamedTuple):
    """How much an engine or queue did: seconds busy (all cores together), share of the active time, instructions."""

    busy_s: float
    utilisation: float
    instructions: int


class Interval(NamedTuple):
    """Seconds that are expected to hold the measured total of ``level`` of all kernels of unknown families."""

    low_s: float
    high_s: float
    level: float


class Slice(NamedTuple):
    """One bar of the timeline."""

    track: str
    name: str
    start_s: float
    end_s: float
    line: str
    core: int
    number: int
    detail: str


# what `Report.to_dict` has, in order
_KEYS = """
kernel target cores predicted total_s active_s benchmark_s interval nearest engines instructions instruction_count
hbm_read_bytes hbm_written_bytes flops flops_per_s peak_flops_per_s fraction_of_peak intensity binds reliefs spent_s
critical_path sbuf_bytes psum_banks throttled_s table_loads assumed uncosted warnings constants
"""


def _plain(value: Any) -> Any:
    """Return a value as dicts, lists and scalars."""
    if hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True, kw_only=True)
class Report:
    """Predicted time of one kernel on one target.

    Attributes:
        total_s: what a hardware profile calls total_time: preamble, kernel, postamble.
        active_s: first trigger to last data.
        benchmark_s: what a host-side benchmark of the kernel shows.
        engines: use of ``tensor vector scalar gpsimd sync``, of queues that issue DMA (``dma.gpsimd`` and
            trn2's ``dma.scalar`` are part of their engines), and ``dma``: the busiest DMA engine.
        instructions: how many of each name.
        hbm_read_bytes, hbm_written_bytes: traffic of all cores.
        flops: of matrix products, transposes not counted; ``flops_per_s`` over the active time; ``peak_flops_per_s`` of
            the dtypes used; ``fraction_of_peak`` their ratio.
        spent_s: seconds of the critical path by what they were spent on, longest first.
        critical_path: instructions with source lines, in the order of time.
        sbuf_bytes, psum_banks: most in use at once, per partition.
        assumed: share of engine time that rests on formulas without a public measurement.
        uncosted: instructions the model has no cost for, by name; their time is missing.
        warnings: sentences.
    """

    kernel: str
    target: Target
    cores: int
    total_s: float
    active_s: float
    benchmark_s: float
    engines: dict[str, Use]
    instructions: dict[str, int]
    hbm_read_bytes: int
    hbm_written_bytes: int
    flops: int
    peak_flops_per_s: float
    spent_s: dict[str, float]
    critical_path: list[Step] = field(repr=False)
    sbuf_bytes: int
    psum_banks: int
    throttled_s: float
    table_loads: int
    assumed: float
    uncosted: dict[str, int]
    warnings: list[str]
    schedules: list[Schedule] = field(repr=False, compare=False)
    recording: Any = field(repr=False, compare=False)

    @property
    def instruction_count(self) -> int:
        """All instructions of all cores."""
        return sum(self.instructions.values())

    @cached_property
    def reliefs(self) -> list[Relief]:
        """Seconds saved if an engine, the issue or bandwidth of DMA, latency or memory took no time, largest first.

        Found by scheduling the kernel again for each of them, the first time this is read.
        """
        waits = {ROOM: 0.0} if any(step.reason == "memory" for step in self.critical_path) else {}
        return ask_reliefs(self.recording, self.target, self.total_s, self.spent_s | waits)

    @property
    def binds(self) -> str:
        """The resource that would save most if it took no time."""
        return self.reliefs[0].resource if self.reliefs else "nothing"

    @cached_property
    def traits(self) -> Traits:
        """Traits that errors of predictions were found to depend on: generation, cores, dtype, resource, spills."""
        return find_traits(self.target.name, self.schedules, self.spent_s, self.recording.spills)

    @property
    def nearest(self) -> Nearest:
        """The measured kernel that is most like this one, and in what this one differs from it."""
        return find_nearest(self.traits)

    @property
    def interval(self) -> Interval:
        """Around ``total_s``: as far as kernels of the same traits came out wrong whose family was left out of the fit.

        The widest of its traits applies, and it is wider still for every trait that no measured kernel shares. What
        surrounds a kernel differs between published sources by `LAUNCH_UNCERTAINTY`, which matters for short ones.
        """
        known = self.target.intervals
        pairs = [known[trait] for trait in self.traits if trait in known] or [known["all"]]
        low, high = min(low for low, _ in pairs), max(high for _, high in pairs)
        if self.target.source == "published":
            wider = 1 + WIDENING * self.nearest.distance
            low, high = low**wider, high**wider
        below, above = (math.hypot(self.total_s * part, LAUNCH_UNCERTAINTY) for part in (1 - low, high - 1))
        return Interval(self.total_s - below, self.total_s + above, LEVEL)

    @property
    def flops_per_s(self) -> float:
        return self.flops / self.active_s if self.active_s else 0.0

    @property
    def fraction_of_peak(self) -> float:
        peak = self.peak_flops_per_s * self.cores
        return self.flops_per_s / peak if peak else 0.0

    @property
    def intensity(self) -> float:
        """Floating-point operations per byte of HBM traffic."""
        moved = self.hbm_read_bytes + self.hbm_written_bytes
        return self.flops / moved if moved else 0.0

    def __str__(self) -> str:
        from trnsim.timing.text import page

        return escape_controls(page(self))

    def __repr__(self) -> str:
        from trnsim.timing.text import seconds

        return f"<Report {self.kernel} on {self.target.name}: predicted {seconds(self.total_s)}>"

    def _repr_html_(self) -> str:
        from trnsim.timing.drawing import draw_report

        return draw_report(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, the same keys in every version."""
        known = {"target": self.target.name, "predicted": True, "constants": self.target.source}
        return {name: known[name] if name in known else _plain(getattr(self, name)) for name in _KEYS.split()}

    def timeline(self) -> Iterator[Slice]:
        """Yield every instruction and transfer as a bar; transfers have tracks of their own beside their queues."""
        for core, s in enumerate(self.schedules):
            stream = s.stream
            for i in range(len(stream)):
                kind = stream.kinds[stream.kind[i]]
                line = stream.lines[stream.line[i]]
                queue = QUEUES[s.queue[i]]
                why = REASONS[s.reason[i]]
                name, start, end = kind.call.name, s.start[i] * 1e-9, s.end[i] * 1e-9
                if kind.transfer is None:
                    yield Slice(queue, name, start, end, line, core, i, why)
                    continue
                direction = "load" if kind.transfer.load else "store"
                issued = (s.start[i] + s.issue(i)[0]) * 1e-9
                yield Slice(queue, f"issue {direction}", start, issued, line, core, i, why)
                sizes = f"{kind.transfer.nbytes} bytes in {kind.transfer.descriptors} descriptors"
                detail = f"{sizes}, {MODES[s.mode[i]]}"
                yield Slice(f"{direction}s", name, s.moving[i] * 1e-9, end, line, core, i, detail)

    def save(self, path: str | Path) -> Path:
        """Write a page (``.html``), a trace that opens in Perfetto (``.pftrace``) or `to_dict` (``.json``)."""
        path = Path(path)
        if path.suffix == ".html":
            from trnsim.trace import write_html

            write_html(self, path)
        elif path.suffix == ".pftrace":
            from trnsim.trace import write_perfetto

            write_perfetto(self, path)
        elif path.suffix == ".json":
            import json

            path.write_text(json.dumps(self.to_dict(), indent=2))
        else:
            raise refuse("save", got=path.suffix, path=path)
        return path


def make_report(recording: Recording, target: Target, schedules: list[Schedule]) -> Report:
    """Read a report out of played schedules."""
    time = target.timing
    played = [s for s in schedules if len(s.stream)]
    first = min((min(s.start) for s in played), default=0.0)
    last = max((max(s.end) for s in played), default=0.0)
    active = (last - first) * 1e-9
    engines: dict[str, Use] = {}
    whole = active * max(1, len(played)) or 1.0
    for q, name in enumerate(QUEUES):
        busy = sum(s.busy[q] for s in played) * 1e-9
        count = sum(s.count[q] for s in played)
        if count or name in ("tensor", "vector", "scalar", "gpsimd"):
            engines[name] = Use(busy, busy / whole, count)
        issued = sum(s.issued_count[q] for s in played)
        if issued and not name.startswith("dma."):
            busy = sum(s.issued_busy[q] for s in played) * 1e-9
            engines[f"dma.{name}"] = Use(busy, busy / whole, issued)
    moved = sum(max(s.dma.busy) for s in played) * 1e-9
    engines["dma"] = Use(moved, moved / whole, sum(len(s.moving) for s in played))
    instructions: Counter[str] = Counter()
    uncosted: Counter[str] = Counter()
    for s in played:
        uncosted.update(s.uncosted)
        for kind in s.stream.kinds:
            instructions[kind.call.name] += kind.count
    steps, spent = critical_path(played)
    busy = sum(sum(s.busy) for s in played) * 1e-9
    return Report(
        kernel=recording.name,
        target=target,
        cores=len(schedules) or 1,
        total_s=(time.preamble + last + time.postamble) * 1e-9,
        active_s=active,
        benchmark_s=active + time.launch * 1e-9,
        engines=engines,
        instructions=dict(sorted(instructions.items(), key=lambda each: (-each[1], each[0]))),
        hbm_read_bytes=sum(s.read_bytes for s in played),
        hbm_written_bytes=sum(s.written_bytes for s in played),
        flops=sum(s.flops for s in played),
        peak_flops_per_s=_peak(played, target),
        spent_s=spent,
        critical_path=steps,
        sbuf_bytes=max((s.sbuf_peak for s in played), default=0),
        psum_banks=-(-max((s.psum_peak for s in played), default=0) // target.psum_bank_bytes),
        throttled_s=sum(s.throttle.lost for s in played) * 1e-9,
        table_loads=sum(len(s.table_loads) + (s.first_table is not None) for s in played),
        assumed=sum(s.assumed for s in played) * 1e-9 / busy if busy else 0.0,
        uncosted=dict(uncosted),
        warnings=_warnings(sum(instructions.values()), uncosted, recording),
        schedules=schedules,
        recording=recording,
    )


def _peak(schedules: list[Schedule], target: Target) -> float:
    """Return the peak of the Tensor Engine for the mix of dtypes multiplied; of bf16 when nothing was."""
    full = 2.0 * target.partitions * target.stationary_max * target.clock_ghz["tensor"] * 1e9
    flops = ideal = 0.0
    for s in schedules:
        for kind in s.stream.kinds:
            work = kind.cost.flops * kind.count
            if work:
                flops += work
                ideal += work / (full * _speed(kind.call))
    return flops / ideal if ideal else full


def _speed(call: Call) -> float:
    """Return products per cycle of a matmul, in units of bf16's."""
    if call.name == "nc_matmul_mx":
        return 4.0
    if str(call.info.get("perf_mode", "none")) == "double_row":
        return 2.0
    dtype = call.reads[0].dtype
    return 0.25 if itemsize(dtype) == 4 and dtype != "tfloat32" else 1.0


def _warnings(count: int, uncosted: dict[str, int], recording: Recording) -> list[str]:
    warnings, spills, left_out = [], recording.spills, recording.left_out
    for name, times in sorted(uncosted.items()):
        warnings.append(f"{name} has no cost formula: {times} of them were counted as taking no time.")
    if count > MANY_INSTRUCTIONS:
        warnings.append(
            f"{count:,} instructions: static loops are unrolled, and the compiler may take minutes; "
            "dynamic loops keep programs small."
        )
    if spills:
        warnings.append(
            f"Tensors alive together do not fit SBUF: {spills:,} transfers save them to HBM or load them again."
        )
    if left_out:
        warnings.append(
            f"{left_out:,} instructions are left out, as the compiler would: broadcasts are read where they arise, and "
            "what a loop repeats unchanged runs once."
        )
    if recording.unwritten:
        what = "A result is" if recording.unwritten == 1 else f"{recording.unwritten} results are"
        warnings.append(f"{what} never written: look for loops without a turn and stores that are missing.")
    return warnings
