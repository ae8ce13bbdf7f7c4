"""trnchem: whole molecules are beside PySCF in benchmarks/trnchem."""

from __future__ import annotations

from benchmarks.counterparts import Cases

_WHOLE = "a whole calculation: benchmarks/trnchem compares molecules with PySCF's"
ALONE = {
    "DFMP2": _WHOLE,
    "density_fit": _WHOLE,
    "dfmp2": _WHOLE,
    "mean_field": _WHOLE,
    "rpa": _WHOLE,
    "plan": "a prediction",
    "extrapolate": "a formula",
    "read_xyz": "a file of some lines",
}


def cases(n: int) -> Cases:
    """No calls."""
    return {}
