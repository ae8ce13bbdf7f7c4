"""Functions of NumPy and SciPy, replaced in their modules while their calls are watched or substituted."""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from trnsci import config
from trnsci.analogs.functions import FUNCTIONS

Function = Callable[..., Any]
# gets a function's name, the function, and the arguments of a call
Observer = Callable[[str, Function, tuple[Any, ...], dict[str, Any]], Any]

# callers whose use of NumPy and SciPy is not the program's own
_LIBRARIES = (*config.PACKAGES, "numpy", "scipy", "torch")
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
    return {name: getattr(*_home(name)) for name in FUNCTIONS}


def _home(name: str) -> tuple[ModuleType, str]:
    path, _, attribute = name.rpartition(".")
    return importlib.import_module(path), attribute


def _replace(functions: dict[str, Function]) -> None:
    for name, function in functions.items():
        setattr(*_home(name), function)


def _wrapped(name: str, function: Function) -> Function:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0]
        if not _observers or caller in _LIBRARIES:
            return function(*args, **kwargs)
        return _observers[-1](name, function, args, kwargs)

    return call
