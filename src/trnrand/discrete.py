"""Discrete distributions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnrand import maths
from trnrand.binomial import COUNTS, binomial_of, log_complement
from trnrand.bits import stream_words
from trnrand.engines import MASK
from trnrand.gamma import standard_gamma
from trnrand.poisson import poisson_of
from trnrand.reject import Blocks, blocks_of, rejected
from trnrand.request import FLOATS, INTEGERS, Number, Request, checked, drawing, half_open
from trnrand.source import Source, shape_of
from trnsci import ArgumentError, DtypeError, check

TRUTHS = (torch.bool, *INTEGERS, *FLOATS)


@drawing
def bernoulli(
    *size: Any,
    p: Number = 0.5,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Bernoulli trials: 1 with chance ``p``, else 0.

    Args:
        size: the shape; without one, the shape the parameters broadcast to.
        p: chance of 1, from 0 to 1.
        dtype: bool by default, or any integer or floating dtype.
        device: where the result goes.
        out: memory for the result.
        generator: a `Generator`; by default the one `manual_seed` seeds.

    Returns:
        Truth values, exact to 2**-53 of the chance; 0 and 1 are certain.

    Raises:
        ArgumentError: a parameter is out of range. Nothing was drawn.
    """
    parameters = {"p": (p, "probability")}
    request = Request(
        "bernoulli", size, generator, dtype=dtype, device=device, out=out, parameters=parameters, dtypes=TRUTHS
    )
    stream, first = request.claim(2)
    words = stream_words(stream, 2 * first, 2 * request.count, request.device).view(-1, 2)
    return request.finish(half_open(words[:, 0], words[:, 1]) < request.tensor("p"))


@drawing
def rademacher(
    *size: Any,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Rademacher signs: -1 or 1 with equal chance, one word each.

    Args:
        size: the shape.
        dtype: int64 by default, a signed integer or a floating dtype.
        device: where the result goes.
        out: memory for the result.
        generator: a `Generator`; by default the one `manual_seed` seeds.

    Returns:
        The signs.
    """
    dtypes = (*(d for d in COUNTS if d != torch.uint8),)
    request = Request("rademacher", size, generator, dtype=dtype, device=device, out=out, dtypes=dtypes)
    stream, first = request.claim(1)
    words = stream_words(stream, first, request.count, request.device)
    return request.finish(1 - 2 * (words >> 31))


@drawing
def geometric(
    *size: Any,
    p: Number,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Geometric counts: trials up to and including the first success, 1, 2, 3, ...

    Args:
        size: the shape; without one, the shape the parameters broadcast to.
        p: chance of success, above 0, up to 1.
        dtype: int64 by default, another integer (whose range must hold the counts), or a floating dtype.
        device: where the result goes.
        out: memory for the result.
        generator: a `Generator`; by default the one `manual_seed` seeds.

    Returns:
        ``ceil(ln(u) / ln(1 - p))``, at most 2**62.

    Raises:
        ArgumentError: a parameter is out of range. Nothing was drawn.
    """
    parameters = {"p": (p, "positive probability")}
    request = Request(
        "geometric", size, generator, dtype=dtype, device=device, out=out, parameters=parameters, dtypes=COUNTS
    )
    p = request.tensor("p").detach()
    rate = torch.where(p < 1.0, log_complement(p.clamp(max=1.0 - 2.0**-53)), -1e300)
    made = torch.ceil(maths.log(request.open_unit()) / rate)
    # an integer holds no more than this
    return request.finish(made.clamp(1.0, 2.0**62))


@drawing
def negative_binomial(
    *size: Any,
    n: Number,
    p: Number = 0.5,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Negative binomial counts: failures before the ``n``-th success.

    Args:
        size: the shape; without one, the shape the parameters broadcast to.
        n: successes to wait for, positive, not necessarily whole.
        p: chance of success, above 0, up to 1.
        dtype: int64 by default, another integer (whose range must hold the counts), or a floating dtype.
        device: where the result goes.
        out: memory for the result.
        generator: a `Generator`; by default the one `manual_seed` seeds.

    Returns:
        A Poisson count whose rate is a gamma variate.

    Raises:
        ArgumentError: a parameter is out of range. Nothing was drawn.
    """
    parameters = {"n": (n, "positive"), "p": (p, "positive probability")}
    request = Request(
        "negative_binomial", size, generator, dtype=dtype, device=device, out=out, parameters=parameters, dtypes=COUNTS
    )
    n, p = request.tensor("n").detach(), request.tensor("p").detach()
    rate = standard_gamma(request, n, 0) * ((1.0 - p) / p)
    return request.finish(poisson_of(request, rate.clamp(max=2.0**62), 1))


def _blocks(request: Request, slot: int = 0) -> Blocks:
    return lambda attempt, chosen: request.blocks(slot, attempt, chosen)


@drawing
def randint(
    *size: Any,
    low: int = 0,
    high: int,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Integers from ``low`` up to but not including ``high``, every one equally likely.

    Args:
        size: the shape.
        low: the smallest, from -2**63.
        high: one more than the largest, up to 2**63.
        dtype: int64 by default, or another integer that holds both ends.
        device: where the result goes.
        out: memory for the result.
        generator: a `Generator`; by default the one `manual_seed` seeds.

    Returns:
        The integers. Ranges up to 2**32 use Lemire's multiplication on one word, wider ones a mask on two; words that
        would make some integer likelier are rejected, and the element's substream goes on.

    Raises:
        ArgumentError: ``low >= high``, or the dtype does not hold them. Nothing was drawn.

    Example:
        >>> trnrand.Generator(0).randint(5, high=6)
        tensor([2, 5, 4, 3, 5])
    """
    for name, value in (("low", low), ("high", high)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise DtypeError(op="randint", argument=name, got=type(value), expected="an integer")
    request = Request("randint", size, generator, dtype=dtype, device=device, out=out, dtypes=(torch.int64, *INTEGERS))
    if low >= high:
        raise ArgumentError(
            op="randint", argument="low", got={"low": low, "high": high}, hint="low must be less than high"
        )
    limits = torch.iinfo(request.dtype)
    if low < limits.min or high - 1 > limits.max:
        expected = f"{limits.min} <= low and high - 1 <= {limits.max} for {str(request.dtype).removeprefix('torch.')}"
        raise ArgumentError(op="randint", argument="high", got={"low": low, "high": high}, expected=expected)
    span = high - low
    request.claim(1)
    if request.count == 0:
        return request.finish(torch.empty(0, dtype=torch.int64, device=request.device))
    made = _narrow(request, span) if span <= 1 << 32 else _wide(request, span)
    # int64 wraps, which is what adding in the other direction needs
    return request.finish(made + (low if low >= -(1 << 63) else 0))


def _narrow(request: Request, span: int) -> Tensor:
    """Lemire 2019: the high word of word * span, unless the low word falls into the uneven rest."""
    uneven = (1 << 32) % span

    def propose(words: Tensor) -> tuple[Tensor, Tensor]:
        product = words * span
        return product >> 32 & MASK, (product & MASK) >= uneven

    stream, first = request.claim(1)
    result, taken = propose(stream_words(stream, first, request.count, request.device))
    pending, attempt = (~taken).nonzero().flatten(), 0
    while pending.numel():
        values, good = propose(request.blocks(0, attempt, pending)[:, 0])
        result[pending[good]] = values[good]
        pending, attempt = pending[~good], attempt + 1
    return result


def _wide(request: Request, span: int) -> Tensor:
    """As many bits of two words as span - 1 has, until they are below span."""
    shift = 64 - (span - 1).bit_length()

    def propose(w: Tensor, chosen: Tensor | None) -> tuple[Tensor, Tensor]:
        high = w[:, 1] >> shift
        made = high << 32 | w[:, 0]
        # int64 holds the bits; its sign stands for 2**63, so halves are compared
        top, low = span - 1 >> 32, span - 1 & MASK
        return made, (high < top) | ((high == top) & (w[:, 0] <= low))

    return rejected(_blocks(request), propose)


@drawing
def categorical(
    *size: Any,
    probs: Tensor,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Category numbers 0 .. K - 1, each as likely as its share of ``probs``.

    Args:
        size: shape of the draws; without one, the batch shape of ``probs``.
        probs: [..., K], not negative, with a positive sum; it need not be 1.
        dtype: int64 by default, or another integer.
        device: where the result goes.
        out: memory for the result.
        generator: a `Generator`; by default the one `manual_seed` seeds.

    Returns:
        [*size], by inversion of the cumulative sums in float64. A category of probability 0 never occurs.

    Raises:
        ArgumentError: ``probs`` has a negative or NaN entry, or a row without any weight. Nothing was drawn.
    """
    weights = weights_of("categorical", probs)
    parameters = {"probs": (weights[..., 0], "finite")}
    request = Request(
        "categorical",
        size,
        generator,
        dtype=dtype,
        device=device,
        out=out,
        parameters=parameters,
        dtypes=(torch.int64, *INTEGERS),
    )
    return request.finish(inverted(request, weights, request.open_unit()))


def inverted(request: Request, weights: Tensor, u: Tensor) -> Tensor:
    """The category of each uniform."""
    sums = weights.cumsum(-1)
    if sums.ndim == 1:
        target = u * sums[-1]
        found = torch.searchsorted(sums, target, right=True)
    else:
        rows = sums.expand(*request.shape, sums.shape[-1])[request._rows].reshape(-1, sums.shape[-1]).contiguous()
        found = torch.searchsorted(rows, (u * rows[:, -1]).unsqueeze(-1), right=True).squeeze(-1)
        weights = weights.expand(*request.shape, sums.shape[-1])[request._rows].reshape(-1, sums.shape[-1])
    # rounding may end past the last category that has any weight
    last = (weights > 0).long() * torch.arange(1, weights.shape[-1] + 1, device=weights.device)
    return torch.minimum(found, last.max(-1).values - 1)


def weights_of(op: str, probs: Any) -> Tensor:
    """Checked weights as float64 [..., K]."""
    weights = torch.as_tensor(probs).detach()
    if weights.ndim < 1 or weights.shape[-1] < 1:
        raise ArgumentError(op=op, argument="shape of probs", got=tuple(weights.shape), expected="[..., K], K >= 1")
    made: Tensor = checked(op, "probs", weights, "non-negative")
    total = made.sum(-1)
    if not total.is_meta and not bool((total > 0).all()):
        raise ArgumentError(op=op, argument="probs", got="a row of zeros", expected="a positive weight in every row")
    return made


@drawing
def multinomial(
    *size: Any,
    n: Number,
    probs: Tensor,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Multinomial counts: how often each of K categories occurs in ``n`` draws.

    Args:
        size: shape of the batch; without one, what ``n`` and the batch of ``probs`` broadcast to.
        n: draws, a whole number up to 2**53.
        probs: [..., K], not negative, with a positive sum; it need not be 1.
        dtype: int64 by default, another integer (whose range must hold the counts), or a floating dtype.
        device: where the result goes.
        out: memory for the result.
        generator: a `Generator`; by default the one `manual_seed` seeds.

    Returns:
        [*size, K], each row summing to ``n``: one binomial count after the other, of what the ones before left.

    Raises:
        ArgumentError: a parameter is out of range. Nothing was drawn.
    """
    weights = weights_of("multinomial", probs)
    categories = weights.shape[-1]
    trials = checked("multinomial", "n", n, "count")
    lead = tuple(trials.shape) if isinstance(trials, Tensor) else ()
    batch = check.broadcast("multinomial", n=lead, probs=tuple(weights.shape[:-1]))
    shape = shape_of("multinomial", size) if size else batch
    if check.broadcast_shape(shape, batch) != shape:
        raise ArgumentError(
            op="multinomial",
            argument="size",
            got={"size": shape, "parameters": batch},
            hint="Parameters must broadcast to size",
        )
    request = Request(
        "multinomial", (shape,), generator, dtype=dtype, device=weights.device if device is None else device, out=out,
        dtypes=COUNTS, event=(categories,),
    )  # fmt: skip
    rows_ = request._rows if request.shape[:-1] else slice(None)
    weights = weights.expand(*shape, categories)
    weights = (weights[rows_] if shape else weights).reshape(-1, categories)
    left = torch.as_tensor(trials, dtype=torch.float64, device=request.device).expand(shape)
    left = (left[rows_] if shape else left).reshape(-1)
    remaining = weights.flip(-1).cumsum(-1).flip(-1)
    elements = torch.arange(left.numel(), device=request.device) * categories
    request.claim(1)
    counts = []
    for k in range(categories):
        share = torch.where(remaining[:, k] > 0, weights[:, k] / remaining[:, k].clamp(min=1e-300), 0.0).clamp(max=1.0)
        if k == categories - 1:
            share = torch.ones_like(share)
        drawn = binomial_of(blocks_of(_blocks(request), elements + k), left, share)
        counts.append(drawn)
        left = left - drawn
    return request.finish(torch.stack(counts, -1))
