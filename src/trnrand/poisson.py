"""Poisson counts, exact for every rate: inversion below 10, Hörmann's transformed rejection (PTRS) from there on."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from trnrand import maths
from trnrand.reject import Blocks, Variates, at, by_case, draw_accepted
from trnrand.request import FLOATS, INTEGERS, Number, Options, Request, Size, drawing, half_open, open_unit, substream
from trnrand.segment import Segment
from trnsci import op, run
from trnsci.analogs import resembles

# below it the chance of no event is worth beginning from
SMALL = 10.0


@resembles("numpy.random.poisson")
@drawing
def poisson(*size: Size, rate: Number, **options: Unpack[Options]) -> Tensor:
    """Draw Poisson counts: ``P(k) = rate**k * exp(-rate) / k!``.

    Args:
        size: the shape; without one, the shape of ``rate``.
        rate: mean, from 0 to ``2**62``.
        dtype: int64 by default, another integer (whose range must hold the counts), or a floating dtype.

    Returns:
        The counts. Probabilities are those of the Poisson distribution to a relative error of 1e-13: acceptance
        is tested with Loader's deviance, which does not cancel for large rates.

    Raises:
        ArgumentError: the rate is negative, NaN or above ``2**62``. Nothing was drawn.

    Example:
        >>> trnrand.Generator(0).poisson(3, rate=4.0)
        tensor([2, 6, 2])
    """
    dtypes = (torch.int64, *INTEGERS, *FLOATS)
    request = Request("poisson", size, rate=(rate, "rate"), dtypes=dtypes, **options)
    return request.finish(poisson_of(request, request.tensor("rate").detach()))


def poisson_of(request: Request, rate: Tensor, slot: int = 0) -> Tensor:
    """Draw Poisson counts of a request as float64 [count], from the substreams of a slot."""
    stream, first = request.claim(1)
    segment = Segment.of(substream(stream, slot, 0), first, request.count, 1)
    return run(Poisson([rate.contiguous()], segment))


@op("trnrand::poisson", composed=True)
class Poisson(Variates):
    """Poisson counts; the parameter is their rate."""

    __slots__ = ()

    def pytorch(self) -> Tensor:
        count = self.segment[2]
        if count == 0:
            return self.fake()
        rates = self.parameters[0].expand(count)
        return by_case(
            rates < SMALL,
            self.blocks,
            lambda mine, elements: _inversion(mine, rates[elements]),
            lambda mine, elements: _ptrs(mine, rates[elements]),
        )


def _inversion(blocks: Blocks, rate: Tensor) -> Tensor:
    w = blocks(0, None)
    u = half_open(w[:, 0], w[:, 1])
    p = maths.exp(-rate)
    total, k = p, torch.zeros_like(rate)
    active = u >= total
    while bool(active.any()):
        k = torch.where(active, k + 1.0, k)
        p = torch.where(active, p * (rate / k.clamp(min=1.0)), p)
        more = total + p
        # the sum has stopped growing: what is left of u is rounding
        ended = (more == total) & (k > rate)
        total = torch.where(active & ~ended, more, total)
        active = active & ~ended & (u >= total)
    return k


def _ptrs(blocks: Blocks, rate: Tensor) -> Tensor:
    b = 0.931 + 2.53 * maths.sqrt(rate)
    a = -0.059 + 0.02483 * b
    alpha, vr = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2.0)

    def propose(w: Tensor, chosen: Tensor | None) -> tuple[Tensor, Tensor]:
        rate_, a_, b_, alpha_, vr_ = (at(x, chosen) for x in (rate, a, b, alpha, vr))
        u, v = open_unit(w[:, 0], w[:, 1]) - 0.5, open_unit(w[:, 2], w[:, 3])
        us = 0.5 - u.abs()
        k = torch.floor((2.0 * a_ / us + b_) * u + rate_ + 0.43)
        quick = (us >= 0.07) & (v <= vr_)
        outside = (k < 0) | ((us < 0.013) & (v > us))
        exact = maths.log(v * alpha_ / (a_ / (us * us) + b_)) <= maths.log_poisson(k.clamp(min=0.0), rate_)
        return k, quick | (~outside & exact)

    return draw_accepted(blocks, propose)
