"""`Op`: a named operation with its implementations, cost, gradient and registration with PyTorch, in one place.

Eager calls go straight to an implementation. Calls traced by ``torch.compile``, and kernel calls that need a gradient,
go through the operator registered with ``torch.library``; its fake implementation and gradient rule are the op's own.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch._C import _len_torch_dispatch_stack as dispatch_modes
from torch.compiler import is_compiling
from torch.nn import Parameter

from trnsci import backends, neuron, predict
from trnsci.backends import SCOPE
from trnsci.errors import BackendUnavailable, UnsupportedError
from trnsci.gradient import Gradient, Rule
from trnsci.launcher import Launcher, launcher, using
from trnsci.ledger import EVERYWHERE, Entry, listeners, nested, record
from trnsci.plans import CACHE, Cost, Plan, Step
from trnsci.specs import freeze, tensors_in, thaw

P = ParamSpec("P")
R = TypeVar("R")
Limits = Callable[..., str | None]

RUNNABLE = ("nki", "simulator", "pytorch")


@dataclass(frozen=True, slots=True)
class Implementation:
    """One way to compute an op. ``limits`` returns why it refuses a call, or ``None``; it never raises."""

    fn: Callable[..., Any]
    dtypes: tuple[torch.dtype, ...] | None
    limits: Limits | None

    def refusal(self, args: Iterable[Any]) -> str | None:
        """Return why this implementation cannot take a call, or ``None``."""
        if self.dtypes is not None:
            for tensor in tensors_in(args):
                if tensor.dtype not in self.dtypes:
                    accepted = ", ".join(_name(dtype) for dtype in self.dtypes)
                    return f"takes {accepted}, not {_name(tensor.dtype)}"
        return None if self.limits is None else self.limits(*args)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether one backend takes a call; ``refusal`` says why not."""

    backend: str
    refusal: str | None

    @property
    def takes(self) -> bool:
        """Whether it would run the call."""
        return self.refusal is None


_OPS: dict[str, Op[Any, Any]] = {}


@functools.cache
def _namespace(name: str) -> Any:
    """The ``torch.library`` fragment of a library; torch leaves its methods untyped."""
    return torch.library.Library(name, "FRAGMENT")


class Op(Generic[P, R]):
    """A named operation.

    Args:
        name: ``library::stem``, for example ``trnblas::gemm``.
        fake: the op on shapes alone: returns empty tensors (``a.new_empty(...)``). Its annotations are the signature.
        cost: FLOPs of a call, or a whole `Cost`. Given FLOPs alone, operands are read and results written once.
        schema: the ``torch.library`` schema, where annotations cannot express it.
    """

    def __init__(
        self, name: str, *, fake: Callable[P, R], cost: Callable[P, int | Cost], schema: str | None = None
    ) -> None:
        namespace, stem = name.split("::")
        self.name = name
        self.library = backends.library(namespace)
        self.parameters = tuple(inspect.signature(fake).parameters)
        self.differentiable = False
        self.fake: Callable[..., Any] = fake
        self._cost: Callable[..., int | Cost] = cost
        self._implementations: dict[str, Implementation] = {}
        self._pytorch: Callable[..., Any] | None = None
        self._pytorch_limits: Limits | None = None
        self._into: Callable[..., Any] | None = None
        self._prediction: Callable[..., Any] | None = None
        self._bound: Callable[..., float] | None = None
        self._workspace: Callable[..., int] | None = None
        self._namespace = _namespace(namespace)
        self._namespace.define(stem + (schema or torch.library.infer_schema(fake, mutates_args=())))
        self._namespace.impl(stem, self._execute, "CompositeExplicitAutograd")
        torch.library.register_fake(name, fake, lib=self._namespace)
        self._registered = getattr(getattr(torch.ops, namespace), stem).default
        _OPS[name] = self

    def __repr__(self) -> str:
        return f"Op({self.name!r})"

    def impl(
        self, name: str, *, dtypes: Iterable[torch.dtype] | None = None, limits: Limits | None = None
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Attach an implementation: ``pytorch``, or ``nki``, which serves the backends ``simulator`` and ``nki``.

        Args:
            name: ``pytorch`` or ``nki``.
            dtypes: the dtypes every tensor operand must have one of.
            limits: called with the op's arguments; returns why it cannot take them, or ``None``. It must not raise.
        """

        def attach(fn: Callable[P, R]) -> Callable[P, R]:
            self._implementations[name] = Implementation(fn, None if dtypes is None else tuple(dtypes), limits)
            if name == "pytorch" and dtypes is None:
                self._pytorch, self._pytorch_limits = fn, limits
            return fn

        return attach

    def into(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Attach a PyTorch implementation that writes into memory it is given: ``fn(out, *args)``. See `write`."""
        self._into = fn
        return fn

    def prediction(self, fn: Callable[P, Any]) -> Callable[P, Any]:
        """Attach what to launch for a prediction, where the ``nki`` implementation needs data, not just shapes."""
        self._prediction = fn
        return fn

    def bound(self, fn: Callable[..., float]) -> Callable[..., float]:
        """Attach the guaranteed error, ``fn(backend, *args)``; the op's documentation says relative to what."""
        self._bound = fn
        return fn

    def error_bound(self, args: tuple[Any, ...], backend: str | None = None) -> float | None:
        """Return the error guaranteed for a call on a backend, or where it would run; ``None`` where none is stated."""
        return None if self._bound is None else self._bound(backend or self.decide(args)[0], *args)

    def workspace(self, fn: Callable[..., int]) -> Callable[..., int]:
        """Attach the bytes a backend needs beyond operands and result, ``fn(backend, *args)``, where they differ."""
        self._workspace = fn
        return fn

    def vjp(self, *, saves: Iterable[str] | None = None) -> Callable[[Rule], Rule]:
        """Attach the gradient rule: ``rule(saved, *grads)`` returns gradients by argument name.

        The rule is written with public functions, so that it runs on the backend of the forward call and can be
        differentiated again. PyTorch implementations do not need it in eager mode: torch differentiates through them.

        Args:
            saves: the tensors the rule reads, arguments or ``result``; by default every argument.
        """
        kept = frozenset(self.parameters if saves is None else saves)

        def attach(rule: Rule) -> Rule:
            gradient = Gradient(self.parameters, rule, kept)
            torch.library.register_autograd(
                self.name, gradient.backward, setup_context=gradient.setup, lib=self._namespace
            )
            self.differentiable = True
            return rule

        return attach

    def straight(self) -> bool:
        """Whether a call here and now needs no decision, no record and no trace: PyTorch runs it at once."""
        if not self.library.direct or EVERYWHERE or SCOPE.get() is not None:
            return False
        return not dispatch_modes() and not is_compiling()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if is_compiling() or (dispatch_modes() and _traced(args)):
            return self._registered(*args, **kwargs)
        if self.library.direct and SCOPE.get() is None and not EVERYWHERE and self._pytorch is not None:
            limits = self._pytorch_limits
            if limits is None or limits(*args, **kwargs) is None:
                return self._pytorch(*args, **kwargs)
        return self._dispatch(self._positional(args, kwargs))

    def write(self, out: Tensor, *args: P.args, **kwargs: P.kwargs) -> Tensor:
        """Compute into ``out`` and return it: in place where the op has a function for that, by a copy elsewhere."""
        values = self._positional(args, kwargs)
        into = self._into
        if into is not None and not is_compiling() and not _intercepted():
            backend, reason = self.decide(values)
            if backend == "pytorch":
                self._run(backend, reason, values, lambda: into(out, *values))
                return out
        out.copy_(self(*args, **kwargs))  # type: ignore[arg-type]
        return out

    def _positional(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        return (*args, *(kwargs[name] for name in self.parameters[len(args) :])) if kwargs else args

    def _dispatch(self, args: tuple[Any, ...]) -> Any:
        scope = SCOPE.get()
        if scope is not None and scope.interceptor is not None:
            return scope.interceptor.call(self, args)
        if self.library.direct is None:
            self.library.direct = _is_pytorch(self.library.outside_blocks())
        if self.decide(args)[0] != "pytorch" and _needs_dispatcher(args):
            return self._registered(*args)
        return self._execute(*args)

    def _execute(self, *args: Any) -> Any:
        backend, reason = self.decide(args)
        fn = self._implementations["pytorch" if backend == "pytorch" else "nki"].fn
        if backend == "pytorch":
            return self._run(backend, reason, args, lambda: fn(*args))
        with using(launcher(backend)) as used:
            return self._run(backend, reason, args, lambda: fn(*args), used)

    def _run(
        self, backend: str, reason: str, args: tuple[Any, ...], work: Callable[[], Any], used: Launcher | None = None
    ) -> Any:
        if not listeners():
            return work()
        with nested() as depth:
            start = time.perf_counter()
            result = work()
            if used is not None:
                used.wait()
            elif any(tensor.is_cuda for tensor in tensors_in(result)):
                torch.cuda.synchronize()
            measured = time.perf_counter() - start
        moved = (used.bytes_to_device, used.bytes_from_device) if used else (0, 0)
        record(Entry(self.step(args, backend, reason), measured, *moved, depth))
        return result

    def refusal(self, backend: str, args: Iterable[Any]) -> str | None:
        """Return why a backend cannot take a call on any machine, or ``None``."""
        implementation = self._implementations.get("pytorch" if backend == "pytorch" else "nki")
        if implementation is None:
            return "has no PyTorch implementation" if backend == "pytorch" else "has no NKI kernel"
        if backend != "pytorch":
            if not self.differentiable and _wants_gradient(args):
                return "its kernel has no gradient rule, and an operand requires grad"
            if _transformed():
                return "torch.func does not see into kernels; torch.autograd differentiates through them"
        return implementation.refusal(args)

    def predict(self, *args: Any) -> Any:
        """Run what a prediction runs: the function given to `prediction`, else the ``nki`` implementation."""
        if self._prediction is None:
            return self._implementations["nki"].fn(*args)
        self._prediction(*args)
        return self.fake(*args)

    def _verdict(self, backend: str, args: tuple[Any, ...]) -> str | None:
        """Why a backend cannot take a call on this machine, or ``None``."""
        if backend == "nki" and neuron.device() is None:
            return neuron.why_no_device()
        return self.refusal(backend, args)

    def decide(self, args: tuple[Any, ...]) -> tuple[str, str]:
        """Return the one backend that runs this call here and now, and why; raise when none may."""
        choice = self.library.choice()
        if choice.name == "auto":
            return self._automatic(args)
        if choice.name == "nki" and choice.strict and neuron.device() is None:
            # Raises the error that says how to get a device.
            launcher("nki")
        refused = self._verdict(choice.name, args)
        if refused is None:
            return choice.name, choice.source
        if choice.strict or choice.name == "pytorch" or self.refusal("pytorch", args) is not None:
            raise self._unsupported(args, f"{choice.source} admits {choice.name} only" if choice.strict else "")
        return "pytorch", f"{choice.source}, but {choice.name} refuses: {refused}"

    def _automatic(self, args: tuple[Any, ...]) -> tuple[str, str]:
        device = neuron.device()
        host_refuses = self.refusal("pytorch", args)
        if device is None:
            if host_refuses is not None:
                raise self._unsupported(args, 'Ask for backend "simulator" to run its kernel here')
            return "pytorch", neuron.why_no_device()
        device_refuses = self.refusal("nki", args)
        if host_refuses is None and device_refuses is None:
            return predict.cheaper(self.name, freeze(args), self.cost(*args), device.target)
        if host_refuses is None:
            return "pytorch", f"nki refuses: {device_refuses}"
        if device_refuses is None:
            return "nki", f"pytorch refuses: {host_refuses}"
        raise self._unsupported(args, "")

    def _unsupported(self, args: tuple[Any, ...], hint: str) -> UnsupportedError:
        reasons = [(name, self._verdict(name, args) or "takes it") for name in RUNNABLE]
        return UnsupportedError(op=self.name, reasons=reasons, hint=hint)

    def cost(self, *args: Any) -> Cost:
        """Return FLOPs and bytes of a call."""
        cost = self._cost(*args)
        if isinstance(cost, Cost):
            return cost
        frozen = freeze(args)
        result = freeze(self.fake(*thaw(frozen)))
        return Cost(cost, sum(x.nbytes for x in tensors_in(frozen)), sum(x.nbytes for x in tensors_in(result)))

    def step(self, args: tuple[Any, ...], backend: str, reason: str) -> Step:
        """Return one call as a step of a plan."""
        cost = self.cost(*args)
        if self._workspace is not None:
            cost = cost._replace(workspace=self._workspace(backend, *args))
        return Step(op=self.name, args=freeze(args), cost=cost, backend=backend, reason=reason)

    def plan(self, *args: P.args, **kwargs: P.kwargs) -> Plan:
        """Return the plan of one call: cached by the arguments without their data, and by the backend asked for."""
        values = self._positional(args, kwargs)
        key = (self.name, freeze(values), self.library.choice(), neuron.why_no_device())

        def build() -> Plan:
            step = self.step(values, *self.decide(values))
            return Plan(op=self.name, steps=(step,), peak_bytes=sum(step.cost[1:]))

        return CACHE.get(key, build)

    def verdicts(self, *args: P.args, **kwargs: P.kwargs) -> tuple[tuple[Verdict, ...], str, str]:
        """Return the verdict of every backend, the one that would run (or ``none``), and why."""
        values = self._positional(args, kwargs)
        judged = tuple(Verdict(name, self._verdict(name, values)) for name in RUNNABLE)
        try:
            chosen, reason = self.decide(values)
        except (UnsupportedError, BackendUnavailable) as error:
            chosen, reason = "none", str(error)
        return judged, chosen, reason


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _is_pytorch(choice: backends.Choice) -> bool:
    return choice.name == "pytorch" or (choice.name == "auto" and neuron.device() is None)


def _intercepted() -> bool:
    scope = SCOPE.get()
    return scope is not None and scope.interceptor is not None


def _wants_gradient(args: Iterable[Any]) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors_in(args))


def _needs_dispatcher(args: Iterable[Any]) -> bool:
    """Whether a kernel call must go through torch's dispatcher: for its gradient, for a tracer, or for lack of data."""
    return dispatch_modes() > 0 or _wants_gradient(args) or any(tensor.is_meta for tensor in tensors_in(args))


def _traced(args: Iterable[Any]) -> bool:
    """Whether a tracer's tensors are among the operands, as in the backward pass of a compiled function."""
    return any(type(tensor) not in (Tensor, Parameter) for tensor in tensors_in(args))


def _transformed() -> bool:
    """Whether ``torch.func`` (vmap, grad, jvp) is transforming this call."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def find(name: str) -> Op[Any, Any]:
    """Return an op by its full name, ``trnblas::gemm``."""
    return _OPS[name]


def all_ops() -> tuple[Op[Any, Any], ...]:
    """Return every op defined so far, in order of definition."""
    return tuple(_OPS.values())
