"""Constants of ``nki.isa``: engines, modes, versions. Each accepts its name or number where a member is expected."""

from __future__ import annotations

from enum import Enum
from functools import total_ordering
from typing import Any, TypeVar

from trnsim.errors import WrongArgument

E = TypeVar("E", bound=Enum)


class engine(Enum):
    """Engines of a NeuronCore."""

    unknown = 0
    tensor = 1
    scalar = 2
    gpsimd = 3
    dma = 4
    vector = 5
    sync = 6


class reduce_cmd(Enum):
    """Use that an instruction makes of an engine's accumulator registers."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4


class dge_mode(Enum):
    """Writer of DMA descriptors."""

    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3


class oob_mode(Enum):
    """Treatment of a run-time index out of bounds by a DMA."""

    error = 0
    skip = 1


class matmul_perf_mode(Enum):
    """Tensor Engine performance modes."""

    none = "none"
    double_row = "double_row"


@total_ordering
class nc_version(Enum):
    """NeuronCore generations."""

    gen2 = 2
    gen3 = 3
    gen4 = 4

    def __lt__(self, other: nc_version) -> bool:
        return self.value < other.value


class dma_engine(Enum):
    """Which DMA rings carry an exchange between cores."""

    dma = 1
    gpsimd_dma = 2


def member(cls: type[E], value: Any, role: str) -> E:
    """``value`` as a member of ``cls``: a member, its name, its number, or ``None`` for the first."""
    if isinstance(value, cls):
        return value
    if value is None:
        return next(iter(cls))
    plain = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    for m in cls:
        if plain and value in (m.name, m.value):
            return m
    # the same constant of another module (AWS's own package) has the same name
    name = getattr(value, "name", None)
    for m in cls:
        if isinstance(name, str) and name == m.name:
            return m
    hint = f"use one of {', '.join(f'{cls.__name__}.{m.name}' for m in cls)}"
    raise WrongArgument(f"{role} is {value!r}", role, str(value), [m.name for m in cls], hint)
