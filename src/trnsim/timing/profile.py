"""``trnsim.profile``: run a kernel, and say how long the hardware would take."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from trnsim.records import Record
from trnsim.targets import Target
from trnsim.timing.machine import schedule_all
from trnsim.timing.report import Report, make_report
from trnsim.timing.simplify import simplified
from trnsim.timing.spill import spilled
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
def _unswept() -> Iterator[None]:
    """Without the cyclic garbage collector, which would walk a growing stream again and again."""
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
    def run(*args: Any, **kwargs: Any) -> tuple[Any, Report]:
        with _unswept():
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
    def run(*args: Any, **kwargs: Any) -> tuple[Any, Recording]:
        with _unswept():
            return play(args, kwargs)

    def play(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Recording]:
        recorder = Recorder(params.target, progress)
        trace: Any = recorder
        given: frozenset[int] = frozenset()
        crowded = not params.checks or ranks is not None
        if ranks is None:
            launch = Launch(jitted, params, trace, spills=True)
            result = launch.run(args, kwargs)
            given = frozenset(storage.uid for storage in launch.arguments.storages)
            crowded = crowded or launch.high_water["sbuf"] > params.target.sbuf_filled_bytes
        else:
            result = simulate_ranks(jitted, ranks, trace=trace, **options)(*args, **kwargs)
        recording = Recording(getattr(jitted, "__name__", "kernel"), recorder, given, crowded)
        return result, recording

    return run


class Recording:
    """Instruction streams as the compiler would leave them, ready to be scheduled."""

    def __init__(self, name: str, recorder: Recorder, given: frozenset[int], crowded: bool) -> None:
        self.name = name
        self.target = recorder.target
        self.given = given
        self.cores = 1 + max((core for _, core in recorder.streams), default=0)
        self.streams: list[Stream] = []
        self.spills = self.left_out = 0
        for _, recorded in sorted(recorder.streams.items()):
            stream, dropped = simplified(recorded)
            stream, moves = spilled(stream) if crowded or dropped else (stream, 0)
            self.streams.append(stream)
            self.left_out += dropped
            self.spills += moves

    def report(self, target: Target, progress: Progress | None = None) -> Report:
        """Schedule on ``target``, whose constants may differ from those of the recording."""
        for stream in self.streams:
            if stream.target is not target:
                stream.charge(target)
        watch = None if progress is None else functools.partial(progress, "scheduling")
        schedules = schedule_all(self.streams, given=self.given, cores=self.cores, progress=watch)
        counts = {"cores": len(self.streams) or 1, "spills": self.spills, "left_out": self.left_out}
        return make_report(self.name, target, schedules, **counts, recording=self)

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
