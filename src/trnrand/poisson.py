"""Poisson counts, exact for every rate: inversion below 10, Hörmann's transformed rejection (PTRS) from there on."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, Unpack

import torch
from torch import Tensor

from trnrand import host_loops, maths
from trnrand.bits import attempt_words
from trnrand.reject import Blocks, at, by_case, rejected
from trnrand.request import FLOATS, INTEGERS, Number, Options, Request, Size, drawing, half_open, open_unit, substream
from trnrand.segment import Segment
from trnsci import Cost, op, run

# below it the chance of no event is worth beginning from
SMALL = 10.0


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
    parameters = {"rate": (rate, "rate")}
    request = Request("poisson", size, parameters=parameters, dtypes=dtypes, **options)
    return request.finish(poisson_of(request, request.tensor("rate").detach()))


def poisson_of(request: Request, rate: Tensor, slot: int = 0) -> Tensor:
    """Draw Poisson counts of a request as float64 [count], from the substreams of a slot."""
    stream, first = request.claim(1)
    segment = Segment.of(substream(stream, slot, 0), first, request.count, 1)
    return run(Poisson(rate.contiguous(), segment))


@op("trnrand::poisson", composed=True, calls={"cuda": "triton trnrand.cuda.poisson", "host": "trnsci._loops.sample"})
class Poisson(NamedTuple):
    """Poisson counts of a segment of substreams, float64; ``rate`` has one element or one for each."""

    rate: Tensor
    segment: tuple[int, ...]

    def fake(self) -> Tensor:
        return self.rate.new_empty(self.segment[2])

    def cost(self) -> Cost:
        return Cost(flops=120 * self.segment[2], read=self.rate.nbytes, written=8 * self.segment[2])

    def pytorch(self) -> Tensor:
        return _composed(self.rate, Segment(self.segment))

    def host(self) -> Tensor:
        return host_loops.sampler("poisson", Segment(self.segment), self.rate)

    def cuda(self) -> Tensor:
        from trnrand.cuda import poisson

        return poisson.poisson(Segment(self.segment), self.rate)

    def limits(self, implementation: str) -> str | None:
        return host_loops.limits(implementation, self.rate.device)

    def compiles(self) -> tuple[Hashable, float]:
        return ("trnrand.cuda.poisson", self.segment[0], self.rate.numel() > 1), 4.0

    def prediction(self) -> None:
        # one attempt each; the rejected ones are not predicted
        attempt_words(Segment(self.segment), 0, self.rate.device, None)


def _composed(rate: Tensor, segment: Segment) -> Tensor:
    def blocks(attempt: int, chosen: Tensor | None) -> Tensor:
        return attempt_words(segment, attempt, rate.device, chosen)

    count = segment.elements
    if count == 0:
        return rate.new_empty(0)
    rates = rate.expand(count) if rate.numel() == 1 else rate
    return by_case(
        rates < SMALL,
        blocks,
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

    return rejected(blocks, propose)
