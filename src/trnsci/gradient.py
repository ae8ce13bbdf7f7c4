"""From a gradient rule written by names to what ``torch.library`` wants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from trnsci.backends import SCOPE, Scope, entered
from trnsci.specs import TensorSpec

Rule = Callable[..., Mapping[str, Any]]


class Saved:
    """What a gradient rule sees: the op's arguments as attributes, ``result``, and ``needs``.

    Tensors the rule did not ask to save are `TensorSpec`s: shape and dtype only.
    """

    def __init__(self, values: Mapping[str, Any], result: Any, needed: frozenset[str]) -> None:
        self.__dict__.update(values)
        self.result = result
        self._needed = needed

    def needs(self, name: str) -> bool:
        """Whether the gradient of this argument is wanted."""
        return name in self._needed

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the op has no argument {name!r}")


class Gradient:
    """Adapts a rule by names to the two functions ``torch.library.register_autograd`` wants."""

    def __init__(self, parameters: tuple[str, ...], rule: Rule, kept: frozenset[str]) -> None:
        self.parameters = parameters
        self.rule = rule
        self.kept = kept

    def setup(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save what the rule reads; remember the rest by shape."""
        tensors: list[Tensor] = []

        def pack(value: Any, keep: bool) -> Any:
            if isinstance(value, Tensor):
                if not keep:
                    return TensorSpec(tuple(value.shape), value.dtype)
                tensors.append(value)
                return _Slot(len(tensors) - 1)
            if isinstance(value, list | tuple):
                return [pack(item, keep) for item in value]
            return value

        ctx.arguments = [pack(v, name in self.kept) for name, v in zip(self.parameters, inputs, strict=True)]
        ctx.result = pack(output, "result" in self.kept)
        ctx.save_for_backward(*tensors)
        ctx.scope = SCOPE.get()

    def backward(self, ctx: Any, *grads: Any) -> tuple[Any, ...]:
        """Run the rule on the forward call's backend, heard by the listeners of the backward call."""
        tensors = ctx.saved_tensors

        def unpack(value: Any) -> Any:
            if isinstance(value, _Slot):
                return tensors[value.index]
            return [unpack(item) for item in value] if isinstance(value, list) else value

        needed = frozenset(
            name for name, need in zip(self.parameters, ctx.needs_input_grad, strict=True) if _any_true(need)
        )
        values = dict(zip(self.parameters, map(unpack, ctx.arguments), strict=True))
        here, there = SCOPE.get() or Scope(), ctx.scope or Scope()
        with entered(replace(here, choices=there.choices)):
            found = self.rule(Saved(values, unpack(ctx.result), needed), *grads)
        return tuple(found.get(name) for name in self.parameters)


@dataclass(frozen=True, slots=True)
class _Slot:
    index: int


def _any_true(need: Any) -> bool:
    return any(need) if isinstance(need, list | tuple) else bool(need)
