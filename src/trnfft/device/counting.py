"""How long programs are, and how long they may be: loops are unrolled when a program is compiled."""

from __future__ import annotations

from typing import Any

import trnsim
from trnsci import config
from trnsci.launcher import simulated

_MATMULS = ("nc_matmul", "nc_transpose")


class _Counter:
    """A trace that keeps nothing but counts."""

    def __init__(self) -> None:
        self.instructions = self.matmuls = 0

    def append(self, record: Any) -> None:
        """Count one instruction."""
        self.instructions += 1
        self.matmuls += record.name in _MATMULS


def counted(kernel: Any, *tensors: Any, **static: Any) -> tuple[int, int]:
    """Instructions and matmuls of a kernel on tensors without data."""
    counter = _Counter()
    run = trnsim.simulate(simulated(kernel), numerics=False, checks=False, lint="off", trace=counter)  # type: ignore[arg-type]
    run(*tensors, **static)
    return counter.instructions, counter.matmuls


def limits() -> tuple[int, int]:
    """Instructions and matmuls that the settings admit."""
    return config.PROGRAM_INSTRUCTIONS.get(), config.PROGRAM_MATMULS.get()
