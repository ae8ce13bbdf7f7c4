"""The ``torch.library`` schema of a call class, from its annotated fields and the annotation of its ``fake``."""

import types
import typing
from collections.abc import Sequence
from typing import Any, Literal, Union

import torch
from torch import Tensor

_NAMES: dict[Any, str] = {
    Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    complex: "Scalar",
    torch.dtype: "ScalarType",
    torch.device: "Device",
}


def schema(kind: Any) -> str:
    """Return the schema of a call class: ``(Tensor a, Tensor? c, Scalar alpha) -> Tensor``."""
    hints = typing.get_type_hints(kind)
    result = typing.get_type_hints(kind.fake).get("return")
    if result is None:
        raise TypeError(f"{kind.__name__}.fake does not say what it returns: write `def fake(self) -> Tensor`")
    fields = ", ".join(f"{_name(hints[field])} {field}" for field in kind._fields)
    return f"({fields}) -> {_result(result)}"


def _name(annotation: Any) -> str:
    if annotation in _NAMES:
        return _NAMES[annotation]
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal and all(isinstance(part, str) for part in parts):
        return "str"
    if origin in (Union, types.UnionType):
        some = [part for part in parts if part is not type(None)]
        inner = _name(some[0]) if len(some) == 1 else "Scalar" if set(some) <= {bool, int, float, complex} else None
        if inner is not None:
            return inner if len(some) == len(parts) else f"{inner}?"
    if origin in (list, Sequence) or (origin is tuple and parts[-1:] == (...,)):
        return f"{_name(parts[0])}[]"
    raise TypeError(f"{annotation!r} has no schema type: write Tensor, int, float, bool, str, complex, lists, or None")


def _result(annotation: Any) -> str:
    parts = typing.get_args(annotation)
    if typing.get_origin(annotation) is tuple and parts[-1:] != (...,):
        return f"({', '.join(map(_name, parts))})"
    fields = getattr(annotation, "_fields", None)
    if fields is not None:
        hints = typing.get_type_hints(annotation)
        return f"({', '.join(_name(hints[field]) for field in fields)})"
    return _name(annotation)
