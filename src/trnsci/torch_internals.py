"""Names of torch that are private: all that the suite uses, each with the public one it waits for.

Every other module takes them from here, so that a release of torch that moves one is met in one place. They are looked
up when they are first asked for: some are in modules that take long to import.
"""

import pkgutil
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode

from trnsci.tables import read_table

# where each name is in torch; the table says which public one it waits for
_PRIVATE = {row["name"]: row["private"] for row in read_table("torch_internals.csv")}


def __getattr__(name: str) -> Any:
    if name not in _PRIVATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = pkgutil.resolve_name(_PRIVATE[name])
    return value
