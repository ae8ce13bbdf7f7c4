"""Cost of an instruction: how long its engine is taken, and how long a dependent waits.

``busy`` is the initiation interval (start to start of an independent successor on the same engine) and ``done`` the
latency (start to completion, before semaphores). Both are ``fixed + elements x cycles / clock``: the fixed part is
added, not a minimum, which is what published trn2 profiles show. The constants are `trnsim.targets.Timing`.

Every formula names what it rests on: ``measured`` (published profiles and probes), ``documented`` (the reference's
formulas) or ``assumed`` (no public figure; a neighbour's formula). Reports say how much of a prediction is assumed.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from trnsim.targets import Target
from trnsim.tensors.dtypes import NAMES

_SIZES = {name: int(dtype.itemsize) for name, dtype in NAMES.items()}


def itemsize(dtype: str) -> int:
    """Return bytes of one element; the packed x4 types hold four values in 4 (fp8) or 2 (fp4) bytes."""
    return _SIZES[dtype]


class Layout(NamedTuple):
    """An operand without its address: what a cost can depend on."""

    buffer: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def n(self) -> int:
        """Elements per partition."""
        return math.prod(self.shape[1:])

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * itemsize(self.dtype)

    @property
    def step(self) -> int:
        """Bytes between neighbours in the fastest free dimension."""
        for extent, stride in zip(reversed(self.shape[1:]), reversed(self.strides[1:]), strict=True):
            if extent > 1:
                return abs(stride) * itemsize(self.dtype)
        return itemsize(self.dtype)

    @property
    def dense(self) -> bool:
        return self.step <= itemsize(self.dtype)


class Array(NamedTuple):
    """How a matmul uses the Tensor Engine's array.

    ``stream`` is the part of its time the clock decides, ``restart`` and ``restart_half`` what it pays when the engine
    idled. ``cells`` are the 32x32 cells it occupies, ``None`` for all; those elsewhere run beside it, ``slot`` apart.
    """

    stream: float
    restart: float
    restart_half: float
    cells: tuple[int, ...] | None
    slot: float


class Cost(NamedTuple):
    """One instruction's claim on an engine, in nanoseconds."""

    engine: str
    busy: float
    done: float
    basis: str = "measured"
    flops: int = 0
    table: str | None = None
    array: Array | None = None


class Call(NamedTuple):
    """Instruction as a formula sees it."""

    name: str
    engine: str
    writes: tuple[Layout, ...]
    reads: tuple[Layout, ...]
    info: dict[str, Any]

    @property
    def n(self) -> int:
        """Elements per partition of the largest operand."""
        return max(1, *(operand.n for operand in (*self.writes, *self.reads)))

    def pointers(self) -> int:
        """Read operands of one element per partition beside a longer one: bias, scale, scalar operands."""
        if self.n == 1:
            return max(0, len(self.reads) - 1)
        return sum(1 for operand in self.reads if operand.n == 1)


Formula = Callable[[Call, Target], Cost]
FORMULAS: dict[str, Formula] = {}


def formula(*names: str) -> Callable[[Formula], Formula]:
    """Register a cost formula for instructions."""

    def register(fn: Formula) -> Formula:
        for name in names:
            FORMULAS[name] = fn
        return fn

    return register


def cost_of(call: Call, target: Target) -> Cost:
    """Return the cost of one instruction; no time, on the basis of nothing, when no formula covers its name."""
    compute = FORMULAS.get(call.name)
    return Cost(call.engine, 0.0, 0.0, "nothing") if compute is None else compute(call, target)
