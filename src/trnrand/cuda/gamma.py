"""Gamma variates by Marsaglia and Tsang: proposals and their rejection in one kernel, warp by warp."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from trnrand.cuda._engines import words
from trnrand.cuda._launch import SCALARS, launch_sampler
from trnrand.cuda._maths import exp, half_open, log, open_unit, sincos2pi
from trnrand.segment import Segment


@triton.jit
def _proposal(w0, w1, w2, w3, c, d):
    radius = tl.sqrt(log(half_open(w0, w1) + 1.1102230246251565e-16) * -2.0)
    _, cosine = sincos2pi(w2.to(tl.int64).to(tl.float64) * 2.3283064365386963e-10)
    x = radius * cosine
    t = c * x + 1.0
    v = t * t * t
    u = (w3.to(tl.int64).to(tl.float64) + 0.5) * 2.3283064365386963e-10
    square = x * x
    positive = v > 0
    # a logarithm of what is not positive is never looked at
    safe = tl.where(positive, v, v * 0.0 + 1.0)
    slow = log(u) < square * 0.5 + d * ((1.0 - v) + log(safe))
    return d * v, positive & ((u < 1.0 - square * square * 0.0331) | slow)


@triton.jit(do_not_specialize=SCALARS)
def _gamma(
    shapes, out, count, k0, k1, k2, k3, c0, c1, c2, c3,
    STEP: tl.constexpr, ENGINE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    shape = tl.load(shapes + at * STEP, mask=inside, other=1.0)
    small = (shape < 1.0) & inside
    d = tl.where(shape < 1.0, shape + 1.0, shape) - 0.3333333333333333
    c = 1.0 / tl.sqrt(d * 9.0)
    attempt = at * 0 + 1
    w0, w1, w2, w3 = words(at, attempt, k0, k1, k2, k3, c0, c1, c2, c3, ENGINE)
    variates, taken = _proposal(w0, w1, w2, w3, c, d)
    pending = inside & (taken == 0)
    while tl.max(pending.to(tl.int32), 0) > 0:
        attempt += 1
        w0, w1, w2, w3 = words(at, attempt, k0, k1, k2, k3, c0, c1, c2, c3, ENGINE)
        value, taken = _proposal(w0, w1, w2, w3, c, d)
        variates = tl.where(pending & taken, value, variates)
        pending = pending & (taken == 0)
    if tl.max(small.to(tl.int32), 0) > 0:
        w0, w1, w2, w3 = words(at, at * 0, k0, k1, k2, k3, c0, c1, c2, c3, ENGINE)
        variates = tl.where(small, variates * exp(log(open_unit(w0, w1)) / shape), variates)
    tl.store(out + at, variates, mask=inside)


def draw(segment: Segment, parameters: Sequence[torch.Tensor], stride: int) -> torch.Tensor:
    """Draw standard gamma variates, float64; their shape is float64, of one element or one for each."""
    assert stride == 1
    return launch_sampler(_gamma, segment, parameters)
