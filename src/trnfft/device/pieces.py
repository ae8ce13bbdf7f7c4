"""Programs of a size that compiles: rows of a large batch are several launches of one program.

A program grows with the rows it transforms, evenly from one tile of rows to the next, so two small ones tell how many
rows one may have. The limits are settings of the suite (``TRNSCI_PROGRAM_MATMULS``, ``TRNSCI_PROGRAM_INSTRUCTIONS``).
"""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

from trnfft.device.pass_programs import pass_program
from trnfft.kernels import fft as kernels
from trnsci.nki import P_MAX, WARM
from trnsci.programs import Size, limits, most, size_of

# Points that fit whatever their shape: at most 8 instructions for each tile of 128 rows.
_FEW = 1 << 18
# Points of a row from which rows do not share tiles.
_LONG = 8192


@functools.lru_cache(maxsize=1024)
def _size(kind: str, rows: int, n: int, real: bool) -> Size:
    """Return instructions and matmuls of the program of a batch of rows of n points."""
    given = n // 2 + 1 if kind == "c2r" else n
    transform = pass_program(kind, (rows, given), (1,), n, -1, "none", torch.float32, real)
    plane = torch.empty(rows * (transform.read if kind == "c2r" else n), device="meta", dtype=torch.float32)
    planes = plane, None if real or kind == "r2c" else plane
    return size_of(kernels.fft, (*planes, *transform.tables), {"program": transform.steps, "warm": WARM[-1]})


def _tile(n: int) -> int:
    return P_MAX if n <= _LONG else 1


class Rows(NamedTuple):
    """A batch of rows of n points, as a program would transform it: ``c2c``, ``r2c`` or ``c2r``."""

    kind: str
    rows: int
    n: int
    real: bool = False

    def size(self) -> tuple[int, int]:
        """Return about how many instructions and matmuls its program has."""
        tile = _tile(self.n)
        if self.rows <= tile or self.rows * self.n <= _FEW:
            return 0, 0
        one, two = (_size(self.kind, count, self.n, self.real) for count in (tile, 2 * tile))
        more = math.ceil(self.rows / tile) - 1
        return one[0] + more * (two[0] - one[0]), one[1] + more * (two[1] - one[1])

    def at_once(self) -> int:
        """Return how many rows one program may transform: all, or a number of whole tiles."""
        if fit([self]):
            return self.rows
        tile = _tile(self.n)
        together = most(lambda count: _size(self.kind, count * tile, self.n, self.real))
        # Equal pieces are one compiled program.
        total = math.ceil(self.rows / tile)
        return math.ceil(total / math.ceil(total / together)) * tile


def fit(axes: Sequence[Rows]) -> bool:
    """Return whether one program may transform all of these, one after the other."""
    sizes = [axis.size() for axis in axes]
    return all(sum(size[i] for size in sizes) <= limit for i, limit in enumerate(limits()))
