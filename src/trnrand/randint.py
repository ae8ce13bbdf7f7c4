"""Integers of a range, every one equally likely."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnrand import host
from trnrand.bits import placed, stream_words
from trnrand.engines import ENGINES, MASK
from trnrand.gamma import substream_blocks, words_at
from trnrand.reject import rejected
from trnrand.request import INTEGERS, Request, drawing, substream
from trnrand.source import Source
from trnrand.stream import Stream
from trnsci import ArgumentError, Cost, DtypeError, Op


@drawing
def randint(
    *size: Any,
    low: int = 0,
    high: int,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Integers from ``low`` up to but not including ``high``, every one equally likely.

    Args:
        size: the shape.
        low: the smallest, from -2**63.
        high: one more than the largest, up to 2**63.
        dtype: int64 by default, or another integer that holds both ends.
        device: where the result goes.
        out: memory for the result.
        generator: a `Generator`; by default the one `manual_seed` seeds.

    Returns:
        The integers. Ranges up to 2**32 use Lemire's multiplication on one word, wider ones a mask on two; words that
        would make some integer likelier are rejected, and the element's substream goes on.

    Raises:
        ArgumentError: ``low >= high``, or the dtype does not hold them. Nothing was drawn.

    Example:
        >>> trnrand.Generator(0).randint(5, high=6)
        tensor([2, 5, 4, 3, 5])
    """
    for name, value in (("low", low), ("high", high)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise DtypeError(op="randint", argument=name, got=type(value), expected="an integer")
    request = Request("randint", size, generator, dtype=dtype, device=device, out=out, dtypes=(torch.int64, *INTEGERS))
    if low >= high:
        raise ArgumentError(
            op="randint", argument="low", got={"low": low, "high": high}, hint="low must be less than high"
        )
    limits = torch.iinfo(request.dtype)
    if low < limits.min or high - 1 > limits.max:
        expected = f"{limits.min} <= low and high - 1 <= {limits.max} for {str(request.dtype).removeprefix('torch.')}"
        raise ArgumentError(op="randint", argument="high", got={"low": low, "high": high}, expected=expected)
    stream, first = request.claim(1)
    engine, key, counter, skip = placed(stream, first)
    # the substream of the element that word 0 of the first block is
    other = words_at(substream(stream, 0, 0), first - skip)
    made = _randint(engine, key, counter, other, skip, request.count, low, high - 1, str(request.device))
    return request.finish(made)


def _fake(
    engine: str,
    key: list[int],
    counter: list[int],
    other: list[int],
    skip: int,
    count: int,
    low: int,
    last: int,
    device: str,
) -> Tensor:
    return torch.empty(count, dtype=torch.int64, device=device)


def _cost(
    engine: str,
    key: list[int],
    counter: list[int],
    other: list[int],
    skip: int,
    count: int,
    low: int,
    last: int,
    device: str,
) -> Cost:
    return Cost(flops=40 * count, read=0, written=8 * count)


_randint = Op("trnrand::randint", fake=_fake, cost=_cost)


@_randint.impl("pytorch")
def _pytorch(
    engine: str,
    key: list[int],
    counter: list[int],
    other: list[int],
    skip: int,
    count: int,
    low: int,
    last: int,
    device: str,
) -> Tensor:
    library = host.helper(torch.device(device))
    if library is None or count == 0:
        return _composed(engine, key, counter, other, skip, count, low, last, device)
    return host.integers(library, ENGINES[engine], key, counter, other, skip, last - low + 1, low, count)


@_randint.impl("nki")
def _composed(
    engine: str,
    key: list[int],
    counter: list[int],
    other: list[int],
    skip: int,
    count: int,
    low: int,
    last: int,
    device: str,
) -> Tensor:
    # the words are the kernel's; products of 64 bits are the host's
    where, span = torch.device(device), last - low + 1
    if count == 0:
        return _fake(engine, key, counter, other, skip, count, low, last, device)

    def blocks(attempt: int, chosen: Tensor | None) -> Tensor:
        if chosen is None:
            return substream_blocks(engine, key, other, attempt, skip + count, where, None)[skip:]
        return substream_blocks(engine, key, other, attempt, count, where, chosen + skip)

    # int64 wraps, which is what adding in the other direction needs
    if span > 1 << 32:
        return rejected(blocks, lambda w, chosen: _masked(w, span)) + low
    stream = Stream(_joined(key), engine, _joined(counter))
    result, taken = _lemire(stream_words(stream, skip, count, where), span)
    pending, attempt = (~taken).nonzero().flatten(), 0
    while pending.numel():
        values, good = _lemire(blocks(attempt, pending)[:, 0], span)
        result[pending[good]] = values[good]
        pending, attempt = pending[~good], attempt + 1
    return result + low


@_randint.prediction
def _prediction(
    engine: str,
    key: list[int],
    counter: list[int],
    other: list[int],
    skip: int,
    count: int,
    low: int,
    last: int,
    device: str,
) -> None:
    # one attempt each; the rejected ones are not predicted
    words = count if last - low < 1 << 32 else 4 * count
    stream_words(Stream(_joined(key), engine, _joined(counter)), skip, words, torch.device(device))


def _joined(words: list[int]) -> int:
    return sum(word << 32 * i for i, word in enumerate(words))


def _lemire(words: Tensor, span: int) -> tuple[Tensor, Tensor]:
    """Lemire 2019: the high word of word * span, unless the low word falls into the uneven rest."""
    product = words * span
    return product >> 32 & MASK, (product & MASK) >= (1 << 32) % span


def _masked(w: Tensor, span: int) -> tuple[Tensor, Tensor]:
    """As many bits of two words as span - 1 has, taken when they are below span."""
    high = w[:, 1] >> 64 - (span - 1).bit_length()
    # int64 holds the bits; its sign stands for 2**63, so halves are compared
    top, low = span - 1 >> 32, span - 1 & MASK
    return high << 32 | w[:, 0], (high < top) | ((high == top) & (w[:, 0] <= low))
