"""Binomial counts in one kernel: inversion where few are expected, Hörmann's transformed rejection (BTRS) elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from trnrand.cuda._counts import log_binomial, log_complement, table
from trnrand.cuda._engines import words
from trnrand.cuda._launch import SCALARS, launch_sampler
from trnrand.cuda._maths import exp, half_open, log, open_unit
from trnrand.segment import Segment


@triton.jit
def _invert(u, n, p, active):
    odds = p / (1.0 - p)
    chance = exp(n * log_complement(p))
    total, k = chance, n * 0.0
    active = active & (u >= total) & (k < n)
    while tl.max(active.to(tl.int32), 0) > 0:
        k = tl.where(active, k + 1.0, k)
        chance = tl.where(active, chance * (odds * ((n - k + 1.0) / tl.maximum(k, 1.0))), chance)
        more = total + chance
        going = active & ((more != total) | (k <= n * p))
        total = tl.where(going, more, total)
        active = going & (u >= total) & (k < n)
    return k


@triton.jit
def _proposal(w0, w1, w2, w3, n, p, top, stirling):
    q = 1.0 - p
    deviation = tl.sqrt(n * p * q)
    b = deviation * 2.53 + 1.15
    a = b * 0.0248 + -0.0873 + p * 0.01
    c, vr = n * p + 0.5, 0.92 - 4.2 / b
    alpha = (5.1 / b + 2.83) * deviation
    u, v = open_unit(w0, w1) - 0.5, open_unit(w2, w3)
    us = 0.5 - tl.abs(u)
    k = tl.floor((a * 2.0 / us + b) * u + c)
    quick = (us >= 0.07) & (v <= vr)
    inside = (k >= 0) & (k <= n)
    limited = tl.minimum(tl.maximum(k, 0.0), n)
    exact = log(v * alpha / (a / (us * us) + b)) <= log_binomial(limited, n, p, q, stirling) - top
    return k, inside & (quick | exact)


@triton.jit(do_not_specialize=[*SCALARS, "stride"])
def _binomial(
    trials, chances, stirling, out, count, stride, k0, k1, k2, k3, c0, c1, c2, c3,
    STEP_N: tl.constexpr, STEP_P: tl.constexpr, ENGINE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    n = tl.load(trials + at * STEP_N, mask=inside, other=0.0)
    given = tl.load(chances + at * STEP_P, mask=inside, other=0.0)
    # successes or failures, whichever are rarer
    p = tl.where(given > 0.5, 1.0 - given, given)
    few = n * p < 10.0
    block, attempt = at * stride, at * 0
    w0, w1, w2, w3 = words(block, attempt, k0, k1, k2, k3, c0, c1, c2, c3, ENGINE)
    counts = n * 0.0
    if tl.max((few & inside).to(tl.int32), 0) > 0:
        counts = _invert(half_open(w0, w1), n, p, few & inside)
    pending = inside & (few == 0)
    if tl.max(pending.to(tl.int32), 0) > 0:
        # elements that are not pending compute with these, and are not looked at
        some, chance = tl.where(few, n * 0.0 + 100.0, n), tl.where(few, p * 0.0 + 0.4, p)
        top = log_binomial(tl.floor((some + 1.0) * chance), some, chance, 1.0 - chance, stirling)
        while tl.max(pending.to(tl.int32), 0) > 0:
            value, taken = _proposal(w0, w1, w2, w3, some, chance, top, stirling)
            counts = tl.where(pending & taken, value, counts)
            pending = pending & (taken == 0)
            attempt += 1
            w0, w1, w2, w3 = words(block, attempt, k0, k1, k2, k3, c0, c1, c2, c3, ENGINE)
    tl.store(out + at, tl.where(given > 0.5, n - counts, counts), mask=inside)


def draw(segment: Segment, parameters: Sequence[torch.Tensor], stride: int) -> torch.Tensor:
    """Draw binomial counts as float64 from every ``stride``-th substream; trials and chances as a Poisson rate."""
    return launch_sampler(_binomial, segment, parameters, stride, tables=(table(parameters[0].device),))
