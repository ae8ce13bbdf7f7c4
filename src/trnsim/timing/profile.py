"""``trnsim.profile``: run a kernel, and say how long the hardware would take."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from trnsim.session import Record
from trnsim.targets import Target
from trnsim.timing.report import Report, make_report
from trnsim.timing.schedule import schedule_all
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


def profile(kernel: Any, *, target: Any = None, numerics: bool = True, **options: Any) -> Callable[..., tuple[Any, Report]]:
    """A callable that runs ``kernel`` and returns its result and a `Report` of predicted time.

    Args:
        kernel: what `trnsim.simulate` takes.
        target: ``"trn1"``, ``"trn2"`` or ``"trn3"``.
        numerics: ``False`` costs the kernel without computing: arrays need only shapes and dtypes.
        options: further options of `trnsim.simulate`.
    """
    from trnsim.program import Launch, as_kernel, params_of

    made = as_kernel(kernel)
    params = params_of(made, target=target, numerics=numerics, **options)

    @functools.wraps(made.function)
    def run(*args: Any, **kwargs: Any) -> tuple[Any, Report]:
        recorder = Recorder(params.target)
        launch = Launch(made, params, recorder)  # type: ignore[arg-type]
        result = launch.run(args, kwargs)
        given = frozenset(storage.uid for storage in launch.arguments.storages)
        streams = [stream for _, stream in sorted(recorder.streams.items())]
        schedules = schedule_all(streams, given=given, cores=launch.cores)
        return result, make_report(launch.name, params.target, launch.cores, schedules)

    return run
