"""The host loops in C (``src/loops``): one extension module, built when the package is installed, and optional.

Without it every op runs its torch definition, which gives the same bits.
"""

import importlib
import warnings
from typing import Any

# the function that the extension gained last: a build of an earlier version lacks it
_NEWEST = "counters"


def _import_extension() -> tuple[Any, str | None]:
    try:
        module = importlib.import_module("trnsci._loops")
    except ModuleNotFoundError:
        return None, "not built, because there was no C compiler at install time; install trnsci again with one"
    except ImportError as error:
        return None, f"built and not loaded: {error}"
    if hasattr(module, _NEWEST):
        return module, None
    why = f"{module.__file__} was built from an earlier version; build it again (make setup, or pip install)"
    warnings.warn(f"no host loops in C, so that some calls are slower: {why}", RuntimeWarning, stacklevel=2)
    return None, why


# the extension module, or None and why there is none
compiled, _WHY = _import_extension()


def why_not() -> str | None:
    """Return why there are no host loops in C here, or ``None`` when there are."""
    return None if compiled is not None else _WHY or "switched off"
