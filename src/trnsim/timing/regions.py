"""Which operands touch the same bytes."""

from __future__ import annotations

from trnsim.records import Operand
from trnsim.timing.costs import itemsize

# below this many regions all are looked at
_FEW = 32


class Overlaps:
    """Overlap and cover relations between the regions of one memory, each pair decided once.

    Regions are found through a grid: one of length L lies in the one or two cells of width 2^k >= L it touches.
    """

    __slots__ = ("_cells", "_levels", "_operands", "lists")

    def __init__(self) -> None:
        self._operands: dict[int, Operand] = {}
        self.lists: dict[int, list[tuple[int, bool]]] = {}
        self._cells: dict[tuple[int, int], list[int]] = {}
        self._levels: dict[int, int] = {}

    def of(self, number: int, operand: Operand) -> list[tuple[int, bool]]:
        """Known regions that share bytes with ``number``, itself first, and whether writing it overwrites them."""
        found = self.lists.get(number)
        if found is None:
            found = self.lists[number] = [(number, True)]
            low, high = operand.first_byte, operand.end_byte
            for other in self._near(operand):
                box = self._operands[other]
                # most neighbours are apart: tell them quickly
                if box.first_byte < high and low < box.end_byte and overlap(operand, box):
                    found.append((other, covers(operand, box)))
                    self.lists[other].append((number, covers(box, operand)))
            self._operands[number] = operand
            if len(self._operands) >= _FEW:
                self._grow()
        return found

    def _grow(self) -> None:
        """Put regions into the grid that are not there yet."""
        if len(self._operands) == _FEW:
            for number, operand in self._operands.items():
                self._place(number, operand)
        else:
            number = next(reversed(self._operands))
            self._place(number, self._operands[number])

    def _place(self, number: int, operand: Operand) -> None:
        level = (operand.end_byte - operand.first_byte).bit_length()
        self._levels[level] = self._levels.get(level, 0) + 1
        for cell in range(operand.first_byte >> level, ((operand.end_byte - 1) >> level) + 1):
            self._cells.setdefault((level, cell), []).append(number)

    def _near(self, operand: Operand) -> list[int]:
        if len(self._operands) < _FEW:
            return list(self._operands)
        near: set[int] = set()
        for level in self._levels:
            first, last = operand.first_byte >> level, (operand.end_byte - 1) >> level
            if last - first > len(self._operands):
                return list(self._operands)
            for cell in range(first, last + 1):
                near.update(self._cells.get((level, cell), ()))
        return sorted(near)


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
    if a.dtype == b.dtype and a.strides == b.strides:
        known = _alike(a, b)
        if known is not None:
            return known
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


def _alike(a: Operand, b: Operand) -> bool | None:
    """Blocks of one matrix: their innermost runs meet in one row, or nowhere. ``None`` when that does not decide."""
    item = itemsize(a.dtype)
    low = 1 if a.buffer in ("sbuf", "psum") else 0
    if not a.strides or a.strides[-1] != 1:
        return None
    pitch = min((s for s, n in zip(a.strides[low:-1], a.shape[low:-1], strict=True) if n > 1), default=0) * item
    length_a, length_b = a.shape[-1] * item, b.shape[-1] * item
    apart = b.first_byte - a.first_byte
    if pitch <= 0 or abs(apart) + max(length_a, length_b) > pitch:
        return None
    return -length_b < apart < length_a


def covers(a: Operand, b: Operand) -> bool:
    """True when ``a`` is dense and its box contains ``b``'s."""
    return (
        a.first_partition <= b.first_partition
        and a.end_partition >= b.end_partition
        and a.first_byte <= b.first_byte
        and a.end_byte >= b.end_byte
        and dense(a)
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
    dims = sorted(
        ((abs(stride), extent) for extent, stride in zip(a.shape[low:], a.strides[low:], strict=True) if extent > 1)
    )
    length = 1
    while dims and dims[0][0] <= length:
        stride, extent = dims.pop(0)
        length = stride * (extent - 1) + length
    count = 1
    for _, extent in dims:
        count *= extent
    if count > most:
        return None
    offsets = [0]
    for stride, extent in dims:
        offsets = [o + stride * k for o in offsets for k in range(extent)]
    begin = a.first_byte
    return sorted((begin + o * item, begin + (o + length) * item) for o in offsets)
