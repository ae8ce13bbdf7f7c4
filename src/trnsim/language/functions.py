"""Element-wise functions of one tile. Each gives a new SBUF tile of ``dtype``, or of the input's dtype.

Functions of the Scalar Engine's table are also operators: ``nisa.activation(op=nl.exp)``. ``sin`` and ``cos`` reduce
their argument to [-π, π] first, which the activation instruction does not; the reduction is accurate to |x| = 4e5.
"""

from __future__ import annotations

import math
from typing import Any

import trnsim.isa as nisa
from trnsim.language.dtypes import float32, int32, uint8
from trnsim.language.maths import multiply, subtract
from trnsim.language.results import as_tile, dtype_or, function, same, tile
from trnsim.language.tensor import NkiTensor


def activate(op: str, x: Any, dtype: Any = None) -> NkiTensor:
    """``op(x)`` on the Scalar Engine, into a new tile."""
    x = as_tile(x, "x")
    dst = tile(x.shape, dtype_or(dtype, x.dtype))
    nisa.activation(dst, op, x)
    return dst


def _converted(x: NkiTensor, dtype: Any) -> NkiTensor:
    """``x`` in ``dtype``: itself when it has it, else a converted copy."""
    wanted = dtype_or(dtype, x.dtype)
    return x if same(x.dtype, wanted) else copy(x, wanted)


@function
def copy(x: Any, dtype: Any = None) -> NkiTensor:
    """Return a copy in SBUF, on the Vector Engine: bit for bit when the dtype stays."""
    x = as_tile(x, "x")
    dst = tile(x.shape, dtype_or(dtype, x.dtype))
    nisa.tensor_copy(dst, x)
    return dst


@function
def exp(x: Any, dtype: Any = None) -> NkiTensor:
    """Return the exponential function."""
    return activate("exp", x, dtype)


@function
def log(x: Any, dtype: Any = None) -> NkiTensor:
    """Natural logarithm."""
    return activate("log", x, dtype)


@function
def sqrt(x: Any, dtype: Any = None) -> NkiTensor:
    """Square root."""
    return activate("sqrt", x, dtype)


@function
def rsqrt(x: Any, dtype: Any = None) -> NkiTensor:
    """``1 / sqrt(x)`` on the GpSimd Engine, which cannot read PSUM; ``activation(op=nl.rsqrt)`` can, and is faster."""
    x = as_tile(x, "x")
    dst = tile(x.shape, dtype_or(dtype, x.dtype))
    nisa.tensor_scalar(dst, x, "rsqrt", 0.0, engine=nisa.engine.gpsimd)
    return dst


@function
def reciprocal(x: Any, dtype: Any = None) -> NkiTensor:
    """``1 / x`` on the Vector Engine."""
    x = as_tile(x, "x")
    dst = tile(x.shape, dtype_or(dtype, x.dtype))
    nisa.reciprocal(dst, x)
    return dst


@function
def tanh(x: Any, dtype: Any = None) -> NkiTensor:
    """Hyperbolic tangent."""
    return activate("tanh", x, dtype)


@function
def sigmoid(x: Any, dtype: Any = None) -> NkiTensor:
    """``1 / (1 + exp(-x))``."""
    return activate("sigmoid", x, dtype)


@function
def relu(x: Any, dtype: Any = None) -> NkiTensor:
    """``max(x, 0)``."""
    return activate("relu", x, dtype)


@function
def gelu(x: Any, dtype: Any = None) -> NkiTensor:
    """``x·Φ(x)`` with the normal distribution function Φ."""
    return activate("gelu", x, dtype)


@function
def gelu_dx(x: Any, dtype: Any = None) -> NkiTensor:
    """Derivative of `gelu`."""
    return activate("gelu_dx", x, dtype)


@function
def gelu_apprx_tanh(x: Any, dtype: Any = None) -> NkiTensor:
    """`gelu` approximated with tanh."""
    return activate("gelu_apprx_tanh", x, dtype)


@function
def gelu_apprx_sigmoid(x: Any, dtype: Any = None) -> NkiTensor:
    """`gelu` approximated as ``x·sigmoid(1.702 x)``."""
    return activate("gelu_apprx_sigmoid", x, dtype)


@function
def gelu_apprx_sigmoid_dx(x: Any, dtype: Any = None) -> NkiTensor:
    """Derivative of `gelu_apprx_sigmoid`."""
    return activate("gelu_apprx_sigmoid_dx", x, dtype)


@function
def silu(x: Any, dtype: Any = None) -> NkiTensor:
    """``x·sigmoid(x)``."""
    return activate("silu", x, dtype)


@function
def silu_dx(x: Any, dtype: Any = None) -> NkiTensor:
    """Derivative of `silu`."""
    return activate("silu_dx", x, dtype)


@function
def softplus(x: Any, dtype: Any = None) -> NkiTensor:
    """``log(1 + exp(x))``."""
    return activate("softplus", x, dtype)


@function
def mish(x: Any, dtype: Any = None) -> NkiTensor:
    """``x·tanh(softplus(x))``."""
    return activate("mish", x, dtype)


@function
def erf(x: Any, dtype: Any = None) -> NkiTensor:
    """Error function."""
    return activate("erf", x, dtype)


@function
def erf_dx(x: Any, dtype: Any = None) -> NkiTensor:
    """Derivative of `erf`: ``2/√π·exp(-x²)``."""
    return activate("erf_dx", x, dtype)


@function
def arctan(x: Any, dtype: Any = None) -> NkiTensor:
    """Inverse tangent; hardware has a fit for |x| up to π/2 only."""
    return activate("arctan", x, dtype)


@function
def square(x: Any, dtype: Any = None) -> NkiTensor:
    """``x²``."""
    return activate("square", x, dtype)


@function
def sign(x: Any, dtype: Any = None) -> NkiTensor:
    """-1, 0 or 1."""
    return activate("sign", x, dtype)


@function
def abs(x: Any, dtype: Any = None) -> NkiTensor:  # noqa: A001
    """``|x|``."""
    x = as_tile(x, "x")
    dst = tile(x.shape, dtype_or(dtype, x.dtype))
    nisa.tensor_scalar(dst, x, "abs", None)
    return dst


@function
def negative(x: Any, dtype: Any = None) -> NkiTensor:
    """``-x``."""
    return multiply(as_tile(x, "x"), -1.0, dtype)


def _turns() -> tuple[float, ...]:
    """2π as three pieces of 8 bits and the rest: up to 2^16 turns times a piece is exact in fp32."""
    rest, pieces = 2.0 * math.pi, []
    for _ in range(3):
        exponent = math.frexp(rest)[1]
        piece = math.floor(math.ldexp(rest, 8 - exponent))
        pieces.append(math.ldexp(piece, exponent - 8))
        rest -= pieces[-1]
    return (*pieces, rest)


_TURNS = _turns()
_QUARTER = (1.5707963705062866, -4.371138828673793e-08)


def _reduced(x: NkiTensor, quarter: float) -> NkiTensor:
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
    return activate("sin", _reduced(x, 0.0), dtype_or(dtype, x.dtype))


@function
def cos(x: Any, dtype: Any = None) -> NkiTensor:
    """Cosine of any argument: the sine of ``x + π/2``, reduced first."""
    x = as_tile(x, "x")
    rest = _reduced(x, 0.25)
    shifted = tile(x.shape, float32)
    nisa.tensor_scalar(shifted, rest, "add", _QUARTER[0], op1="add", operand1=_QUARTER[1])
    return activate("sin", shifted, dtype_or(dtype, x.dtype))


@function
def tan(x: Any, dtype: Any = None) -> NkiTensor:
    """Tangent: sine over cosine."""
    x = as_tile(x, "x")
    return multiply(sin(x, float32), reciprocal(cos(x, float32)), dtype_or(dtype, x.dtype))


# from here on every fp32 value is a whole number
_WHOLE = 2.0**23


def _nearest(x: NkiTensor) -> NkiTensor:
    """``x`` rounded to the nearest whole number, by way of int32."""
    return copy(copy(x, int32), float32)


def _keep_large(rounded: NkiTensor, x: NkiTensor, dtype: Any) -> NkiTensor:
    """``rounded`` where ``|x|`` is small enough for int32; large values, infinities and NaN are ``x`` itself."""
    small = tile(x.shape, uint8)
    nisa.tensor_scalar(small, x, "abs", None, op1="less", operand1=_WHOLE)
    nisa.tensor_copy_predicated(rounded, x, small, reverse_pred=True)
    return _converted(rounded, dtype)


def _whole(x: NkiTensor) -> bool:
    return x.dtype.kind in "iub"


@function
def floor(x: Any, dtype: Any = None) -> NkiTensor:
    """Return the largest whole number not above ``x``."""
    x = as_tile(x, "x")
    wanted = dtype_or(dtype, x.dtype)
    if _whole(x):
        return copy(x, wanted)
    x = _converted(x, float32)
    rounded = _nearest(x)
    above = tile(x.shape, float32)
    nisa.tensor_tensor(above, rounded, x, "greater")
    return _keep_large(subtract(rounded, above), x, wanted)


@function
def ceil(x: Any, dtype: Any = None) -> NkiTensor:
    """Return the smallest whole number not below ``x``."""
    x = as_tile(x, "x")
    wanted = dtype_or(dtype, x.dtype)
    if _whole(x):
        return copy(x, wanted)
    x = _converted(x, float32)
    rounded = _nearest(x)
    below = tile(x.shape, float32)
    nisa.tensor_tensor(below, rounded, x, "less")
    up = tile(x.shape, float32)
    nisa.tensor_tensor(up, rounded, below, "add")
    return _keep_large(up, x, wanted)


@function
def trunc(x: Any, dtype: Any = None) -> NkiTensor:
    """``x`` without its fraction."""
    x = as_tile(x, "x")
    wanted = dtype_or(dtype, x.dtype)
    if _whole(x):
        return copy(x, wanted)
    x = _converted(x, float32)
    size = abs(x)
    return _keep_large(multiply(floor(size), sign(x)), x, wanted)
