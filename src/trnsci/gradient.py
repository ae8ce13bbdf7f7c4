"""From a gradient rule, ``call.vjp(grad, needs)``, to what ``torch.library`` wants."""

import inspect
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from torch import Tensor

from trnsci.backends import SCOPE, Scope, entering
from trnsci.host import unwrap
from trnsci.isolation import is_disturbed, isolating
from trnsci.specs import freeze

Rule = Callable[..., Mapping[str, Any]]
F = TypeVar("F", bound=Callable[..., Any])


def saves(*names: str, host: bool = False, cuda: bool = True, pytorch: bool = False) -> Callable[[F], F]:
    """Decorate a ``vjp`` rule with the fields whose data it reads; the others reach it as `TensorSpec`.

    A rule that has a parameter ``result`` is given the result too. Without this decorator every field is kept.

    Args:
        names: the fields.
        host: whether ``host`` takes calls that need a gradient, with this rule; else they are left to ``pytorch``.
        cuda: whether ``cuda`` needs this rule; else torch differentiates what ``cuda`` calls.
        pytorch: whether the definition needs this rule too; ``torch.func`` differentiates what it calls all the same.
    """

    def mark(rule: F) -> F:
        rule.__saves__ = frozenset(names)  # type: ignore[attr-defined]
        rule.__host__ = host  # type: ignore[attr-defined]
        rule.__cuda__ = cuda  # type: ignore[attr-defined]
        rule.__pytorch__ = pytorch  # type: ignore[attr-defined]
        return rule

    return mark


def forbid_gradient(refuse: Callable[[], None], result: Tensor, part: Callable[[Tensor], Tensor] | None = None) -> None:
    """Refuse gradients of what torch computed: all, or those that are not zero in a part."""

    def look(grad: Tensor | None) -> None:
        if grad is None:
            return
        seen = grad if part is None else part(grad)
        if part is None or bool(unwrap(seen).any()):
            refuse()

    if result.requires_grad:
        result.register_hook(look)


class Gradient:
    """Adapts the rule of a call class to the two functions ``torch.library.register_autograd`` wants."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.rule: Rule = kind.vjp
        self.kept: frozenset[str] = getattr(kind.vjp, "__saves__", frozenset(kind._fields))
        self.keeps_result = "result" in inspect.signature(kind.vjp).parameters

    def setup(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save what the rule reads; remember the rest by shape."""
        tensors: list[Tensor] = []

        def pack(value: Any) -> Any:
            if isinstance(value, Tensor):
                tensors.append(value)
                return _Slot(len(tensors) - 1)
            return [pack(item) for item in value] if isinstance(value, list | tuple) else value

        fields = zip(self.kind._fields, inputs, strict=True)
        ctx.arguments = [pack(value) if name in self.kept else freeze(value) for name, value in fields]
        ctx.result = pack(output) if self.keeps_result else None
        ctx.save_for_backward(*tensors)
        ctx.scope = SCOPE.get()

    def backward(self, ctx: Any, *grads: Any) -> tuple[Any, ...]:
        """Run the rule where the forward call ran, heard by the listeners of the backward call."""
        tensors = ctx.saved_tensors

        def unpack(value: Any) -> Any:
            if isinstance(value, _Slot):
                return tensors[value.index]
            return [unpack(item) for item in value] if isinstance(value, list) else value

        fields = self.kind._fields
        needs = frozenset(name for name, need in zip(fields, ctx.needs_input_grad, strict=True) if _any_true(need))
        call = self.kind(*map(unpack, ctx.arguments))
        grad = grads[0] if len(grads) == 1 else grads
        result = {"result": unpack(ctx.result)} if self.keeps_result else {}
        here, there = SCOPE.get() or Scope(), ctx.scope or Scope()
        quiet = isolating() if is_disturbed() else nullcontext()
        with entering(replace(here, choices=there.choices, libraries=there.libraries)), quiet:
            gradients = self.rule(call, grad, needs, **result)
        # torch wants lists of gradients for lists of operands
        nothing = [[None] * len(need) if isinstance(need, list | tuple) else None for need in ctx.needs_input_grad]
        return tuple(gradients.get(name, none) for name, none in zip(fields, nothing, strict=True))


@dataclass(frozen=True, slots=True)
class _Slot:
    index: int


def _any_true(need: Any) -> bool:
    return any(need) if isinstance(need, list | tuple) else bool(need)
