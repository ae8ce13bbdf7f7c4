"""How much memory a computation allocates, from a run on shapes alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from trnsci.backends import backend
from trnsci.memory import MemoryMeter


def peak_allocation(work: Callable[[], Any]) -> int:
    """Return the most bytes alive at once among those ``work`` allocates; its result counts."""
    with torch.no_grad(), backend("pytorch"), MemoryMeter() as meter:
        kept = work()
    del kept
    return meter.peak
