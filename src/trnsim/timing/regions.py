"""Which operands wait for each other: in HBM those that share bytes, on chip those whose bounding boxes meet."""

import functools
from collections.abc import Sequence

import numpy as np

from trnsim.memory import PSUM, SBUF
from trnsim.records import Operand
from trnsim.timing.costs import itemsize

# below this many regions all are looked at
_FEW = 32

# runs of this many pieces are no longer compared piece by piece, and count as overlapping
_MOST = 4096


# how a region lies to another: apart, or with bytes in common, and then perhaps containing or contained
APART, MEETS, COVERS, WITHIN = 0, 1, 2, 4


def relation(a: Operand, b: Operand) -> int:
    """Return how ``a`` lies to ``b``: `APART`, or `MEETS` with `COVERS` and `WITHIN` where they hold."""
    if a is b:
        return MEETS | COVERS | WITHIN
    if not overlap(a, b):
        return APART
    return MEETS | (COVERS if covers(a, b) else 0) | (WITHIN if covers(b, a) else 0)


class Overlaps:
    """Relations between the regions of one memory, found when they are asked for and then kept.

    Regions are found through a grid: one of length L lies in the one or two cells of width 2^k >= L it touches.
    """

    __slots__ = ("_cells", "_known", "_levels", "_indices", "_operands")

    def __init__(self) -> None:
        self._indices: list[int] = []
        self._operands: list[Operand] = []
        self._cells: dict[tuple[int, int], list[int]] = {}
        self._levels: set[int] = set()
        self._known: dict[int, tuple[int, dict[int, int]]] = {}

    def __len__(self) -> int:
        return len(self._indices)

    def add(self, index: int, operand: Operand) -> None:
        """Take one more region."""
        at = len(self._indices)
        self._indices.append(index)
        self._operands.append(operand)
        low, high = operand.first_byte, operand.end_byte
        level = (high - low).bit_length()
        self._levels.add(level)
        for cell in range(low >> level, ((high - 1) >> level) + 1):
            self._cells.setdefault((level, cell), []).append(at)

    def of(self, index: int, operand: Operand) -> dict[int, int]:
        """Return regions that share bytes with ``index``, and how it lies to them."""
        seen, overlaps = self._known.get(index) or (0, {})
        known = len(self._indices)
        if seen < known:
            near = range(seen, known) if known - seen < _FEW else self._near(operand, seen)
            for at in near:
                how = relation(operand, self._operands[at])
                if how:
                    overlaps[self._indices[at]] = how
            if index in overlaps:
                overlaps[index] = MEETS | COVERS | WITHIN
            self._known[index] = known, overlaps
        return overlaps

    def _near(self, operand: Operand, seen: int) -> Sequence[int]:
        """Return positions, from ``seen`` on, of regions that may overlap one."""
        known = len(self._operands)
        near: set[int] = set()
        for level in self._levels:
            first, last = operand.first_byte >> level, (operand.end_byte - 1) >> level
            if last - first > known:
                return range(seen, known)
            for cell in range(first, last + 1):
                inside = self._cells.get((level, cell))
                if inside is not None and inside[-1] >= seen:
                    near.update(inside)
        return [at for at in near if at >= seen] if seen else list(near)


class Comb:
    """The bytes of a layout: pieces of ``length`` at the sums of ``dims`` (stride, extent), smallest stride first."""

    __slots__ = ("_starts", "count", "dims", "length", "pitch", "span", "touched")

    def __init__(self, item: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.span = item
        for extent, stride in zip(shape, strides, strict=True):
            self.span += item * stride * (extent - 1)
        dims = sorted((abs(s) * item, n) for n, s in zip(shape, strides, strict=True) if n > 1)
        length = item
        while dims and dims[0][0] <= length:
            stride, extent = dims.pop(0)
            length += stride * (extent - 1)
        self.length = length
        self.dims = _join_dims(dims)
        self.count = 1
        reach, apart = length, True
        for stride, extent in self.dims:
            self.count *= extent
            apart = apart and stride >= reach
            reach += stride * (extent - 1)
        # pieces that run into each other are too odd to count: less than everything, which is what matters
        self.touched = length * self.count if apart else min(length * self.count, reach - 1)
        # rows of a matrix: the distance within which two blocks of it can meet in one row only
        rows = [s for s, n in zip(strides[:-1], shape[:-1], strict=True) if n > 1]
        self.pitch = min(rows, default=0) * item if strides and strides[-1] == 1 else 0
        self._starts: np.ndarray | None = None

    @property
    def starts(self) -> np.ndarray:
        """Where the pieces begin, sorted, from the first."""
        if self._starts is None:
            starts = np.zeros(1, np.int64)
            for stride, extent in self.dims:
                starts = (starts[:, None] + stride * np.arange(extent)).ravel()
            self._starts = np.sort(starts)
        return self._starts


def _join_dims(dims: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return dimensions (stride, extent) with those joined that step through the same places."""
    folded: list[tuple[int, int]] = []
    for stride, extent in dims:
        if folded and stride % folded[-1][0] == 0 and stride // folded[-1][0] <= folded[-1][1]:
            least, count = folded.pop()
            folded.append((least, count + stride // least * (extent - 1)))
        else:
            folded.append((stride, extent))
    return tuple(folded)


@functools.lru_cache(maxsize=65536)
def _comb(chip: bool, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> Comb:
    return Comb(itemsize(dtype), shape[1:] if chip else shape, strides[1:] if chip else strides)


def comb(a: Operand) -> Comb:
    """Return the bytes of an operand (of one partition on chip), without their place."""
    return _comb(_on_chip(a), a.dtype, a.shape, a.strides)


def _on_chip(a: Operand) -> bool:
    return a.buffer == SBUF or a.buffer == PSUM


def overlap(a: Operand, b: Operand) -> bool:
    """Return whether two operands of one memory share bytes; on chip, when their boxes do.

    A compiler that keeps first and last bytes of an access sees it so, and published kernels that interleave strided
    writes into one tile are as slow as that.
    """
    if not a.meets(b):
        return False
    if _on_chip(a):
        return True
    mine, theirs = comb(a), comb(b)
    wide, far = a.end_byte - a.first_byte, b.end_byte - b.first_byte
    # a box wider than its comb is one whose place is known only when the kernel runs
    if (mine.touched >= wide and theirs.touched >= far) or wide > mine.span or far > theirs.span:
        return True
    apart = b.first_byte - a.first_byte
    if a.strides == b.strides and a.dtype == b.dtype and mine.pitch > 0:
        item = itemsize(a.dtype)
        wide, far = a.shape[-1] * item, b.shape[-1] * item
        if abs(apart) + max(wide, far) <= mine.pitch:
            return -far < apart < wide
    return _meet(mine, theirs, apart)


def _meet(a: Comb, b: Comb, apart: int) -> bool:
    """Return whether ``a`` at 0 and ``b`` at ``apart`` share bytes."""
    if len(a.dims) <= 1 and len(b.dims) <= 1:
        (s, n), (t, m) = a.dims[0] if a.dims else (1, 1), b.dims[0] if b.dims else (1, 1)
        if m == 1 or (n > 1 and t % s == 0):
            return _teeth(a.length, s, n, b.length, t, m, apart)
        if n == 1 or s % t == 0:
            return _teeth(b.length, t, m, a.length, s, n, -apart)
    if a.count > _MOST or b.count > _MOST:
        return True
    few, many = (a, b) if a.count <= b.count else (b, a)
    begin = few.starts + (-apart if few is a else apart)
    before = np.searchsorted(many.starts, begin - many.length, "right")
    return bool((np.searchsorted(many.starts, begin + few.length, "left") > before).any())


def _teeth(length: int, s: int, n: int, other: int, t: int, m: int, apart: int) -> bool:
    """One comb of ``n`` pieces every ``s`` bytes, another of ``m`` every ``t``, where ``s`` divides ``t``.

    Piece i of the first and j of the second meet when -other < apart + j t - i s < length: that is a range of j q - i.
    """
    low, high = (-other - apart) // s + 1, -((apart - length) // s) - 1
    if m == 1:
        return max(low, 1 - n) <= min(high, 0)
    q = t // s
    for k in range(max(low, 1 - n), min(high, (m - 1) * q) + 1):
        if max(0, -(-k // q)) <= min(m - 1, (k + n - 1) // q):
            return True
    return False


def covers(a: Operand, b: Operand) -> bool:
    """Return whether ``a``'s box contains ``b``'s and, in HBM, ``a`` is dense."""
    return (
        a.first_partition <= b.first_partition
        and a.end_partition >= b.end_partition
        and a.first_byte <= b.first_byte
        and a.end_byte >= b.end_byte
        and (_on_chip(a) or dense(a))
    )


def dense(a: Operand) -> bool:
    """Return whether the box of an operand holds no byte it does not touch."""
    return comb(a).touched >= a.end_byte - a.first_byte
