"""Passes of a program by name: the sizes of each, and the flat tensors that hold the tables of all of them.

`trnfft.kernels.fft` documents what each pass computes; its fields are in the order in which the kernel unpacks them.
"""

import re
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Table(NamedTuple):
    """Where a matrix begins in a flat tensor, and its sizes; of two parts the second follows the first."""

    offset: int
    rows: int
    columns: int


# A table that a pass does without.
NONE: tuple[()] = ()
MaybeTable = Table | tuple[()]


class Factor(NamedTuple):
    """Factor of rows: their planes, its own parts, and its table, of one row for all or one for each."""

    planes: int
    parts: int
    table: Table


MaybeFactor = Factor | tuple[()]


class Piece(NamedTuple):
    """Frames of signals: whether those of the padded ends, and where they begin."""

    aside: bool
    length: int
    first: int
    frames: int
    start: int


class Frames(NamedTuple):
    """Overlapping frames: how many of a signal, samples from one to the next, and where they are read."""

    per_signal: int
    hop: int
    pieces: tuple[Piece, ...]


class Rows(NamedTuple):
    """Rows times one matrix."""

    rows: int
    inputs: int
    outputs: int
    matrix: Table


class Fused(NamedTuple):
    """Few rows of two factors, twiddles between two products."""

    rows: int
    first: int
    last: int
    read: int
    written: int
    packed: int
    lanes: int
    transposed: bool
    first_matrix: Table
    twiddles: Table
    last_matrix: Table


class Folded(NamedTuple):
    """Rows of two factors, twiddles in the tables of the first product."""

    rows: int
    inputs: int
    outputs: int
    n1: int
    n2: int
    half: int
    group: int
    first: Table
    second: Table
    unpaired: MaybeTable
    after: MaybeTable
    loaded: MaybeFactor = NONE
    stored: MaybeFactor = NONE
    frames: Frames | tuple[()] = NONE


class FoldedColumns(NamedTuple):
    """The same along an inner axis."""

    outer: int
    columns: int
    n1: int
    n2: int
    kept: int
    group: int
    first: Table
    second: Table


class FoldedTransposed(NamedTuple):
    """Rows, times what differs from row to row, that become columns."""

    outer: int
    rows: int
    n1: int
    n2: int
    half: int
    group: int
    first: Table
    second: Table
    twiddles: Table


class Unfolded(NamedTuple):
    """Half a spectrum of long rows from half of the rows of their first pass."""

    rows: int
    m: int
    n1: int
    n2: int
    flip: Table


class Completed(NamedTuple):
    """Columns of long rows from half a spectrum."""

    rows: int
    r: int
    m: int
    flip: Table


class Turn(NamedTuple):
    """The first of several products of rows; its result comes out transposed."""

    rows: int
    read: int
    rest: int
    written: int
    matrix: Table
    twiddles: Table


class Columns(NamedTuple):
    """One product with what is beside the axis streaming past."""

    outer: int
    read: int
    rest: int
    inner: int
    written: int
    lanes: int
    matrix: Table
    twiddles: MaybeTable


class Multiply(NamedTuple):
    """A chirp or its spectrum, element by element, with zero padding or cutting."""

    outer: int
    inputs: int
    outputs: int
    inner: int
    parts: int
    by: MaybeTable


class Times(Multiply):
    """Rows of ``inputs`` points times a factor that a call gives; without one they are converted."""

    __slots__ = ()


Sizes = Rows | Fused | Folded | FoldedColumns | FoldedTransposed | Unfolded | Completed | Turn | Columns | Multiply


class Pass(NamedTuple):
    """One pass: its sizes, how many elements it writes, and whether they are real."""

    sizes: Sizes
    size: int
    real: bool

    def static(self) -> tuple[Any, ...]:
        """Return the pass as the kernel reads it: plain tuples, since the compiler refuses named ones."""
        kind = re.sub("(?<=.)([A-Z])", r" \1", type(self.sizes).__name__).lower()
        return kind, self.size, self.real, _plain(self.sizes)


def _plain(value: Any) -> Any:
    return tuple(_plain(item) for item in value) if isinstance(value, tuple) else value


class Tables:
    """Tables of one dtype, one after the other in a flat tensor."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._kept: list[Tensor] = []
        self._dtype, self._size = dtype, 0

    def keep(self, table: Tensor) -> Table:
        """Append a matrix [rows, columns]."""
        return self._append(table, *table.shape)

    def keep_parts(self, table: Tensor) -> Table:
        """Append a table of two parts, [2, rows, columns], or [2, columns] for one row."""
        return self._append(table, table.shape[1] if table.ndim == 3 else 1, table.shape[-1])

    def _append(self, table: Tensor, rows: int, columns: int) -> Table:
        where = Table(self._size, rows, columns)
        self._kept.append(table.to(self._dtype).reshape(-1))
        self._size += table.numel()
        return where

    def flat(self) -> Tensor | None:
        """Return all tables in one tensor, or ``None`` where there are none."""
        return torch.cat(self._kept) if self._kept else None
