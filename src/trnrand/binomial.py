"""Binomial counts: inversion where few are expected, Hörmann's transformed rejection (BTRS) elsewhere."""

from __future__ import annotations

import math
from typing import Unpack

import torch
from torch import Tensor

from trnrand import maths
from trnrand.reject import Blocks, Variates, at, by_case, draw_accepted
from trnrand.request import FLOATS, INTEGERS, Number, Options, Request, Size, drawing, half_open, open_unit, substream
from trnrand.segment import Segment
from trnsci import op, run
from trnsci.analogs import resembles

SMALL = 10.0
COUNTS = (torch.int64, *INTEGERS, *FLOATS)


@resembles("numpy.random.binomial")
@drawing
def binomial(*size: Size, n: Number, p: Number = 0.5, **options: Unpack[Options]) -> Tensor:
    """Draw binomial counts: successes in ``n`` independent trials.

    Args:
        n: trials, a whole number up to ``2**53``.
        p: chance of success, from 0 to 1.
        dtype: int64 by default, another integer (whose range must hold the counts), or a floating dtype.

    Returns:
        Counts from 0 to ``n``; exact by inversion or transformed rejection (BTRS).
    """
    request = Request("binomial", size, n=(n, "count"), p=(p, "probability"), dtypes=COUNTS, **options)
    stream, first = request.claim(1)
    segment = Segment.of(substream(stream, 0, 0), first, request.count, 1)
    n_, p_ = (request.tensor(name).detach().contiguous() for name in ("n", "p"))
    return request.finish(run(Binomial([n_, p_], segment)))


def part_of(request: Request, n: Tensor, p: Tensor, part: int, parts: int) -> Tensor:
    """Draw counts as float64 for each vector of ``parts`` elements, from the substream of element ``part``."""
    stream, first = request.claim(1)
    return run(Binomial([n, p], Segment.of(substream(stream, 0, 0), first + part, n.numel(), 1), parts))


@op("trnrand::binomial", composed=True)
class Binomial(Variates):
    """Binomial counts; parameters are the trials and the chance of success."""

    __slots__ = ()

    def pytorch(self) -> Tensor:
        n, p = (x.expand(self.segment[2]) for x in self.parameters)
        if n.numel() == 0:
            return self.fake()
        # successes or failures, whichever are rarer
        flipped = p > 0.5
        rare = torch.where(flipped, 1.0 - p, p)
        rarer = by_case(
            n * rare < SMALL,
            self.blocks,
            lambda mine, elements: _inversion(mine, n[elements], rare[elements]),
            lambda mine, elements: _btrs(mine, n[elements], rare[elements]),
        )
        return torch.where(flipped, n - rarer, rarer)


def log_complement(p: Tensor) -> Tensor:
    """Return ``ln(1 - p)`` for ``0 <= p < 1``, as precise for tiny ``p`` as for others."""
    rest = 1.0 - p
    lost = 1.0 - rest
    # what 1 - p rounded away comes back as a factor
    return torch.where(lost == 0, -p, maths.log(rest) * (p / torch.where(lost == 0, 1.0, lost)))


def _inversion(blocks: Blocks, n: Tensor, p: Tensor) -> Tensor:
    w = blocks(0, None)
    u = half_open(w[:, 0], w[:, 1])
    odds = p / (1.0 - p)
    chance = maths.exp(n * log_complement(p))
    total, k = chance, torch.zeros_like(n)
    active = (u >= total) & (k < n)
    while bool(active.any()):
        k = torch.where(active, k + 1.0, k)
        chance = torch.where(active, chance * (odds * ((n - k + 1.0) / k.clamp(min=1.0))), chance)
        more = total + chance
        ended = (more == total) & (k > n * p)
        total = torch.where(active & ~ended, more, total)
        active = active & ~ended & (u >= total) & (k < n)
    return k


def _btrs(blocks: Blocks, n: Tensor, p: Tensor) -> Tensor:
    q = 1.0 - p
    deviation = maths.sqrt(n * p * q)
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c, vr = n * p + 0.5, 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * deviation
    mode = torch.floor((n + 1.0) * p)
    top = _log_chance(mode, n, p, q)

    def propose(w: Tensor, chosen: Tensor | None) -> tuple[Tensor, Tensor]:
        n_, p_, q_, a_, b_, c_, vr_, alpha_, top_ = (at(x, chosen) for x in (n, p, q, a, b, c, vr, alpha, top))
        u, v = open_unit(w[:, 0], w[:, 1]) - 0.5, open_unit(w[:, 2], w[:, 3])
        us = 0.5 - u.abs()
        k = torch.floor((2.0 * a_ / us + b_) * u + c_)
        quick = (us >= 0.07) & (v <= vr_)
        inside = (k >= 0) & (k <= n_)
        limited = torch.minimum(k.clamp(min=0.0), n_)
        exact = maths.log(v * alpha_ / (a_ / (us * us) + b_)) <= _log_chance(limited, n_, p_, q_) - top_
        return k, inside & (quick | exact)

    return draw_accepted(blocks, propose)


def _log_chance(k: Tensor, n: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """Return logarithm of the binomial probability, by Loader's saddle-point expansion."""
    rest = n - k
    inner_k, inner_rest = k.clamp(min=1.0), rest.clamp(min=1.0)
    y = maths.stirling_error(n) - maths.stirling_error(inner_k) - maths.stirling_error(inner_rest)
    y = y - maths.deviance(inner_k, n * p) - maths.deviance(inner_rest, n * q)
    y = y + 0.5 * maths.log(n / (2 * math.pi * inner_k * inner_rest))
    y = torch.where(k == 0, n * log_complement(p), y)
    return torch.where(rest == 0, n * maths.log(p.clamp(min=1e-300)), y)
