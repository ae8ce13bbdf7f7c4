"""``trnsim.profile``: run a kernel, and say how long the hardware would take."""

from __future__ import annotations

import functools
import gc
import heapq
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from trnsim.records import Record
from trnsim.targets import Target
from trnsim.timing.engines import Meetings
from trnsim.timing.report import Report, make_report
from trnsim.timing.schedule import NEVER, Schedule
from trnsim.timing.simplify import simplify_stream
from trnsim.timing.spill import spill_stream
from trnsim.timing.stream import Stream

Progress = Callable[[str, int, int], None]


class Recorder:
    """One stream for each core of each rank."""

    def __init__(self, target: Target, progress: Progress | None = None) -> None:
        self.target = target
        self.streams: dict[tuple[int, int], Stream] = {}
        self.progress = progress
        self.count = 0

    def append(self, record: Record) -> None:
        """Take one instruction."""
        key = (record.rank, record.core)
        stream = self.streams.get(key)
        if stream is None:
            stream = self.streams[key] = Stream(self.target)
        stream.append(record)
        self.count += 1
        if self.progress is not None and not self.count & 8191:
            self.progress("recording", self.count, 0)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Switch off the cyclic garbage collector, which would walk a growing stream again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def profile(
    kernel: Any,
    *,
    target: Any = None,
    nki: str | None = None,
    numerics: bool = True,
    checks: bool = True,
    strict: bool = False,
    lint: str | None = None,
    seed: int = 0,
    ranks: int | None = None,
    progress: Progress | None = None,
) -> Callable[..., tuple[Any, Report]]:
    """Return a callable that runs ``kernel`` and returns its result and a `Report` of predicted time.

    Args:
        kernel: what `trnsim.simulate` takes; ``kernel[2]`` is played on two cores.
        target: ``"trn1"``, ``"trn2"`` or ``"trn3"``; default as in `trnsim.simulate`.
        nki: as in `trnsim.simulate`.
        numerics: ``False`` costs the kernel without computing: arguments need only shapes and dtypes, so that matrices
            too large to hold can be costed. Results then have shapes and no values.
        checks: enforce the hardware's rules while running.
        strict: as in `trnsim.simulate`.
        lint: as in `trnsim.simulate`.
        seed: as in `trnsim.simulate`.
        ranks: run on several ranks as `trnsim.simulate_ranks` does, with collectives between them.
        progress: called with a phase (``"recording"``, ``"scheduling"``), instructions done and instructions in all.
    """
    options: dict[str, Any] = {"target": target, "nki": nki, "numerics": numerics, "checks": checks, "strict": strict}
    options |= {"lint": lint, "seed": seed}
    recorded = record(kernel, ranks=ranks, progress=progress, **options)

    @functools.wraps(recorded)
    @_without_collector()
    def run(*args: Any, **kwargs: Any) -> tuple[Any, Report]:
        result, recording = recorded(*args, **kwargs)
        return result, recording.report(recording.target, progress)

    return run


def record(
    kernel: Any, *, ranks: int | None = None, progress: Progress | None = None, **options: Any
) -> Callable[..., tuple[Any, Recording]]:
    """Return a callable that runs ``kernel`` and returns its result and a recording; options as for `profile`."""
    from trnsim.kernel import Launch, as_kernel, params_of
    from trnsim.ranks import simulate_ranks

    jitted = as_kernel(kernel)
    params = params_of(jitted, **options)

    @functools.wraps(jitted.function)
    @_without_collector()
    def run(*args: Any, **kwargs: Any) -> tuple[Any, Recording]:
        recorder = Recorder(params.target, progress)
        trace: Any = recorder
        given: frozenset[int] = frozenset()
        crowded, returned = not params.checks or ranks is not None, []
        if ranks is None:
            launch = Launch(jitted, params, trace, spills=True)
            result = launch.run(args, kwargs)
            given = frozenset(storage.uid for storage in launch.arguments.storages)
            returned = launch.returned
            crowded = crowded or launch.high_water["sbuf"] > params.target.sbuf_filled_bytes
        else:
            result = simulate_ranks(jitted, ranks, trace=trace, **options)(*args, **kwargs)
        return result, Recording(getattr(jitted, "__name__", "kernel"), recorder, given, crowded, returned)

    return run


class Recording:
    """Instruction streams as the compiler would leave them, ready to be scheduled."""

    def __init__(
        self, name: str, recorder: Recorder, given: frozenset[int], crowded: bool, returned: list[set[int]]
    ) -> None:
        self.name = name
        self.target = recorder.target
        self.given = given
        self.cores = 1 + max((core for _, core in recorder.streams), default=0)
        self.streams: list[Stream] = []
        self.spills = self.left_out = 0
        written = given | {r.uid for stream in recorder.streams.values() for r in stream.regions if r.written}
        self.unwritten = sum(not written & of_cores for of_cores in returned)
        for _, recorded in sorted(recorder.streams.items()):
            stream, dropped = simplify_stream(recorded)
            stream, moves = spill_stream(stream) if crowded or dropped else (stream, 0)
            self.streams.append(stream)
            self.left_out += dropped
            self.spills += moves

    def report(self, target: Target, progress: Progress | None = None) -> Report:
        """Schedule on ``target``, whose constants may differ from those of the recording."""
        for stream in self.streams:
            if stream.target is not target:
                stream.charge(target)
        watch = None if progress is None else functools.partial(progress, "scheduling")
        return make_report(self, target, self.play(watch))

    def play(self, progress: Callable[[int, int], None] | None = None, *, roomy: bool = False) -> list[Schedule]:
        """Schedule the streams as they are charged; ``roomy`` when no tensor waits for memory of another.

        Cores meet each other, so that all are played step by step in the order of time.
        """
        how: dict[str, Any] = {"given": self.given, "cores": self.cores, "progress": progress, "roomy": roomy}
        meetings = Meetings(self.streams)
        schedules = [Schedule(stream, meetings=meetings, **how) for stream in self.streams]
        steps = [schedule.play() for schedule in schedules]
        heap: list[tuple[float, int]] = []
        stalled = set(range(len(steps)))
        while heap or stalled:
            if not heap:
                # the beginning; later all meetings are over, or the simulation itself would have deadlocked
                heap = [(0.0, index) for index in sorted(stalled)]
                stalled.clear()
            _, index = heapq.heappop(heap)
            at = next(steps[index], None)
            if at is None:
                continue
            if at == NEVER:
                stalled.add(index)
            else:
                heapq.heappush(heap, (at, index))
            for other in list(stalled):
                if schedules[other]._met:
                    stalled.discard(other)
                    heapq.heappush(heap, (0.0, other))
        return schedules

    def least_s(self) -> float:
        """Return a lower bound of any schedule: the launch, and the busiest engine's instructions back to back.

        Matmuls, whose intervals depend on what precedes them, and transfers are left out.
        """
        time, most = self.target.timing, 0.0
        for stream in self.streams:
            busy: dict[str, float] = {}
            for kind in stream.kinds:
                cost = kind.cost
                if kind.transfer is None and cost.array is None:
                    busy[cost.engine] = busy.get(cost.engine, 0.0) + kind.count * cost.busy
            most = max(most, max(busy.values(), default=0.0))
        return (time.preamble + most + time.postamble) * 1e-9
