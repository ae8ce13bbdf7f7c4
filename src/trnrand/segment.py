"""Segments of streams: what an op that draws is given, as one value."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import torch
from torch import Tensor

from trnrand.engines import ENGINES, WORDS, Engine, counters
from trnrand.stream import Stream

_WHOLE = (1 << 128) - 1
_BY_CODE = {engine.code: engine for engine in ENGINES.values()}


class Segment(tuple[int, ...]):
    """Elements of a stream that follow each other: the integers of an op's schema, read by name.

    They are the engine's code, elements to skip, elements, the key (4 words) and the counter of the first block (4
    words). How many words an element takes is the op's own.
    """

    __slots__ = ()

    @classmethod
    def of(cls, stream: Stream, first: int, count: int, per_block: int = 4) -> Segment:
        """Return elements ``first .. first + count`` of a stream whose blocks hold ``per_block`` of them."""
        block, skip = divmod(first, per_block)
        return cls._pack(stream.kind, stream.key, stream.base + block, skip, count)

    @classmethod
    def _pack(cls, engine: Engine, key: int, counter: int, skip: int, count: int) -> Segment:
        words = (key & _WHOLE).to_bytes(16, "little") + (counter & _WHOLE).to_bytes(16, "little")
        return cls((engine.code, skip, count, *struct.unpack("<8I", words)))

    @property
    def engine(self) -> Engine:
        """The engine."""
        return _BY_CODE[self[0]]

    @property
    def skip(self) -> int:
        """Elements of the first block that come before."""
        return self[1]

    @property
    def elements(self) -> int:
        """How many."""
        return self[2]

    @property
    def key(self) -> tuple[int, ...]:
        """The key as words, lowest first."""
        return self[3 : 3 + self.engine.key_words]

    @property
    def counter(self) -> tuple[int, ...]:
        """The counter of the first block as words, lowest first."""
        return self[7:]

    @property
    def key_and_counter(self) -> bytes:
        """Key and counter as the compiled loops read them."""
        return struct.pack("<8I", *self[3:])

    def in_words(self, each: int) -> Segment:
        """Return the words of the elements, ``each`` words to an element."""
        return Segment((self[0], each * self.skip, each * self.elements, *self[3:]))

    def stream(self, attempt: int = 0) -> Stream:
        """Return the stream whose block 0 is the first, or the one of every element's next attempt."""
        base = _join_words(self.counter) + (attempt << 96)
        return Stream(_join_words(self.key), self.engine.name, base % (1 << 128))

    def words(self, first: int, count: int, device: torch.device) -> Tensor:
        """Return words from the first block on, by torch alone, as int64."""
        block, skip = divmod(first, 4)
        blocks = (skip + count + 3) // 4
        steps = torch.arange(block, block + blocks, device=device)
        words = WORDS[self.engine](counters(_join_words(self.counter), steps), self.key)
        return torch.stack(words, dim=1).reshape(-1)[skip : skip + count]


def _join_words(words: Sequence[int]) -> int:
    return sum(word << 32 * i for i, word in enumerate(words))
