"""Names of torch that are private: all that the suite uses, each with the public one it waits for.

Every other module takes them from here, so that a release of torch that moves one is met in one place. They are looked
up when they are first asked for: some are in modules that take long to import.
"""

import pkgutil
from collections.abc import Callable
from typing import Any, TypeVar

from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode

from trnsci.tables import read_table

F = TypeVar("F", bound=Callable[..., Any])

# where each name is in torch; the table says which public one it waits for
_PRIVATE = {row["name"]: row["private"] for row in read_table("torch_internals.csv")}


def __getattr__(name: str) -> Any:
    if name not in _PRIVATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = pkgutil.resolve_name(_PRIVATE[name])
    return value


def mark_constant(function: F) -> F:
    """Let TorchDynamo call a function while it traces: `torch.compiler.assume_constant_result`, which imports it."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function
