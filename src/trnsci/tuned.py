"""Choices of kernels that a search has made: ``tuned.json`` beside the kernels, read when a kernel is launched.

A kernel's file says in ``CHOICES`` which of its compile-time arguments are free, and between what; defaults are what
somebody chose by hand. ``trnsim tune`` searches on the time model and keeps the best by target and class of shapes.
Dimensions of one class have the same powers of two. What the table does not know runs with the defaults.
"""

import functools
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trnsci.errors import ArgumentError
from trnsim.choices import find_choices
from trnsim.json_reader import MalformedJson, read_json

TABLE = "tuned.json"


def chosen(kernel: Any, target: str, tensors: tuple[Any, ...], static: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the table has for a launch, without what the caller has chosen itself."""
    free = find_choices(kernel)
    if not free:
        return {}
    function = getattr(kernel, "function", kernel)
    known = _table(table_of(kernel)).get(function.__name__, {}).get(target, {})
    tuned = known.get(shape_class(kernel, tensors, static), {}) if known else {}
    return {name: value for name, value in tuned.items() if name in free and name not in static}


def table_of(kernel: Any) -> Path:
    """Return where the choices of a kernel are kept."""
    function = getattr(kernel, "function", kernel)
    file = sys.modules[function.__module__].__file__
    assert file is not None
    return Path(file).with_name(TABLE)


def shape_class(kernel: Any, tensors: tuple[Any, ...], static: Mapping[str, Any]) -> str:
    """Name the class of a launch: shapes in powers of two, dtypes, and compile-time arguments that are short.

    What the caller leaves out has its default, as if it were spelt out.
    """
    parts = ["-" if tensor is None else _shape(tensor) for tensor in tensors]
    free = find_choices(kernel)
    for name, value in sorted((_defaults(getattr(kernel, "function", kernel)) | dict(static)).items()):
        if name not in free and isinstance(value, str | bool | int):
            parts.append(f"{name}={_power(value) if type(value) is int else value}")
    return " ".join(parts)


@functools.cache
def _defaults(function: Any) -> dict[str, Any]:
    return {name: argument.default for name, argument in inspect.signature(function).parameters.items()}


def _shape(tensor: Any) -> str:
    dtype = str(tensor.dtype).rpartition(".")[2]
    return "x".join(str(_power(n)) for n in tensor.shape) + f":{dtype}"


def _power(n: int) -> int:
    """Return the power of two that is at least ``n``; 0 and less as they are."""
    return n if n <= 1 else 1 << (n - 1).bit_length()


def read_table(path: Path) -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
    """Return a table of choices, empty where there is none; raise `ArgumentError` unless it is one."""
    if not path.exists():
        return {}
    try:
        table = read_json(path)
    except MalformedJson as error:
        raise ArgumentError("tuned", f"table {path}", str(error), "a file that trnsim tune has written") from None
    levels = [table]
    for _ in range(4):
        if not all(type(level) is dict for level in levels):
            expected = "choices by kernel, target, class of shapes and argument"
            raise ArgumentError("tuned", f"table {path}", "of another structure", expected)
        levels = [below for level in levels for below in level.values()]
    return dict(table)


_table = functools.cache(read_table)


def forget() -> None:
    """Read tables again: one has been written."""
    _table.cache_clear()
