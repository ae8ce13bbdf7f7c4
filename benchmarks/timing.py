"""The clock: contenders take turns, so that whatever the machine is doing happens to all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

MIN_BATCH_S = 2e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Seconds per call of one contender, one entry per round."""

    seconds: tuple[float, ...]
    calls: int

    @property
    def median(self) -> float:
        """The figure reported."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Distance between the quartiles, relative to the median."""
        low, _, high = statistics.quantiles(self.seconds, n=4)
        return (high - low) / self.median

    def over(self, other: Samples) -> float:
        """Median of the ratios, round by round; below one means this contender is faster."""
        return statistics.median(a / b for a, b in zip(self.seconds, other.seconds, strict=True))

    def minus(self, other: Samples) -> float:
        """Median of the differences in seconds, round by round."""
        return statistics.median(a - b for a, b in zip(self.seconds, other.seconds, strict=True))


def _batch(call: Callable[[], object], calls: int, wait: Callable[[], None]) -> float:
    # Untimed: whoever follows a contender with large operands would find the caches full of them.
    call()
    wait()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    wait()
    return (time.perf_counter() - start) / calls


def _calibrate(call: Callable[[], object], wait: Callable[[], None]) -> int:
    """Calls per batch that make a batch long enough for the clock; the calls made here also warm up."""
    calls = 1
    while _batch(call, calls, wait) * calls < MIN_BATCH_S:
        calls *= 2
    return calls


def interleave(
    contenders: Mapping[str, Callable[[], object]], *, rounds: int, wait: Callable[[], None] = lambda: None
) -> dict[str, Samples]:
    """Time every contender once per round, starting each round with another one.

    Args:
        contenders: Calls without arguments, by name.
        rounds: Samples per contender; at least two.
        wait: Blocks until the device has finished (a CUDA synchronise).

    Returns:
        Samples by name; sample *i* of any two contenders were taken next to each other.
    """
    names = list(contenders)
    calls = {name: _calibrate(contenders[name], wait) for name in names}
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            seconds[name].append(_batch(contenders[name], calls[name], wait))
    return {name: Samples(seconds=tuple(seconds[name]), calls=calls[name]) for name in names}


def gpu_seconds(call: Callable[[], object], calls: int = 5) -> float:
    """Seconds per call in which kernels and copies run on the GPU, as torch's profiler sees them."""
    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
    events = (event for event in seen.events() if event.device_type == DeviceType.CUDA)
    return sum(event.self_device_time_total for event in events) * 1e-6 / calls
