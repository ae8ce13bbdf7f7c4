"""Functions of NumPy and SciPy that have an analog, which takes and returns arrays of NumPy."""

from __future__ import annotations

import functools
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from trnsci.analogs.analog import Analog, Different, declared

_PACKAGES = ("numpy", "scipy")
# options that change nothing of a result
_WITHOUT_EFFECT = ("overwrite_a", "overwrite_b", "overwrite_x", "check_finite", "workers", "lwork", "lapack_driver")


@functools.cache
def functions() -> Mapping[str, Analog]:
    """Return the analogs of functions whose calls can be substituted, by their full names."""
    return {
        name: replace(analog, arguments=_bound(name, analog.arguments))
        for (name, _), analog in declared().items()
        if name.partition(".")[0] in _PACKAGES and analog.arguments is not None
    }


def _bound(theirs: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function have the arguments of a call as ``theirs`` binds them: the first, and the others by name."""

    @functools.cache
    def signature() -> inspect.Signature:
        return inspect.signature(pkgutil.resolve_name(theirs))

    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature().bind(*args, **kwargs)
        bound.apply_defaults()
        first, *others = bound.arguments.items()
        return fn(first[1], **{name: value for name, value in others if name not in _WITHOUT_EFFECT})

    return call


def refuse_options(**options: Any) -> None:
    """Leave calls alone that set options with no counterpart here."""
    for name, value in options.items():
        if value is not None and not (isinstance(value, bool | int | float) and value == 0):
            raise Different(f"{name}= has no counterpart")


def named_result(kind: str) -> Callable[..., Any]:
    """Return a conversion of tuples to one of NumPy's named results, of scalars where an array has no axes."""

    def convert(value: Any, *_: Any, **__: Any) -> Any:
        if not isinstance(value, tuple):
            return value
        return getattr(np.linalg._linalg, kind)(*(part[()] for part in value))

    return convert


def plain_result(value: Any, *_: Any, **__: Any) -> Any:
    """Convert a named tuple to a plain one; other values stay."""
    return tuple(value) if isinstance(value, tuple) else value
