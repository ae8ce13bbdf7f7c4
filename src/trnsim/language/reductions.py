"""Reductions along free dimensions, softmax and RMS norm.

``axis`` names the last free dimension(s) without gaps: ``1`` or ``-1`` of a 2-D tile, ``(1, 2)`` or ``2`` of a 3-D one.
Results are new SBUF tiles of ``dtype``, or of the input's dtype, computed in fp32. Reduced dimensions go away unless
``keepdims``, but an on-chip tile keeps at least two: reducing all of ``(P, F)`` gives ``(P, 1)``.
"""

import math
from collections.abc import Callable
from typing import Any

import trnsim.isa as nisa
from trnsim.isa.vector_reduce import first_reduced_axis
from trnsim.language.functions import copy, exp, reciprocal, rsqrt
from trnsim.language.maths import multiply, subtract
from trnsim.language.partitions import sum_partitions
from trnsim.language.results import as_tile, dtype_or, export_functions, function, tile
from trnsim.refusals import forbid
from trnsim.session import require_session
from trnsim.tensors.dtypes import float32, same_dtype
from trnsim.tensors.layout import as_flag
from trnsim.tensors.tensor import NkiTensor
from trnsim.versions import FIRST


def _shape(x: NkiTensor, first: int, keepdims: bool) -> tuple[int, ...]:
    """Return the shape of the result; on chip at least two dimensions stay."""
    shape = x.shape[:first] + ((1,) * (x.ndim - first) if keepdims else ())
    return shape if len(shape) > 1 else (*shape, 1)


def _reduce(op: str, x: Any, axis: Any, dtype: Any, keepdims: bool, *, negate: bool = False) -> NkiTensor:
    x = as_tile(x, "x")
    keepdims = as_flag(keepdims, "keepdims")
    first = first_reduced_axis(axis, x)
    dst = tile(_shape(x, first, keepdims), dtype_or(dtype, x.dtype))
    nisa.tensor_reduce(dst, op, x, tuple(range(first, x.ndim)), negate=negate, keepdims=keepdims)
    return dst


def _reduction(name: str, op: str, text: str) -> Callable[..., NkiTensor]:
    """Return the reduction called ``name`` by the operator ``op``, documented by ``text``."""

    def apply(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
        return _reduce(op, x, axis, dtype, keepdims)

    return function(apply, name, text)


@function
def sum(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:  # noqa: A001
    """Sum along ``axis``; under NKI 0.3 also along all dimensions, which gives ``(1, 1)``."""
    x = as_tile(x, "x")
    whole = isinstance(axis, tuple | list) and sorted(axis) == list(range(x.ndim))
    if whole and require_session("nl.sum").nki == FIRST:
        return copy(
            sum_partitions(_reduce("add", x, tuple(range(1, x.ndim)), float32, False)), dtype_or(dtype, x.dtype)
        )
    return _reduce("add", x, axis, dtype, keepdims)


max = _reduction("max", "maximum", "Maximum along ``axis``.")  # noqa: A001
min = _reduction("min", "minimum", "Minimum along ``axis``.")  # noqa: A001
prod = _reduction("prod", "multiply", "Product along ``axis``.")


@function
def all(x: Any, axis: Any, dtype: Any = None) -> NkiTensor:  # noqa: A001
    """1 where every element along ``axis`` is nonzero, else 0."""
    return _reduce("logical_and", x, axis, dtype, False)


def _count(x: NkiTensor, axis: Any) -> int:
    return math.prod(x.shape[first_reduced_axis(axis, x) :])


@function
def mean(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Average along ``axis``."""
    x = as_tile(x, "x")
    total = _reduce("add", x, axis, float32, keepdims)
    return multiply(total, 1.0 / _count(x, axis), dtype_or(dtype, x.dtype))


@function
def var(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Return the variance along ``axis`` (of the population). Reduced dimensions stay, whatever ``keepdims`` says."""
    x = as_tile(x, "x")
    centred = subtract(x, mean(x, axis, float32, keepdims=True), float32)
    return mean(multiply(centred, centred), axis, dtype_or(dtype, x.dtype), keepdims=True)


@function
def softmax(x: Any, axis: Any = -1, dtype: Any = None) -> NkiTensor:
    """``exp(x - max) / Σ exp(x - max)`` along ``axis``."""
    x = as_tile(x, "x")
    wanted = dtype_or(dtype, x.dtype)
    if first_reduced_axis(axis, x) > 1:
        powers = exp(subtract(x, max(x, axis, float32, keepdims=True), float32))
        return multiply(powers, reciprocal(sum(powers, axis, keepdims=True)), wanted)
    # one maximum per partition: the subtraction and the sum ride along with the exponential
    lowest = _reduce("maximum", x, axis, float32, False, negate=True)
    powers, total = tile(x.shape, float32), tile((x.shape[0], 1), float32)
    nisa.activation(
        powers, "exp", x, bias=lowest, reduce_op="add", reduce_res=total, reduce_cmd=nisa.reduce_cmd.reset_reduce
    )
    return multiply(powers, reciprocal(total), wanted)


@function
def rms_norm(
    x: Any, w: Any, axis: Any, n: Any, epsilon: float = 1e-6, dtype: Any = None, compute_dtype: Any = None
) -> NkiTensor:
    """``x / sqrt(Σ x² / n + epsilon) * w`` with the sum along ``axis``; ``compute_dtype`` is that of intermediates."""
    x, w = as_tile(x, "x"), as_tile(w, "w")
    forbid(isinstance(n, bool) or not isinstance(n, (int, float)) or n <= 0, "rms-norm", got=n)
    inner = dtype_or(compute_dtype, float32)
    x = x if same_dtype(x.dtype, inner) or compute_dtype is None else copy(x, inner)
    first = first_reduced_axis(axis, x)
    squares = multiply(x, x, float32) if x.buffer.value != "psum" else None
    if squares is None:
        squares = tile(x.shape, float32)
        nisa.activation(squares, "square", x)
    total = _reduce("add", squares, tuple(range(first, x.ndim)), float32, True)
    scaled = tile(total.shape, float32)
    nisa.tensor_scalar(scaled, total, "multiply", 1.0 / n, op1="add", operand1=float(epsilon))
    normed = multiply(x, rsqrt(scaled), inner)
    return multiply(normed, w, dtype_or(dtype, x.dtype))


export_functions(__name__)
