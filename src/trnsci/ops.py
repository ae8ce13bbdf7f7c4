"""The op is a class, a call is an instance of it: `op` registers the class, `run` carries a call to its result.

A call class is a ``NamedTuple``. Its annotated fields are the ``torch.library`` schema. Its methods are all there is to
know about the op:

| method | |
|---|---|
| ``fake()`` | the result on shapes alone, made with ``new_empty`` |
| ``cost()`` | FLOPs, or a whole `Cost`; given FLOPs, operands are read and results written once |
| ``pytorch()`` | the definition, on any torch device |
| ``host()``, ``cuda()`` | NumPy or SciPy on CPU tensors, a GPU's own libraries on CUDA tensors, where they pay |
| ``nki()`` | the kernel, on Trainium and on the simulator |
| ``limits(implementation)`` | why an implementation refuses this call, or ``None``; it never raises |
| ``calls(implementation)`` | what ``host`` and ``cuda`` call, for plans, unless `op` says: ``scipy.linalg.expm`` |
| ``compiles()`` | what the first call of ``cuda`` compiles, as a key, and about how many seconds that takes |
| ``bound(implementation)`` | the guaranteed error; the op's page says relative to what |
| ``workspace(implementation)`` | bytes needed beyond operands and result |
| ``into(out)``, ``host_into(out)`` | the definition, or what ``host`` does, written into given memory |
| ``vjp(grad, needs)`` | gradients by field, written with public functions; see `trnsci.gradient.saves` |
| ``prediction()`` | what to launch for a prediction, where ``nki`` needs data and not just shapes |
| ``iterations()`` | the most that an op that iterates takes; ``cost`` and ``workspace`` are then of one of them |
| ``operands()`` | the tensors of an ``eager`` op, where that is quicker than a look through all that its fields hold |
| ``chunk()`` | how many of these ``prediction`` launches, unless it is one |

Only ``fake``, ``cost`` and one implementation are required. `freeze` of a call is the same class over `TensorSpec`, as
plans, ledgers and caches hold it, so ``limits`` reads nothing of a tensor that `TensorSpec` does not have.
"""

from __future__ import annotations

import functools
import importlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from torch.nn import Parameter

from trnsci import backends, cuda, host, neuron, predict
from trnsci.backends import SCOPE
from trnsci.caches import CACHE
from trnsci.config import TargetName
from trnsci.errors import BackendUnavailable, UnsupportedError
from trnsci.execution import Decision, as_promised, compute_call, copy_out, lazy_conjugates, promise, unrecorded_views
from trnsci.gradient import Gradient
from trnsci.isolation import ISOLATED, is_disturbed, isolating
from trnsci.kernel_launcher import launcher
from trnsci.ledger import EVERYWHERE, Entry, nesting, record
from trnsci.planar import on_host
from trnsci.plans import Cost, Plan, Step
from trnsci.schema import schema
from trnsci.specs import freeze, tensors_in, thaw
from trnsci.torch_internals import dispatch_modes, mark_constant

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")
C = TypeVar("C", bound=type)

# In order of preference on the backend ``pytorch``: the first that does not refuse runs.
ON_PYTORCH = ("cuda", "host", "pytorch")


class Call(Protocol[R_co]):
    """An instance of a class that `op` has registered."""

    def fake(self) -> R_co:
        """Return the result on shapes alone."""

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the fields."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether one implementation takes a call; ``refusal`` says why not. ``nki`` stands once per backend it serves."""

    backend: str
    implementation: str
    refusal: str | None

    @property
    def name(self) -> str:
        """Its name in tables: the backend of a kernel, the implementation elsewhere."""
        return self.backend if self.implementation == "nki" else self.implementation

    @property
    def takes(self) -> bool:
        """Whether it would run the call."""
        return self.refusal is None


def run(call: Call[R], out: Tensor | None = None) -> R:
    """Decide where a call runs, run it there, and record it in open ledgers.

    Args:
        call: the checked call.
        out: memory for the result, which is then returned: written by ``into`` where PyTorch runs, by a copy elsewhere.
    """
    if is_dynamo_compiling():
        return copy_out(_traceable(call), out)
    if is_disturbed():
        with isolating():
            return run(call, out)
    op: Op = call._op  # type: ignore[attr-defined]
    if dispatch_modes() and _is_traced(call):
        return copy_out(_choose_operator(call)(*call), out)
    scope = SCOPE.get()
    if scope is not None and scope.interceptor is not None:
        return scope.interceptor.call(call, out)
    if op.is_placed(call, "is_meta"):
        return copy_out(op.registered(*call), out)
    if op.host_only is not None and _device_of(call) == "neuron":
        return copy_out(on_host(lambda *fields: run(type(call)(*fields)), tuple(call), {}), out)
    decision = op.decide(call)
    # Torch would differentiate what it follows with the settings of the backward pass; the op's own rule is isolated.
    attached = decision.implementation in op.attached or (op.differentiable and ISOLATED.get())
    if attached and op.dispatches(call, decision.implementation):
        # Torch's dispatcher attaches the gradient and shows the call to modes; it comes back through `run_from_torch`.
        token = _DECIDED.set(decision)
        try:
            return copy_out(op.registered(*call), out)
        finally:
            _DECIDED.reset(token)
    return op.execute(call, decision, out)


def _traceable(call: Any) -> Any:
    """Return what a tracer follows: the registered operator, or the definition. Attributes of the class decide."""
    return call.pytorch() if call._follows else _choose_operator(call)(*call)


def _choose_operator(call: Any) -> Any:
    """Return the operator of a call in a graph: on torch's device ``neuron`` the one that its compiler knows."""
    is_native = _device_of(call) == "neuron" and _register_with_neuron()
    return call._compiled if is_native and call._compiled is not None else call._registered


def _device_of(call: Any) -> str:
    """Return the kind of device that operands, or without any the result, are on."""
    device = next((x.device for x in tensors_in(tuple(call))), getattr(call, "device", None))
    return "cpu" if device is None else device.type


@mark_constant
def _register_with_neuron() -> bool:
    """Register every op with torch-neuronx, once; return whether it has a way to."""
    # it follows the kernels of ops
    return bool(importlib.import_module("trnsci.neuron_operators").register_compiled_operators())


_DECIDED: ContextVar[Decision | None] = ContextVar("trnsci.decided", default=None)


def op(
    name: str,
    *,
    host_only: str | None = None,
    traceable: bool = False,
    composed: bool = False,
    eager: bool = False,
    calls: str | Mapping[str, str] | None = None,
) -> Callable[[C], C]:
    """Register a call class as the op ``name``, ``library::stem``.

    Args:
        name: the full name.
        host_only: why it runs on the host by nature, also in a block that admits one backend only.
        traceable: a tracer may follow ``pytorch`` itself.
        composed: ``pytorch`` calls functions that have kernels, and so is ``nki`` as well.
        eager: its steps depend on data and its fields hold functions (`trnsci.specs.Opaque`): torch's dispatcher does
            not know it, and gradients are those of what ``pytorch`` calls.
        calls: what ``host`` and ``cuda`` call, whatever the arguments are; by implementation where there are both.
    """

    def register(kind: C) -> C:
        if composed:
            kind.nki = kind.pytorch  # type: ignore[attr-defined]
        if calls is not None:
            names = {"host": calls, "cuda": calls} if isinstance(calls, str) else calls
            kind.calls = lambda self, implementation: names[implementation]  # type: ignore[attr-defined]
        signature = None if eager else schema(kind)
        kind._op = Op(kind, name, signature, host_only=host_only, traceable=traceable)  # type: ignore[attr-defined]
        return kind

    return register


# The threads of a product do not survive a fork, and GNU's OpenMP would wait for them: a fork computes with one.
os.register_at_fork(after_in_child=functools.partial(torch.set_num_threads, 1))

_OPS: dict[str, Op] = {}


@functools.cache
def _namespace(name: str) -> Any:
    """Return the ``torch.library`` fragment of a library; torch leaves its methods untyped."""
    return torch.library.Library(name, "FRAGMENT")


class Op:
    """Entry of a call class in the runtime: its name, library, implementations and registration with torch."""

    def __init__(
        self, kind: Any, name: str, signature: str | None, *, host_only: str | None = None, traceable: bool = False
    ) -> None:
        namespace, stem = name.split("::")
        self.kind = kind
        self.name = name
        self.host_only = host_only
        self._by_nature = f"on the host whatever the backend: {host_only}"
        self.library = backends.library(namespace)
        self.eager = signature is None
        self._read_methods()
        self.registered: Callable[..., Any] = self.run_from_torch
        # Where tensors stand in a call, unless lists hold some.
        self._positions: tuple[int, ...] = ()
        if signature is not None:
            kinds = [part.split()[0].lstrip("(") for part in signature.partition(") -> ")[0].split(", ")]
            self._positions = tuple(i for i, k in enumerate(kinds) if k.startswith("Tensor"))
            self._nested = any(k.startswith("Tensor[") for k in kinds)
            self._register(_namespace(namespace), stem, signature)
        self._first = next(iter(self._positions), None)
        kind._registered, kind._compiled, kind._follows = self.registered, None, traceable or self.eager
        _OPS[name] = self

    def _register(self, namespace: Any, stem: str, signature: str) -> None:
        """Tell torch of the op: its schema, its shapes and its gradient."""
        namespace.define(stem + signature)
        namespace.impl(stem, self.run_from_torch, "CompositeExplicitAutograd")
        torch.library.register_fake(self.name, lambda *args: self.kind(*args).fake(), lib=namespace)
        self.registered = getattr(getattr(torch.ops, namespace.ns), stem).default
        if self.differentiable:
            gradient = Gradient(self.kind)
            torch.library.register_autograd(self.name, gradient.backward, setup_context=gradient.setup, lib=namespace)

    def _read_methods(self) -> None:
        """Set what depends on which methods the class has."""
        self.on_pytorch = tuple(name for name in ON_PYTORCH if hasattr(self.kind, name))
        self.limited = hasattr(self.kind, "limits")
        # One implementation without limits: there is nothing to ask.
        self._only = "pytorch" if self.on_pytorch == ("pytorch",) and not self.limited else None
        self.differentiable = hasattr(self.kind, "vjp")
        rule = getattr(self.kind, "vjp", None)
        self.host_vjp: bool = getattr(rule, "__host__", False)
        # Implementations whose gradient is the rule's; torch follows the others, or they refuse.
        named = {"host": self.host_vjp, "cuda": self.differentiable and getattr(rule, "__cuda__", True)}
        named["pytorch"] = getattr(rule, "__pytorch__", False)
        # torch follows all that an eager op calls
        self.attached = frozenset(["nki", *(name for name, holds in named.items() if holds)] * (not self.eager))

    def __repr__(self) -> str:
        return f"Op({self.name!r})"

    def operands(self, call: Any) -> Iterable[Any]:
        """Return the tensors, or the specs, of a call."""
        if self.eager:
            return call.operands() if hasattr(call, "operands") else tensors_in(call)
        fields = [x for i in self._positions if (x := call[i]) is not None]
        return fields if not self._nested else [y for x in fields for y in (x if isinstance(x, list | tuple) else (x,))]

    def is_placed(self, call: Any, kind: Literal["is_meta", "is_cuda"]) -> bool:
        """Return whether operands, which are all on one device, or without any the result, are of a kind."""
        if self.eager:
            # what has no data was refused, or is planned
            return False
        if self._first is None:
            device = getattr(call, "device", None)
            return device is not None and f"is_{device.type}" == kind
        first = call[self._first]
        if self._nested and isinstance(first, list | tuple):
            first = first[0] if first else None
        return first is not None and bool(getattr(first, kind))

    def dispatches(self, call: Any, implementation: str) -> bool:
        """Return whether torch's dispatcher runs an attached implementation: for a gradient, or to show it to modes."""
        if implementation == "pytorch":
            return _wants_gradient(self.operands(call)) and not host.is_transformed()
        return bool(dispatch_modes()) or _wants_gradient(self.operands(call))

    def run_from_torch(self, *args: Any) -> Any:
        """Execute a call that comes from torch's dispatcher: as decided before, or at the run time of a traced call."""
        call, decision = self.kind(*args), _DECIDED.get()
        if self._first is None and self.is_placed(call, "is_meta"):
            # without operands torch does not see that there is no data
            return call.fake()
        # What the implementation calls decides for itself.
        _DECIDED.set(None)
        with lazy_conjugates(), unrecorded_views():
            result = self.execute(call, decision or self.decide(call))
            if self.eager:
                return result
            return as_promised(result, promise(freeze(call)), args)

    def execute(self, call: Any, decision: Decision, out: Tensor | None = None) -> Any:
        """Run the implementation decided on, and record it in open ledgers."""
        used = launcher(decision.backend) if decision.implementation == "nki" else None
        scope = SCOPE.get()
        if not EVERYWHERE and (scope is None or not scope.ledgers):
            return compute_call(call, decision, used, out)
        with nesting() as depth:
            start, before = time.perf_counter(), time.thread_time()
            result = compute_call(call, decision, used, out)
            if used is not None:
                used.wait()
            elif any(tensor.is_cuda for tensor in tensors_in(result)):
                torch.cuda.synchronize()
            measured, spent = time.perf_counter() - start, time.thread_time() - before
        moved = (used.bytes_to_device, used.bytes_from_device) if used else (0, 0)
        record(Entry(self.step(call, decision), measured, *moved, depth, getattr(result, "products", 0), spent))
        return result

    def refusal(self, call: Any, implementation: str) -> str | None:
        """Return why an implementation cannot take a call on any machine, or ``None``."""
        if not hasattr(self.kind, implementation):
            if self.host_only is not None:
                return self.host_only
            return "has no NKI kernel" if implementation == "nki" else "has no PyTorch implementation"
        return self._reason_against(call, implementation)

    def _reason_against(self, call: Any, implementation: str) -> str | None:
        """Return why an implementation that there is cannot take a call, or ``None``."""
        refused = cuda.refusal(self.operands(call), recorded=self.differentiable) if implementation == "cuda" else None
        if refused is None and self.limited:
            refused = call.limits(implementation)
        if refused is None and implementation == "host":
            return host.refusal(self.operands(call), recorded=self.host_vjp)
        if refused is not None or implementation != "nki" or self.eager:
            return refused
        if not self.differentiable and _wants_gradient(self.operands(call)):
            return "its kernel has no gradient rule, and an operand requires grad"
        if host.is_transformed():
            return "torch.func does not see into kernels; torch.autograd differentiates through them"
        return None

    def _refusal_here(self, call: Any, backend: str, implementation: str) -> str | None:
        """Return why an implementation cannot take a call on a backend of this machine, or ``None``."""
        if backend == "nki" and neuron.device() is None:
            return neuron.why_no_device()
        refused = self.refusal(call, implementation)
        device = neuron.device() if refused is None and backend == "nki" else None
        return refused if device is None else predict.obstacle(freeze(call), device.target)

    def _on_pytorch(self, call: Any) -> tuple[str | None, str | None]:
        """Return the implementation that PyTorch's backend would run, or why there is none."""
        if self._only is not None:
            return self._only, None
        refused: str | None = "has no PyTorch implementation"
        asked = self.on_pytorch
        if asked[:1] == ("cuda",) and not self.is_placed(call, "is_cuda"):
            asked = asked[1:] or asked
        for name in asked:
            refused = self._reason_against(call, name)
            if refused is None:
                return name, None
        return None, refused

    def decide(self, call: Any) -> Decision:
        """Return the one implementation that runs this call here and now, and why; raise when none may."""
        choice = self.library.choice()
        by_nature = self.host_only is not None and not choice.required
        if by_nature or choice.name == "auto":
            device, reason = (None, self._by_nature) if by_nature else neuron.find_device()
            if device is not None:
                return self._on_either(call, device)
            chosen, _ = self._on_pytorch(call)
            if chosen is None:
                raise self._unsupported_error(
                    call, "" if by_nature else 'Ask for backend "simulator" to run its kernel here'
                )
            return _on_pytorch(chosen, reason)
        if choice.name == "pytorch":
            chosen, _ = self._on_pytorch(call)
            if chosen is None:
                raise self._unsupported_error(call, f"{choice.source} admits {choice.name} only")
            return Decision("pytorch", chosen, choice.source)
        if choice.name == "nki" and choice.strict and neuron.device() is None:
            # Raises the error that says how to get a device.
            launcher("nki")
        refused = self._refusal_here(call, choice.name, "nki")
        if refused is None:
            return Decision(choice.name, "nki", choice.source)
        fallback = None if choice.strict else self._on_pytorch(call)[0]
        if fallback is None:
            raise self._unsupported_error(call, f"{choice.source} admits {choice.name} only" if choice.strict else "")
        return Decision("pytorch", fallback, f"{choice.source}, but {choice.name} refuses: {refused}")

    def _on_either(self, call: Any, device: neuron.Device) -> Decision:
        chosen, host_refuses = self._on_pytorch(call)
        device_refuses = self.refusal(call, "nki")
        if chosen is not None and device_refuses is None:
            backend, reason = predict.cheaper(freeze(call), self.cost(call), device.target)
            return Decision(backend, "nki" if backend == "nki" else chosen, reason)
        if chosen is not None:
            return Decision("pytorch", chosen, f"nki refuses: {device_refuses}")
        if self._refusal_here(call, "nki", "nki") is None:
            return Decision("nki", "nki", f"pytorch refuses: {host_refuses}")
        raise self._unsupported_error(call, "")

    def _unsupported_error(self, call: Any, hint: str) -> UnsupportedError:
        reasons = [(verdict.name, verdict.refusal or "takes it") for verdict in self._verdicts(call)]
        return UnsupportedError(self.name, reasons, hint=hint)

    def _verdicts(self, call: Any) -> tuple[Verdict, ...]:
        rows = [("nki", "nki"), ("simulator", "nki"), *(("pytorch", name) for name in self.on_pytorch)]
        if not self.on_pytorch:
            rows.append(("pytorch", "pytorch"))
        return tuple(Verdict(*row, self._refusal_here(call, *row)) for row in rows)

    def verdicts(self, call: Any) -> tuple[tuple[Verdict, ...], Decision]:
        """Return the verdict of every implementation, and the decision; its backend is ``none`` where none may run."""
        try:
            decision = self.decide(call)
        except (UnsupportedError, BackendUnavailable) as error:
            decision = Decision("none", "none", str(error))
        return self._verdicts(call), decision

    def cost(self, call: Any) -> Cost:
        """Return FLOPs and bytes of a call."""
        frozen = freeze(call)
        shapes = thaw(frozen)
        cost: int | Cost = shapes.cost()
        if isinstance(cost, Cost):
            return cost
        result = freeze(shapes.fake())
        return Cost(cost, sum(x.nbytes for x in tensors_in(frozen)), sum(x.nbytes for x in tensors_in(result)))

    def error_bound(self, call: Any, implementation: str | None = None) -> float | None:
        """Return the error an implementation guarantees, by default the one that would run; ``None`` if unstated."""
        if not hasattr(self.kind, "bound"):
            return None
        bound: float = call.bound(implementation or self.decide(call).implementation)
        return bound

    def calls(self, call: Any, implementation: str) -> str:
        """Return what an implementation calls, for plans."""
        if implementation in ("host", "cuda"):
            return str(call.calls(implementation))
        return f"{self.name.replace('::', '.kernels.')}" if implementation == "nki" else "torch"

    def step(self, call: Any, decision: Decision) -> Step:
        """Return one call as a step of a plan."""
        cost = self.cost(call)
        if hasattr(self.kind, "workspace"):
            cost = cost._replace(workspace=call.workspace(decision.implementation))
        return Step(
            op=self.name,
            call=freeze(call),
            cost=cost,
            backend=decision.backend,
            implementation=decision.implementation,
            calls=self.calls(call, decision.implementation),
            reason=_reason(call, decision),
            iterations=call.iterations() if hasattr(self.kind, "iterations") else None,
        )

    def plan(self, call: Any) -> Plan:
        """Return the plan of one call: cached by the call without its data, and by the backend asked for."""

        def build() -> Plan:
            step = self.step(call, self.decide(call))
            return Plan(op=self.name, steps=(step,), peak_bytes=sum(step.cost[1:]))

        return CACHE.get((freeze(call), self.name, self.library.choice(), neuron.why_no_device(), cuda.state()), build)

    def programs(self, call: Any, target: TargetName) -> predict.Prediction | None:
        """Return launches, distinct programs and their sizes for a frozen call; ``None`` where no kernel takes it."""
        return predict.prediction(call, target)

    def predicted(self, call: Any, target: TargetName) -> float | None:
        """Return predicted seconds of a frozen call's kernels on a generation; ``None`` where none takes it."""
        return predict.device_seconds(call, target)


@functools.cache
def _on_pytorch(implementation: str, reason: str) -> Decision:
    """Return the few decisions that most calls make."""
    return Decision("pytorch", implementation, reason)


def _reason(call: Any, decision: Decision) -> str:
    """Return why this implementation, and what its first call does before it starts."""
    first = cuda.first_call(call) if decision.implementation == "cuda" else ""
    return f"{decision.reason}; {first}" if first else decision.reason


def _wants_gradient(operands: Iterable[Any]) -> bool:
    if torch.is_grad_enabled():
        for tensor in operands:
            if tensor.requires_grad:
                return True
    return False


def _is_traced(call: Iterable[Any]) -> bool:
    """Return whether a tracer's tensors are among the operands, as in the backward pass of a compiled function."""
    return any(type(tensor) not in (Tensor, Parameter) for tensor in tensors_in(call))


def definition(call: Any) -> Op:
    """Return the op of a call, or of a call class."""
    result: Op = call._op
    return result


def find(name: str) -> Op:
    """Return an op by its full name, ``trnblas::gemm``."""
    return _OPS[name]


def all_ops() -> tuple[Op, ...]:
    """Return every op defined so far, in order of definition."""
    return tuple(_OPS.values())
