"""Mean fields, each computed once."""

from __future__ import annotations

import functools
from typing import Any


@functools.cache
def field(name: str, basis: str) -> Any:
    """A density-fitted mean field that holds its fitted integrals, as PySCF leaves it."""
    import trnchem

    return trnchem.mean_field(name, basis=basis)
