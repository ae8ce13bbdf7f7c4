"""trnsim: an NKI machine on a CPU."""

from typing import TYPE_CHECKING

from trnsim.lazy import lazily

if TYPE_CHECKING:
    from trnsim.arguments import LostOutput, PrivateOutput
    from trnsim.choices import choices
    from trnsim.compare import Comparison, Difference, compare
    from trnsim.cores import GridMismatch
    from trnsim.coverage import UnreadInput, UnwrittenOutput
    from trnsim.debug import Probe, probe
    from trnsim.install import install, uninstall
    from trnsim.isa.operands import OverlappingOperands
    from trnsim.isa.psum import ZerosAccumulated
    from trnsim.kernel import Kernel, jit, simulate
    from trnsim.lint import lint
    from trnsim.loop_body import CoreTurns
    from trnsim.races import RaceWarning
    from trnsim.ranks import per_rank, simulate_ranks
    from trnsim.session import EmptyView
    from trnsim.targets import TARGETS, Target
    from trnsim.timing.profile import profile
    from trnsim.timing.report import Report

__all__ = [
    "TARGETS",
    "Comparison",
    "CoreTurns",
    "Difference",
    "EmptyView",
    "GridMismatch",
    "Kernel",
    "LostOutput",
    "OverlappingOperands",
    "PrivateOutput",
    "Probe",
    "RaceWarning",
    "Report",
    "Target",
    "UnreadInput",
    "UnwrittenOutput",
    "ZerosAccumulated",
    "choices",
    "compare",
    "install",
    "jit",
    "lint",
    "per_rank",
    "probe",
    "profile",
    "simulate",
    "simulate_ranks",
    "uninstall",
]

lazily(__name__)
