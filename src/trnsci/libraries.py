"""Libraries announce themselves to the runtime, which knows none of them by name.

An entry point says that a library is installed, without importing it:

| group | name | value |
|---|---|---|
| ``trnsci.libraries`` | the import package | the module whose import declares its ops and what they replace |
| ``trnsci.sharded`` | any | a module with algorithms for sharded arrays, imported with the first of those |
| ``trnsci.commands`` | a command of ``trnsci`` | a module with ``arguments(parser)`` and ``run(args)`` |

What a library can do is declared beside the function that does it: `trnsci.analogs.replaces` for functions of torch,
NumPy and SciPy, `operand` for arguments of ``trnsci explain``.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

LIBRARIES, SHARDED, COMMANDS = "trnsci.libraries", "trnsci.sharded", "trnsci.commands"
# in a checkout pyproject.toml is beside it
_FOLDER = Path(__file__).parents[1]


@functools.cache
def entry_points_of(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group by name; in a checkout those of its pyproject.toml, installed or not."""
    entries = {entry.name: entry for entry in entry_points(group=group)}
    project = _FOLDER.parent / "pyproject.toml"
    if _FOLDER.name == "src" and project.is_file():
        # an installed package needs no parser
        import tomllib

        read = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {})
        own: dict[str, str] = read.get("entry-points", {}).get(group, {})
        entries |= {name: EntryPoint(name, value, group) for name, value in own.items()}
    return MappingProxyType(dict(sorted(entries.items())))


def names() -> tuple[str, ...]:
    """Return the import packages of the libraries."""
    return tuple(entry_points_of(LIBRARIES))


@functools.cache
def packages() -> frozenset[str]:
    """Return the import packages of the suite: the libraries, the runtime and the simulator."""
    return frozenset((*names(), "trnsci", "trnsim"))


@functools.cache
def load() -> Mapping[str, ModuleType]:
    """Import every library, so that its declarations are known; return their packages.

    One that cannot be imported is left out, with a warning.
    """
    modules = {}
    for name, entry in entry_points_of(LIBRARIES).items():
        try:
            entry.load()
            modules[name] = importlib.import_module(name)
        except ImportError as error:
            warnings.warn(f"{name} announces itself to trnsci and cannot be imported: {error}", stacklevel=2)
    return MappingProxyType(modules)


@functools.cache
def public_name(function: Callable[..., Any]) -> str:
    """Return the name that users call a public function by: ``library.function``."""
    return f"{function.__module__.partition('.')[0]}.{function.__name__}"


_OPERANDS: dict[str, Callable[[Tensor, float], Any]] = {}


def operand(*words: str, make: Callable[[Tensor, float], Any] = lambda array, density: array) -> None:
    """Declare that an argument is an array where its annotation has a word, and how ``trnsci explain`` makes one.

    Args:
        words: names of types, as annotations spell them.
        make: gets an array of the shape and dtype asked for, which may hold no data, and the share of entries to store
            of a sparse one; by default the array is the argument.
    """
    _OPERANDS.update(dict.fromkeys(words, make))


def operands() -> Mapping[str, Callable[[Tensor, float], Any]]:
    """Return what the libraries declared with `operand`, longer words first."""
    load()
    return dict(sorted(_OPERANDS.items(), key=lambda item: -len(item[0])))
