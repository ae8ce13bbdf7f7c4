"""Element-wise functions of one tile. Each gives a new SBUF tile of ``dtype``, or of the input's dtype.

Functions of the Scalar Engine's table are also operators: ``nisa.activation(op=nl.exp)``. ``sin`` and ``cos`` reduce
their argument to [-π, π] first, which the activation instruction does not; the reduction is accurate to |x| = 4e5.
"""

import math
from collections.abc import Callable
from typing import Any

import trnsim.isa as nisa
from trnsim.language.maths import add, greater, less, multiply, subtract
from trnsim.language.results import as_tile, dtype_or, export_functions, function, map_tile, tile
from trnsim.tensors.dtypes import float32, int32, same_dtype, uint8
from trnsim.tensors.tensor import NkiTensor


def activate(op: str, x: Any, dtype: Any = None) -> NkiTensor:
    """``op(x)`` on the Scalar Engine, into a new tile."""
    x = as_tile(x, "x")
    dst = tile(x.shape, dtype_or(dtype, x.dtype))
    nisa.activation(dst, op, x)
    return dst


def _activation(name: str, text: str) -> Callable[..., NkiTensor]:
    """Return the function ``name`` of the Scalar Engine's table, documented by ``text``."""

    def apply(x: Any, dtype: Any = None) -> NkiTensor:
        return activate(name, x, dtype)

    return function(apply, name, text)


def convert(x: NkiTensor, dtype: Any) -> NkiTensor:
    """Return ``x`` in ``dtype``: itself when it has it, else a converted copy."""
    wanted = dtype_or(dtype, x.dtype)
    return x if same_dtype(x.dtype, wanted) else copy(x, wanted)


@function
def copy(x: Any, dtype: Any = None) -> NkiTensor:
    """Return a copy in SBUF, on the Vector Engine: bit for bit when the dtype stays."""
    return map_tile(nisa.tensor_copy, x, dtype)


exp = _activation("exp", "Return the exponential function.")
log = _activation("log", "Natural logarithm.")
sqrt = _activation("sqrt", "Square root.")


@function
def rsqrt(x: Any, dtype: Any = None) -> NkiTensor:
    """``1 / sqrt(x)`` on the GpSimd Engine, which cannot read PSUM; ``activation(op=nl.rsqrt)`` can, and is faster."""
    return map_tile(nisa.tensor_scalar, x, dtype, "rsqrt", 0.0, engine=nisa.engine.gpsimd)


@function
def reciprocal(x: Any, dtype: Any = None) -> NkiTensor:
    """``1 / x`` on the Vector Engine."""
    return map_tile(nisa.reciprocal, x, dtype)


tanh = _activation("tanh", "Hyperbolic tangent.")
sigmoid = _activation("sigmoid", "``1 / (1 + exp(-x))``.")
relu = _activation("relu", "``max(x, 0)``.")
gelu = _activation("gelu", "``x·Φ(x)`` with the normal distribution function Φ.")
gelu_dx = _activation("gelu_dx", "Derivative of `gelu`.")
gelu_apprx_tanh = _activation("gelu_apprx_tanh", "`gelu` approximated with tanh.")
gelu_apprx_sigmoid = _activation("gelu_apprx_sigmoid", "`gelu` approximated as ``x·sigmoid(1.702 x)``.")
gelu_apprx_sigmoid_dx = _activation("gelu_apprx_sigmoid_dx", "Derivative of `gelu_apprx_sigmoid`.")
silu = _activation("silu", "``x·sigmoid(x)``.")
silu_dx = _activation("silu_dx", "Derivative of `silu`.")
softplus = _activation("softplus", "``log(1 + exp(x))``.")
mish = _activation("mish", "``x·tanh(softplus(x))``.")
erf = _activation("erf", "Error function.")
erf_dx = _activation("erf_dx", "Derivative of `erf`: ``2/√π·exp(-x²)``.")
arctan = _activation("arctan", "Inverse tangent; hardware has a fit for |x| up to π/2 only.")
square = _activation("square", "``x²``.")
sign = _activation("sign", "-1, 0 or 1.")


@function
def abs(x: Any, dtype: Any = None) -> NkiTensor:  # noqa: A001
    """``|x|``."""
    return map_tile(nisa.tensor_scalar, x, dtype, "abs", None)


@function
def negative(x: Any, dtype: Any = None) -> NkiTensor:
    """``-x``."""
    return multiply(as_tile(x, "x"), -1.0, dtype)


# 2π as three pieces of 8 bits and the rest: up to 2^16 turns times a piece is exact in fp32
_TURNS = (6.28125, 0.00193023681640625, 5.066394805908203e-06, 3.968374073792802e-09)
_QUARTER = (1.5707963705062866, -4.371138828673793e-08)


def _reduce_range(x: NkiTensor, quarter: float) -> NkiTensor:
    """``x - 2π·round(x / 2π + quarter)`` in fp32, without losing digits.

    The count of turns is rounded from fp32 too, so that up to 0.03 beyond ±π can remain; the engine's cubic is as good
    as the sine there.
    """
    count = tile(x.shape, int32)
    nisa.tensor_scalar(count, x, "multiply", 0.5 / math.pi, op1="add", operand1=quarter)
    turns = copy(count, float32)
    rest = x
    for piece in _TURNS:
        before, rest = rest, tile(x.shape, float32)
        nisa.scalar_tensor_tensor(rest, turns, "multiply", -piece, "add", before)
    return rest


@function
def sin(x: Any, dtype: Any = None) -> NkiTensor:
    """Sine of any argument, reduced to [-π, π] first."""
    x = as_tile(x, "x")
    return activate("sin", _reduce_range(x, 0.0), dtype_or(dtype, x.dtype))


@function
def cos(x: Any, dtype: Any = None) -> NkiTensor:
    """Return the cosine of any argument: the sine of ``x + π/2``, reduced first."""
    x = as_tile(x, "x")
    rest = _reduce_range(x, 0.25)
    shifted = tile(x.shape, float32)
    nisa.tensor_scalar(shifted, rest, "add", _QUARTER[0], op1="add", operand1=_QUARTER[1])
    return activate("sin", shifted, dtype_or(dtype, x.dtype))


@function
def tan(x: Any, dtype: Any = None) -> NkiTensor:
    """Return the tangent: sine over cosine."""
    x = as_tile(x, "x")
    return multiply(sin(x, float32), reciprocal(cos(x, float32)), dtype_or(dtype, x.dtype))


# from here on every fp32 value is a whole number
_WHOLE = 2.0**23


def _round_small(x: Any, dtype: Any, rounding: Callable[[NkiTensor], NkiTensor]) -> NkiTensor:
    """Round where ``|x|`` is small enough for int32; large values, infinities and NaN are ``x`` itself."""
    x = as_tile(x, "x")
    wanted = dtype_or(dtype, x.dtype)
    if x.dtype.kind in "iub":
        return copy(x, wanted)
    x = convert(x, float32)
    result = rounding(x)
    small = tile(x.shape, uint8)
    nisa.tensor_scalar(small, x, "abs", None, op1="less", operand1=_WHOLE)
    nisa.tensor_copy_predicated(result, x, small, reverse_pred=True)
    return convert(result, wanted)


def _nearest(x: NkiTensor) -> NkiTensor:
    """Return ``x`` rounded to the nearest whole number, by way of int32."""
    return copy(copy(x, int32), float32)


def _down(x: NkiTensor) -> NkiTensor:
    nearest = _nearest(x)
    return subtract(nearest, greater(nearest, x))


def _up(x: NkiTensor) -> NkiTensor:
    nearest = _nearest(x)
    return add(nearest, less(nearest, x))


@function
def floor(x: Any, dtype: Any = None) -> NkiTensor:
    """Return the largest whole number not above ``x``."""
    return _round_small(x, dtype, _down)


@function
def ceil(x: Any, dtype: Any = None) -> NkiTensor:
    """Return the smallest whole number not below ``x``."""
    return _round_small(x, dtype, _up)


@function
def trunc(x: Any, dtype: Any = None) -> NkiTensor:
    """Return ``x`` without its fraction."""
    return _round_small(x, dtype, lambda x: multiply(floor(abs(x)), sign(x)))


export_functions(__name__)
