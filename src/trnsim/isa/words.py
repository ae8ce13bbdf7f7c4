"""Integers as the bit patterns bitvec operators see: unsigned words of 8, 16 or 32 bits."""

from typing import Any

import numpy as np

from trnsim.refusals import refuse

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32}
_SIGNED = {1: np.int8, 2: np.int16, 4: np.int32}


def bits(x: np.ndarray, width: int | None = None) -> np.ndarray:
    """Return ``x`` (integers or bool) as unsigned words of ``width`` bytes; a signed value is extended by its sign."""
    item = x.dtype.itemsize
    if width is not None and width != item:
        x = x.astype(_SIGNED[width] if x.dtype.kind == "i" else _UNSIGNED[width])
    elif item not in _UNSIGNED:
        raise refuse("bitvec-dtype:bits", got=str(x.dtype), x=x)
    return x.view(_UNSIGNED[x.dtype.itemsize])


def immediate_bits(value: Any, width: int, role: str) -> np.ndarray:
    """Return a Python integer as an unsigned word of ``width`` bytes."""
    if isinstance(value, (float, np.floating)) or not isinstance(value, (int, np.integer, np.bool_)):
        raise refuse("bitvec-dtype:immediate_bits", got=type(value).__name__, role=role, value=value)
    integer = int(value)
    if not -(1 << (8 * width - 1)) <= integer < 1 << (8 * width):
        raise refuse("bitvec-immediate", got=integer, limit=8 * width, role=role)
    return np.asarray(integer & ((1 << (8 * width)) - 1), _UNSIGNED[width])


def shift_ok(amount: np.ndarray, width: int, role: str) -> None:
    """Shifts by the word size or more are not documented."""
    if amount.size and int(amount.max()) >= 8 * width:
        raise refuse("shift-amount", got=int(amount.max()), limit=8 * width - 1, role=role, bits=8 * width)


def resize(words: np.ndarray, source: Any, dtype: Any) -> np.ndarray:
    """Unsigned results of a computation on ``source`` integers as bits of ``dtype``: cut, or extended by sign."""
    if dtype.kind == "b":
        truth: np.ndarray = words != 0
        return truth
    if words.dtype.itemsize == dtype.itemsize:
        return words.view(dtype)
    if source.kind == "i":
        words = words.view(_SIGNED[words.dtype.itemsize])
    return words.astype(_UNSIGNED[dtype.itemsize]).view(dtype)
