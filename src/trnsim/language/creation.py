"""Making tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from trnsim.errors import WrongArgument
from trnsim.language.dtypes import uint8
from trnsim.language.layout import as_index
from trnsim.language.objects import is_on_chip, sbuf, shared_hbm
from trnsim.language.results import as_tile, function
from trnsim.language.tensor import NkiTensor
from trnsim.session import WRITTEN, require_session
from trnsim.source_lines import warn


@function
def ndarray(shape: Any, dtype: Any, buffer: Any = sbuf, name: str = "", address: Any = None) -> NkiTensor:
    """Memory for a tensor; nothing is in it until written. ``address=(partition, byte)`` places it by hand."""
    if isinstance(buffer, str):
        warn(f"buffer={buffer!r}: NKI takes nl.{buffer} and no strings since 0.3", DeprecationWarning)
    return require_session("nl.ndarray").allocate(shape, dtype, buffer, "" if name is None else name, address)


def _fill(t: NkiTensor, value: Any) -> NkiTensor:
    from trnsim import isa

    if is_on_chip(t.buffer):
        isa.memset(dst=t, value=value)
        return t
    # HBM cannot be memset: a constant of the program is placed there
    s = require_session("nl.full")
    if s.numerics:
        from trnsim.isa.vector import constant
        from trnsim.language.dtypes import cast

        t.array[...] = cast(constant(value, t.dtype, "fill_value", strict=False), t.dtype)
        t.storage.arena.marks = WRITTEN
    return t


@function
def zeros(shape: Any, dtype: Any, buffer: Any = sbuf, name: str = "") -> NkiTensor:
    """Return a tensor of zeros."""
    return _fill(ndarray(shape, dtype, buffer, name), 0)


@function
def ones(shape: Any, dtype: Any, buffer: Any = sbuf, name: str = "") -> NkiTensor:
    """Return a tensor of ones."""
    return _fill(ndarray(shape, dtype, buffer, name), 1)


@function
def full(shape: Any, fill_value: Any, dtype: Any, buffer: Any = sbuf, name: str = "") -> NkiTensor:
    """Return a tensor filled with ``fill_value``."""
    return _fill(ndarray(shape, dtype, buffer, name), fill_value)


@function
def empty_like(x: NkiTensor, dtype: Any = None, buffer: Any = None, name: str = "") -> NkiTensor:
    """Return a tensor of ``x``'s shape, dtype and memory."""
    x = as_tile(x, "x")
    return ndarray(x.shape, x.dtype if dtype is None else dtype, x.buffer if buffer is None else buffer, name)


@function
def zeros_like(x: NkiTensor, dtype: Any = None, buffer: Any = None, name: str = "") -> NkiTensor:
    """Zeros of ``x``'s shape, dtype and memory."""
    return _fill(empty_like(x, dtype, buffer, name), 0)


def _constant_array(constant: Any) -> np.ndarray:
    try:
        if isinstance(constant, (str, bytes)) or hasattr(constant, "__fspath__"):
            array: np.ndarray = np.load(constant, allow_pickle=False)
        else:
            array = np.asarray(constant)
    except (OSError, ValueError, TypeError) as error:
        raise WrongArgument(
            f"constant is {constant!r}, which cannot be read: {error}",
            rule="shared-constant",
            got=type(constant).__name__,
            hint="pass an array of numbers, or the path of an .npy file",
        ) from None
    if array.dtype.kind in "OSUmMc" or not array.size:
        hint = "pass an array of numbers with at least one element"
        raise WrongArgument(
            f"constant is {array.dtype} of shape {array.shape}", "shared-constant", str(array.dtype), "numbers", hint
        )
    return array


@function
def shared_constant(constant: Any, dtype: Any = None) -> NkiTensor:
    """Return an HBM tensor with constant data: an array, or the path of an ``.npy`` file."""
    s = require_session("nl.shared_constant")
    array = _constant_array(constant)
    if dtype is not None:
        from trnsim.language.dtypes import as_dtype, cast

        array = cast(array, as_dtype(dtype))
    if s.machine is not None:
        s.machine.constant(s, array)
    tensor = s.wrap(np.array(array, order="C"), "shared_constant", shared=False)
    tensor.buffer = shared_hbm
    return tensor


@function
def shared_identity_matrix(n: int, dtype: Any = uint8, dst: NkiTensor | None = None) -> NkiTensor:
    """Return the n×n identity in SBUF (into ``dst`` when given)."""
    from trnsim import isa

    s = require_session("nl.shared_identity_matrix")
    n = as_index(n)
    if not 1 <= n <= s.target.partitions:
        raise WrongArgument(f"an identity of {n} rows", rule="partition-limit", got=n, limit=s.target.partitions)
    source = shared_constant(np.eye(n, dtype=np.float32), dtype)
    out = ndarray((n, n), dtype, sbuf, "identity") if dst is None else dst
    isa.dma_copy(dst=out, src=source)
    return out
