"""Functions of NumPy and SciPy that have an analog, which takes and returns arrays of NumPy."""

import functools
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from trnsci.analogs.analog import Analog, Different, declarations
from trnsci.analogs.operands import own_arrays

_PACKAGES = ("numpy", "scipy")
# options that change nothing of a result, and those that let theirs write into operands
_WITHOUT_EFFECT = frozenset(("check_finite",))
_OVERWRITES = frozenset(("overwrite_a", "overwrite_b", "overwrite_x"))
# what may be infinite, or no number
_INEXACT = (np.ndarray, np.inexact, float, complex)


@functools.cache
def functions() -> Mapping[str, Analog]:
    """Return the analogs of functions whose calls can be substituted, or left with a reason, by their full names."""
    ours = {name: analog for (name, _), analog in declarations().items() if name.partition(".")[0] in _PACKAGES}
    return {
        name: replace(analog, arguments=_bind_first(name, analog.arguments), result=_own_result(name, analog))
        if analog.arguments is not None
        else analog
        for name, analog in ours.items()
        if analog.arguments is not None or analog.left
    }


def _bind_first(theirs: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function have the arguments of a call as ``theirs`` binds them: the first, and the others by name."""

    @functools.cache
    def binder() -> Callable[..., Any]:
        try:
            signature = inspect.signature(pkgutil.resolve_name(theirs))
        except ValueError:
            # older NumPy has none of its compiled functions; what reads their arguments has the same
            signature = inspect.signature(fn)
        first, *others = signature.parameters
        overwrites = [name for name in others if name in _OVERWRITES]
        kept = [name for name in others if name not in _WITHOUT_EFFECT | _OVERWRITES]
        defaults = {f"_{name}": each.default for name, each in signature.parameters.items()}
        # compiled once: inspect's own binding takes longer than the rest of a substitution
        body = f"fn({first}{''.join(f', {name}={name}' for name in kept)})"
        if overwrites:
            body = f"refuse_options({', '.join(f'{name}={name}' for name in overwrites)}) or {body}"
        names = {"fn": fn, "refuse_options": refuse_options, **defaults}
        compiled: Callable[..., Any] = eval(f"lambda {_declaration(signature)}: {body}", names)
        return compiled

    def call(*args: Any, **kwargs: Any) -> Any:
        return binder()(*args, **kwargs)

    return call


class _Name:
    """Stands for a default in the source of a binder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


def _declaration(signature: inspect.Signature) -> str:
    """Return the parameters of a function as source, with defaults named after them."""
    named = [
        each.replace(annotation=each.empty, default=each.empty if each.default is each.empty else _Name(f"_{name}"))
        for name, each in signature.parameters.items()
    ]
    return str(inspect.Signature(named))[1:-1]


def _own_result(theirs: str, analog: Analog) -> Callable[..., Any]:
    """Convert results of ours to theirs, in memory of their own."""
    convert, order = analog.result, analog.order
    warns, lists = theirs.startswith("numpy."), theirs.startswith("scipy.linalg.")

    def result(value: Any, *args: Any, **kwargs: Any) -> Any:
        converted = value if convert is None else convert(value, *args, **kwargs)
        if lists and isinstance(converted, tuple) and np.ndim(args[0]) > 2:
            raise Different("several results of a stack of matrices are a list")
        if warns and isinstance(converted, _INEXACT) and not np.logical_and.reduce(np.isfinite(converted), axis=None):
            raise Different("its result is not finite, of which theirs may warn")
        return own_arrays(converted, order, args[0] if args else None)

    return result


def refuse_options(**options: Any) -> None:
    """Leave calls alone that set options with no counterpart here."""
    for name, value in options.items():
        if value is not None and not (isinstance(value, bool | int | float) and value == 0):
            raise Different(f"{name}= has no counterpart")


def named_result(kind: str) -> Callable[..., Any]:
    """Return a conversion of tuples to one of NumPy's named results."""

    def convert(value: Any, *_: Any, **__: Any) -> Any:
        if not isinstance(value, tuple):
            return value
        return getattr(np.linalg._linalg, kind)(*value)

    return convert


def plain_result(value: Any, *_: Any, **__: Any) -> Any:
    """Convert a named tuple to a plain one; other values stay."""
    return tuple(value) if isinstance(value, tuple) else value
