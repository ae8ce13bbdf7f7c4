"""Plans and explanations of public functions, made by running them on shapes alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnsci import cuda, neuron
from trnsci.arrays import any_sharded
from trnsci.backends import SCOPE, Scope, entering, settings
from trnsci.caches import CACHE
from trnsci.execution import Decision, writer
from trnsci.memory import Live
from trnsci.ops import Op, Verdict
from trnsci.plans import Plan, Step
from trnsci.specs import HOST, TensorSpec, freeze, map_tensors, tensors_in, thaw
from trnsim import notebook


@dataclass(frozen=True, slots=True)
class CallExplanation:
    """The verdict of every implementation on one call of one op, and the choice with its reason."""

    op: str
    operands: str
    verdicts: tuple[Verdict, ...]
    chosen: str
    implementation: str
    reason: str

    def __str__(self) -> str:
        through = "" if self.implementation in (self.chosen, "nki") else f" through {self.implementation}"
        lines = [f"{self.op} {self.operands} runs on {self.chosen}{through}: {self.reason}"]
        lines += [f"  {v.name:<10} {'yes' if v.takes else f'no: {v.refusal}'}" for v in self.verdicts]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<CallExplanation {self.op} {self.operands} on {self.chosen}>"

    def _repr_html_(self) -> str:
        rows = [(v.name, "yes" if v.takes else "no", v.refusal or "") for v in self.verdicts]
        return notebook.fragment(
            f"{self.op} {self.operands} runs on {self.chosen}",
            notebook.lines([self.reason]),
            notebook.table(("implementation", "takes it", "why not"), rows),
        )


@dataclass(frozen=True, slots=True)
class Explanation:
    """Every op a function would call, in order. Indexed by name it gives the first refusal, if there is one."""

    calls: tuple[CallExplanation, ...]

    def __getitem__(self, name: str) -> Verdict:
        verdicts = [v for call in self.calls for v in call.verdicts if v.name == name]
        return next((v for v in verdicts if not v.takes), verdicts[0])

    def __str__(self) -> str:
        return "\n".join(map(str, self.calls))

    def __repr__(self) -> str:
        return f"<Explanation: {'; '.join(f'{call.op} on {call.chosen}' for call in self.calls) or 'no op'}>"

    def _repr_html_(self) -> str:
        return "".join(call._repr_html_() for call in self.calls)


class Recorder(Live):
    """Collects the steps of a function run on shapes alone, and the bytes alive at its worst moment."""

    def __init__(self, inputs: Iterable[Any], *, home: torch.device = HOST) -> None:
        super().__init__()
        self.home = home
        self.calls: list[Any] = []
        self.steps: list[Step] = []
        self.remarks: list[str] = []
        for tensor in inputs:
            self._note(tensor)

    def call(self, call: Any, out: Any = None) -> Any:
        """Note one step; its results, and operands that no step made, count as live until they are garbage."""
        # What a sparse matrix holds is no argument of the function, and comes to light here.
        for tensor in tensors_in(call):
            self._note(tensor)
        op, frozen = call._op, freeze(call, self.home)
        step = op.step(frozen, self.decide(op, frozen))
        self.calls.append(frozen)
        self.steps.append(step)
        written = 0 if out is not None and writer(call, step.implementation) is not None else step.cost.written
        self.peak = max(self.peak, self.live + written + step.cost.workspace)
        if out is not None:
            return out
        result = map_tensors(call.fake(), _fill_zeros)
        wanted = torch.is_grad_enabled() and any(spec.requires_grad for spec in tensors_in(frozen))
        for tensor in tensors_in(result):
            self._note(tensor)
            if wanted and (tensor.is_floating_point() or tensor.is_complex()):
                tensor.requires_grad_()
        return result

    def decide(self, op: Op, frozen: Any) -> Decision:
        """Return the decision on a call, or raise as the call itself would."""
        return op.decide(frozen)

    def _note(self, tensor: Any) -> None:
        # by its elements: what stands for a large result may share one zero
        self.note(tensor, freeze(tensor).nbytes)


class _Collector:
    """Collects the calls of a function run on shapes alone, and decides nothing."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def call(self, call: Any, out: Any = None) -> Any:
        """Note one call."""
        self.calls.append(freeze(call))
        return call.fake() if out is None else out


def collect_calls(function: Callable[..., object], *args: object) -> tuple[Any, ...]:
    """Return the frozen calls that a function makes for arguments without data."""
    collector = _Collector()
    with torch.no_grad(), entering(replace(SCOPE.get() or Scope(), interceptor=collector, ledgers=())):
        function(*args)
    return tuple(collector.calls)


def _fill_zeros(tensor: Tensor) -> Tensor:
    """Give a result that is not on shapes alone, as draws are not, values that checks may look at."""
    if tensor.is_meta:
        return tensor
    # a large one shares a single zero, so that a plan takes no memory
    return tensor.zero_() if tensor.numel() <= 1 << 20 else tensor.new_zeros(()).expand(tensor.shape)


def plan(function: Callable[..., object], *args: object, **kwargs: object) -> Plan:
    """Return what a call of a public function or op would do, without doing it.

    The function runs on shapes alone, so data that steers its control flow is not seen. Plans are cached by function,
    by arguments without their data, and by the backends asked for. With sharded arrays the answer is a
    `trnsci.distributed.ShardedPlan`, one plan for each rank.

    Example:
        >>> print(trnsci.plan(trnblas.gemm, 1.0, a, b))
    """
    if any_sharded([*args, *kwargs.values()], layouts=True):
        from trnsci import distributed

        return distributed.plan(function, *args, **kwargs)  # type: ignore[return-value]
    kind = getattr(function, "kind", function)
    if hasattr(kind, "_op"):
        return kind._op.plan(kind(*args, **kwargs))
    shapes = tuple(map(_key, args))
    named = tuple((name, _key(value)) for name, value in sorted(kwargs.items()))

    def build() -> Plan:
        recorder = trace(function, args, kwargs)
        remarks = tuple(dict.fromkeys(recorder.remarks))
        return Plan(op=_name(function), steps=tuple(recorder.steps), peak_bytes=recorder.peak, remarks=remarks)

    key = (function, shapes, named, settings(), neuron.why_no_device(), cuda.state())
    return CACHE.get(key, build) if _hashable(key) else build()


def _hashable(key: Hashable) -> bool:
    try:
        hash(key)
    except TypeError:
        # an operand of another kind, such as blocks in a dictionary
        return False
    return True


def home() -> torch.device | None:
    """Return the device that tensors stand for in the plan in the making; ``None`` where there is none."""
    scope = SCOPE.get()
    return None if scope is None else getattr(scope.interceptor, "home", None)


def remark(text: str) -> None:
    """Tell the plan or the prediction in the making, if there is one, what it should say of itself.

    That is a choice that a function takes before it calls an op, or what a kernel does depending on data.
    """
    scope = SCOPE.get()
    remarks = None if scope is None else getattr(scope.interceptor, "remarks", None)
    if remarks is not None:
        remarks.append(text)


def explain(function: Callable[..., object], *args: object, **kwargs: object) -> Explanation:
    """Return, for every op a call would run, which implementations take it and why the others do not."""
    kind = getattr(function, "kind", function)
    if hasattr(kind, "_op"):
        return Explanation((_explain_call(freeze(kind(*args, **kwargs))),))
    recorder = trace(function, args, kwargs, recorder=Undecided)
    return Explanation(tuple(map(_explain_call, recorder.calls)))


def _explain_call(call: Any) -> CallExplanation:
    verdicts, decision = call._op.verdicts(call)
    operands = " ".join(str(spec) for spec in tensors_in(call))
    return CallExplanation(call._op.name, operands, verdicts, *decision)


class Undecided(Recorder):
    """Records calls that no implementation may take, too."""

    def decide(self, op: Op, frozen: Any) -> Decision:
        return Decision("", "pytorch", "")


def trace(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, recorder: type[Recorder] = Recorder
) -> Recorder:
    """Run a function on shapes alone and return what it would have done. Its argument checks run for real."""
    home = next((x.device for x in tensors_in([*args, *kwargs.values()]) if not x.is_meta), HOST)
    shapes = [_shape_only(value) for value in args]
    named = {name: _shape_only(value) for name, value in kwargs.items()}
    inputs = (x for x in tensors_in([shapes, list(named.values())]) if not _sparse(x))
    recording = recorder(inputs, home=home)
    with entering(replace(SCOPE.get() or Scope(), interceptor=recording)):
        function(*shapes, **named)
    return recording


def _shape_only(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        spec = TensorSpec(value.shape, torch.from_numpy(np.empty(0, value.dtype)).dtype)
        return spec.meta()
    return thaw(freeze(value)) if not _sparse(value) and any(True for _ in tensors_in(value)) else value


def _sparse(value: Any) -> bool:
    """Return whether this is a sparse tensor of torch's: it keeps its pattern, as those of trnsparse and SciPy do."""
    return isinstance(value, Tensor) and value.layout is not torch.strided


def _key(value: Any) -> Any:
    return value if _sparse(value) else freeze(_shape_only(value))


def _name(function: Callable[..., Any]) -> str:
    module = getattr(function, "__module__", "").split(".")[0]
    return f"{module}.{getattr(function, '__name__', repr(function))}"
