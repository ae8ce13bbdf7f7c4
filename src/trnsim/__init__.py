"""trnsim: an NKI machine on a CPU."""

from trnsim.debug import Comparison, Difference, Probe, compare, probe
from trnsim.install import install, uninstall
from trnsim.lint import lint
from trnsim.program import Kernel, PrivateOutput, UnwrittenOutput, jit, simulate
from trnsim.races import RaceWarning
from trnsim.ranks import per_rank, simulate_ranks
from trnsim.targets import TARGETS, Target

__all__ = [
    "TARGETS",
    "Comparison",
    "Difference",
    "Kernel",
    "PrivateOutput",
    "Probe",
    "RaceWarning",
    "Target",
    "UnwrittenOutput",
    "compare",
    "install",
    "jit",
    "lint",
    "per_rank",
    "probe",
    "simulate",
    "simulate_ranks",
    "uninstall",
]
