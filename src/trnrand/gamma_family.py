"""Distributions of ratios of gamma variates and normal numbers, each from a substream of its own."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from trnrand import maths
from trnrand.gamma import log_gamma, moderate, scaled_gamma, standard_gamma, tiny
from trnrand.normal import pairs64
from trnrand.request import Number, Options, Request, Size, as_tensor, drawing
from trnrand.source import shape_of
from trnsci import ArgumentError, check


@drawing
def beta(*size: Size, a: Number, b: Number, **options: Unpack[Options]) -> Tensor:
    """Draw beta numbers in [0, 1]: density proportional to ``x**(a - 1) * (1 - x)**(b - 1)``.

    Args:
        a: positive.
        b: positive.

    Returns:
        ``x / (x + y)`` of two gamma variates, in logarithms where they could underflow; with gradients to the
        parameters.
    """
    request = Request("beta", size, a=(a, "shape"), b=(b, "shape"), **options)
    first, second = request.tensor("a"), request.tensor("b")
    x, y = standard_gamma(request, moderate(first), 0), standard_gamma(request, moderate(second), 1)
    # halves, whose sum does not overflow
    ratio = 0.5 * x / (0.5 * x + 0.5 * y)
    hard = tiny(first, second)
    if hard is not None:
        odds = log_gamma(request, first, 0) - log_gamma(request, second, 1)
        small = maths.exp(-odds.abs())
        ratio = torch.where(hard, torch.where(odds < 0, small, 1.0) / (1.0 + small), ratio)
    return request.finish(ratio)


@drawing
def chi_squared(*size: Size, df: Number, **options: Unpack[Options]) -> Tensor:
    """Draw chi-squared numbers: gamma variates of shape ``df / 2`` and scale 2.

    Args:
        df: degrees of freedom, positive.

    Returns:
        The numbers, with gradients to the parameters.
    """
    request = Request("chi_squared", size, df=(df, "shape"), **options)
    two = torch.full((), 2.0, dtype=torch.float64, device=request.device)
    return request.finish(scaled_gamma(request, 0.5 * request.tensor("df"), two))


@drawing
def student_t(*size: Size, df: Number, loc: Number = 0.0, scale: Number = 1.0, **options: Unpack[Options]) -> Tensor:
    """Draw Student's t: a normal number over the root of a chi-squared one per degree of freedom.

    Args:
        df: degrees of freedom, positive.
        loc: position.
        scale: width, positive.

    Returns:
        ``loc + scale * t``, with gradients to the parameters.
    """
    request = Request("student_t", size, df=(df, "shape"), loc=(loc, "finite"), scale=(scale, "positive"), **options)
    df = request.tensor("df")
    z = pairs64(request.blocks(1).reshape(-1))[0::2]
    t = z / maths.sqrt(2.0 * standard_gamma(request, moderate(0.5 * df), 0) / df)
    hard = tiny(0.5 * df)
    if hard is not None:
        log_ratio = log_gamma(request, 0.5 * df, 0) - maths.log_positive(0.5 * df)
        far = maths.exp(maths.log(z.abs().clamp(min=1e-300)) - 0.5 * log_ratio)
        t = torch.where(hard, torch.sign(z) * far, t)
    return request.finish(request.parameter("loc") + request.parameter("scale") * t)


@drawing
def f(*size: Size, dfnum: Number, dfden: Number, **options: Unpack[Options]) -> Tensor:
    """Draw Fisher's F: the ratio of two chi-squared numbers, each over its degrees of freedom.

    Args:
        dfnum: degrees of freedom of the numerator, positive.
        dfden: degrees of freedom of the denominator, positive.

    Returns:
        The numbers, with gradients to the parameters.
    """
    request = Request("f", size, dfnum=(dfnum, "shape"), dfden=(dfden, "shape"), **options)
    above, below = request.tensor("dfnum"), request.tensor("dfden")
    x = standard_gamma(request, moderate(0.5 * above), 0)
    y = standard_gamma(request, moderate(0.5 * below), 1)
    ratio = (x / above) / (y / below)
    hard = tiny(0.5 * above, 0.5 * below)
    if hard is not None:
        logs = log_gamma(request, 0.5 * above, 0) - log_gamma(request, 0.5 * below, 1)
        ratio = torch.where(hard, maths.exp(logs + maths.log_positive(below) - maths.log_positive(above)), ratio)
    return request.finish(ratio)


@drawing
def dirichlet(*size: Size, alpha: Tensor, **options: Unpack[Options]) -> Tensor:
    """Draw Dirichlet vectors: K non-negative numbers that sum to 1.

    Args:
        size: shape of the batch; without one, the batch shape of ``alpha``.
        alpha: [..., K], positive.

    Returns:
        [*size, K], with gradients to ``alpha``.

    Raises:
        ArgumentError: ``alpha`` has no axis of categories or is not positive. Nothing was drawn.
    """
    if not isinstance(alpha, Tensor):
        alpha = as_tensor("dirichlet", "alpha", alpha)
        alpha = alpha if alpha.is_complex() else alpha.double()
    check.dense("dirichlet", alpha=alpha)
    if alpha.ndim < 1 or alpha.shape[-1] < 1:
        raise ArgumentError("dirichlet", "shape of alpha", tuple(alpha.shape), "[..., K], K >= 1")
    whole = (*shape_of("dirichlet", size), alpha.shape[-1]) if size else ()
    request = Request("dirichlet", whole, alpha=(alpha, "shape"), **options)
    shapes, k = request.tensor("alpha"), alpha.shape[-1]
    # times a power of two, with which the sum does not overflow
    parts = standard_gamma(request, moderate(shapes)).reshape(-1, k) * 2.0 ** -k.bit_length()
    shares = parts / parts.sum(-1, keepdim=True)
    hard = tiny(shapes)
    if hard is not None:
        logs = log_gamma(request, shapes).reshape(-1, k)
        parts = maths.exp(logs - logs.detach().amax(-1, keepdim=True))
        rows = hard.expand(request.count).reshape(-1, k).any(-1, keepdim=True)
        shares = torch.where(rows, parts / parts.sum(-1, keepdim=True), shares)
    return request.finish(shares)
