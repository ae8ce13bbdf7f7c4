"""Which operands touch the same bytes."""

from __future__ import annotations

from trnsim.session import Operand
from trnsim.timing.costs import itemsize


class Overlaps:
    """Overlap and cover relations between the regions of one memory, each pair decided once."""

    __slots__ = ("_covers", "_lists", "_operands")

    def __init__(self) -> None:
        self._operands: dict[int, Operand] = {}
        self._lists: dict[int, list[int]] = {}
        self._covers: set[tuple[int, int]] = set()

    def of(self, number: int, operand: Operand) -> list[int]:
        """Known regions that share bytes with ``number``, itself included."""
        found = self._lists.get(number)
        if found is None:
            found = self._lists[number] = [number]
            self._covers.add((number, number))
            for other, box in self._operands.items():
                if overlap(operand, box):
                    found.append(other)
                    self._lists[other].append(number)
                    if covers(operand, box):
                        self._covers.add((number, other))
                    if covers(box, operand):
                        self._covers.add((other, number))
            self._operands[number] = operand
        return found

    def covers(self, number: int, other: int) -> bool:
        """True when writing ``number`` overwrites all of ``other``."""
        return (number, other) in self._covers


def _boxes(a: Operand, b: Operand) -> bool:
    return (
        a.first_partition < b.end_partition
        and b.first_partition < a.end_partition
        and a.first_byte < b.end_byte
        and b.first_byte < a.end_byte
    )


def overlap(a: Operand, b: Operand) -> bool:
    """True when two operands of one memory share bytes."""
    if not _boxes(a, b):
        return False
    if dense(a) and dense(b):
        return True
    mine, theirs = runs(a), runs(b)
    if mine is None or theirs is None:
        return True
    i = j = 0
    while i < len(mine) and j < len(theirs):
        if mine[i][1] <= theirs[j][0]:
            i += 1
        elif theirs[j][1] <= mine[i][0]:
            j += 1
        else:
            return True
    return False


def covers(a: Operand, b: Operand) -> bool:
    """True when ``a`` is dense and its box contains ``b``'s."""
    return (
        dense(a)
        and a.first_partition <= b.first_partition
        and a.end_partition >= b.end_partition
        and a.first_byte <= b.first_byte
        and a.end_byte >= b.end_byte
    )


def dense(a: Operand) -> bool:
    """True when the box of an operand holds no byte it does not touch."""
    touched = itemsize(a.dtype)
    low = 1 if a.buffer in ("sbuf", "psum") else 0
    for extent in a.shape[low:]:
        touched *= extent
    return touched >= a.end_byte - a.first_byte


def runs(a: Operand, most: int = 4096) -> list[tuple[int, int]] | None:
    """The byte runs of an operand (of one partition on chip), sorted; ``None`` when there are too many."""
    item = itemsize(a.dtype)
    low = 1 if a.buffer in ("sbuf", "psum") else 0
    dims = sorted(((stride, extent) for extent, stride in zip(a.shape[low:], a.strides[low:], strict=True) if extent > 1), key=lambda d: abs(d[0]))
    length = 1
    while dims and abs(dims[0][0]) <= length:
        stride, extent = dims.pop(0)
        length = abs(stride) * (extent - 1) + length
    count = 1
    for _, extent in dims:
        count *= extent
    if count > most:
        return None
    offsets = [0]
    for stride, extent in dims:
        offsets = [o + abs(stride) * k for o in offsets for k in range(extent)]
    begin = a.first_byte
    return sorted((begin + o * item, begin + (o + length) * item) for o in offsets)
