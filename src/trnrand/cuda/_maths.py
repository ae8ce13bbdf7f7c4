"""Words to numbers, and the functions distributions need: the steps of `trnrand.maths`, in the same order.

Kernels that use these are launched without contraction of products and sums, so every operation is rounded once and
results have the same bits as on the host.
"""

import triton
import triton.language as tl

from trnrand.maths import COEFFICIENTS

LOG, EXP, SIN, COS, LOG32, SIN32, COS32 = (
    tl.constexpr(tuple(COEFFICIENTS[name])) for name in ("log", "exp", "sin", "cos", "log32", "sin32", "cos32")
)


@triton.jit
def half_open(low, high):
    """Return a number in [0, 1) with 53 bits from two words."""
    return ((high.to(tl.int64) << 21) | (low >> 11).to(tl.int64)).to(tl.float64) * 1.1102230246251565e-16


@triton.jit
def open_unit(low, high):
    """Return a number in (0, 1), the middle of one of 2**52 equal parts, from two words."""
    return (((high.to(tl.int64) << 20) | (low >> 12).to(tl.int64)).to(tl.float64) + 0.5) * 2.220446049250313e-16


@triton.jit
def _polynomial(x, COEFFICIENTS: tl.constexpr):
    value = x * COEFFICIENTS[0] + COEFFICIENTS[1]
    for i in tl.static_range(2, len(COEFFICIENTS)):
        value = value * x + COEFFICIENTS[i]
    return value


@triton.jit
def _quadrants(q, a, SIN: tl.constexpr, COS: tl.constexpr):
    """Return sine and cosine of ``a + q pi / 2`` with ``|a| <= pi / 4``."""
    z = a * a
    sine = _polynomial(z, SIN) * z
    sine = sine * a + a
    cosine = _polynomial(z, COS) * z
    cosine = cosine * z
    cosine = cosine - z * 0.5
    cosine = cosine + 1.0
    odd = (q & 1) == 1
    first, second = tl.where(odd, cosine, sine), tl.where(odd, sine, cosine)
    return tl.where((q & 2) == 2, -first, first), tl.where(((q + 1) & 2) == 2, -second, second)


@triton.jit
def log32(x):
    """Return natural logarithm of float32 ``k / 2**24``, ``0 < k <= 2**24``."""
    shifted = x.to(tl.int32, bitcast=True) - 0x3F3504F3
    k = (shifted >> 23).to(tl.float32)
    t = ((shifted & 0x7FFFFF) + 0x3F3504F3).to(tl.float32, bitcast=True) - 1.0
    z = t * t
    y = _polynomial(t, LOG32) * t
    y = y * z
    y = y + k * -2.12194440e-4
    y = y - z * 0.5
    r = t + y
    return r + k * 0.693359375


@triton.jit
def sincos2pi32(k):
    """Return sine and cosine of ``2 pi k / 2**24`` in float32, for int32 ``0 <= k < 2**24``."""
    quarter = (k + (1 << 21)) >> 22
    a = (k - (quarter << 22)).to(tl.float32) * 3.745070282923929e-7
    return _quadrants(quarter & 3, a, SIN32, COS32)


@triton.jit
def pair32(w0, w1):
    """Return two normals by Box and Muller in float32."""
    radius = tl.sqrt_rn(log32(((w0 >> 8) + 1).to(tl.int32).to(tl.float32) * 5.9604644775390625e-8) * -2.0)
    sine, cosine = sincos2pi32((w1 >> 8).to(tl.int32))
    return radius * cosine, radius * sine


@triton.jit
def log(x):
    """Return natural logarithm of positive normal float64."""
    shifted = x.to(tl.int64, bitcast=True) - 0x3FE6A09E667F3BCD
    k = (shifted >> 52).to(tl.float64)
    f = ((shifted & 0xFFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD).to(tl.float64, bitcast=True) - 1.0
    s = f / (f + 2.0)
    z = s * s
    p = _polynomial(z, LOG) * z
    half = f * 0.5 * f
    y = s * (half + p)
    y = y + k * 1.90821492927058770002e-10
    y = half - y
    y = y - f
    return k * 6.93147180369123816490e-01 - y


@triton.jit
def exp(x):
    """Return exponential of float64, subnormal and infinite results included."""
    limited = tl.minimum(tl.maximum(x, -746.0), 710.0)
    k = limited * 1.44269504088896338700 + 6755399441055744.0
    k = k - 6755399441055744.0
    hi, lo = limited - k * 6.93147180369123816490e-01, k * 1.90821492927058770002e-10
    r = hi - lo
    t = r * r
    c = r - _polynomial(t, EXP) * t
    y = r * c
    y = y / (2.0 - c)
    y = lo - y
    y = y - hi
    y = 1.0 - y
    # the power of two comes in two factors, each a normal number
    whole = k.to(tl.int64)
    half = whole >> 1
    first = ((half + 1023) << 52).to(tl.float64, bitcast=True)
    second = ((whole - half + 1023) << 52).to(tl.float64, bitcast=True)
    return y * first * second


@triton.jit
def sincos2pi(t):
    """Return sine and cosine of ``2 pi t``, float64 with ``0 <= t < 1``."""
    scaled = t * 4.0
    quarter = scaled + 6755399441055744.0
    quarter = quarter - 6755399441055744.0
    return _quadrants(quarter.to(tl.int64), (scaled - quarter) * 1.5707963267948966, SIN, COS)


@triton.jit
def pair64(w0, w1, w2, w3):
    """Return two normals by Box and Muller in float64."""
    radius = tl.sqrt(log(half_open(w0, w1) + 1.1102230246251565e-16) * -2.0)
    sine, cosine = sincos2pi(half_open(w2, w3))
    return radius * cosine, radius * sine


@triton.jit
def double(bits):
    """Return the float64 of these bits: kernels read Python floats as float32, and integers as they are."""
    return bits.to(tl.int64).to(tl.float64, bitcast=True)
