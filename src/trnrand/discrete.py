"""Discrete distributions."""

from __future__ import annotations

from typing import Any, Unpack

import torch
from torch import Tensor

from trnrand.binomial import COUNTS, log_complement, part_of
from trnrand.bits import stream_words
from trnrand.gamma import scaled_gamma
from trnrand.inverse import draw_formula
from trnrand.poisson import poisson_of
from trnrand.request import FLOATS, INTEGERS, Number, Options, Request, Size, as_tensor, check_parameter, drawing, holds
from trnrand.source import shape_of
from trnsci import ArgumentError, check
from trnsci.analogs import resembles

TRUTHS = (torch.bool, *INTEGERS, *FLOATS)
# the largest rate of a Poisson count
MOST = 2.0**62


@resembles("aten::bernoulli")
@drawing
def bernoulli(*size: Size, p: Number = 0.5, **options: Unpack[Options]) -> Tensor:
    """Draw Bernoulli trials: 1 with chance ``p``, else 0.

    Args:
        p: chance of 1, from 0 to 1.
        dtype: bool by default, or any integer or floating dtype.

    Returns:
        Truth values, exact to ``2**-53`` of the chance; 0 and 1 are certain.
    """
    request = Request("bernoulli", size, p=(p, "probability"), dtypes=TRUTHS, **options)
    return request.finish(draw_formula(request, "bernoulli", request.parameter("p")))


@drawing
def rademacher(*size: Size, **options: Unpack[Options]) -> Tensor:
    """Draw Rademacher signs: -1 or 1 with equal chance, one word each.

    Args:
        size: the shape.
        dtype: int64 by default, a signed integer or a floating dtype.

    Returns:
        The signs.
    """
    dtypes = (*(d for d in COUNTS if d != torch.uint8),)
    request = Request("rademacher", size, dtypes=dtypes, **options)
    stream, first = request.claim(1)
    words = stream_words(stream, first, request.count, request.device)
    return request.finish(1 - 2 * (words >> 31))


@drawing
def geometric(*size: Size, p: Number, **options: Unpack[Options]) -> Tensor:
    """Draw geometric counts: trials up to and including the first success, 1, 2, 3, ...

    Args:
        p: chance of success, above 0, up to 1.
        dtype: int64 by default, another integer (whose range must hold the counts), or a floating dtype.

    Returns:
        ``ceil(ln(u) / ln(1 - p))``, at most ``2**62``.
    """
    request = Request("geometric", size, p=(p, "positive probability"), dtypes=COUNTS, **options)
    # of a number on the host, wherever the result goes
    number = [] if isinstance(p, Tensor) else [float(p)]
    chance = request.tensor("p").detach() if not number else torch.tensor(number, dtype=torch.float64, device="cpu")
    rate = torch.where(chance < 1.0, log_complement(chance.clamp(max=1.0 - 2.0**-53)), -1e300)
    return request.finish(draw_formula(request, "geometric", rate if isinstance(p, Tensor) else rate.item()))


@drawing
def negative_binomial(*size: Size, n: Number, p: Number = 0.5, **options: Unpack[Options]) -> Tensor:
    """Draw negative binomial counts: failures before the ``n``-th success.

    Args:
        n: successes to wait for, positive, not necessarily whole.
        p: chance of success, above 0, up to 1.
        dtype: int64 by default, another integer (whose range must hold the counts), or a floating dtype.

    Returns:
        A Poisson count whose rate is a gamma variate.
    """
    request = Request(
        "negative_binomial", size, n=(n, "shape"), p=(p, "positive probability"), dtypes=COUNTS, **options
    )
    n, p = request.tensor("n").detach(), request.tensor("p").detach()
    rate = torch.where(p < 1.0, scaled_gamma(request, n, (1.0 - p).clamp(min=2.0**-60) / p, 0), 0.0)
    if not rate.is_meta and bool((rate > MOST).any()):
        got, expected = f"a rate of {rate.max().item():.3g}", "n (1 - p) / p such that rates stay below 2**62"
        raise ArgumentError("negative_binomial", "n", got, expected)
    return request.finish(poisson_of(request, rate, 1))


@resembles("aten::multinomial")
@drawing
def categorical(*size: Size, probs: Tensor, **options: Unpack[Options]) -> Tensor:
    """Draw category indices 0 .. K - 1, each as likely as its share of ``probs``.

    Args:
        size: shape of the draws; without one, the batch shape of ``probs``.
        probs: [..., K], not negative, with a positive sum; it need not be 1.
        dtype: int64 by default, or another integer.

    Returns:
        [*size], by inversion of the cumulative sums in float64. A category of probability 0 never occurs.

    Raises:
        ArgumentError: ``probs`` has a negative or NaN entry, or a row without any weight. Nothing was drawn.
    """
    weights = weights_of("categorical", probs)
    request = Request(
        "categorical", size, probs=(weights[..., 0], "finite"), dtypes=(torch.int64, *INTEGERS), **options
    )
    if weights.shape[-1] - 1 > torch.iinfo(request.dtype).max:
        expected = f"at most {torch.iinfo(request.dtype).max + 1} for {str(request.dtype).removeprefix('torch.')}"
        raise ArgumentError("categorical", "categories", weights.shape[-1], expected)
    return request.finish(invert_sums(request, weights, request.open_unit()))


def invert_sums(request: Request, weights: Tensor, u: Tensor) -> Tensor:
    """Return the category of each uniform."""
    weights = level_weights(weights)
    sums = weights.cumsum(-1)
    if sums.ndim == 1:
        target = u * sums[-1]
        categories = torch.searchsorted(sums, target, right=True)
    else:
        rows = sums.expand(*request.shape, sums.shape[-1])[request._rows].reshape(-1, sums.shape[-1]).contiguous()
        categories = torch.searchsorted(rows, (u * rows[:, -1]).unsqueeze(-1), right=True).squeeze(-1)
        weights = weights.expand(*request.shape, sums.shape[-1])[request._rows].reshape(-1, sums.shape[-1])
    # rounding may end past the last category that has any weight
    last = (weights > 0).long() * torch.arange(1, weights.shape[-1] + 1, device=weights.device)
    return torch.minimum(categories, last.max(-1).values - 1)


def weights_of(op: str, probs: Any) -> Tensor:
    """Check weights and return them as float64 [..., K]."""
    weights = as_tensor(op, "probs", probs, torch.float64).detach()
    if weights.ndim < 1 or weights.shape[-1] < 1:
        raise ArgumentError(op, "shape of probs", tuple(weights.shape), "[..., K], K >= 1")
    positive: Tensor = check_parameter(op, "probs", weights, "non-negative")
    largest = positive.amax(-1, keepdim=True)
    if not largest.is_meta and not bool((largest > 0).all()):
        raise ArgumentError(op, "probs", "a row of zeros", "a positive weight in every row")
    return positive


def level_weights(weights: Tensor) -> Tensor:
    """Scale each row of weights by a power of two, so that sums neither overflow nor vanish."""
    exponent = torch.frexp(weights.amax(-1, keepdim=True)).exponent
    # in two steps, because one factor may be beyond float64
    return torch.ldexp(torch.ldexp(weights, -(exponent // 2)), exponent // 2 - exponent)


@drawing
def multinomial(*size: Size, n: Number, probs: Tensor, **options: Unpack[Options]) -> Tensor:
    """Draw multinomial counts: how often each of K categories occurs in ``n`` draws.

    Args:
        size: shape of the batch; without one, what ``n`` and the batch of ``probs`` broadcast to.
        n: draws, a whole number up to ``2**53``.
        probs: [..., K], not negative, with a positive sum; it need not be 1.
        dtype: int64 by default, another integer (whose range must hold the counts), or a floating dtype.

    Returns:
        [*size, K], each row summing to ``n``: one binomial count after the other, of what the ones before left.
    """
    weights = level_weights(weights_of("multinomial", probs))
    categories = weights.shape[-1]
    trials = check_parameter("multinomial", "n", n, "count")
    lead = tuple(trials.shape) if isinstance(trials, Tensor) else ()
    batch = check.broadcast("multinomial", n=lead, probs=tuple(weights.shape[:-1]))
    shape = shape_of("multinomial", size) if size else batch
    holds("multinomial", shape, batch)
    if options.get("device") is None:
        options["device"] = weights.device
    request = Request("multinomial", (shape,), dtypes=COUNTS, event=(categories,), **options)
    rows_ = request._rows if request.shape[:-1] else slice(None)
    weights = weights.expand(*shape, categories)
    weights = (weights[rows_] if shape else weights).reshape(-1, categories)
    left = torch.as_tensor(trials, dtype=torch.float64, device=request.device).expand(shape)
    left = (left[rows_] if shape else left).reshape(-1)
    remaining = weights.flip(-1).cumsum(-1).flip(-1)
    counts = []
    for k in range(categories):
        there = remaining[:, k] > 0
        share = torch.where(there, weights[:, k] / torch.where(there, remaining[:, k], 1.0), 0.0)
        if k == categories - 1:
            share = torch.ones_like(share)
        counts.append(part_of(request, left, share, k, categories))
        left = left - counts[-1]
    return request.finish(torch.stack(counts, -1))
