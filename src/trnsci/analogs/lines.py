"""Guesses from a line of source, for what is neither watched nor substituted."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from trnsci.analogs.analog import declarations

_CALLED = re.compile(r"\b(?:np|numpy|cp|cupy|jnp|sp|scipy|linalg|fft|signal|rng)\.(?:\w+\.)*(\w+)\(")
PRODUCT = re.compile(r"[\w)\]] @ [\w(]")


@functools.cache
def last_names() -> Mapping[str, str]:
    """Return the functions of ours by the last part of the names of NumPy's and SciPy's, and by operators."""
    arrays = {name: analog for (name, _), analog in declarations().items() if "::" not in name}
    return {name.rpartition(".")[2]: analog.name for name, analog in arrays.items()}


def looks_like(source: str) -> str:
    """Guess from a line of source which function of ours would do its work."""
    for name in _CALLED.findall(source):
        if name in last_names():
            return last_names()[name]
    return last_names().get("@", "") if PRODUCT.search(source) else ""
