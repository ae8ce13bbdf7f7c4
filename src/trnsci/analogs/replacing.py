"""Functions of NumPy and SciPy, replaced in their modules while their calls are watched or substituted."""

import functools
import pkgutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType, ModuleType
from typing import Any

from trnsci import libraries
from trnsci.analogs.functions import functions
from trnsci.errors import ArgumentError

Function = Callable[..., Any]
# gets a function's name and the function, and returns what stands in its place, a `Replacement`
Maker = Callable[[str, Function], Function]

_makers: list[Maker] = []
_lock = threading.Lock()


@contextmanager
def replace_functions(maker: Maker) -> Iterator[None]:
    """Let the functions that have an analog be what ``maker`` makes of them, in every thread; the latest maker does."""
    with _lock:
        _makers.append(maker)
        _install(maker)
    try:
        yield
    finally:
        with _lock:
            # the latest of several blocks by the same maker ends first in no thread but its own
            _makers.reverse()
            _makers.remove(maker)
            _makers.reverse()
            _install(_makers[-1] if _makers else _original)


_installed: list[Maker] = []


def _install(maker: Maker) -> None:
    if _installed != [maker]:
        for name, (module, attribute, function) in _originals().items():
            setattr(module, attribute, maker(name, function))
        _installed[:] = [maker]


def _original(name: str, function: Function) -> Function:
    return function


@functools.cache
def _originals() -> dict[str, tuple[ModuleType, str, Function]]:
    """Return where each function stands, and the function."""
    places = {}
    for name in functions():
        path, _, attribute = name.rpartition(".")
        places[name] = pkgutil.resolve_name(path), attribute, _resolve(name)
    return places


def _resolve(name: str) -> Function:
    try:
        function: Function = pkgutil.resolve_name(name)
    except (AttributeError, ImportError):
        raise ArgumentError("drop_in", "function", name, "one that is installed here") from None
    return function


class Replacement:
    """A callable in the place of a function that passes for it: as a key, pickled, in documentation and as a method."""

    def __init__(self, name: str, function: Function) -> None:
        functools.update_wrapper(self, function)
        self._name, self._function = name, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        # packages keep what they do for a function in tables, by the function
        return other is self or other is self._function

    def __hash__(self) -> int:
        return hash(self._function)

    def __reduce__(self) -> str:
        return str(self._function.__qualname__)

    def __repr__(self) -> str:
        return repr(self._function)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        bind = getattr(type(self._function), "__get__", None)
        return self if bind is None or instance is None else MethodType(self, instance)


class _Programs(dict[str, bool]):
    """Whether calls made in a module are a program's own, by the module's name; NumPy's tests are programs too."""

    def __missing__(self, module: str) -> bool:
        package, *parts = module.split(".")
        others = libraries.packages() | {"numpy", "scipy", "torch"}
        self[module] = package not in others or "tests" in parts
        return self[module]


IS_PROGRAM = _Programs()
