"""Exports of packages: the names they import as themselves, at once or when they are first used."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any


class LazyPackage(ModuleType):
    """A package that finds its public names on demand."""

    # public name: the module that defines it
    _homes: dict[str, str]

    def __getattr__(self, name: str) -> Any:
        home = self._homes.get(name)
        if home is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if home == self.__name__:
            return importlib.import_module(f"{home}.{name}")
        value = getattr(importlib.import_module(home), name)
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # importing the submodule trnsci.ledger must not hide the function trnsci.ledger
        if isinstance(value, ModuleType) and self._homes.get(name, self.__name__) != self.__name__:
            return
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted(self.__dict__["__all__"])


def lazily(package: str) -> None:
    """Import what a package's ``if TYPE_CHECKING:`` block names only when somebody asks for it.

    The block is the single list of those names: type checkers and readers see ordinary imports there.
    """
    module = sys.modules[package]
    assert module.__file__
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    homes = {alias.name: str(node.module) for node in imports for alias in node.names}
    module.__dict__.update(_homes=homes, __all__=sorted(homes))
    module.__class__ = LazyPackage


def public_names(package: Mapping[str, object]) -> list[str]:
    """Return the names a package exports: everything it imports but modules and what begins with an underscore."""
    return sorted(name for name, value in package.items() if name[0] != "_" and not isinstance(value, ModuleType))


def export(package: str, *modules: str) -> None:
    """Set ``__all__`` of a package to the public names that it imported or defined, and to some of its modules."""
    namespace = sys.modules[package].__dict__
    namespace["__all__"] = names = sorted([*public_names(namespace), *modules])
    namespace["__dir__"] = lambda: names
