"""Random words: any segment of a stream."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import torch
from torch import Tensor

from trnrand import host_loops
from trnrand.device import launch_stream
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
    return run(Bits(Segment.of(stream, stream.position + offset, n), torch.uint32, where))


def stream_words(stream: Stream, first: int, count: int, device: torch.device) -> Tensor:
    """Return words of a stream as int64."""
    return run(Bits(Segment.of(stream, first, count), torch.uint32, device)).to(torch.int64)


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
    """Return operations and bytes of ``words`` words."""
    return Cost(flops=words // 4 * segment.engine.operations, read=0, written=4 * words)


class Numbers(NamedTuple):
    """Numbers of a segment, one after another: of one word each, or of two for float64."""

    segment: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    def code(self) -> int:
        """Return the code of these numbers in the compiled loops and the kernels of GPUs."""
        raise NotImplementedError

    @property
    def each(self) -> int:
        """Words of a number."""
        return 2 if self.dtype == torch.float64 else 1

    def fake(self) -> Tensor:
        return torch.empty(self.segment[2], dtype=self.dtype, device=self.device)

    def cost(self) -> Cost:
        return words_cost(Segment(self.segment), self.segment[2] * self.each)

    def host(self) -> Tensor:
        out = host_loops.empty((self.segment[2],), self.dtype)
        self.host_into(out)
        return out

    def host_into(self, out: Tensor) -> None:
        host_loops.fill(self.code(), Segment(self.segment), out)

    def cuda(self) -> Tensor:
        out = self.fake()
        self.cuda_into(out)
        return out

    def cuda_into(self, out: Tensor) -> None:
        from trnrand.cuda import streams

        streams.fill(self.code(), Segment(self.segment), out)

    def limits(self, implementation: str) -> str | None:
        return host_loops.limits(implementation, self.device)

    def calls(self, implementation: str) -> str:
        return "triton trnrand.cuda.streams" if implementation == "cuda" else "trnsci._loops.fill"

    def compiles(self) -> tuple[Hashable, float]:
        return compiles(self.code(), self.segment)


@op("trnrand::bits")
class Bits(Numbers):
    """Words of a segment, uint32."""

    __slots__ = ()

    def code(self) -> int:
        return host_loops.WORDS

    def pytorch(self) -> Tensor:
        segment = Segment(self.segment)
        return segment.words(segment.skip, segment.elements, self.device).to(torch.uint32)

    def nki(self) -> Tensor:
        return launch_stream(kernels.bits, Segment(self.segment), self.device) if self.segment[2] else self.fake()
