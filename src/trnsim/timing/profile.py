"""``trnsim.profile``: run a kernel, and say how long the hardware would take."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from trnsim.memory import HBM, PSUM, SBUF, SHARED_HBM
from trnsim.session import Record
from trnsim.targets import Target, target_named
from trnsim.timing.report import Report
from trnsim.timing.schedule import Schedule
from trnsim.timing.stream import Stream


class Recorder:
    """One stream for each core of each rank."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.streams: dict[tuple[int, int], Stream] = {}

    def append(self, record: Record) -> None:
        """Take one instruction."""
        key = (record.rank, record.core)
        stream = self.streams.get(key)
        if stream is None:
            stream = self.streams[key] = Stream(self.target)
        stream.append(record)


def schedule(stream: Stream) -> Schedule:
    """Play a stream; what it reads of HBM without writing, or writes without reading, came from or goes to the caller."""
    sizes: dict[int, tuple[str, int]] = {}
    read: set[int] = set()
    written: set[int] = set()
    for region in stream.regions:
        operand = region.operand
        if operand.buffer in (SBUF, PSUM):
            sizes[region.uid] = (operand.buffer, operand.room)
    for numbers in set(stream.reads):
        read.update(stream.regions[number].uid for number in numbers if stream.regions[number].operand.buffer in (HBM, SHARED_HBM))
    for numbers in set(stream.writes):
        written.update(stream.regions[number].uid for number in numbers if stream.regions[number].operand.buffer in (HBM, SHARED_HBM))
    return Schedule(stream, sizes=sizes, outside=frozenset(read ^ written))


def profile(kernel: Any, *, target: Any = None, numerics: bool = True, **options: Any) -> Callable[..., tuple[Any, Report]]:
    """A callable that runs ``kernel`` and returns its result and a `Report` of predicted time.

    Args:
        kernel: what `trnsim.simulate` takes.
        target: ``"trn1"``, ``"trn2"`` or ``"trn3"``.
        numerics: ``False`` costs the kernel without computing: arrays need only shapes and dtypes.
        options: further options of `trnsim.simulate`.
    """
    from trnsim.program import as_kernel, simulate

    made = as_kernel(kernel)
    chosen = target_named(target if target is not None else made.options.get("platform_target"))

    @functools.wraps(made.function)
    def run(*args: Any, **kwargs: Any) -> tuple[Any, Report]:
        recorder = Recorder(chosen)
        result = simulate(made, target=chosen, numerics=numerics, trace=recorder, **options)(*args, **kwargs)  # type: ignore[arg-type]
        schedules = [schedule(stream) for _, stream in sorted(recorder.streams.items())]
        return result, Report.of(getattr(made, "__name__", "kernel"), chosen, schedules)

    return run
