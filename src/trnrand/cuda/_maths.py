"""Words to numbers, and the functions distributions need: the steps of `trnrand.maths`, in the same order.

Kernels that use these are launched without contraction of products and sums, so every operation is rounded once and
results have the same bits as on the host.
"""

import triton
import triton.language as tl


@triton.jit
def half_open(low, high):
    """Return a number in [0, 1) with 53 bits from two words."""
    return ((high.to(tl.int64) << 21) | (low >> 11).to(tl.int64)).to(tl.float64) * 1.1102230246251565e-16


@triton.jit
def open_unit(low, high):
    """Return a number in (0, 1), the middle of one of 2**52 equal parts, from two words."""
    return (((high.to(tl.int64) << 20) | (low >> 12).to(tl.int64)).to(tl.float64) + 0.5) * 2.220446049250313e-16


@triton.jit
def _quadrants(q, sine, cosine):
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
    p = t * 7.0376836292e-2 + -1.1514610310e-1
    p = p * t + 1.1676998740e-1
    p = p * t + -1.2420140846e-1
    p = p * t + 1.4249322787e-1
    p = p * t + -1.6668057665e-1
    p = p * t + 2.0000714765e-1
    p = p * t + -2.4999993993e-1
    p = p * t + 3.3333331174e-1
    y = p * t
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
    z = a * a
    sine = z * -1.9515295891e-4 + 8.3321608736e-3
    sine = sine * z + -1.6666654611e-1
    sine = sine * z
    sine = sine * a + a
    cosine = z * 2.443315711809948e-5 + -1.388731625493765e-3
    cosine = cosine * z + 4.166664568298827e-2
    cosine = cosine * z
    cosine = cosine * z
    cosine = cosine - z * 0.5
    cosine = cosine + 1.0
    return _quadrants(quarter & 3, sine, cosine)


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
    p = z * 1.479819860511658591e-01 + 1.531383769920937332e-01
    p = p * z + 1.818357216161805012e-01
    p = p * z + 2.222219843214978396e-01
    p = p * z + 2.857142874366239149e-01
    p = p * z + 3.999999999940941908e-01
    p = p * z + 6.666666666666735130e-01
    p = p * z
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
    p = t * 4.13813679705723846039e-08 + -1.65339022054652515390e-06
    p = p * t + 6.61375632143793436117e-05
    p = p * t + -2.77777777770155933842e-03
    p = p * t + 1.66666666666666019037e-01
    c = r - p * t
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
    a = (scaled - quarter) * 1.5707963267948966
    z = a * a
    sine = z * 1.58969099521155010221e-10 + -2.50507602534068634195e-08
    sine = sine * z + 2.75573137070700676789e-06
    sine = sine * z + -1.98412698298579493134e-04
    sine = sine * z + 8.33333333332248946124e-03
    sine = sine * z + -1.66666666666666324348e-01
    sine = sine * z
    sine = sine * a + a
    cosine = z * -1.13596475577881948265e-11 + 2.08757232129817482790e-09
    cosine = cosine * z + -2.75573143513906633035e-07
    cosine = cosine * z + 2.48015872894767294178e-05
    cosine = cosine * z + -1.38888888888741095749e-03
    cosine = cosine * z + 4.16666666666666019037e-02
    cosine = cosine * z
    cosine = cosine * z
    cosine = cosine - z * 0.5
    cosine = cosine + 1.0
    return _quadrants(quarter.to(tl.int64), sine, cosine)


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
