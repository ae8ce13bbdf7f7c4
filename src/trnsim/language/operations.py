"""Moving, shaping and picking: loads, stores, products, transposes, selection, gathers, random tiles, printing."""

import math
import sys
from typing import Any

import trnsim.isa as nisa
from trnsim.language.functions import convert, copy
from trnsim.language.partitions import repeat_partition
from trnsim.language.results import as_tile, dtype_or, export_functions, function, map_tile, promote, tile
from trnsim.memory import HBM, SBUF, SHARED_HBM
from trnsim.refusals import forbid, refuse
from trnsim.session import NkiInstruction, Session, instruction, require_session
from trnsim.tensors.dtypes import as_dtype, float32, int32, same_dtype, uint8, uint32
from trnsim.tensors.layout import as_flag, as_index, as_shape
from trnsim.tensors.objects import MemoryRegion, as_region
from trnsim.tensors.tensor import NkiTensor

psum, sbuf = MemoryRegion.psum, MemoryRegion.sbuf


def _in_hbm(t: Any, role: str, what: str) -> NkiTensor:
    tensor = as_tile(t, role)
    forbid(tensor.on_chip, "buffer:in_hbm", got=str(tensor.buffer), role=role, tensor=tensor, what=what)
    return tensor


def _matrix(t: Any, role: str) -> NkiTensor:
    t = as_tile(t, role)
    forbid(t.ndim != 2, "two-dimensional:matrix", got=t.shape, role=role)
    return t


@function
def load(src: Any, dtype: Any = None) -> NkiTensor:
    """Return a new SBUF tile with the values of an HBM tensor, whose first dimension becomes the partitions."""
    return map_tile(nisa.dma_copy, _in_hbm(src, "src", "nl.load reads"), dtype)


@function
def store(dst: Any, value: Any) -> None:
    """Write an SBUF tile into an HBM tensor of as many elements."""
    dst, value = _in_hbm(dst, "dst", "nl.store writes"), as_tile(value, "value")
    if not _stores_transposed(dst, value):
        nisa.dma_copy(dst, value)
        return
    # the Vector Engine transposes strips, and rows are stored, where single elements would be written
    for column in range(0, value.shape[1], 128):
        part = value[:, column : min(column + 128, value.shape[1])]
        rows = tile((part.shape[1], part.shape[0]), value.dtype)
        _transpose_strips(rows, part)
        nisa.dma_copy(dst[:, column : column + part.shape[1]].permute((1, 0)), rows)


def _stores_transposed(dst: NkiTensor, value: NkiTensor) -> bool:
    """Return whether this is trn1, which has no DMA transpose, and the destination's partitions lie together in HBM."""
    return (
        require_session("nl.store").target.generation < 3
        and dst.ndim == 2
        and dst.shape == value.shape
        and dst.strides[0] == 1 < dst.strides[1]
        and min(dst.shape) > 1
        and value.buffer is sbuf
        and same_dtype(dst.dtype, value.dtype)
        and value.itemsize in (2, 4)
        and dst.dynamic is None
    )


def _transpose_strips(dst: NkiTensor, data: NkiTensor) -> None:
    """Transpose a tile on the Vector Engine, 32 partitions at a time."""
    for strip in range(0, data.shape[0], 32):
        part = data[strip : min(strip + 32, data.shape[0]), :]
        transpose_strip(dst[:, strip : strip + part.shape[0]], part)


@function
def load_transpose2d(src: Any, dtype: Any = None) -> NkiTensor:
    """Return a new SBUF tile with a 2-D HBM tensor transposed on the way."""
    src = _matrix(_in_hbm(src, "src", "nl.load_transpose2d reads"), "src")
    dst = tile((src.shape[1], src.shape[0]), dtype_or(dtype, src.dtype))
    if not same_dtype(dst.dtype, src.dtype) or src.itemsize not in (2, 4) or src.dynamic is not None:
        # element by element
        nisa.dma_copy(dst, src.permute((1, 0)))
    elif require_session("nl.load_transpose2d").target.generation >= 3:
        nisa.dma_transpose(dst, src)
    else:
        # trn1 has no DMA transpose: rows are loaded as they are, and the Vector Engine transposes strips of them
        for row in range(0, src.shape[0], 128):
            rows = load(src[row : min(row + 128, src.shape[0]), :])
            _transpose_strips(dst[:, row : row + rows.shape[0]], rows)
    return dst


@instruction
def transpose_strip(s: Session, dst: Any, data: Any) -> NkiInstruction:
    """Transpose up to 32 partitions on the Vector Engine, block of 32x32 by block, as trn1's compiler does."""
    values = s.read(data, "data", (SBUF,))
    s.write(dst.exact(), values.T if s.numerics else values, "dst", (SBUF,))
    return s.done("vector", (dst,), (data,), implicit=True)


@function
def transpose(x: Any, dtype: Any = None) -> NkiTensor:
    """Return a 2-D tile with partitions and free dimension swapped, in PSUM (Tensor Engine)."""
    x = _matrix(x, "x")
    swapped = tile((x.shape[1], x.shape[0]), x.dtype, psum)
    nisa.nc_transpose(swapped, x, engine=nisa.engine.tensor)
    wanted = dtype_or(dtype, x.dtype)
    if same_dtype(wanted, x.dtype):
        return swapped
    converted = tile(swapped.shape, wanted, psum)
    nisa.tensor_copy(converted, swapped)
    return converted


@function
def matmul(x: Any, y: Any, transpose_x: bool = False) -> NkiTensor:
    """``x @ y`` (``x.T @ y`` with ``transpose_x``) as an fp32 tile in PSUM.

    The Tensor Engine computes ``x.T @ y``; without ``transpose_x`` the left operand is transposed first.
    """
    x, y = _matrix(x, "x"), _matrix(y, "y")
    transpose_x = as_flag(transpose_x, "transpose_x")
    inner = x.shape[0] if transpose_x else x.shape[1]
    if inner != y.shape[0]:
        hint = "set transpose_x=True when x is stored as [K, M]"
        if x.shape[0] != y.shape[0]:
            hint = "the contracted dimensions must be equal"
        raise refuse("matmul-shape", got=inner, limit=y.shape[0], hint=hint, x=x, y=y)
    left = x if transpose_x else copy(transpose(x))
    dst = tile((left.shape[1], y.shape[1]), float32, psum)
    nisa.nc_matmul(dst, left, y, accumulate=False)
    return dst


@function
def expand_dims(x: Any, axis: int) -> NkiTensor:
    """Return a view of ``x`` with a dimension of size 1 at ``axis``."""
    x = as_tile(x, "x")
    axis = as_index(axis)
    forbid(not -x.ndim - 1 <= axis <= x.ndim, "axis", got=axis, limit=x.ndim)
    view: NkiTensor = x.expand_dim(axis + x.ndim + 1 if axis < 0 else axis)
    return view


@function
def broadcast_to(x: Any, shape: Any, dtype: Any = None) -> NkiTensor:
    """``x`` repeated to ``shape``: same rank, each dimension equal or grown from 1. ``x`` itself if nothing changes."""
    x = as_tile(x, "x")
    wanted = dtype_or(dtype, x.dtype)
    shape = as_shape(shape, "shape")
    if len(shape) != x.ndim or any(m != n and m != 1 for m, n in zip(x.shape, shape, strict=True)):
        raise refuse("broadcast:broadcast_to", got=x.shape, limit=shape)
    if x.shape == shape:
        return convert(x, wanted)
    view = repeat_partition(x, shape[0]) if x.shape[0] != shape[0] else x
    if view.shape == shape and same_dtype(view.dtype, wanted):
        return view
    for dim in range(1, view.ndim):
        if view.shape[dim] != shape[dim]:
            view = view.broadcast(dim, shape[dim])
    return copy(view, wanted)


@function
def where(condition: Any, x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return ``x`` where ``condition`` is nonzero, else ``y``: tiles of the condition's shape, or numbers."""
    condition = as_tile(condition, "condition")
    tiles = [t for t in (x, y) if isinstance(t, NkiTensor)]
    default = condition.dtype if not tiles else tiles[0].dtype if len(tiles) == 1 else promote(x.dtype, y.dtype)
    wanted = dtype_or(dtype, default)
    for t in tiles:
        forbid(t.shape != condition.shape, "where-shape", got=t.shape, limit=condition.shape)
    chosen = tile(condition.shape, uint8)
    nisa.tensor_scalar(chosen, condition, "not_equal", 0.0)
    dst = tile(condition.shape, wanted)
    if isinstance(y, NkiTensor):
        nisa.tensor_copy(dst, y)
    else:
        nisa.memset(dst, y)
    if isinstance(x, NkiTensor):
        x = convert(x, wanted)
    nisa.tensor_copy_predicated(dst, x, chosen)
    return dst


@function
def gather_flattened(data: Any, indices: Any, axis: int = 0, dtype: Any = None) -> NkiTensor:
    """``out[p, i…] = data[p].flat[indices[p, i…]]``: a gather within partitions, shaped like ``indices``."""
    data, indices = as_tile(data, "data"), as_tile(indices, "indices")
    forbid(not isinstance(axis, int) or axis != 0, "gather-axis", got=axis)
    if same_dtype(indices.dtype, int32):
        indices = indices.view(uint32)
    dst = tile(indices.shape, data.dtype)
    nisa.nc_n_gather(dst, data, indices)
    return convert(dst, dtype)


@function
def dropout(x: Any, rate: Any, dtype: Any = None) -> NkiTensor:
    """Return ``x`` with elements replaced by zero with probability ``rate``, a number or a ``(P, 1)`` tile."""
    return convert(map_tile(nisa.dropout, x, None, rate), dtype)


@function
def random_seed(seed: Any) -> None:
    """Seed `rand` and `dropout` with a ``[1, 1]`` tile that holds a 32-bit value."""
    forbid(not isinstance(seed, NkiTensor), "seed:random_seed", got=type(seed).__name__, value=seed)
    nisa.set_rng_seed(seed)


def _fill_random(dst: NkiTensor) -> None:
    """Uniform numbers from 0 to 1 into an on-chip tile."""
    s = require_session("nl.rand")
    if s.target.generation >= 4:
        nisa.rand2(dst, 0.0, 1.0)
        return
    words = tile(dst.shape, uint32)
    nisa.rng(words, engine=nisa.engine.vector)
    # 24 bits convert to fp32 without rounding, so that 1.0 never comes out
    nisa.tensor_scalar(words, words, "right_shift", 8)
    nisa.tensor_scalar(dst, words, "multiply", 2.0**-24)


@function
def rand(shape: Any, dtype: Any, buffer: Any = sbuf, name: str = "") -> NkiTensor:
    """Return a tensor of uniform random numbers from 0 to 1, drawn on the Vector Engine."""
    s = require_session("nl.rand")
    region = as_region(buffer)
    dst = s.allocate(shape, as_dtype(dtype), region, name)
    if dst.on_chip:
        _fill_random(dst)
        return dst
    flat = dst.reshape((math.prod(dst.shape),))
    # HBM is filled in tiles: as many whole rows of 128 as fit, then what is left
    width, partitions = 512, s.target.partitions
    start = 0
    while start < flat.shape[0]:
        left = flat.shape[0] - start
        rows, columns = (min(partitions, left // width), width) if left >= width else (1, left)
        block = tile((rows, columns), dst.dtype)
        _fill_random(block)
        nisa.dma_copy(flat[start : start + rows * columns].reshape((rows, columns)), block)
        start += rows * columns
    return dst


@function
def device_print(print_prefix: str, tensor: Any) -> None:
    """Print ``print_prefix`` and the values of a tensor in SBUF or HBM, at once."""
    s = require_session("nl.device_print")
    forbid(not isinstance(print_prefix, str), "print-prefix", got=type(print_prefix).__name__, value=print_prefix)
    t = s.operand(tensor, "tensor", (SBUF, HBM, SHARED_HBM), compute=False)
    s.use(t, False)
    static = t if t.dynamic is None or not s.numerics else t.at(s.resolve(t, "tensor"))
    shown = str(static.written()) if s.numerics else "values are not computed in timing-only mode"
    core = f" core {s.core}" if s.grid else ""
    sys.stdout.write(f"{print_prefix}{core} {tensor.name}{list(tensor.shape)} {tensor.dtype}\n{shown}\n")
    for probe in s.probes or ():
        probe.see(s, print_prefix, tensor)


export_functions(__name__)
