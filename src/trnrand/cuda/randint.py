"""Integers below a span: Lemire's multiplication on one word, or a mask on two, with the rejected ones drawn again."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from trnrand.cuda._engines import words
from trnrand.cuda._launch import SCALARS, key_and_counter, launch_blocks
from trnrand.segment import Segment

# counters of a program; each is four elements
BLOCK = 128


@triton.jit
def _below(w0, w1, span, uneven, SHIFT: tl.constexpr):
    """Return what two words propose and whether it is accepted: Lemire's product if SHIFT is 0, else bits."""
    if SHIFT == 0:
        product = w0.to(tl.uint64) * span
        value = product >> 32
        taken = (product & 0xFFFFFFFF) >= uneven
    else:
        value = ((w1 >> SHIFT - 32).to(tl.uint64) << 32) | w0.to(tl.uint64)
        taken = value <= span
    return value, taken


@triton.jit
def _retry(
    at, integers, pending, span, uneven, attempt, k0, k1, k2, k3, o0, o1, o2, o3,
    SHIFT: tl.constexpr, ENGINE: tl.constexpr,
):  # fmt: skip
    while tl.max(pending.to(tl.int32), 0) > 0:
        w0, w1, _, _ = words(at, attempt, k0, k1, k2, k3, o0, o1, o2, o3, ENGINE)
        value, taken = _below(w0, w1, span, uneven, SHIFT)
        integers = tl.where(pending & taken, value, integers)
        pending = pending & (taken == 0)
        attempt += 1
    return integers


@triton.jit(do_not_specialize=[*SCALARS, "span", "uneven", "low", "o0", "o1", "o2", "o3"])
def _randint(
    out, count, span, uneven, low, k0, k1, k2, k3, c0, c1, c2, c3, o0, o1, o2, o3,
    SKIP: tl.constexpr, SHIFT: tl.constexpr, ENGINE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    start = tl.program_id(0).to(tl.int64) * BLOCK
    # elements counted from the first word of the first block
    at = start * 4 + tl.arange(0, 4 * BLOCK)
    inside = (at >= SKIP) & (at < count + SKIP)
    span, uneven = span.to(tl.int64).to(tl.uint64), uneven.to(tl.int64).to(tl.uint64)
    if SHIFT == 0:
        first = start + tl.arange(0, BLOCK)
        w0, w1, w2, w3 = words(first, first * 0, k0, k1, k2, k3, c0, c1, c2, c3, ENGINE)
        word = tl.join(tl.join(w0, w2), tl.join(w1, w3)).reshape(4 * BLOCK)
        integers, taken = _below(word, word, span, uneven, SHIFT)
        pending = inside & (taken == 0)
    else:
        integers = at.to(tl.uint64) * 0
        pending = inside
    integers = _retry(at, integers, pending, span, uneven, at * 0, k0, k1, k2, k3, o0, o1, o2, o3, SHIFT, ENGINE)
    tl.store(out + at - SKIP, integers.to(tl.int64) + low.to(tl.int64), mask=inside)


def randint(segment: Segment, other: Segment, span: int, low: int, out: torch.Tensor) -> torch.Tensor:
    """Write integers from ``low``, below ``low + span``; ``other`` is where the elements' substreams begin."""
    narrow = span <= 1 << 32
    shift = 0 if narrow else 64 - (span - 1).bit_length() + 32
    uneven = (1 << 32) % span if narrow else 0
    blocks = -(-(segment.skip + segment.elements) // (4 * BLOCK)) if segment.elements else 0
    constants = (segment.skip, shift, segment.engine.code, BLOCK)
    largest = span if narrow else span - 1
    largest = largest - (1 << 64) if largest >> 63 else largest
    words = (*key_and_counter(segment), *key_and_counter(other)[4:])
    launch_blocks(
        _randint, blocks, out.device, (out, segment.elements, largest, uneven, low), words=words, constants=constants
    )
    return out
