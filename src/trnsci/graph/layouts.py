"""Where values of a program lie: buffers in HBM, views of them, and the blocks in which steps go through them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

P_MAX = 128
_MOST_AXES = 5
# how the dtypes of torch are stored in HBM; integers have 32 bits there
STORED = {
    torch.float32: torch.float32,
    torch.bfloat16: torch.bfloat16,
    torch.float16: torch.float16,
    torch.bool: torch.uint8,
    torch.uint8: torch.uint8,
    torch.int32: torch.int32,
    torch.int64: torch.int32,
}


@dataclass(eq=False)
class Buffer:
    """A tensor in HBM, contiguous: an argument of the program, a constant, or what a step writes."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    # the program of a split graph that may read it
    level: int = 0
    data: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Lay out what has more axes than a view on the device as one axis: views have their own."""
        if len(self.shape) > _MOST_AXES:
            self.shape = (self.numel,)

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes in HBM."""
        return self.numel * self.dtype.itemsize


@dataclass(frozen=True, eq=False)
class View:
    """Elements of a buffer: shape, strides and offset, as torch has them; ``dtype`` as torch knows it."""

    buffer: Buffer
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype

    @property
    def is_whole(self) -> bool:
        """Whether it is all of its buffer, in order."""
        return self.offset == 0 and math.prod(self.shape) == self.buffer.numel and self.is_contiguous

    @property
    def is_contiguous(self) -> bool:
        """Whether its elements follow each other."""
        return all(
            n == 1 or s == want for n, s, want in zip(self.shape, self.stride, row_major(self.shape), strict=True)
        )

    def shown(self) -> torch.Tensor:
        """Return a tensor without data of this layout, to apply torch's views to."""
        whole = torch.empty(max(1, self.buffer.numel), dtype=self.dtype, device="meta")
        return whole.as_strided(self.shape, self.stride, self.offset)

    def like(self, shown: torch.Tensor) -> View:
        """Return the view that torch made of `shown`."""
        return View(self.buffer, tuple(shown.shape), tuple(shown.stride()), int(shown.storage_offset()), self.dtype)


def whole_view(buffer: Buffer, size: Sequence[int], dtype: torch.dtype) -> View:
    """Return all of a buffer in a shape."""
    return View(buffer, tuple(size), row_major(size), 0, dtype)


def row_major(size: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor."""
    return tuple(math.prod(size[axis + 1 :]) for axis in range(len(size)))


def collapse(size: Sequence[int], operands: Iterable[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Merge neighbouring axes wherever every operand's strides allow it; return sizes, and strides of each operand."""
    strides = [list(each) for each in operands]
    axes = [axis for axis, n in enumerate(size) if n != 1]
    merged: list[int] = []
    kept: list[list[int]] = [[] for _ in strides]
    for axis in axes:
        n = size[axis]
        if merged and all(one[-1] == each[axis] * n for one, each in zip(kept, strides, strict=True)):
            merged[-1] *= n
            for one, each in zip(kept, strides, strict=True):
                one[-1] = each[axis]
        else:
            merged.append(n)
            for one, each in zip(kept, strides, strict=True):
                one.append(each[axis])
    if not merged:
        return [1], [[1] for _ in strides]
    return merged, kept


def _split_last(n: int) -> int:
    """Return how many partitions share a row of n elements: the largest divisor up to 128."""
    return max(p for p in range(1, min(n, P_MAX) + 1) if n % p == 0)


@dataclass(frozen=True)
class Blocks:
    """Blocks of work: (partitions, free sizes, offset of each operand), and strides (partition, free...) of each."""

    blocks: tuple[Any, ...]
    strides: tuple[tuple[int, ...], ...]


def cut_blocks(size: Sequence[int], operands: Sequence[tuple[Sequence[int], int]], widest: int) -> list[Blocks]:
    """Cut elementwise work on operands (strides, offset) into blocks of up to 128 partitions and ``widest`` elements.

    The partition axis is the longest outer one, or a part of the innermost where outer ones are short.
    """
    sizes, strides = collapse(size, [stride for stride, _ in operands])
    offsets = [offset for _, offset in operands]
    outer = max(range(len(sizes) - 1), key=lambda axis: sizes[axis], default=None)
    last, p = sizes[-1], _split_last(sizes[-1])
    if outer is not None and sizes[outer] >= min(P_MAX, 4 * p):
        return [_tile(sizes, strides, offsets, outer, widest)]
    if p < min(last, P_MAX) // 4 and len(sizes) == 1 and last > P_MAX:
        # no good divisor: whole partitions, then the rest
        each = last // P_MAX
        main = cut_blocks([P_MAX * each], [([s[0]], o) for s, o in zip(strides, offsets, strict=True)], widest)
        rest = last - P_MAX * each
        begin = [o + s[0] * P_MAX * each for s, o in zip(strides, offsets, strict=True)]
        tail = cut_blocks([rest], [([s[0]], o) for s, o in zip(strides, begin, strict=True)], widest)
        return main + tail
    each = last // p
    sizes = [p, *sizes[:-1], each]
    strides = [[s[-1] * each, *s] for s in strides]
    return [_tile(sizes, strides, offsets, 0, widest)]


def _tile(sizes: list[int], strides: list[list[int]], offsets: list[int], at: int, widest: int) -> Blocks:
    """Cut with the partition axis ``at``; free axes that do not fit are gone through one by one."""
    free = [axis for axis in range(len(sizes)) if axis != at]
    inner = list(free)
    looped: list[int] = []
    while math.prod(sizes[axis] for axis in inner[1:]) > widest or len(inner) > 3:
        looped.append(inner.pop(0))
    lead = max(1, widest // math.prod(sizes[axis] for axis in inner[1:])) if inner else 1
    blocks: list[Any] = []
    for p0 in range(0, sizes[at], P_MAX):
        p = min(P_MAX, sizes[at] - p0)
        for position in itertools.product(*(range(sizes[axis]) for axis in looped)):
            base = [
                o + p0 * s[at] + sum(i * s[axis] for i, axis in zip(position, looped, strict=True))
                for s, o in zip(strides, offsets, strict=True)
            ]
            if not inner:
                blocks.append((p, (1,), tuple(base)))
                continue
            for f0 in range(0, sizes[inner[0]], lead):
                n = min(lead, sizes[inner[0]] - f0)
                here = tuple(o + f0 * s[inner[0]] for s, o in zip(strides, base, strict=True))
                blocks.append((p, (n, *(sizes[axis] for axis in inner[1:])), here))
    kept = tuple(tuple([s[at], *(s[axis] for axis in inner)] if inner else [s[at], 1]) for s in strides)
    return Blocks(tuple(blocks), kept)
