"""Names and argument spellings of the earlier public suite of these libraries, each with ours.

A program written for it runs, with a `DeprecationWarning` that names the spelling here, or gets an error that does:
docs/how-to/from-the-earlier-suite.md has the list, and where results differ on purpose.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from trnsci.errors import ArgumentError

# Keywords of a function, or of all functions of a library, and what the same argument is called here. Of other
# distributions loc is no mean and scale no standard deviation.
_NORMAL = {"mean": "loc", "std": "scale"}
KEYWORDS: dict[str, dict[str, str]] = {
    "trnblas": {"A": "a", "B": "b", "C": "c", "transA": "trans_a", "transB": "trans_b", "uplo": "lower"},
    "trnrand.normal": _NORMAL,
    "trnrand.lognormal": _NORMAL,
    "trnrand.truncated_normal": _NORMAL,
    "trnrand.poisson": {"lam": "rate"},
}

# Functions and classes that have another name here.
NAMES: dict[str, dict[str, str]] = {
    "trnblas": {"batched_gemm": "gemm"},
    "trnfft.nn": {"ComplexModReLU": "ModReLU"},
    "trnrand": {"randperm": "permutation"},
    "trnsparse": {"bsr_spmm": "spmm"},
    "trntensor": {
        "plan_contraction": "plan",
        "cp_decompose": "cp",
        "tucker_decompose": "tucker",
        "tt_decompose": "tensor_train",
        "tensor_train_decompose": "tensor_train",
    },
}

# What is written otherwise here: the error says how.
INSTEAD: dict[str, dict[str, str]] = {
    "trnrand": {
        "sobol": "trnrand.Sobol(dimensions).random(points)",
        "halton": "trnrand.Halton(dimensions).random(points)",
        "latin_hypercube": "trnrand.LatinHypercube(dimensions).random(points)",
    },
    "trntensor": {"estimate_flops": "trntensor.plan(subscripts, *operands).flops"},
}


def spellings(function: Callable[..., Any]) -> dict[str, str]:
    """Return the earlier keywords of a function of a library, and what they are called here."""
    library = function.__module__.partition(".")[0]
    known = KEYWORDS.get(library) or KEYWORDS.get(f"{library}.{function.__name__}")
    if known is None:
        return {}
    parameters = inspect.signature(function).parameters
    return {old: new for old, new in known.items() if new in parameters and old not in parameters}


def respelt(op: str, known: Mapping[str, str], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments with the names they have here."""
    result = dict(keywords)
    for old in keywords.keys() & known.keys():
        new = known[old]
        if new in result:
            raise ArgumentError(op, new, {old: keywords[old], new: result[new]}, "one of them")
        warnings.warn(f"{op}: {old} is spelt {new} here", DeprecationWarning, stacklevel=3)
        result[new] = result.pop(old)
    return result


def names(module: str) -> Callable[[str], Any]:
    """Return a module's ``__getattr__``: what the earlier suite called otherwise, or an error that names ours."""
    known, otherwise = NAMES.get(module, {}), INSTEAD.get(module, {})
    for name in (*known, *otherwise):
        # a submodule of this name is imported by its path
        vars(sys.modules[module]).pop(name, None)

    def find(name: str) -> Any:
        ours = known.get(name)
        if ours is not None:
            warnings.warn(f"{module}.{name} is {module}.{ours} here", DeprecationWarning, stacklevel=2)
            return getattr(sys.modules[module], ours)
        hint = otherwise.get(name)
        if hint is None and name.startswith("nki_"):
            hint = f"{module}.{name.removeprefix('nki_')}, within trnsci.backend('nki') to have its kernel or an error"
        more = "" if hint is None else f": write {hint}"
        raise AttributeError(f"module {module!r} has no attribute {name!r}{more}", name=name)

    return find
