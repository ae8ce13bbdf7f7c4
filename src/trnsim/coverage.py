"""Omissions of a kernel: elements of a result it never wrote, elements of an argument its loops never read."""

import math
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from trnsim.memory import Storage
from trnsim.refusals import refuse
from trnsim.session import Session
from trnsim.source_lines import warn
from trnsim.tensors.layout import row_major
from trnsim.tensors.tensor import NkiTensor

# a mask of this many elements is not worth its memory
_MOST = 2**27


class UnwrittenOutput(RuntimeWarning):
    """A kernel with run-time addresses returned memory it did not write."""


class UnreadInput(RuntimeWarning):
    """The loops of a kernel stopped short of the end of an argument, by less than one tile."""


def check_written(t: NkiTensor, session: Session) -> None:
    """Refuse a result of which elements were never written.

    A kernel whose writes or loops depend on run-time values may leave some out on purpose: they come back as NaN
    (integers: all bits set), with a warning.
    """
    marks = t.storage.arena.marks
    if not session.checks or (isinstance(marks, int) and marks):
        return
    missing = t.unwritten()
    if not missing.any():
        return
    at = tuple(int(i) for i in np.argwhere(missing)[0])
    text = (
        f"{session.kernel} returns {t.name}{list(t.shape)}, of which {int(missing.sum())} of {t.size} elements were "
        f"never written; the first is {at}"
    )
    if not (t.storage.runtime or session.state.get("dynamic loops")):
        hint = _short(missing) or "write every element, or return a slice of what was written"
        where = {"tensor": t.name, "line": t.storage.line}
        raise refuse("unwritten-output", got=at, hint=hint, text=text, fields=where)
    fill_missing(t.array, missing)
    warn(f"{text}. They come back as NaN (integers: all bits set).", UnwrittenOutput)


def fill_missing(array: np.ndarray, missing: np.ndarray) -> None:
    """Set elements that were never written to NaN, or of integers to all bits."""
    bits = array.view(f"u{array.dtype.itemsize}")
    bits[missing] = 1 if array.dtype.kind == "b" else np.iinfo(bits.dtype).max


def _short(missing: np.ndarray) -> str:
    """Return a hint for a loop that stopped before the end of a dimension."""
    for dim, n in enumerate(missing.shape):
        gone: np.ndarray = np.asarray(missing.all(axis=tuple(d for d in range(missing.ndim) if d != dim)))
        count = int(gone.sum())
        if 0 < count < n and gone[-count:].all():
            return (
                f"the last {count} of the {n} along dimension {dim} are missing: a loop of n // tile turns drops the "
                "remainder; loop over -(-n // tile) and end the last tile at min(stop, n)"
            )
    return ""


def _reaches_the_end(shape: tuple[int, ...], windows: set[Any]) -> bool:
    """Return whether windows end where the tensor does, in every dimension: no remainder was dropped."""
    row, ends = row_major(shape), [0] * len(shape)
    for offset, extent, strides in windows:
        for dim, step in enumerate(row):
            start, offset = divmod(offset, step)
            ends[dim] = max(ends[dim], start + strides[dim] * (extent[dim] - 1) // step + 1)
    return all(end >= n for end, n in zip(ends, shape, strict=True))


def check_read(storage: Storage, session: Session) -> None:
    """Warn when an argument was read from its beginning to less than a tile before the end of a dimension."""
    windows, shape = storage.windows, storage.shape
    if not windows or math.prod(shape) > _MOST or any(len(w[1]) != len(shape) for w in windows):
        return
    if _reaches_the_end(shape, windows):
        return
    seen = np.zeros(shape, bool)
    flat = seen.reshape(-1)
    for offset, extent, strides in windows:
        if offset + sum(s * (n - 1) for s, n in zip(strides, extent, strict=True)) < flat.size:
            as_strided(flat[offset:], extent, strides)[...] = True
    for dim, n in enumerate(shape):
        read: np.ndarray = np.asarray(seen.all(axis=tuple(d for d in range(len(shape)) if d != dim)))
        count = int((~read).sum())
        tile = max(w[1][dim] for w in windows)
        if 0 < count < min(tile, n) and not read[-count:].any() and not seen.take(range(n - count, n), dim).any():
            warn(
                f"{session.kernel} reads {storage.name}{list(shape)} in tiles of {tile} along dimension {dim} and "
                f"leaves out the last {count} of {n}: a loop of n // tile turns drops the remainder. Slice the "
                "argument if that is meant.",
                UnreadInput,
            )
            return
