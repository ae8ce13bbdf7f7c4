"""How like a kernel is to those that were measured: generation, cores, dtype, what its time goes into, spills."""

from typing import NamedTuple

from trnsim.constants import MEASURED, RESOURCES
from trnsim.memory import HBM, SHARED_HBM
from trnsim.timing.schedule import Schedule

_HALF = frozenset(("bfloat16", "float16"))
_CORES = {1: "one core", 2: "two cores"}


class Traits(NamedTuple):
    """Traits that errors of predictions were found to depend on, in words."""

    target: str
    cores: str
    dtype: str
    resource: str
    memory: str


class Nearest(NamedTuple):
    """The measured kernel most like one, the traits of the one it does not share, and their number."""

    kernel: str
    differs: tuple[str, ...]
    distance: int


def find_traits(target: str, schedules: list[Schedule], spent: dict[str, float], spills: int) -> Traits:
    """Return the traits of a scheduled kernel; the dtype is the narrowest float in HBM."""
    moved = {
        operand.dtype
        for schedule in schedules
        for kind in schedule.stream.kinds
        for operand in (*kind.call.reads, *kind.call.writes)
        if operand.buffer in (HBM, SHARED_HBM)
    }
    narrow = "fp8" if any(name.startswith("float8") for name in moved) else "bf16" if moved & _HALF else "fp32"
    return Traits(
        target,
        _CORES.get(len(schedules) or 1, f"{len(schedules)} cores"),
        narrow,
        RESOURCES.get(next(iter(spent), ""), "latency"),
        "spills" if spills else "fits SBUF",
    )


def find_nearest(traits: Traits) -> Nearest:
    """Return the measured kernel that differs in the fewest traits."""

    def differing(known: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(mine for mine, theirs in zip(traits, known, strict=True) if mine != theirs)

    known = min(MEASURED, key=lambda each: len(differing(each)))
    return Nearest(MEASURED[known], differing(known), len(differing(known)))
