"""Methods of other packages' classes that a program is watched for, and what of their work has a counterpart here.

No package is imported for it: a program that imports one of the modules has its classes watched from then on.
"""

import functools
import importlib.util
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from trnsci import libraries
from trnsci.analogs.analog import Analog


@dataclass(frozen=True, slots=True)
class Method:
    """A method of another package that takes time.

    Attributes:
        package: whose it is.
        name: what it is called.
        stays: why it is done where it is.
        analog: does its work here, from what ``operands`` returns for its finished object; nothing where sizes are
            unknown.
    """

    package: str
    name: str
    stays: str
    analog: Analog | None = None
    operands: Callable[[Any], tuple[Any, ...]] = lambda solver: ()


# gets an object, what is known of the method, the method, and the arguments of a call
Observer = Callable[[Any, Method, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
_METHODS: defaultdict[str, dict[tuple[str, str], Method]] = defaultdict(dict)


def watches(module: str, kind: str, *names: str, **known: Any) -> None:
    """Declare methods of a class to watch; other arguments are those of `Method`."""
    for name in names:
        _METHODS[module][kind, name] = Method(module.partition(".")[0], name, **known)


@contextmanager
def methods_observed(observer: Observer) -> Iterator[None]:
    """Let an observer make the calls of these methods, in modules that are there and in those imported later."""
    libraries.load()
    finder = _Finder(observer)
    sys.meta_path.insert(0, finder)
    for name in _METHODS.keys() & sys.modules.keys():
        finder.replace(sys.modules[name])
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        finder.restore()


class _Finder:
    """Finds modules as others do, and replaces methods when they have been executed."""

    def __init__(self, observer: Observer) -> None:
        self._observer: Observer | None = observer
        self._replaced: list[tuple[type, str, Any]] = []
        self._finding: set[str] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in _METHODS or name in self._finding:
            return None
        self._finding.add(name)
        spec = importlib.util.find_spec(name)
        self._finding.discard(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_watch(module: ModuleType) -> None:
                execute(module)
                self.replace(module)

            spec.loader.exec_module = execute_and_watch  # type: ignore[method-assign]
        return spec

    def replace(self, module: ModuleType) -> None:
        for (kind, name), known in _METHODS[module.__name__].items():
            methods = vars(getattr(module, kind, object))
            if name in methods and not hasattr(methods[name], "watched"):
                self._replaced.append((getattr(module, kind), name, methods[name]))
                setattr(getattr(module, kind), name, self._wrap(known, methods[name]))

    def _wrap(self, known: Method, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(solver: Any, *args: Any, **kwargs: Any) -> Any:
            # a class made in the meantime may have kept this one
            if self._observer is None:
                return method(solver, *args, **kwargs)
            return self._observer(solver, known, method, args, kwargs)

        call.watched = True  # type: ignore[attr-defined]
        return call

    def restore(self) -> None:
        self._observer = None
        for kind, name, method in self._replaced:
            setattr(kind, name, method)
