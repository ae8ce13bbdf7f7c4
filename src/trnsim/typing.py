"""``nki.typing``: annotations for a kernel's tensor parameters, checked when the kernel is launched."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from trnsim.refusals import refuse
from trnsim.tensors.tensor import NkiTensor


class tensor:
    """``tensor[128, 512]`` annotates a parameter with the shape it must have; names and ``None`` stand for any size."""

    def __init__(self, shape: tuple[Any, ...] = ()) -> None:
        self.shape = shape

    def __class_getitem__(cls, shape: Any) -> tensor:
        return cls(shape if isinstance(shape, tuple) else (shape,))

    def accepts(self, shape: tuple[int, ...]) -> bool:
        """Return whether ``shape`` has every size given here."""
        if Ellipsis in self.shape or not all(n is None or isinstance(n, (int, str)) for n in self.shape):
            return True
        return len(shape) == len(self.shape) and all(
            not isinstance(n, int) or n == m for n, m in zip(self.shape, shape, strict=True)
        )

    def __repr__(self) -> str:
        return f"tensor{list(self.shape)}"


def check_annotations(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> None:
    """Refuse arguments whose shape is not the one their ``tensor[…]`` annotation declares."""
    plain = inspect.unwrap(function)
    declared = getattr(plain, "__annotations__", {})
    if any(isinstance(a, str) and "tensor[" in a for a in declared.values()):
        declared = {name: _evaluate(a, plain) for name, a in declared.items()}
    if not any(isinstance(a, tensor) for a in declared.values()):
        return
    given = inspect.signature(function).bind_partial(*args, **kwargs).arguments
    for name, wanted in declared.items():
        value = given.get(name)
        if isinstance(wanted, tensor) and isinstance(value, NkiTensor) and not wanted.accepts(value.shape):
            raise refuse("annotation", got=value.shape, limit=wanted.shape, name=name, wanted=wanted)


def _evaluate(annotation: Any, function: Any) -> Any:
    if not (isinstance(annotation, str) and "tensor[" in annotation):
        return annotation
    try:
        return eval(annotation, function.__globals__)
    except NameError:
        return annotation
