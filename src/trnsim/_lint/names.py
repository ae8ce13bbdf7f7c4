"""Meanings of the names of a kernel: user code to follow, NKI itself, a library, or outside state."""

import ast
import builtins
import dataclasses
import functools
import inspect
import sys
from collections.abc import MutableMapping, MutableSequence, MutableSet
from enum import Enum
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Literal

from trnsim._lint import words
from trnsim._lint.source import unwrap

MISSING: Any = object()
"""Stands for a name that cannot be resolved."""

Where = Literal["local", "captured", "global", "builtin", "unknown"]

_NKI_NAMES = frozenset({"nki", "nl", "nisa", "ncc"})
_HERE = str(Path(__file__).resolve().parent.parent)
_PURE = frozenset({"builtins", "math", "typing", "typing_extensions", "dataclasses", "enum", "types", "__future__"})
_HOST = words("host")
_LIBRARIES = frozenset({"numpy", "scipy", "ml_dtypes", "opt_einsum"})
_MUTABLE = (MutableMapping, MutableSequence, MutableSet)


def module_name(obj: Any) -> str:
    """Return the dotted name of the module ``obj`` comes from."""
    if isinstance(obj, ModuleType):
        return obj.__name__
    name = getattr(obj, "__module__", None)
    if isinstance(obj, BuiltinFunctionType) and not isinstance(name, str):
        name = type(obj.__self__).__module__
    return name if isinstance(name, str) else type(obj).__module__


@functools.lru_cache(maxsize=1024)
def _is_nki_module(name: str) -> bool:
    # by file, because a test directory may be called trnsim too
    if name.partition(".")[0] == "trnsim":
        file = getattr(sys.modules.get(name), "__file__", None)
        return file is None or str(Path(file).resolve()).startswith(_HERE)
    return name.partition(".")[0] in ("nki", "neuronxcc")


def is_nki(obj: Any) -> bool:
    """Return whether it is one of NKI's own namespaces or in one."""
    return _is_nki_module(module_name(obj))


def library(obj: Any) -> Literal["host", "doubtful", "fine", ""]:
    """Classify where ``obj`` comes from: a host library, a doubtful one, one NKI knows, or the user (empty)."""
    return library_of(module_name(obj))


def library_of(name: str) -> Literal["host", "doubtful", "fine", ""]:
    """Return the same, of a module by name."""
    top = name.partition(".")[0]
    if _is_nki_module(name) or top in _PURE:
        return "fine"
    if top in _HOST or name.startswith("numpy.random"):
        return "host"
    if top in _LIBRARIES or top in sys.stdlib_module_names:
        return "doubtful"
    return ""


def is_user_class(obj: Any) -> bool:
    """Return whether it is a class the user wrote."""
    return isinstance(obj, type) and not library(obj)


def derives_from_nki_object(cls: type) -> bool:
    """Return whether one of the bases is called NKIObject, whichever package it comes from."""
    return any(base.__name__ == "NKIObject" for base in cls.__mro__[1:])


def is_named_tuple(cls: type) -> bool:
    """Return whether ``typing.NamedTuple`` makes this class."""
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def is_mutable(obj: Any) -> bool:
    """Return whether it is an object whose change a cached kernel would not see."""
    if isinstance(obj, _MUTABLE):
        return True
    cls = type(obj)
    if cls.__module__.partition(".")[0] in ("numpy", "torch", "jax", "jaxlib"):
        return hasattr(obj, "shape") and hasattr(obj, "__setitem__")
    if (
        not is_user_class(cls)
        or isinstance(obj, (Enum, ModuleType, type))
        or is_named_tuple(cls)
        or unwrap(obj) is not None
    ):
        return False
    frozen = getattr(cls, "__dataclass_params__", None)
    return not (dataclasses.is_dataclass(cls) and frozen is not None and frozen.frozen)


def user_function(obj: Any) -> FunctionType | None:
    """Return the Python function behind ``obj`` if it is the user's own and not marked ``__nki_builtin__``."""
    function = None if isinstance(obj, (type, ModuleType)) else unwrap(obj)
    if function is None or library(function) or function.__dict__.get("__nki_builtin__"):
        return None
    return function


def path(node: ast.AST) -> list[str] | None:
    """``a.b.c`` as a list of names, or None for any other expression."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    names.append(node.id)
    return names[::-1]


def root(node: ast.AST) -> str | None:
    """Return the name at the bottom of a chain of attributes and subscripts."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _attribute(obj: Any, name: str) -> Any:
    if isinstance(obj, ModuleType):
        value = vars(obj).get(name, MISSING)
        return sys.modules.get(f"{obj.__name__}.{name}", MISSING) if value is MISSING else value
    if isinstance(obj, type):
        value = inspect.getattr_static(obj, name, MISSING)
        return value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
    return MISSING


class Names:
    """Names as one function sees them: enclosing functions of the same source, closure, globals, builtins."""

    def __init__(self, function: FunctionType) -> None:
        code: CodeType = function.__code__
        self.globals = function.__globals__
        self.cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        # names bound by the functions now open, the innermost's last; each entry contains those before it
        self.scopes: list[frozenset[str]] = [frozenset()]
        # the outside functions and classes a finding may hang on; a namespace of None is the closure
        self.used: list[tuple[dict[str, Any] | None, str, Any]] = []

    def enter(self, bound: frozenset[str]) -> None:
        self.scopes.append(self.scopes[-1] | bound)

    def leave(self) -> None:
        self.scopes.pop()

    def is_local(self, name: str) -> bool:
        return name in self.scopes[-1]

    def lookup(self, name: str) -> tuple[Any, Where]:
        """Return the object a name stands for, and where it was found."""
        if self.is_local(name):
            return MISSING, "local"
        if name in self.cells:
            try:
                return self.cells[name].cell_contents, "captured"
            except ValueError:
                return MISSING, "unknown"
        if name in self.globals:
            return self.globals[name], "global"
        value = getattr(builtins, name, MISSING)
        return value, "unknown" if value is MISSING else "builtin"

    def resolve(self, node: ast.AST) -> tuple[Any, Where]:
        """Return the object a name or dotted path denotes; attributes are read of modules and classes only."""
        names = path(node)
        if names is None:
            return MISSING, "unknown"
        obj, where = self.lookup(names[0])
        anchor = (self.globals if where == "global" else None, names[0], obj)
        for name in names[1:]:
            if obj is MISSING:
                return MISSING, where
            owner, obj = obj, _attribute(obj, name)
            if isinstance(owner, ModuleType):
                anchor = (vars(owner), name, obj)
        if where in ("global", "captured") and isinstance(anchor[2], (FunctionType, type)):
            self.used.append(anchor)
        return obj, where

    def module(self, node: ast.AST) -> str:
        """Return the deepest module on a dotted path, by name; empty if there is none."""
        while True:
            obj, _ = self.resolve(node)
            if isinstance(obj, ModuleType):
                return obj.__name__
            if not isinstance(node, ast.Attribute):
                return ""
            node = node.value

    def api(self, node: ast.AST) -> str:
        """Return the plain name of the NKI function that ``node`` denotes (``ndarray``), or an empty string."""
        names = path(node)
        if names is None:
            return ""
        obj, where = self.lookup(names[0])
        if where == "local":
            return ""
        if obj is MISSING:
            return names[-1] if len(names) > 1 and names[0] in _NKI_NAMES else ""
        if len(names) == 1:
            return str(getattr(obj, "__name__", names[0])) if is_nki(obj) and not isinstance(obj, ModuleType) else ""
        for name in names[1:]:
            if is_nki(obj):
                return names[-1]
            obj = _attribute(obj, name)
            if obj is MISSING:
                return ""
        return str(getattr(obj, "__name__", names[-1])) if is_nki(obj) else ""
