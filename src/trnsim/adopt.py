"""Kernels written against AWS's own ``nki`` package, run here: their names for it are read as ours.

The function keeps its code; it gets a view of its globals in which ``nki`` and everything that came from it is the
simulator's. Helpers, closures and ``NKIObject`` classes it reaches are seen the same way. Nothing is imported twice,
and AWS's package is not touched.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import inspect
import sys
from collections.abc import Callable
from types import CellType, FunctionType, ModuleType
from typing import Any

from trnsim.arrays import is_array
from trnsim.refusals import refuse

# what no kernel function lives in
_OTHERS = frozenset({"numpy", "torch", "jax", "jaxlib", "ml_dtypes", "scipy", "trnsim", *sys.stdlib_module_names}) - {
    "__main__"
}
_PLAIN = (int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented))


def adopt(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` as the simulator runs it; itself when no other ``nki`` package is imported."""
    from trnsim.install import is_ours

    theirs = sys.modules.get("nki")
    if theirs is None or is_ours(theirs) or not _speaks_nki(function):
        return function
    reader = _Reader()
    adopted: Callable[..., Any] = reader.value(function)
    if isinstance(adopted, FunctionType):
        adopted.__dict__["__nki_reader__"] = reader
    return adopted


def adopt_argument(function: Callable[..., Any], value: Any) -> Any:
    """Return an argument of an adopted kernel: AWS's constants and objects become ours, arrays stay."""
    reader: _Reader | None = getattr(function, "__nki_reader__", None)
    return value if reader is None or is_array(value) else reader.value(value)


def _speaks_nki(function: Callable[..., Any]) -> bool:
    """Return whether a name the function can see comes from AWS's package."""
    space = getattr(inspect.unwrap(function), "__globals__", {})
    return any(_top(getattr(v, "__module__", None) or getattr(v, "__name__", "")) == "nki" for v in space.values())


def _top(name: Any) -> str:
    return name.partition(".")[0] if isinstance(name, str) else ""


class _Space(dict[str, Any]):
    """A function's globals, each read through the reader when it is first used."""

    def __init__(self, reader: _Reader, original: dict[str, Any]) -> None:
        super().__init__()
        self.reader = reader
        self.original = original

    def __missing__(self, name: str) -> Any:
        value = self.reader.value(self.original[name])
        self[name] = value
        return value

    def __contains__(self, name: object) -> bool:
        return name in self.original

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self.original else default


class _Module(ModuleType):
    """A module of the kernel's own, seen through the reader."""

    def __init__(self, reader: _Reader, original: ModuleType) -> None:
        super().__init__(original.__name__)
        self.__dict__["_reader"] = reader
        self.__dict__["_original"] = original

    def __getattr__(self, name: str) -> Any:
        return self._reader.value(getattr(self._original, name))


class _Reader:
    """Maps objects of AWS's package, and what was built on it, to the simulator's."""

    def __init__(self) -> None:
        from trnsim.install import modules

        self.ours = modules()
        self.known: dict[int, Any] = {}
        self.kept: list[Any] = []
        self.spaces: dict[int, _Space] = {}
        self.theirs: dict[int, tuple[str, str]] = {}
        for name, module in list(sys.modules.items()):
            if _top(name) == "nki" and isinstance(module, ModuleType):
                for attribute, value in vars(module).items():
                    if not attribute.startswith("__") and not isinstance(value, (*_PLAIN, bool)):
                        self.theirs.setdefault(id(value), (name, attribute))

    def value(self, obj: Any) -> Any:
        """``obj`` as the simulator sees it."""
        if isinstance(obj, _PLAIN):
            return obj
        key = id(obj)
        if key not in self.known:
            self.kept.append(obj)
            self.known[key] = obj
            self.known[key] = self._read(obj)
        return self.known[key]

    def _read(self, obj: Any) -> Any:
        if isinstance(obj, ModuleType):
            return self._module(obj)
        module = getattr(obj, "__module__", None) if isinstance(obj, (type, FunctionType)) else type(obj).__module__
        if _top(module) == "nki" or id(obj) in self.theirs:
            return self._counterpart(obj)
        if isinstance(obj, FunctionType):
            return obj if _top(module) in _OTHERS else self._function(obj)
        if isinstance(obj, type):
            return self._class(obj)
        if isinstance(obj, functools.partial):
            return functools.partial(
                self.value(obj.func), *map(self.value, obj.args), **{k: self.value(v) for k, v in obj.keywords.items()}
            )
        if type(obj) in (list, tuple, set):
            return type(obj)(map(self.value, obj))
        if type(obj) is dict:
            return {k: self.value(v) for k, v in obj.items()}
        if isinstance(obj, (staticmethod, classmethod)):
            return type(obj)(self.value(obj.__func__))
        if isinstance(obj, property):
            return property(*(None if f is None else self.value(f) for f in (obj.fget, obj.fset, obj.fdel)))
        cls = self.value(type(obj))
        if cls is type(obj):
            return obj
        copy = object.__new__(cls)
        for name, value in vars(obj).items():
            object.__setattr__(copy, name, value if is_array(value) else self.value(value))
        return copy

    def _module(self, module: ModuleType) -> ModuleType:
        name = module.__name__
        if _top(name) == "nki":
            return self._ours(name)
        return module if _top(name) in _OTHERS else _Module(self, module)

    def _ours(self, name: str) -> ModuleType:
        module = self.ours.get(name)
        if module is None:
            raise refuse("nki-module", got=name, limit=sorted(self.ours))
        return module

    def _counterpart(self, obj: Any) -> Any:
        if isinstance(obj, enum.Enum):
            return getattr(self.value(type(obj)), obj.name)
        wrapped = (getattr(obj, name, None) for name in ("func", "function", "fn", "_func", "__wrapped__"))
        inner = next((function for function in wrapped if isinstance(function, FunctionType)), None)
        if inner is not None and _top(inner.__module__) != "nki":
            from trnsim.kernel import as_kernel

            return as_kernel(self.value(inner))
        module, name = self.theirs.get(
            id(obj), (getattr(obj, "__module__", "nki"), getattr(obj, "__name__", type(obj).__name__))
        )
        for home in (module, "nki.language", "nki.isa", "nki.collectives", "nki"):
            if home in self.ours and hasattr(self.ours[home], name):
                return getattr(self.ours[home], name)
        raise refuse("nki-name", got=f"{module}.{name}", module=module, name=name)

    def _function(self, function: FunctionType) -> FunctionType:
        space = self.spaces.get(id(function.__globals__))
        if space is None:
            space = self.spaces[id(function.__globals__)] = _Space(self, function.__globals__)
        defaults = None if function.__defaults__ is None else tuple(map(self.value, function.__defaults__))
        copy = FunctionType(function.__code__, space, function.__name__, defaults, self._cells(function))
        self.known[id(function)] = copy
        copy.__kwdefaults__ = (
            None if function.__kwdefaults__ is None else {k: self.value(v) for k, v in function.__kwdefaults__.items()}
        )
        copy.__qualname__, copy.__module__, copy.__doc__ = function.__qualname__, function.__module__, function.__doc__
        copy.__annotations__ = {k: self.value(v) for k, v in function.__annotations__.items()}
        return copy

    def _cells(self, function: FunctionType) -> tuple[CellType, ...] | None:
        if function.__closure__ is None:
            return None
        cells = []
        for cell in function.__closure__:
            copy = CellType()
            # an empty cell is a name that has no value yet
            with contextlib.suppress(ValueError):
                copy.cell_contents = self.value(cell.cell_contents)
            cells.append(copy)
        return tuple(cells)

    def _class(self, cls: type) -> type:
        """Return a class that derives from AWS's ``NKIObject`` derives from ours; any other stays."""
        if not any(_top(base.__module__) == "nki" for base in cls.__mro__) or issubclass(cls, enum.Enum):
            return cls
        space = {k: self.value(v) for k, v in vars(cls).items() if k not in ("__dict__", "__weakref__")}
        metaclass: Any = type(cls)
        derived: type = metaclass(cls.__name__, tuple(map(self.value, cls.__bases__)), space)
        return derived
