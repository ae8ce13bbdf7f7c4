"""Words, uniform and normal numbers of a segment, one pass that only writes."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from trnrand.cuda._engines import words
from trnrand.cuda._launch import SCALARS, key_and_counter, launch_blocks
from trnrand.cuda._maths import half_open, pair32, pair64
from trnrand.segment import Segment

WORDS, UNIFORM32, UNIFORM64, NORMAL32, NORMAL64 = range(5)
# counters of a program
BLOCK = 512


@triton.jit
def _four(x0, x1, x2, x3, BLOCK: tl.constexpr):
    return tl.join(tl.join(x0, x2), tl.join(x1, x3)).reshape(4 * BLOCK)


@triton.jit(do_not_specialize=SCALARS)
def _fill(
    out, count, k0, k1, k2, k3, c0, c1, c2, c3,
    SKIP: tl.constexpr, EACH: tl.constexpr, KIND: tl.constexpr, ENGINE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    start = tl.program_id(0).to(tl.int64) * BLOCK
    first = start + tl.arange(0, BLOCK)
    w0, w1, w2, w3 = words(first, first * 0, k0, k1, k2, k3, c0, c1, c2, c3, ENGINE)
    if KIND == 0:
        values = _four(w0, w1, w2, w3, BLOCK)
    elif KIND == 1:
        u0, u1 = (w0 >> 8).to(tl.int32).to(tl.float32), (w1 >> 8).to(tl.int32).to(tl.float32)
        u2, u3 = (w2 >> 8).to(tl.int32).to(tl.float32), (w3 >> 8).to(tl.int32).to(tl.float32)
        values = _four(u0, u1, u2, u3, BLOCK) * 5.9604644775390625e-8
    elif KIND == 2:
        values = tl.join(half_open(w0, w1), half_open(w2, w3)).reshape(2 * BLOCK)
    elif KIND == 3:
        z0, z1 = pair32(w0, w1)
        z2, z3 = pair32(w2, w3)
        values = _four(z0, z1, z2, z3, BLOCK)
    else:
        z0, z1 = pair64(w0, w1, w2, w3)
        values = tl.join(z0, z1).reshape(2 * BLOCK)
    at = start * EACH + tl.arange(0, EACH * BLOCK) - SKIP
    if (SKIP == 0) & ((start + BLOCK) * EACH <= count):
        tl.store(out + at, values)
    else:
        tl.store(out + at, values, mask=(at >= 0) & (at < count))


def fill(kind: int, segment: Segment, out: torch.Tensor) -> torch.Tensor:
    """Write a segment into a contiguous tensor of a GPU."""
    each = 2 if kind in (UNIFORM64, NORMAL64) else 4
    engine, skip, count = segment[:3]
    blocks = -(-(skip + count) // (each * BLOCK)) if count else 0
    launch_blocks(
        _fill,
        blocks,
        out.device,
        (out, count),
        words=key_and_counter(segment),
        constants=(skip, each, kind, engine, BLOCK),
    )
    return out
