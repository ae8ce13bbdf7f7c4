"""Square root, logarithm, exponential, sine and cosine as fixed sequences of exactly rounded operations.

Library functions differ in the last bits between machines and devices, and a random variate must not. Everything here
is additions, multiplications, divisions and square roots, which IEEE 754 rounds uniquely, so CPU, GPU and the
compiled loops (``src/loops/numbers.h``, the same steps in C) give the same bits. Errors stay below one unit in the last
place for `log` and `exp`, and below ``2**-52`` absolutely for `sincos2pi`. Gradients are those of the exact functions.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnrand import host_loops
from trnsci import host

COEFFICIENTS: dict[str, Any] = json.loads(
    (Path(__file__).parent / "data" / "coefficients.json").read_text(encoding="utf-8")
)


LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# adding and subtracting it rounds to an integer
ROUND = 6755399441055744.0
SQRT_HALF = 0x3FE6A09E667F3BCD
SQRT_HALF32 = 0x3F3504F3


def _polynomial(x: Tensor, function: str) -> Tensor:
    # a Python number is rounded to the tensor's dtype before it is used, as a C constant is
    first, *others = COEFFICIENTS[function]
    value = torch.full_like(x, first)
    for coefficient in others:
        value.mul_(x).add_(coefficient)
    return value


class _Exactly(torch.autograd.Function):
    """A function of `_VALUES`, with the gradient of the function that it stands for."""

    @staticmethod
    def forward(x: Tensor, name: str) -> Tensor:
        return _VALUES[name](x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.name = inputs[1]
        ctx.save_for_backward(inputs[0] if ctx.name == "log" else output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (grad,), (kept,) = grads, ctx.saved_tensors
        if ctx.name == "exp":
            return grad * kept, None
        return grad / kept if ctx.name == "log" else grad * 0.5 / kept, None


def _root(x: Tensor) -> Tensor:
    # torch's square root on the CPU may be a vector library's, which is not correctly rounded; NumPy's is
    return torch.from_numpy(np.sqrt(x.detach().numpy())) if x.device.type == "cpu" else torch.sqrt(x)


_VALUES: dict[str, Callable[[Tensor], Tensor]] = {
    "sqrt": _root,
    "log": lambda x: host_loops.map_function(host_loops.LOG, x) if host_loops.mapping(x) else pure_log(x),
    "exp": lambda x: host_loops.map_function(host_loops.EXP, x) if host_loops.mapping(x) else pure_exp(x),
}


def _exactly(x: Tensor, name: str) -> Tensor:
    return _Exactly.apply(x, name) if host.is_differentiated(x) else _VALUES[name](x)  # type: ignore[no-untyped-call]


def sqrt(x: Tensor) -> Tensor:
    """Return the square root, correctly rounded."""
    return _exactly(x, "sqrt")


def log(x: Tensor) -> Tensor:
    """Return natural logarithm of positive normal float64."""
    return _exactly(x, "log")


def log_positive(x: Tensor) -> Tensor:
    """Return `log` of any positive float64, subnormal ones included."""
    small = x < 2.0**-1000
    return log(torch.where(small, x * 2.0**100, x)) - torch.where(small, 100 * math.log(2.0), 0.0)


def exp(x: Tensor) -> Tensor:
    """Return exponential of float64, subnormal and infinite results included."""
    return _exactly(x, "exp")


def power(x: Tensor, exponent: Tensor | float) -> Tensor:
    """Return ``x ** exponent`` for positive ``x``; its relative error grows with ``|exponent ln x|``."""
    return exp(exponent * log(x))


def sincos2pi(t: Tensor) -> tuple[Tensor, Tensor]:
    """Return sine and cosine of ``2 pi t``, float64 with ``0 <= t < 1``; no gradient."""
    if not host_loops.mapping(t):
        return pure_sincos2pi(t)
    return host_loops.map_function(host_loops.SIN_2PI, t), host_loops.map_function(host_loops.COS_2PI, t)


def pure_log(x: Tensor) -> Tensor:
    """Return `log` by torch alone."""
    shifted = x.contiguous().view(torch.int64) - SQRT_HALF
    k = (shifted >> 52).double()
    f = ((shifted & 0xFFFFFFFFFFFFF) + SQRT_HALF).view(torch.float64) - 1.0
    s = f / (2.0 + f)
    z = s * s
    p = _polynomial(z, "log") * z
    half = 0.5 * f * f
    y = s * (half + p)
    y = y + k * LN2_LOW
    y = half - y
    y = y - f
    return k * LN2_HIGH - y


def pure_exp(x: Tensor) -> Tensor:
    """Return `exp` by torch alone."""
    limited = x.clamp(-746.0, 710.0)
    k = limited * 1.44269504088896338700 + ROUND
    k = k - ROUND
    hi, lo = limited - k * LN2_HIGH, k * LN2_LOW
    r = hi - lo
    t = r * r
    c = r - _polynomial(t, "exp") * t
    y = r * c
    y = y / (2.0 - c)
    y = lo - y
    y = y - hi
    y = 1.0 - y
    # the power of two comes in two factors, each a normal number
    half = k.long() >> 1
    first, second = ((part + 1023 << 52).view(torch.float64) for part in (half, k.long() - half))
    return y * first * second


def pure_sincos2pi(t: Tensor) -> tuple[Tensor, Tensor]:
    """Return `sincos2pi` by torch alone."""
    scaled = 4.0 * t
    quarter = scaled + ROUND
    quarter = quarter - ROUND
    a = (scaled - quarter) * (math.pi / 2)
    return _quadrants(quarter.long(), a, "sin", "cos")


def sincos2pi32(k: Tensor) -> tuple[Tensor, Tensor]:
    """Return sine and cosine of ``2 pi k / 2**24`` in float32, for int64 ``0 <= k < 2**24``."""
    quarter = k + (1 << 21) >> 22
    rest = k - (quarter << 22)
    a = rest.float() * 3.745070282923929e-7
    return _quadrants(quarter & 3, a, "sin32", "cos32")


def _quadrants(q: Tensor, a: Tensor, sin: str, cos: str) -> tuple[Tensor, Tensor]:
    """Return sine and cosine of ``a + q pi / 2`` with ``|a| <= pi / 4``."""
    z = a * a
    sine = _polynomial(z, sin) * z
    sine = sine * a + a
    cosine = _polynomial(z, cos) * z
    cosine = cosine * z
    cosine = cosine - 0.5 * z
    cosine = cosine + 1.0
    odd = q & 1 == 1
    first, second = torch.where(odd, cosine, sine), torch.where(odd, sine, cosine)
    return torch.where(q & 2 == 2, -first, first), torch.where(q + 1 & 2 == 2, -second, second)


def log32(x: Tensor) -> Tensor:
    """Return natural logarithm of float32 ``k / 2**24``, ``0 < k <= 2**24``."""
    shifted = x.view(torch.int32).long() - SQRT_HALF32 & 0xFFFFFFFF
    # the sign of a 32-bit word
    k = ((shifted ^ 1 << 31) - (1 << 31) >> 23).float()
    t = ((shifted & 0x7FFFFF) + SQRT_HALF32).int().view(torch.float32) - 1.0
    z = t * t
    y = _polynomial(t, "log32") * t
    y = y * z
    y = y + k * -2.12194440e-4
    y = y - 0.5 * z
    r = t + y
    return r + k * 0.693359375


def stirling_error(n: Tensor) -> Tensor:
    """Return ``ln(n!) - ln(sqrt(2 pi n) (n / e)**n)`` for whole ``n >= 0`` (0 at 0)."""
    table = n.new_tensor(COEFFICIENTS["stirling"])[n.clamp(0, 15).long()]
    large = n.clamp(min=16.0)
    square = large * large
    p: Tensor = 1.0 / 1680.0 - (1.0 / 1188.0) / square
    for coefficient in (1.0 / 1260.0, 1.0 / 360.0, 1.0 / 12.0):
        p = coefficient - p / square
    return torch.where(n <= 15.0, table, p / large)


def deviance(x: Tensor, m: Tensor) -> Tensor:
    """Return ``x ln(x / m) + m - x`` without cancellation near ``x = m`` (Loader 2000); ``x, m > 0``."""
    gap, total = x - m, x + m
    v = gap / total
    near, term, square = gap * v, 2.0 * x * v, v * v
    for j in range(1, 11):
        term = term * square
        near = near + term / float(2 * j + 1)
    return torch.where(gap.abs() < 0.1 * total, near, x * log(x / m) - gap)


def log_poisson(k: Tensor, rate: Tensor) -> Tensor:
    """Return logarithm of the Poisson probability of ``k >= 0``."""
    some = k.clamp(min=1.0)
    y = -stirling_error(some) - deviance(some, rate)
    y = y - 0.5 * log((2 * math.pi) * some)
    return torch.where(k == 0, -rate, y)


def _ratio(x: Tensor, interval: str) -> Tensor:
    """Evaluate one of Wichura's rational functions (algorithm AS 241, 1988): |p - 1/2| <= 0.425, or part of a tail."""
    polynomials = []
    for first, *others in COEFFICIENTS[f"quantile_{interval}"]:
        total = torch.full_like(x, first)
        for coefficient in others:
            total = total * x + coefficient
        polynomials.append(total)
    return polynomials[0] / polynomials[1]


def normal_quantile(p: Tensor) -> Tensor:
    """Return the standard normal quantile of float64 ``0 < p < 1``, to a relative error of 1e-15."""
    q = p - 0.5
    centre = q * _ratio(0.180625 - q * q, "centre")
    r = sqrt(-log(torch.minimum(p, 1.0 - p)))
    tail = torch.where(r <= 5.0, _ratio(r - 1.6, "tail"), _ratio(r - 5.0, "far"))
    return torch.where(q.abs() <= 0.425, centre, torch.where(q < 0, -tail, tail))
