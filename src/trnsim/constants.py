"""The constants of the timing model: each has one home, ``constants.toml``, and one source.

Sources: A is the Neuron architecture guides, API the NKI reference, F its older cost formulas, D the DMA guides, G the
performance guide's profile figures; P is read out of published trn2 profiles, Q fitted from published instruction
probes; C is fitted to the rows of ``benchmarks/calibration/rows.csv`` and R to ``collectives.csv`` beside it; I is
inferred, usually by keeping cycle counts and changing the clock; O is chosen by one family of open rows, and that
family is judged without it. ``python -m benchmarks.calibration --refit`` fits C within its `UNCERTAINTY`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from trnsim.tables import read_table

_TABLE = read_table("constants.toml")

# how far a fit to kernel times may move a constant, as a standard deviation of its logarithm
UNCERTAINTY: dict[str, float] = _TABLE["uncertainty"]


class Constant(NamedTuple):
    """A figure (an integer where it counts), its source, what that says; ``family`` chose it, ``without`` undoes it."""

    value: float
    source: str
    note: str = ""
    family: str = ""
    without: float = 0.0


_GENERATIONS: dict[str, dict[str, Any]] = {
    name: _TABLE["trn2"] | _TABLE[name] for name in read_table("targets.toml")["generations"]
}
CONSTANTS: Mapping[str, Mapping[str, Constant]] = {
    name: {key: Constant(**entry) for key, entry in table.items()} for name, table in _GENERATIONS.items()
}

if TYPE_CHECKING:

    @dataclass(frozen=True)
    class Timing:
        """Times of one generation in nanoseconds, rates in bytes per nanosecond; ``timing/`` uses them.

        ``*_issue`` is what an instruction costs its engine beyond its elements, ``*_done`` what a dependent waits
        beyond.
        """

        def __getattr__(self, name: str) -> Any: ...
else:
    Timing = make_dataclass("Timing", CONSTANTS["trn2"], frozen=True, slots=True, kw_only=True)
    # by which it is pickled
    Timing.__module__ = __name__


def timing(name: str) -> Timing:
    """Return the constants of one generation as the model reads them."""
    return Timing(**{key: constant.value for key, constant in CONSTANTS[name].items()})


# what a report says binds a kernel, in classes wide enough to have been measured
RESOURCES: dict[str, str] = _TABLE["resources"]

# seconds: the smallest kernels published elsewhere take 17 to 18 us in all, which leaves 4 us less around them than the
# ten profiles the preamble was read out of
LAUNCH_UNCERTAINTY = 4e-6

# share of kernels of unknown families whose time an interval is meant to hold; its factors on a prediction by traits of
# the kernel, the widest of which applies; and how much wider it is for every trait no measured kernel shares
LEVEL = 0.8
INTERVALS: dict[str, tuple[float, float]] = {name: (low, high) for name, (low, high) in _TABLE["intervals"].items()}
WIDENING = 0.25

# traits of kernels that were measured (`trnsim.timing.likeness`), and one of them
MEASURED: dict[tuple[str, ...], str] = {tuple(traits.split(", ")): one for traits, one in _TABLE["measured"].items()}
