"""State of a session: how the kernel is simulated, its memory and counters, and what it has met so far."""

import os
from dataclasses import dataclass, field
from typing import Any

from trnsim.memory import Arena, Lifetimes
from trnsim.poison import Garbage, Origin
from trnsim.records import Record
from trnsim.targets import Target, target_named
from trnsim.versions import LATEST, Version

LNC_VARIABLE = "NEURON_LOGICAL_NC_CONFIG"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimParams:
    """How a kernel is simulated. The defaults are hostile on purpose.

    Attributes:
        target: hardware generation.
        nki: version of NKI, whose names and rules hold.
        checks: enforce rules, poison, bounds and capacity.
        strict: refuse every read of unwritten memory, also one that no result depends on.
        numerics: compute values; ``False`` follows the control flow and records instructions only.
        precise: keep low precision in its own dtype (``NKI_PRECISE_FP=0`` keeps fp32).
        lint: ``"strict"``, ``"error"``, ``"warn"`` or ``"off"``.
        logical_cores: what the environment says of the cores of a logical core; nothing where it is silent.
        seed: of the random number instructions' initial state.
    """

    target: Target = field(default_factory=target_named)
    nki: Version = LATEST
    checks: bool = True
    strict: bool = False
    numerics: bool = True
    precise: bool = field(default_factory=lambda: os.environ.get("NKI_PRECISE_FP", "1") != "0")
    lint: str = "error"
    logical_cores: str = field(default_factory=lambda: os.environ.get(LNC_VARIABLE, ""))
    seed: int = 0


class State:
    """State that the parts of a session share."""

    def __init__(
        self,
        params: SimParams,
        *,
        kernel: str = "kernel",
        core: int = 0,
        rank: int = 0,
        grid: tuple[int, ...] = (),
        program: tuple[int, ...] = (),
        trace: list[Record] | None = None,
    ) -> None:
        self.params = params
        self.target = params.target
        self.nki = params.nki
        self.checks = params.checks
        self.numerics = params.numerics
        self.kernel = kernel
        self.core = core
        self.rank = rank
        self.grid = grid
        self.program = program
        self.trace = trace
        self.clock = 0
        self.instr: str | None = None
        self.lifetimes = Lifetimes()
        self.state: dict[str, Any] = {}
        # the turn of a loop on the device that is running; line, nesting and turns of the outermost ones that have run
        self.scope: Any = None
        self.loops: list[Any] = []
        self.machine: Any = None
        self.probes: list[Any] | None = None
        self.named: Any = None
        self._arenas: dict[str, Arena] = {}
        # tensors placed in HBM by hand: the first byte of each, and its memory
        self._hbm: list[tuple[int, Arena]] = []
        self.garbage: Garbage | None = None
        self.origins: list[Origin] = []
        self.origin_ids: dict[Any, int] = {}
