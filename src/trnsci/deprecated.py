"""`Op` of the first release, for one more: an op put together from functions. New ops are classes; see `trnsci.ops`."""

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.compiler import is_compiling

from trnsci import ops
from trnsci.gradient import saves
from trnsci.plans import Cost, Plan
from trnsci.specs import tensors_in

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
Limits = Callable[..., str | None]


class Saved:
    """What a rule of the deprecated `trnsci.Op` sees: the arguments as attributes, ``result``, and ``needs``."""

    def __init__(self, values: Mapping[str, Any], result: Any, needed: frozenset[str]) -> None:
        self.__dict__.update(values)
        self.result = result
        self._needed = needed

    def needs(self, name: str) -> bool:
        """Return whether the gradient of this argument is wanted."""
        return name in self._needed

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the op has no argument {name!r}")


def _frozen(name: str, values: tuple[Any, ...]) -> Any:
    return ops.find(name).kind(*values)


class Op(Generic[P, R]):
    """Deprecated: decorate a ``NamedTuple`` with `trnsci.op` instead."""

    def __init__(
        self, name: str, *, fake: Callable[P, R], cost: Callable[P, int | Cost], schema: str | None = None
    ) -> None:
        self.parameters = tuple(inspect.signature(fake).parameters)
        self.fake: Callable[..., Any] = fake
        self._refusals: dict[str, tuple[tuple[torch.dtype, ...] | None, Limits | None]] = {}
        stem = name.split("::")[1]

        class Kind(namedtuple(stem, self.parameters)):  # type: ignore[misc]
            __slots__ = ()

            def __reduce__(call) -> Any:  # noqa: N805
                return _frozen, (name, tuple(call))

        kind: Any = Kind
        self.kind = kind
        compute: Callable[..., Any] = cost
        evaluate: Callable[..., Any] = fake
        kind.fake = lambda call: evaluate(*call)
        kind.cost = lambda call: compute(*call)
        kind.limits = self._limited()
        self.core = ops.Op(Kind, name, schema or torch.library.infer_schema(fake, mutates_args=()))
        kind._op = self.core
        self.name, self.library = name, self.core.library

    def __repr__(self) -> str:
        return f"Op({self.name!r})"

    @property
    def differentiable(self) -> bool:
        """Whether it has a gradient rule."""
        return self.core.differentiable

    def _limited(self) -> Callable[[Any, str], str | None]:
        def limits(call: Any, implementation: str) -> str | None:
            dtypes, limit = self._refusals.get(implementation, (None, None))
            for tensor in tensors_in(call):
                if dtypes is not None and tensor.dtype not in dtypes:
                    accepted = ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
                    return f"takes {accepted}, not {str(tensor.dtype).removeprefix('torch.')}"
            return None if limit is None else limit(*call)

        return limits

    def _attach(self, name: str, method: Callable[..., Any], fn: F) -> F:
        """Give the class a method that calls ``fn``, and return that one."""
        setattr(self.kind, name, method)
        self.core.inspect()
        return fn

    def impl(
        self, name: str, *, dtypes: Iterable[torch.dtype] | None = None, limits: Limits | None = None
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Attach an implementation."""

        def attach(fn: Callable[P, R]) -> Callable[P, R]:
            self._refusals[name] = (None if dtypes is None else tuple(dtypes), limits)
            compute: Callable[..., Any] = fn
            return self._attach(name, lambda call: compute(*call), fn)

        return attach

    def into(self, fn: F) -> F:
        """Attach ``fn(out, *args)``."""
        return self._attach("into", lambda call, out: fn(out, *call), fn)

    def prediction(self, fn: F) -> F:
        """Attach what to launch for a prediction."""
        return self._attach("prediction", lambda call: fn(*call), fn)

    def bound(self, fn: F) -> F:
        """Attach the guaranteed error, ``fn(backend, *args)``."""
        return self._attach("bound", lambda call, implementation: fn(implementation, *call), fn)

    def workspace(self, fn: F) -> F:
        """Attach the workspace, ``fn(backend, *args)``."""
        return self._attach("workspace", lambda call, implementation: fn(implementation, *call), fn)

    def vjp(self, *, saves: Iterable[str] | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Attach the gradient rule ``rule(saved, *grads)``."""
        kept = self.parameters if saves is None else tuple(saves)

        def attach(rule: Callable[..., Mapping[str, Any]]) -> Callable[..., Any]:
            self._attach("vjp", _adapted(self.parameters, rule, kept), rule)
            self.core.register_gradient()
            return rule

        return attach

    def _call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return self.kind(*args, **kwargs)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if is_compiling():
            return self.core.registered(*args, **kwargs)
        return ops.run(self._call(args, kwargs))

    def write(self, out: Tensor, *args: P.args, **kwargs: P.kwargs) -> Tensor:
        """Compute into ``out`` and return it."""
        return ops.run(self._call(args, kwargs), out)

    def decide(self, args: tuple[Any, ...]) -> tuple[str, str]:
        """Return the backend that runs a call, and why."""
        decision = self.core.decide(self._call(args, {}))
        return decision.backend, decision.reason

    def refusal(self, backend: str, args: Iterable[Any]) -> str | None:
        """Return why a backend cannot take a call on any machine, or ``None``."""
        return self.core.refusal(self._call(tuple(args), {}), "pytorch" if backend == "pytorch" else "nki")

    def error_bound(self, args: tuple[Any, ...], backend: str | None = None) -> float | None:
        """Return the error guaranteed for a call."""
        return self.core.error_bound(self._call(args, {}), backend)

    def cost(self, *args: Any) -> Cost:
        """Return FLOPs and bytes of a call."""
        return self.core.cost(self._call(args, {}))

    def plan(self, *args: P.args, **kwargs: P.kwargs) -> Plan:
        """Return the plan of one call."""
        return self.core.plan(self._call(args, kwargs))


def _adapted(parameters: tuple[str, ...], rule: Callable[..., Any], kept: tuple[str, ...]) -> Callable[..., Any]:
    def without(call: Any, grad: Any, needs: frozenset[str]) -> Any:
        return adapted(call, grad, needs, None)

    def adapted(call: Any, grad: Any, needs: frozenset[str], result: Any) -> Any:
        grads = grad if isinstance(grad, tuple) else (grad,)
        return rule(Saved(dict(zip(parameters, call, strict=True)), result, needs), *grads)

    return saves(*kept)(adapted if "result" in kept else without)
