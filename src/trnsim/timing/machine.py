"""Schedules of cores that run at the same time."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from trnsim.timing.engines import Meetings
from trnsim.timing.schedule import NEVER, Schedule
from trnsim.timing.stream import Stream


def schedule_all(
    streams: list[Stream], *, given: frozenset[int], cores: int, progress: Callable[[int, int], None] | None = None
) -> list[Schedule]:
    """Schedule all cores of all ranks, in the order of ``streams``."""
    meetings = Meetings(streams)
    schedules = [Schedule(s, given=given, cores=cores, meetings=meetings, progress=progress) for s in streams]
    if len(schedules) == 1:
        schedules[0].run()
    else:
        play_together(schedules)
    return schedules


def play_together(schedules: list[Schedule]) -> None:
    """Play cores that meet each other, step by step in the order of time."""
    steps = [schedule.play() for schedule in schedules]
    heap: list[tuple[float, int]] = []
    for index, step in enumerate(steps):
        at = next(step, None)
        if at is not None:
            heap.append((at, index))
    heapq.heapify(heap)
    stalled: set[int] = set()
    while heap or stalled:
        if not heap:
            # all meetings are over by now, or the simulation itself would have deadlocked
            heap = [(0.0, index) for index in stalled]
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
