"""Plans: what will run, where, why, and at what cost, as values that can be printed, compared, pickled and kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from trnsci import config
from trnsci.caches import CACHE
from trnsci.programs import Size
from trnsci.specs import tensors_in, thaw
from trnsim import notebook

if TYPE_CHECKING:
    from trnsci.predict import Prediction


class Cost(NamedTuple):
    """Floating-point operations and bytes of one call; ``workspace`` is memory needed beyond operands and result."""

    flops: int
    read: int
    written: int
    workspace: int = 0


# A public report (aws-neuron-sdk, issue 1374): half an hour or more on a trn2.3xlarge for two fused products that
# need 524,288 matmuls by their shapes, which in this suite's product of that many are 794,624 instructions.
COMPILE_SECONDS = 1800 / 794_624
COMPILE_SOURCE = "one public report, aws-neuron-sdk issue 1374: 30 minutes or more for 524,288 matmuls; not measured"


class Programs(NamedTuple):
    """How a plan's kernels are launched: how often, as how many different programs, and how long those are.

    ``instructions`` are those of all launches; ``longest`` and ``most_matmuls`` are of one program, and so are
    ``sbuf_bytes`` of a partition and ``psum_banks``, the most it holds at once. ``remarks`` say what depends on data,
    which a plan does not see.
    """

    launches: int
    compilations: int
    instructions: int
    longest: int
    most_matmuls: int
    sbuf_bytes: int = 0
    psum_banks: int = 0
    remarks: tuple[str, ...] = ()

    def __str__(self) -> str:
        kinds = "1 program" if self.compilations == 1 else f"{self.compilations} programs"
        times = "1 launch" if self.launches == 1 else f"{self.launches} launches"
        return (
            f"{times} of {kinds}, {self.instructions:,} instructions in all; the longest has {self.longest:,}, "
            f"{self.most_matmuls:,} of them matmuls; at most {self.sbuf_bytes / 1024:.4g} KiB of an SBUF partition and "
            f"{self.psum_banks} PSUM banks are in use; compiling takes {seconds(self.compile_seconds)} or more "
            f"({COMPILE_SOURCE}){''.join(f'; {each}' for each in self.remarks)}{self._refusal_text}"
        )

    @property
    def compile_seconds(self) -> float:
        """Estimated seconds to compile the programs that differ, each as if it were as long as the longest."""
        return self.compilations * self.longest * COMPILE_SECONDS

    @property
    def _refusal_text(self) -> str:
        excess = Size(self.longest, self.most_matmuls).excess
        return f"; nki refuses it: {excess}" if excess else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One dispatch: a call without its data, its cost, and the one implementation chosen for it.

    Attributes:
        op: the op's full name, ``trnblas::gemm``.
        call: an instance of the op's class over `TensorSpec`; its fields are read by name.
        cost: FLOPs and bytes.
        backend: ``pytorch``, ``simulator`` or ``nki``.
        implementation: ``pytorch``, ``host``, ``cuda`` or ``nki``, and ``calls`` what that one calls.
        reason: why this one.
        iterations: for an op that iterates, the most it takes; ``cost`` and predictions are then of one of them.
    """

    op: str
    call: Any
    cost: Cost
    backend: str
    implementation: str
    calls: str = ""
    reason: str = field(compare=False)
    iterations: int | None = None

    @property
    def operands(self) -> str:
        """Shapes and dtypes of the operands, for tables."""
        return " ".join(str(spec) for spec in tensors_in(self.call))

    @property
    def work(self) -> str:
        """FLOPs in words, and of an op that iterates how often at most."""
        flops = quantity(self.cost.flops, "FLOP")
        return flops if self.iterations is None else f"{flops} an iteration, at most {self.iterations} iterations"

    @property
    def runs_on(self) -> str:
        """Backend and implementation for tables: ``pytorch``, ``simulator``, ``host: scipy.linalg.blas.dsymv``."""
        if self.implementation in ("nki", "pytorch"):
            return self.backend
        return f"{self.implementation}: {self.calls}"

    def predicted(self, target: config.TargetName) -> float | None:
        """Predicted seconds of the step's kernel on a generation; ``None`` where it has no kernel for this call."""
        return self.call._op.predicted(self.call, target)

    def interval(self, target: config.TargetName) -> tuple[float, float] | None:
        """Return seconds between which the kernel is expected to take; ``None`` where nothing is predicted."""
        from trnsci.predict import device_interval

        return device_interval(self.call, target)

    def programs(self, target: config.TargetName) -> Prediction | None:
        """Count launches, different programs and their sizes on a generation; ``None`` where no kernel takes it."""
        return self.call._op.programs(self.call, target)

    def __repr__(self) -> str:
        return f"<Step {self.op} {self.operands} on {self.runs_on}>"

    @property
    def error_bound(self) -> float | None:
        """Relative error the op guarantees for this call; its documentation says relative to what."""
        return self.call._op.error_bound(thaw(self.call), self.implementation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Plan of a call. Two plans are equal when they would do the same; reasons do not count."""

    op: str
    steps: tuple[Step, ...]
    peak_bytes: int
    # Choices taken before the first step, in words: the format of a sparse product, for one.
    remarks: tuple[str, ...] = field(default=(), compare=False)

    @property
    def backend(self) -> str:
        """The backend of every step, or ``mixed``."""
        names = {step.backend for step in self.steps}
        return names.pop() if len(names) == 1 else "mixed" if names else "none"

    @property
    def reason(self) -> str:
        """Why: what was chosen before the steps, then the distinct reasons of the steps, in order."""
        return "; ".join(dict.fromkeys([*self.remarks, *(step.reason for step in self.steps)]))

    @property
    def flops(self) -> int:
        """Floating-point operations of all steps; one iteration of those that iterate."""
        return sum(step.cost.flops for step in self.steps)

    @property
    def bytes_read(self) -> int:
        """Bytes all steps read."""
        return sum(step.cost.read for step in self.steps)

    @property
    def bytes_written(self) -> int:
        """Bytes all steps write."""
        return sum(step.cost.written for step in self.steps)

    @property
    def predicted(self) -> dict[str, float]:
        """Predicted seconds per Trainium generation, without transfers; only generations that can take every step."""
        times: dict[str, float] = {}
        for target in config.TARGETS:
            parts = [step.predicted(target) for step in self.steps]
            known = [part for part in parts if part is not None]
            if parts and len(known) == len(parts):
                times[target] = sum(known)
        return times

    @property
    def interval(self) -> dict[str, tuple[float, float]]:
        """Seconds between which all steps are expected to take, for the generations of `predicted`."""
        ends: dict[str, tuple[float, float]] = {}
        known = self.predicted
        for target in config.TARGETS:
            parts = [step.interval(target) for step in self.steps]
            whole = sum(step.predicted(target) or 0.0 for step in self.steps)
            if target in known and whole:
                # a plan may take its steps more than once
                times = known[target] / whole
                ends[target] = (
                    times * sum(part[0] for part in parts if part is not None),
                    times * sum(part[1] for part in parts if part is not None),
                )
        return ends

    @property
    def predicted_text(self) -> str:
        """Predicted seconds and their intervals in words."""
        interval = self.interval
        return "  ".join(
            f"{target} {seconds(time)} ({seconds(interval[target][0])} to {seconds(interval[target][1])})"
            if target in interval
            else f"{target} {seconds(time)}"
            for target, time in self.predicted.items()
        )

    @property
    def programs(self) -> Programs | None:
        """Programs of the kernels of the plan on the configured generation; ``None`` where a step has none."""
        each_step = [step.programs(config.TARGET.get()) for step in self.steps]
        known = [programs for programs in each_step if programs is not None]
        if not known or len(known) < len(each_step):
            return None
        return Programs(
            launches=sum(each.programs for each in known),
            compilations=sum(each.compilations for each in known),
            instructions=sum(each.instructions for each in known),
            longest=max(each.longest[0] for each in known),
            most_matmuls=max(each.longest[1] for each in known),
            sbuf_bytes=max(each.on_chip[0] for each in known),
            psum_banks=max(each.on_chip[1] for each in known),
            remarks=tuple(dict.fromkeys(text for each in known for text in each.remarks)),
        )

    @property
    def error_bound(self) -> float | None:
        """Guaranteed relative error, where the plan is one step that states its own."""
        return self.steps[0].error_bound if len(self.steps) == 1 else None

    @property
    def nbytes(self) -> int:
        """Bytes the plan itself holds, for the cache. Plans that keep tables of data add theirs."""
        return 256 + 512 * len(self.steps)

    def __repr__(self) -> str:
        steps = "1 step" if len(self.steps) == 1 else f"{len(self.steps)} steps"
        return f"<{type(self).__name__} {self.op} on {self.backend}: {steps}, {quantity(self.flops, 'FLOP')}>"

    def _facts(self) -> str:
        return (
            f"{quantity(self.flops, 'FLOP')}, {quantity(self.bytes_read, 'B')} read, "
            f"{quantity(self.bytes_written, 'B')} written, peak {quantity(self.peak_bytes, 'B')}"
        )

    def _repr_html_(self) -> str:
        interval = self.interval
        times = [
            (target, seconds(time), " to ".join(map(seconds, interval.get(target, ()))))
            for target, time in self.predicted.items()
        ]
        steps = [(s.op, s.operands, s.runs_on, s.work) for s in self.steps]
        return notebook.fragment(
            f"{self.op} on {self.backend}",
            notebook.lines([self.reason, self._facts()]),
            notebook.table(("target", "predicted", "interval"), times)
            if times
            else notebook.lines(["Nothing is predicted: no kernel takes every step."]),
            notebook.table(("step", "operands", "runs on", "work"), steps),
        )

    def __str__(self) -> str:
        lines = [
            f"{self.op} on {self.backend}: {self.reason}",
            f"  {self._facts()}",
            f"  predicted: {self.predicted_text or 'nothing, no kernel takes every step'}",
        ]
        programs = self.programs
        if programs is not None and programs.launches:
            lines.append(f"  on {config.TARGET.get()}: {programs}")
        for number, step in enumerate(self.steps, 1):
            lines.append(f"  {number}. {step.op}  {step.operands}  {step.runs_on}  {step.work}")
        return "\n".join(lines)


def quantity(value: float, unit: str) -> str:
    """Three significant digits with an SI prefix: ``4.29 GFLOP``."""
    for prefix in ("", "k", "M", "G", "T"):
        if abs(value) < 999.5:
            return f"{value:.3g} {prefix}{unit}"
        value /= 1000
    return f"{value:.3g} P{unit}"


def seconds(value: float) -> str:
    """Three significant digits with the unit that suits: ``568 us``."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def plans() -> tuple[Plan, ...]:
    """Return the cached plans of the suite, least recently used first."""
    return tuple(kept for kept in CACHE.list() if isinstance(kept, Plan))


def clear_plans() -> None:
    """Forget every cached plan, and the tables of all."""
    CACHE.clear()
