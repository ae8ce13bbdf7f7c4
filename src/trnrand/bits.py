"""Random words: any segment of a stream."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import torch
from torch import Tensor

from trnrand import host_loops
from trnrand.device import launched
from trnrand.engines import PHILOX, counters
from trnrand.kernels import bits as kernels
from trnrand.philox import Philox
from trnrand.segment import Segment
from trnrand.source import fits
from trnrand.stream import Stream
from trnrand.threefry import Threefry
from trnsci import Cost, check, op, run


@check.hands_on("Stream")
def bits(
    key: int | Stream, offset: int, n: int, *, engine: str = PHILOX.name, device: torch.device | str = "cpu"
) -> Tensor:
    """Return words ``offset .. offset + n`` of a stream: uint32 [n].

    Args:
        key: an integer of up to 64 bits (Philox) or 128 bits (Threefry), or a `Stream`, whose position is added.
        offset: the first word, up to ``2**66`` and more.
        n: how many words.
        engine: ``philox4x32`` or ``threefry4x32``, for integer keys.
        device: where the result goes.
    """
    stream = key if isinstance(key, Stream) else Stream(key, engine)
    check.integer("bits", "offset", offset, 0)
    check.integer("bits", "n", n, 0)
    where = check.device("bits", device)
    fits("bits", (n,), 4, where)
    return run(Bits(Segment.of(stream, stream.position + offset, n), where))


def stream_words(stream: Stream, first: int, count: int, device: torch.device) -> Tensor:
    """Return words of a stream as int64."""
    return run(Bits(Segment.of(stream, first, count), device)).to(torch.int64)


def block_words(stream: Stream, first: int, chosen: Tensor) -> Tensor:
    """Return the blocks ``first + chosen[i]`` of a stream as int64 [n, 4]."""
    key = torch.tensor(stream.key_words, device=chosen.device)
    counter = torch.stack(counters(stream.base + first, chosen), -1)
    blocks = run(Philox(counter, key)) if stream.kind is PHILOX else run(Threefry(counter, key))
    return blocks.to(torch.int64)


def attempt_words(segment: Segment, attempt: int, device: torch.device, chosen: Tensor | None) -> Tensor:
    """Return the blocks of an attempt for all elements of a segment, or the ``chosen`` ones: int64 [n, 4]."""
    if chosen is None:
        return stream_words(segment.stream(attempt), 0, 4 * segment.elements, device).view(-1, 4)
    return block_words(segment.stream(attempt), 0, chosen)


def compiles(kind: Hashable, segment: tuple[int, ...]) -> tuple[Hashable, float]:
    """Return the key of what Triton compiles, and about how long it takes."""
    return ("trnrand.cuda.streams", kind, segment[0], segment[1]), 1.0


def words_cost(segment: Segment, words: int) -> Cost:
    """Return operations and bytes of so many words."""
    return Cost(flops=words // 4 * segment.engine.operations, read=0, written=4 * words)


@op("trnrand::bits", calls={"cuda": "triton trnrand.cuda.streams", "host": "trnsci._loops.fill"})
class Bits(NamedTuple):
    """Words of a segment."""

    segment: tuple[int, ...]
    device: torch.device

    def fake(self) -> Tensor:
        return torch.empty(self.segment[2], dtype=torch.uint32, device=self.device)

    def cost(self) -> Cost:
        return words_cost(Segment(self.segment), self.segment[2])

    def pytorch(self) -> Tensor:
        segment = Segment(self.segment)
        return segment.words(segment.skip, segment.elements, self.device).to(torch.uint32)

    def host(self) -> Tensor:
        out = host_loops.empty((self.segment[2],), torch.uint32)
        host_loops.fill(host_loops.WORDS, Segment(self.segment), out)
        return out

    def cuda(self) -> Tensor:
        from trnrand.cuda import streams

        return streams.fill(streams.WORDS, Segment(self.segment), self.fake())

    def nki(self) -> Tensor:
        return launched(kernels.bits, Segment(self.segment), self.device) if self.segment[2] else self.fake()

    def limits(self, implementation: str) -> str | None:
        return host_loops.limits(implementation, self.device)

    def compiles(self) -> tuple[Hashable, float]:
        return compiles("bits", self.segment)
