"""`Op` of the first release, for one more: an op put together from functions. New ops are classes; see `trnsci.ops`."""

from __future__ import annotations

import inspect
import warnings
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


def _by_fields(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of calls that hands their fields on, after what else it is given."""
    return lambda call, *first: fn(*first, *call)


class Op(Generic[P, R]):
    """Deprecated: decorate a ``NamedTuple`` with `trnsci.op` instead."""

    def __init__(
        self, name: str, *, fake: Callable[..., Any], cost: Callable[P, int | Cost], schema: str | None = None
    ) -> None:
        warnings.warn("decorate a NamedTuple with trnsci.op instead of trnsci.Op", DeprecationWarning, stacklevel=2)
        self.parameters, self.fake = tuple(inspect.signature(fake).parameters), fake
        refusals: dict[str, tuple[tuple[torch.dtype, ...] | None, Limits | None]] = {}

        class Kind(namedtuple(name.split("::")[1], self.parameters)):  # type: ignore[misc]
            __slots__ = ()

            def __reduce__(call) -> Any:  # noqa: N805
                return _frozen, (name, tuple(call))

            def limits(call, implementation: str) -> str | None:  # noqa: N805
                dtypes, limit = refusals.get(implementation, (None, None))
                for tensor in tensors_in(call):
                    if dtypes is not None and tensor.dtype not in dtypes:
                        accepted = ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
                        return f"takes {accepted}, not {str(tensor.dtype).removeprefix('torch.')}"
                return None if limit is None else limit(*call)

        kind: Any = Kind
        kind.fake, kind.cost = _by_fields(fake), _by_fields(cost)
        self.kind, self._refusals = kind, refusals
        self.core = kind._op = ops.Op(Kind, name, schema or torch.library.infer_schema(fake, mutates_args=()))
        self.name, self.library = name, self.core.library

    def __repr__(self) -> str:
        return f"Op({self.name!r})"

    @property
    def differentiable(self) -> bool:
        """Whether it has a gradient rule."""
        return self.core.differentiable

    def _attach(self, name: str, fn: F, method: Callable[..., Any] | None = None) -> F:
        """Give the class a method that calls ``fn``, and return that one."""
        setattr(self.kind, name, method or _by_fields(fn))
        self.core.inspect()
        return fn

    def impl(
        self, name: str, *, dtypes: Iterable[torch.dtype] | None = None, limits: Limits | None = None
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Attach an implementation."""

        def attach(fn: Callable[P, R]) -> Callable[P, R]:
            self._refusals[name] = (None if dtypes is None else tuple(dtypes), limits)
            return self._attach(name, fn)

        return attach

    def into(self, fn: F) -> F:
        """Attach ``fn(out, *args)``."""
        return self._attach("into", fn)

    def prediction(self, fn: F) -> F:
        """Attach what to launch for a prediction."""
        return self._attach("prediction", fn)

    def bound(self, fn: F) -> F:
        """Attach the guaranteed error, ``fn(backend, *args)``."""
        return self._attach("bound", fn)

    def workspace(self, fn: F) -> F:
        """Attach the workspace, ``fn(backend, *args)``."""
        return self._attach("workspace", fn)

    def vjp(self, *, saves: Iterable[str] | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Attach the gradient rule ``rule(saved, *grads)``."""
        kept = self.parameters if saves is None else tuple(saves)

        def attach(rule: Callable[..., Mapping[str, Any]]) -> Callable[..., Any]:
            self._attach("vjp", rule, _adapted(self.parameters, rule, kept))
            self.core.register_gradient()
            return rule

        return attach

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if is_compiling():
            return self.core.registered(*args, **kwargs)
        return ops.run(self.kind(*args, **kwargs))

    def write(self, out: Tensor, *args: P.args, **kwargs: P.kwargs) -> Tensor:
        """Compute into ``out`` and return it."""
        return ops.run(self.kind(*args, **kwargs), out)

    def decide(self, args: tuple[Any, ...]) -> tuple[str, str]:
        """Return the backend that runs a call, and why."""
        decision = self.core.decide(self.kind(*args))
        return decision.backend, decision.reason

    def refusal(self, backend: str, args: Iterable[Any]) -> str | None:
        """Return why a backend cannot take a call on any machine, or ``None``."""
        return self.core.refusal(self.kind(*args), "pytorch" if backend == "pytorch" else "nki")

    def error_bound(self, args: tuple[Any, ...], backend: str | None = None) -> float | None:
        """Return the error guaranteed for a call."""
        return self.core.error_bound(self.kind(*args), backend)

    def cost(self, *args: Any) -> Cost:
        """Return FLOPs and bytes of a call."""
        return self.core.cost(self.kind(*args))

    def plan(self, *args: P.args, **kwargs: P.kwargs) -> Plan:
        """Return the plan of one call."""
        return self.core.plan(self.kind(*args, **kwargs))


def _adapted(parameters: tuple[str, ...], rule: Callable[..., Any], kept: tuple[str, ...]) -> Callable[..., Any]:
    def without(call: Any, grad: Any, needs: frozenset[str]) -> Any:
        return adapted(call, grad, needs, None)

    def adapted(call: Any, grad: Any, needs: frozenset[str], result: Any) -> Any:
        grads = grad if isinstance(grad, tuple) else (grad,)
        return rule(Saved(dict(zip(parameters, call, strict=True)), result, needs), *grads)

    return saves(*kept)(adapted if "result" in kept else without)
