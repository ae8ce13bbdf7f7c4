"""Functions of NumPy and SciPy, replaced in their modules while their calls are watched or substituted."""

from __future__ import annotations

import functools
import pkgutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from trnsci import libraries
from trnsci.analogs.functions import functions
from trnsci.errors import ArgumentError

Function = Callable[..., Any]
# gets a function's name, the function, and the arguments of a call
Observer = Callable[[str, Function, tuple[Any, ...], dict[str, Any]], Any]

_observers: list[Observer] = []
_lock = threading.Lock()


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Let an observer make the calls of a program to functions that have an analog, in every thread."""
    with _lock:
        if not _observers:
            _replace({name: _wrapped(name, function) for name, function in _originals().items()})
        _observers.append(observer)
    try:
        yield
    finally:
        with _lock:
            _observers.remove(observer)
            if not _observers:
                _replace(_originals())


@functools.cache
def _originals() -> dict[str, Function]:
    return {name: _resolve(name) for name in functions()}


def _resolve(name: str) -> Function:
    try:
        return pkgutil.resolve_name(name)
    except (AttributeError, ImportError):
        raise ArgumentError("drop_in", "function", name, "one that is installed here") from None


def _replace(functions: dict[str, Function]) -> None:
    for name, function in functions.items():
        path, _, attribute = name.rpartition(".")
        setattr(pkgutil.resolve_name(path), attribute, function)


def _wrapped(name: str, function: Function) -> Function:
    # callers whose use of NumPy and SciPy is not the program's own
    others = libraries.packages() | {"numpy", "scipy", "torch"}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0]
        if not _observers or caller in others:
            return function(*args, **kwargs)
        return _observers[-1](name, function, args, kwargs)

    return call
