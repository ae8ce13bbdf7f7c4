"""Binding resources, by asking: the time it would take with one resource made free, for each resource in turn.

A resource on the critical path need not bind: with it free another path may be as long. The recorded stream is
scheduled again for each question, so an answer costs as much as the prediction itself.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

from trnsim.tables import read_table
from trnsim.targets import Target
from trnsim.timing.path import BANDWIDTH, LATENCY, ROOM, critical_path

if TYPE_CHECKING:
    from trnsim.timing.profile import Recording

ENGINES = ("tensor", "vector", "scalar", "gpsimd")

# constants that are zero when a resource is free
_FREE: dict[str, str] = read_table("constants.toml")["free"]
# a resource that saves less than this share alone is asked together with what binds in its absence
_LITTLE = 0.1


class Relief(NamedTuple):
    """Seconds a kernel would save if ``resource`` took no time; two names joined by `` and `` are freed together."""

    resource: str
    saved_s: float


def ask_reliefs(recording: Recording, target: Target, total_s: float, path: dict[str, float]) -> list[Relief]:
    """Return the savings of every resource on the critical path, which names them longest first; largest first.

    Where none alone saves a tenth of the time, the one the path is longest on is freed together with the one the
    path is longest on then.
    """
    reliefs: list[Relief] = []
    first, then = "", None
    for name in filter(_can_be_free, path):
        total, left = _play_without(recording, target, name)
        if not reliefs:
            first, then = name, next((other for other in left if other != name and _can_be_free(other)), None)
        reliefs.append(Relief(name, max(0.0, total_s - total)))
    reliefs.sort(key=lambda relief: -relief.saved_s)
    if then is not None and reliefs[0].saved_s < _LITTLE * total_s:
        total, _ = _play_without(recording, target, first, then)
        if total_s - total >= _LITTLE * total_s:
            reliefs.insert(0, Relief(f"{first} and {then}", total_s - total))
    return reliefs


def _can_be_free(name: str) -> bool:
    return name in _FREE or name in ENGINES or name in (BANDWIDTH, ROOM)


def _play_without(recording: Recording, target: Target, *names: str) -> tuple[float, dict[str, float]]:
    """Return seconds and critical path with resources made free; the recording is left as it was."""
    zero: dict[str, Any] = {constant: 0.0 for name in names for constant in _FREE.get(name, "").split()}
    if LATENCY in names:
        zero |= {"dma_read_stretch": 1.0, "pe_depth_half": target.timing.pe_depth}
    free = dataclasses.replace(target, timing=dataclasses.replace(target.timing, **zero))
    try:
        for stream in recording.streams:
            stream.charge(free)
            for kind in stream.kinds:
                cost = kind.cost
                if cost.engine in names:
                    # what a dependent waits beyond is latency
                    late = 0.0 if LATENCY in names else cost.done - cost.busy
                    kind.cost = cost._replace(busy=0.0, done=late, table=None, array=None)
                elif LATENCY in names:
                    kind.cost = cost._replace(done=cost.busy)
                if BANDWIDTH in names and kind.transfer is not None:
                    idle = tuple((engine, 0.0, packets) for engine, _, packets in kind.transfer.work)
                    kind.transfer = kind.transfer._replace(work=idle)
        schedules = [s for s in recording.play(roomy=ROOM in names) if len(s.stream)]
        _, spent = critical_path(schedules)
    finally:
        for stream in recording.streams:
            stream.charge(target)
    last = max((max(s.end) for s in schedules), default=0.0)
    return (target.timing.preamble + last + target.timing.postamble) * 1e-9, spent
