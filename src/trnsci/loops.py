"""The host loops in C (``src/loops``): one extension module, built when the package is installed, and optional.

Without it every op runs its torch definition, which gives the same bits.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

# what importing the extension said, or None
_ERROR: ImportError | None = None


def _imported() -> ModuleType | None:
    global _ERROR
    try:
        return importlib.import_module("trnsci._loops")
    except ImportError as error:
        _ERROR = error
        return None


# the extension module, or None
compiled: Any = _imported()


def why_not() -> str | None:
    """Return why there are no host loops in C here, or ``None`` when there are."""
    if compiled is not None:
        return None
    if _ERROR is None or isinstance(_ERROR, ModuleNotFoundError):
        return "not built, because there was no C compiler at install time; install trnsci again with one"
    return f"built and not loaded: {_ERROR}"
