"""Continuous distributions that are a function of one uniform or one normal number."""

from __future__ import annotations

import math
from typing import Unpack

import torch
from torch import Tensor

from trnrand import maths
from trnrand.inverse import by_formula
from trnrand.normal import standard
from trnrand.reject import at, draw_accepted
from trnrand.request import Number, Options, Request, Size, drawing, half_open
from trnrand.uniform import check_order
from trnsci import ArgumentError
from trnsci.analogs import resembles


@drawing
def lognormal(*size: Size, loc: Number = 0.0, scale: Number = 1.0, **options: Unpack[Options]) -> Tensor:
    """Draw log-normal numbers: exponentials of normal ones.

    Args:
        loc: mean of the logarithm.
        scale: standard deviation of the logarithm.

    Returns:
        ``exp(loc + scale * z)``, with gradients to the parameters.
    """
    request = Request("lognormal", size, loc=(loc, "finite"), scale=(scale, "non-negative"), **options)
    z = standard(request).double()
    return request.finish(maths.exp(request.parameter("loc") + request.parameter("scale") * z))


@resembles("aten::exponential_", "numpy.random.exponential")
@drawing
def exponential(*size: Size, scale: Number = 1.0, **options: Unpack[Options]) -> Tensor:
    """Draw exponential numbers of mean ``scale``.

    Args:
        scale: mean, positive; the inverse of the rate.

    Returns:
        ``-scale * ln(u)``, with gradients to the parameters.
    """
    return by_formula("exponential", size, options, scale=(scale, "positive"))


@drawing
def laplace(*size: Size, loc: Number = 0.0, scale: Number = 1.0, **options: Unpack[Options]) -> Tensor:
    """Draw Laplace (double exponential) numbers.

    Args:
        loc: position.
        scale: width, positive.

    Returns:
        ``loc`` plus or minus an exponential number of mean ``scale``, with gradients to the parameters.
    """
    return by_formula("laplace", size, options, loc=(loc, "finite"), scale=(scale, "positive"))


@drawing
def cauchy(*size: Size, loc: Number = 0.0, scale: Number = 1.0, **options: Unpack[Options]) -> Tensor:
    """Draw Cauchy numbers: ratios of two normal ones, shifted and scaled.

    Args:
        loc: position.
        scale: width, positive.

    Returns:
        ``loc + scale * tan(pi (u - 1/2))``, with gradients to the parameters.
    """
    return by_formula("cauchy", size, options, loc=(loc, "finite"), scale=(scale, "positive"))


@drawing
def gumbel(*size: Size, loc: Number = 0.0, scale: Number = 1.0, **options: Unpack[Options]) -> Tensor:
    """Draw Gumbel numbers: the distribution of the largest of many.

    Args:
        loc: position.
        scale: width, positive.

    Returns:
        ``loc - scale * ln(-ln(u))``, with gradients to the parameters.
    """
    return by_formula("gumbel", size, options, loc=(loc, "finite"), scale=(scale, "positive"))


@drawing
def logistic(*size: Size, loc: Number = 0.0, scale: Number = 1.0, **options: Unpack[Options]) -> Tensor:
    """Draw logistic numbers.

    Args:
        loc: position.
        scale: width, positive.

    Returns:
        ``loc + scale * ln(u / (1 - u))``, with gradients to the parameters.
    """
    return by_formula("logistic", size, options, loc=(loc, "finite"), scale=(scale, "positive"))


@drawing
def weibull(*size: Size, shape: Number, scale: Number = 1.0, **options: Unpack[Options]) -> Tensor:
    """Draw Weibull numbers: ``P(x > t) = exp(-(t / scale)**shape)``.

    Args:
        shape: exponent, positive.
        scale: positive.

    Returns:
        ``scale * (-ln u)**(1 / shape)``, with gradients to the parameters.
    """
    return by_formula("weibull", size, options, shape=(shape, "positive"), scale=(scale, "positive"))


@drawing
def pareto(*size: Size, shape: Number, scale: Number = 1.0, **options: Unpack[Options]) -> Tensor:
    """Draw Pareto numbers: ``P(x > t) = (scale / t)**shape`` for ``t >= scale``.

    NumPy's ``pareto`` is this one with ``scale=1``, minus 1.

    Args:
        shape: exponent of the tail, positive.
        scale: the smallest value, positive.

    Returns:
        ``scale * u**(-1 / shape)``, with gradients to the parameters.
    """
    return by_formula("pareto", size, options, shape=(shape, "positive"), scale=(scale, "positive"))


@drawing
def truncated_normal(
    *size: Size,
    loc: Number = 0.0,
    scale: Number = 1.0,
    low: Number = -math.inf,
    high: Number = math.inf,
    **options: Unpack[Options],
) -> Tensor:
    """Draw normal numbers conditioned to lie in [low, high], by the inverse distribution function.

    Args:
        loc: mean of the untruncated distribution.
        scale: its standard deviation, positive.
        low: lower end, may be infinite.
        high: upper end, greater than ``low``, may be infinite.

    Returns:
        The numbers, with gradients to ``loc`` and ``scale`` as far as ``low`` and ``high`` are held relative to them.
        It uses torch's ``erfc`` and ``ndtri``, so devices agree to about 1e-14 and not to the bit.

    Raises:
        ArgumentError: a parameter is out of range, ``low >= high``, or the interval lies beyond 37 standard
            deviations, where float64 has no probabilities left. Nothing was drawn.
    """
    request = Request(
        "truncated_normal",
        size,
        loc=(loc, "finite"),
        scale=(scale, "positive"),
        low=(low, "any but NaN"),
        high=(high, "any but NaN"),
        **options,
    )
    check_order("truncated_normal", low, high)
    loc_, scale_, low_, high_ = (request.tensor(name) for name in ("loc", "scale", "low", "high"))
    a, b = (low_ - loc_) / scale_, (high_ - loc_) / scale_
    # in the left half probabilities keep their relative precision
    flipped = a + b > 0
    left, right = torch.where(flipped, -b, a), torch.where(flipped, -a, b)
    if not right.is_meta and bool((right < -37.0).any()):
        worst = right.detach().min().item()
        expected = "an interval within 37 standard deviations of loc"
        raise ArgumentError("truncated_normal", "low", f"an end at {worst:.3g} of them", expected)
    below, above = (0.5 * torch.special.erfc(x * -math.sqrt(0.5)) for x in (left, right))
    p = below + request.open_unit() * (above - below)
    z = torch.clamp(torch.special.ndtri(p.clamp(1e-307, 1.0 - 2.0**-53)), left, right)
    values = (loc_ + scale_ * torch.where(flipped, -z, z)).to(request.dtype)
    return request.finish(torch.clamp(values, low_.to(values.dtype), high_.to(values.dtype)))


@drawing
def von_mises(*size: Size, loc: Number = 0.0, concentration: Number = 1.0, **options: Unpack[Options]) -> Tensor:
    """Draw von Mises angles: density proportional to ``exp(concentration * cos(x - loc))`` on the circle.

    Args:
        loc: mean direction in radians.
        concentration: not negative; 0 is uniform.

    Returns:
        Angles in [-pi, pi] by Best and Fisher's rejection. Above a concentration of 1e6 they are normal numbers of
        variance ``1 / concentration``, whose difference is below 1e-6 of that width. No gradient. It uses torch's
        ``acos``, so devices agree to about 1e-15 and not to the bit.
    """
    request = Request("von_mises", size, loc=(loc, "finite"), concentration=(concentration, "non-negative"), **options)
    k = request.tensor("concentration").detach()
    middle = k.clamp(1e-5, 1e6)
    tau = 1.0 + maths.sqrt(1.0 + 4.0 * middle * middle)
    rho = (tau - maths.sqrt(2.0 * tau)) / (2.0 * middle)
    # the series of (1 + rho**2) / (2 rho) where its terms cancel
    r = torch.where(k < 1e-5, 1.0 / k.clamp(min=1e-300) + k, (1.0 + rho * rho) / (2.0 * rho))

    # circles that are nearly even or nearly points, which few draws have
    extremes = k.is_meta or bool(((k < 1e-8) | (k > 1e6)).any())

    def propose(w: Tensor, chosen: Tensor | None) -> tuple[Tensor, Tensor]:
        r_, k_ = at(r, chosen), at(k, chosen)
        unit = half_open(w[:, 0], w[:, 1])
        z = maths.sincos2pi(0.5 * unit)[1]
        f = (1.0 + r_ * z) / (r_ + z)
        c, u = k_ * (r_ - f), (w[:, 2].double() + 0.5) * 2.0**-32
        taken = (c * (2.0 - c) > u) | (maths.log((c / u).clamp(min=1e-300)) + 1.0 >= c)
        angle = torch.acos(f.clamp(-1.0, 1.0)) * (1.0 - 2.0 * (w[:, 3] >> 31).double())
        if not extremes:
            return angle, taken
        flat = (2.0 * unit - 1.0) * math.pi
        narrow = maths.sqrt(-2.0 * maths.log(unit + 2.0**-53)) / maths.sqrt(k_.clamp(min=1.0))
        narrow = narrow * maths.sincos2pi(w[:, 2].double() * 2.0**-32)[1]
        extreme = (k_ < 1e-8) | (k_ > 1e6)
        return torch.where(k_ < 1e-8, flat, torch.where(k_ > 1e6, narrow, angle)), taken | extreme

    request.claim(1)
    if request.count == 0:
        return request.finish(torch.empty(0, dtype=torch.float64, device=request.device))
    angle = request.parameter("loc") + draw_accepted(
        lambda attempt, chosen: request.blocks(0, attempt, chosen), propose
    )
    return request.finish(torch.remainder(angle + math.pi, 2.0 * math.pi) - math.pi)
