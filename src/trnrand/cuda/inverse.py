"""Functions of one uniform, in the order of operations of `trnrand.inverse`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from trnrand.cuda._engines import words
from trnrand.cuda._launch import SCALARS, bits, key_and_counter, launch_blocks
from trnrand.cuda._maths import double, exp, half_open, log, open_unit, sincos2pi
from trnrand.segment import Segment

BLOCK = 256


@triton.jit
def _formula(w0, w1, a, b, CASE: tl.constexpr):
    u = open_unit(w0, w1)
    if CASE == 0:  # exponential
        value = log(u) * -a
    elif CASE == 1:  # laplace
        value = tl.where(u < 0.5, b, -b) * log(tl.minimum(u, 1.0 - u) * 2.0) + a
    elif CASE == 2:  # cauchy
        sine, cosine = sincos2pi(u * 0.5)
        value = a - b * (cosine / sine)
    elif CASE == 3:  # gumbel
        value = a - b * log(-log(u))
    elif CASE == 4:  # logistic
        value = a + b * (log(u) - log(1.0 - u))
    elif CASE == 5:  # weibull
        value = b * exp(1.0 / a * log(-log(u)))
    elif CASE == 6:  # pareto
        value = b * exp(-1.0 / a * log(u))
    elif CASE == 7:  # geometric
        # an integer holds no more than this
        value = tl.minimum(tl.maximum(tl.ceil(log(u) / a), 1.0), 4611686018427387904.0)
    else:  # bernoulli
        value = (half_open(w0, w1) < a).to(tl.float64)
    return value


@triton.jit(do_not_specialize=[*SCALARS, "a", "b"])
def _inverse(
    out, count, a, b, k0, k1, k2, k3, c0, c1, c2, c3,
    SKIP: tl.constexpr, CASE: tl.constexpr, ENGINE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    start = tl.program_id(0).to(tl.int64) * BLOCK
    first = start + tl.arange(0, BLOCK)
    w0, w1, w2, w3 = words(first, first * 0, k0, k1, k2, k3, c0, c1, c2, c3, ENGINE)
    a, b = double(a), double(b)
    values = tl.join(_formula(w0, w1, a, b, CASE), _formula(w2, w3, a, b, CASE)).reshape(2 * BLOCK)
    at = start * 2 + tl.arange(0, 2 * BLOCK) - SKIP
    tl.store(out + at, values.to(out.dtype.element_ty), mask=(at >= 0) & (at < count))


def inverse(case: int, parameters: Sequence[float], segment: Segment, out: torch.Tensor) -> torch.Tensor:
    """Write a function of one uniform, of one or two parameters, into a contiguous tensor of a GPU."""
    a, b = parameters if len(parameters) == 2 else (parameters[0], 0.0)
    blocks = -(-(segment.skip + segment.elements) // (2 * BLOCK)) if segment.elements else 0
    arguments = (out, segment.elements, bits(a), bits(b))
    constants = (segment.skip, case, segment.engine.code, BLOCK)
    launch_blocks(_inverse, blocks, out.device, arguments, words=key_and_counter(segment), constants=constants)
    return out
