"""How much memory a computation allocates, found by running it on shapes alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from trnsci.backends import backend
from trnsci.memory import MemoryMeter


def peak_allocation(work: Callable[[], Any]) -> int:
    """Bytes alive at the worst moment of ``work`` among those it allocates itself; its result counts."""
    with torch.no_grad(), backend("pytorch"), MemoryMeter() as meter:
        kept = work()
    del kept
    return meter.peak
