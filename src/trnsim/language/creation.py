"""Making tensors."""

from typing import Any

import numpy as np

from trnsim import isa
from trnsim.isa.vector import constant
from trnsim.language.results import as_tile, export_functions, function
from trnsim.language.tiles import check_transpose, grid_like
from trnsim.refusals import forbid, refuse
from trnsim.session import WRITTEN, require_session
from trnsim.source_lines import warn
from trnsim.tensors.dtypes import as_dtype, cast, uint8
from trnsim.tensors.grids import NkiGrid
from trnsim.tensors.layout import as_index
from trnsim.tensors.objects import is_on_chip, sbuf, shared_hbm
from trnsim.tensors.tensor import NkiTensor


@function
def ndarray(shape: Any, dtype: Any, buffer: Any = sbuf, name: str = "", address: Any = None) -> NkiTensor:
    """Return memory for a tensor; nothing is in it until written.

    ``address=(partition, byte)`` places it by hand, ``(byte,)`` in HBM.
    """
    if isinstance(buffer, str):
        warn(f"buffer={buffer!r}: NKI takes nl.{buffer} and no strings since 0.3", DeprecationWarning)
    return require_session("nl.ndarray").allocate(shape, dtype, buffer, "" if name is None else name, address)


def _fill(t: NkiTensor, value: Any) -> NkiTensor:
    if is_on_chip(t.buffer):
        isa.memset(dst=t, value=value)
        return t
    # HBM cannot be memset: a constant of the program is placed there
    s = require_session("nl.full")
    if s.numerics:
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
def empty_like(
    x: Any, dtype: Any = None, buffer: Any = None, name: str = "", *, transpose_axes: Any = None, address: Any = None
) -> Any:
    """Return a tensor, or a grid, of ``x``'s shape, dtype and memory; a grid is packed densely.

    ``transpose_axes``, (1, 0), (2, 1, 0) or (3, 1, 2, 0), makes it the target in SBUF of a later ``dma_transpose``.
    """
    source = x if isinstance(x, NkiGrid) else as_tile(x, "x")
    dtype = source.dtype if dtype is None else dtype
    region = source.buffer if buffer is None else buffer
    if isinstance(source, NkiGrid):
        return grid_like(source, transpose_axes, region, dtype, address, name)
    shape = source.shape
    if transpose_axes is not None:
        check_transpose(transpose_axes, shape, region)
        shape = tuple(shape[axis] for axis in transpose_axes)
    return ndarray(shape, dtype, region, name, address)


@function
def zeros_like(x: NkiTensor, dtype: Any = None, buffer: Any = None, name: str = "") -> NkiTensor:
    """Return zeros of ``x``'s shape, dtype and memory."""
    return _fill(empty_like(x, dtype, buffer, name), 0)


def _constant_array(constant: Any) -> np.ndarray:
    try:
        if isinstance(constant, (str, bytes)) or hasattr(constant, "__fspath__"):
            array: np.ndarray = np.load(constant, allow_pickle=False)
        else:
            array = np.asarray(constant)
    except (OSError, ValueError, TypeError) as error:
        raise refuse(
            "shared-constant:unreadable", got=type(constant).__name__, constant=constant, error=error
        ) from None
    forbid(array.dtype.kind in "OSUmMc" or not array.size, "shared-constant:kind", got=str(array.dtype), array=array)
    return array


@function
def shared_constant(constant: Any, dtype: Any = None) -> NkiTensor:
    """Return an HBM tensor with constant data: an array, or the path of an ``.npy`` file."""
    s = require_session("nl.shared_constant")
    array = _constant_array(constant)
    if dtype is not None:
        array = cast(array, as_dtype(dtype))
    if s.machine is not None:
        s.machine.constant(s, array)
    tensor = s.wrap(np.array(array, order="C"), "shared_constant", shared=False)
    tensor.buffer = shared_hbm
    return tensor


@function
def shared_identity_matrix(n: int, dtype: Any = uint8, dst: NkiTensor | None = None) -> NkiTensor:
    """Return the n×n identity in SBUF (into ``dst`` when given)."""
    s = require_session("nl.shared_identity_matrix")
    n = as_index(n)
    if not 1 <= n <= s.target.partitions:
        raise refuse("partition-limit:shared_identity_matrix", got=n, limit=s.target.partitions)
    source = shared_constant(np.eye(n, dtype=np.float32), dtype)
    out = ndarray((n, n), dtype, sbuf, "identity") if dst is None else dst
    isa.dma_copy(dst=out, src=source)
    return out


export_functions(__name__)
