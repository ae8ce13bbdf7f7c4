"""Poisson counts in one kernel: inversion below a rate of 10, Hörmann's transformed rejection (PTRS) from there on."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from trnrand.cuda._counts import log_poisson, table
from trnrand.cuda._engines import words
from trnrand.cuda._launch import SCALARS, launch_sampler
from trnrand.cuda._maths import exp, half_open, log, open_unit
from trnrand.segment import Segment


@triton.jit
def _invert(u, rate, active):
    p = exp(-rate)
    total, k = p, rate * 0.0
    active = active & (u >= total)
    while tl.max(active.to(tl.int32), 0) > 0:
        k = tl.where(active, k + 1.0, k)
        p = tl.where(active, p * (rate / tl.maximum(k, 1.0)), p)
        more = total + p
        # the sum has stopped growing: what is left of u is rounding
        going = active & ((more != total) | (k <= rate))
        total = tl.where(going, more, total)
        active = going & (u >= total)
    return k


@triton.jit
def _proposal(w0, w1, w2, w3, rate, stirling):
    b = tl.sqrt(rate) * 2.53 + 0.931
    a = b * 0.02483 + -0.059
    alpha, vr = 1.1328 / (b - 3.4) + 1.1239, 0.9277 - 3.6224 / (b - 2.0)
    u, v = open_unit(w0, w1) - 0.5, open_unit(w2, w3)
    us = 0.5 - tl.abs(u)
    k = tl.floor((a * 2.0 / us + b) * u + rate + 0.43)
    quick = (us >= 0.07) & (v <= vr)
    inside = (k >= 0) & ((us >= 0.013) | (v <= us))
    exact = log(v * alpha / (a / (us * us) + b)) <= log_poisson(tl.maximum(k, 0.0), rate, stirling)
    return k, quick | (inside & exact)


@triton.jit(do_not_specialize=SCALARS)
def _poisson(
    rates, stirling, out, count, k0, k1, k2, k3, c0, c1, c2, c3,
    STEP: tl.constexpr, ENGINE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    rate = tl.load(rates + at * STEP, mask=inside, other=0.0)
    few = rate < 10.0
    attempt = at * 0
    w0, w1, w2, w3 = words(at, attempt, k0, k1, k2, k3, c0, c1, c2, c3, ENGINE)
    counts = rate * 0.0
    if tl.max((few & inside).to(tl.int32), 0) > 0:
        counts = _invert(half_open(w0, w1), tl.minimum(rate, 10.0), few & inside)
    pending = inside & (few == 0)
    many = tl.maximum(rate, 10.0)
    while tl.max(pending.to(tl.int32), 0) > 0:
        value, taken = _proposal(w0, w1, w2, w3, many, stirling)
        counts = tl.where(pending & taken, value, counts)
        pending = pending & (taken == 0)
        attempt += 1
        w0, w1, w2, w3 = words(at, attempt, k0, k1, k2, k3, c0, c1, c2, c3, ENGINE)
    tl.store(out + at, counts, mask=inside)


def draw(segment: Segment, parameters: Sequence[torch.Tensor], stride: int) -> torch.Tensor:
    """Draw Poisson counts, float64; their rate is float64, of one element or one for each."""
    assert stride == 1
    return launch_sampler(_poisson, segment, parameters, tables=(table(parameters[0].device),))
