"""Integers of a range, every one equally likely."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, Unpack

import torch
from torch import Tensor

from trnrand import host_loops
from trnrand.bits import attempt_words, compiles, stream_words
from trnrand.engines import MASK
from trnrand.reject import draw_accepted
from trnrand.request import INTEGERS, Options, Request, Size, drawing, substream
from trnrand.segment import Segment
from trnrand.source import Source
from trnsci import ArgumentError, Cost, check, op, run
from trnsci.analogs import resembles


@resembles("aten::randint", "numpy.random.randint", "numpy.random.Generator.integers")
@drawing
def randint(*size: Size, low: int = 0, high: int, **options: Unpack[Options]) -> Tensor:
    """Draw integers from ``low`` up to but not including ``high``, every one equally likely.

    Args:
        size: the shape.
        low: the smallest, from ``-2**63``.
        high: one more than the largest, up to ``2**63``.
        dtype: int64 by default, or another integer that holds both ends.

    Returns:
        The integers. Ranges up to ``2**32`` use Lemire's product with one word, wider ones a mask on two; words that
        would make some integer likelier are rejected, and the element's substream goes on.

    Raises:
        ArgumentError: ``low >= high``, or the dtype does not hold them. Nothing was drawn.

    Example:
        >>> trnrand.Generator(0).randint(5, high=6)
        tensor([2, 5, 4, 3, 5])
    """
    check.integer("randint", "low", low)
    check.integer("randint", "high", high)
    request = Request("randint", size, dtypes=(torch.int64, *INTEGERS), **options)
    check.refuse(low >= high, "randint", "low", {"low": low, "high": high}, hint="low must be less than high")
    limits = torch.iinfo(request.dtype)
    if low < limits.min or high - 1 > limits.max:
        expected = f"{limits.min} <= low and high - 1 <= {limits.max} for {str(request.dtype).removeprefix('torch.')}"
        raise ArgumentError("randint", "high", {"low": low, "high": high}, expected)
    return request.finish(integers_of(request, low, high - 1))


def integers_of(request: Request, low: int, last: int) -> Tensor:
    """Return an integer from ``low`` to ``last`` for every element of a request: int64 [count]."""
    stream, first = request.claim(1)
    segment = Segment.of(stream, first, request.count)
    # the substreams of the elements from word 0 of the first block on
    other = Segment.of(substream(stream, 0, 0), first - segment.skip, segment.skip + request.count, 1)
    return run(Randint(segment, other, low, last, request.device))


@check.hands_on("randint")
def integers(
    low: int,
    high: int | None = None,
    size: Size | None = None,
    *,
    dtype: torch.dtype | None = None,
    endpoint: bool = False,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw integers as ``numpy.random.Generator.integers`` does; the numbers are those of `randint`.

    Args:
        low: the smallest; or, without ``high``, one more than the largest, and the smallest is 0.
        high: one more than the largest.
        size: the shape; by default one number.
        dtype: as for `randint`.
        endpoint: whether the upper end belongs to the range.
        device: where the result goes.
        out: memory for the result.
        generator: a `Generator`; by default the one `manual_seed` seeds.

    Example:
        >>> trnrand.integers(1, 6, size=5, endpoint=True, generator=trnrand.Generator(0))
        tensor([3, 6, 5, 4, 6])
    """
    check.flag("integers", endpoint=endpoint)
    first, last = (0, low) if high is None else (low, high)
    first = check.integer("integers", "low", first)
    last = check.integer("integers", "high" if high is not None else "low", last) + endpoint
    shape = () if size is None else size
    return randint(shape, low=first, high=last, dtype=dtype, device=device, out=out, generator=generator)


@op("trnrand::randint", composed=True, calls={"cuda": "triton trnrand.cuda.randint", "host": "trnsci._loops.randint"})
class Randint(NamedTuple):
    """Integers from ``low`` to ``last`` of a segment; ``other`` is where the substreams of its first block begin."""

    segment: tuple[int, ...]
    other: tuple[int, ...]
    low: int
    last: int
    device: torch.device

    def fake(self) -> Tensor:
        return torch.empty(self.segment[2], dtype=torch.int64, device=self.device)

    def cost(self) -> Cost:
        return Cost(flops=40 * self.segment[2], read=0, written=8 * self.segment[2])

    def pytorch(self) -> Tensor:
        segment, other, span = Segment(self.segment), Segment(self.other), self.last - self.low + 1
        if not segment.elements:
            return self.fake()

        def blocks(attempt: int, chosen: Tensor | None) -> Tensor:
            if chosen is None:
                return attempt_words(other, attempt, self.device, None)[segment.skip :]
            return attempt_words(other, attempt, self.device, chosen + segment.skip)

        # int64 wraps, which is what adding in the other direction needs
        if span > 1 << 32:
            return draw_accepted(blocks, lambda w, chosen: propose_integers(w, span)) + self.low
        words = stream_words(segment.stream(), segment.skip, segment.elements, self.device)
        result, taken = _lemire(words, span)
        pending, attempt = (~taken).nonzero().flatten(), 0
        while pending.numel():
            values, good = propose_integers(blocks(attempt, pending), span)
            result[pending[good]] = values[good]
            pending, attempt = pending[~good], attempt + 1
        return result + self.low

    def host(self) -> Tensor:
        span = self.last - self.low + 1
        return host_loops.integers(Segment(self.segment), Segment(self.other), span, self.low)

    def cuda(self) -> Tensor:
        from trnrand.cuda import randint

        span = self.last - self.low + 1
        return randint.randint(Segment(self.segment), Segment(self.other), span, self.low, self.fake())

    def limits(self, implementation: str) -> str | None:
        return host_loops.limits(implementation, self.device)

    def compiles(self) -> tuple[Hashable, float]:
        span = self.last - self.low + 1
        return compiles(("randint", max(0, (span - 1).bit_length() - 32)), self.segment)

    def prediction(self) -> None:
        # one attempt each; the rejected ones are not predicted
        segment = Segment(self.segment)
        each = 1 if self.last - self.low < 1 << 32 else 4
        stream_words(segment.stream(), segment.skip, each * segment.elements, self.device)


def propose_integers(w: Tensor, span: int) -> tuple[Tensor, Tensor]:
    """Return integers below ``span`` from blocks [n, 4], and whether each is taken: the others would be likelier."""
    return _lemire(w[:, 0], span) if span <= 1 << 32 else _mask_words(w, span)


def _lemire(words: Tensor, span: int) -> tuple[Tensor, Tensor]:
    """Return the high word of word * span, unless the low word falls into the uneven rest (Lemire 2019)."""
    product = words * span
    return product >> 32 & MASK, (product & MASK) >= (1 << 32) % span


def _mask_words(w: Tensor, span: int) -> tuple[Tensor, Tensor]:
    """Return as many bits of two words as span - 1 has, accepted when they are below span."""
    high = w[:, 1] >> 64 - (span - 1).bit_length()
    # int64 holds the bits; its sign stands for 2**63, so halves are compared
    top, low = span - 1 >> 32, span - 1 & MASK
    return high << 32 | w[:, 0], (high < top) | ((high == top) & (w[:, 0] <= low))
