"""NumPy's contract: which operands mean the same here, and what a result is besides its numbers."""

from collections.abc import Iterable
from types import NoneType
from typing import Any

import numpy as np

_NUMBERS = frozenset(map(np.dtype, ("float32", "float64", "complex64", "complex128")))
_WHOLE = frozenset(map(np.dtype, ("int32", "int64")))
# values that say how, never what
_OPTIONS = frozenset((int, float, complex, bool, str, NoneType, type))


def largest_operand(args: Iterable[Any]) -> int:
    """Return the elements of the largest array among operands; of a sparse matrix those that are stored."""
    largest = 0
    for value in args:
        kind = type(value)
        if kind is np.ndarray:
            size = value.size
        elif kind in _OPTIONS:
            continue
        elif kind is tuple or kind is list:
            size = largest_operand(value)
        else:
            size = value.nnz if _is_sparse(kind) else 0
        if size > largest:
            largest = size
    return largest


def why_foreign(args: Iterable[Any]) -> str:
    """Say which operand theirs may treat in a way of its own; nothing where all are plain arrays of plain numbers.

    Subclasses, arrays of other packages and dtypes that are converted or kept by rules of NumPy's are not ours.
    """
    for value in args:
        kind = type(value)
        if kind is np.ndarray:
            if value.dtype not in _NUMBERS and value.dtype not in _WHOLE:
                return f"an operand has dtype {value.dtype}"
        elif kind in _OPTIONS or isinstance(value, np.generic):
            continue
        elif kind is tuple or kind is list:
            why = why_foreign(value)
            if why:
                return why
        elif kind is dict:
            why = why_foreign(value.values())
            if why:
                return why
        elif not _is_sparse(kind):
            return f"an operand is a {kind.__module__.partition('.')[0]}.{kind.__qualname__}"
    return ""


def _is_sparse(kind: type) -> bool:
    return kind.__module__.startswith("scipy.sparse._") and hasattr(kind, "tocsr")


def own_arrays(value: Any, order: str = "C", operand: Any = None) -> Any:
    """Return results as NumPy makes them: arrays in memory of their own, and numbers where an array has no axes.

    Args:
        value: an array, or a tuple of arrays.
        order: of the memory, ``C``, ``F``, ``K`` for that of the first operand, or ``A`` for any; for a tuple one
            letter may stand for each part.
        operand: the first operand.
    """
    if type(value) is np.ndarray:
        if value.ndim == 0:
            return value[()]
        if order == "K" and type(operand) is np.ndarray and not operand.flags.c_contiguous:
            array = np.empty_like(operand, value.dtype, shape=value.shape, subok=False)
            array[...] = value
            return array
        flags = value.flags
        fits = flags.owndata and (order == "A" or (flags.f_contiguous if order == "F" else flags.c_contiguous))
        return value if fits else np.array(value, order="F" if order == "F" else "C")
    if isinstance(value, tuple):
        orders = order if len(order) == len(value) else order * len(value)
        parts = [own_arrays(part, each, operand) for part, each in zip(value, orders, strict=True)]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value
