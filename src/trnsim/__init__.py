"""trnsim: an NKI machine on a CPU."""

from typing import TYPE_CHECKING

from trnsim.lazy import lazily

if TYPE_CHECKING:
    from trnsim.arguments import LostOutput as LostOutput, PrivateOutput as PrivateOutput
    from trnsim.choices import choices as choices
    from trnsim.compare import Comparison as Comparison, Difference as Difference, compare as compare
    from trnsim.cores import GridMismatch as GridMismatch
    from trnsim.coverage import UnreadInput as UnreadInput, UnwrittenOutput as UnwrittenOutput
    from trnsim.debug import Probe as Probe, probe as probe
    from trnsim.install import install as install, uninstall as uninstall
    from trnsim.isa.operands import OverlappingOperands as OverlappingOperands
    from trnsim.isa.psum import ZerosAccumulated as ZerosAccumulated
    from trnsim.kernel import Kernel as Kernel, jit as jit, simulate as simulate
    from trnsim.lint import lint as lint
    from trnsim.loop_body import CoreTurns as CoreTurns
    from trnsim.races import RaceWarning as RaceWarning
    from trnsim.ranks import per_rank as per_rank, simulate_ranks as simulate_ranks
    from trnsim.session import EmptyView as EmptyView
    from trnsim.targets import TARGETS as TARGETS, Target as Target
    from trnsim.timing.profile import profile as profile
    from trnsim.timing.report import Report as Report

lazily(__name__)
