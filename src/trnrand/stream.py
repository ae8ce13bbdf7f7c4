"""Streams: values that name a sequence of random words, and can be split, folded, moved and jumped without drawing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trnrand.engines import ENGINES, MASK, PHILOX, WORDS, Engine
from trnsci import ArgumentError, check

# the high 64 bits of the counter say what a block is for, so that children never meet the words of their parent
SPLIT, FOLD, SUBSTREAM = 1 << 125, 2 << 125, 3 << 125
# children of one call: a list of more would not fit anywhere
MOST = 1 << 32


@dataclass(frozen=True, slots=True)
class Stream:
    """A sequence of ``2**66`` and more random words: a key, a base counter and a position in words.

    Two streams with the same fields are the same words on every backend. Nothing is consumed by drawing: `at` moves.

    Attributes:
        key: a non-negative integer of 64 bits (Philox) or 128 bits (Threefry).
        engine: ``philox4x32`` or ``threefry4x32``.
        base: 128-bit counter of block 0.
        position: word at which the next draw begins.
    """

    key: int
    engine: str = PHILOX.name
    base: int = 0
    position: int = 0

    def __post_init__(self) -> None:
        check.option("Stream", "engine", self.engine, tuple(ENGINES))
        bits = 32 * self.kind.key_words
        for name, value, limit in (("key", self.key, bits), ("base", self.base, 128), ("position", self.position, 130)):
            if not 0 <= check.integer("Stream", name, value) < 1 << limit:
                raise ArgumentError("Stream", name, value, f"0 <= {name} < 2**{limit}")

    @property
    def kind(self) -> Engine:
        """The engine."""
        return ENGINES[self.engine]

    @property
    def key_words(self) -> list[int]:
        """The key as uint32 words, lowest first."""
        return [self.key >> 32 * i & MASK for i in range(self.kind.key_words)]

    def at(self, position: int) -> Stream:
        """Return the same stream, positioned at a word."""
        if type(position) is not int or not 0 <= position < 1 << 130:
            # raises
            return replace(self, position=position)
        # every draw comes through here, and the other fields were checked when this stream was created
        moved = object.__new__(Stream)
        for name, value in (("key", self.key), ("engine", self.engine), ("base", self.base), ("position", position)):
            object.__setattr__(moved, name, value)
        return moved

    def jump(self, times: int = 1) -> Stream:
        """Return the same key, ``times * 2**64`` blocks further: no word in common for ``2**66`` words."""
        check.integer("Stream.jump", "times", times)
        return replace(self, base=(self.base + (times % (1 << 64) << 64)) % (1 << 128))

    def split(self, count: int = 2) -> tuple[Stream, ...]:
        """Return ``count`` independent streams; child ``i`` is the same whatever ``count`` is."""
        check.integer("Stream.split", "count", count, 0, MOST)
        return tuple(self._child(SPLIT, i) for i in range(count))

    def fold_in(self, data: int) -> Stream:
        """Return an independent stream for an integer, a step of training for example."""
        check.integer("Stream.fold_in", "data", data, 0, (1 << 64) - 1)
        return self._child(FOLD, data)

    def _child(self, purpose: int, index: int) -> Stream:
        counter = (self.base ^ purpose) + index
        counters: list[Tensor] = [torch.tensor(counter >> 32 * i & MASK, device="cpu") for i in range(4)]
        words = WORDS[self.kind](counters, self.key_words)
        key = sum(int(words[i]) << 32 * i for i in range(self.kind.key_words))
        return Stream(key, self.engine)
