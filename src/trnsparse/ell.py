"""Formats of other libraries, to read and to write: ELLPACK, hybrid and blocked ELLPACK.

None of them multiplies here: rows of one length would be padded for the longest. They become compressed rows, or
blocks, and gradients flow through the values both ways. A column of -1 stands for no entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from trnsci import check
from trnsci.backends import on_host
from trnsci.errors import ArgumentError
from trnsparse.arguments import sparse
from trnsparse.bsr import BSRMatrix
from trnsparse.coo import COOMatrix
from trnsparse.csr import Compressed, CSRMatrix
from trnsparse.indices import as_shape, compress
from trnsparse.matrix import SparseMatrixLike


@dataclass(frozen=True, slots=True, eq=False)
class ELL:
    """Rows of one length: ``columns`` [M, W], -1 where a row is shorter, and ``values`` [M, W], there not read."""

    columns: Tensor
    values: Tensor
    shape: tuple[int, int]

    def __post_init__(self) -> None:
        rows, width = as_shape("ELL", self.shape)
        check.tensor("ELL", columns=self.columns, values=self.values)
        if self.columns.ndim != 2 or self.columns.shape != self.values.shape or len(self.columns) != rows:
            got = {"columns": tuple(self.columns.shape), "values": tuple(self.values.shape), "rows": rows}
            raise ArgumentError("ELL", "shape", got)
        _in_range("ELL", self.columns, width)

    @classmethod
    def of(cls, a: SparseMatrixLike, *, width: int | None = None) -> ELL:
        """Write a matrix, its rows as long as the longest.

        Args:
            a: sparse [M, N].
            width: length of a row, by default that of the longest.

        Raises:
            ArgumentError: a row has more entries than ``width``; `HYB` keeps those elsewhere.
        """
        rows = _rows("ELL", a)
        longest = _longest(rows)
        width = longest if width is None else width
        if width < longest:
            expected = f"at least {longest}, the entries of row {int(rows.indptr.diff().argmax())}"
            raise ArgumentError("ELL.of", "width", width, expected, hint="HYB takes any width")
        return cls(*_pad_rows(rows, width), rows.shape)

    def to_csr(self) -> CSRMatrix:
        """Return compressed rows; columns may be in any order."""
        return _coordinates(self).to_csr()


@dataclass(frozen=True, slots=True, eq=False)
class HYB:
    """The first entries of every row as `ELL`, the others as coordinates: cuSPARSE's hybrid format."""

    ell: ELL
    coo: COOMatrix

    def __post_init__(self) -> None:
        check.equal("HYB", "shape", ell=self.ell.shape, coo=self.coo.shape)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.ell.shape

    @classmethod
    def of(cls, a: SparseMatrixLike, *, width: int | Literal["auto", "max"] = "auto") -> HYB:
        """Write a matrix.

        Args:
            a: sparse [M, N].
            width: entries of a row that go to the regular part; ``auto``: the width that stores the fewest numbers,
                where one of the regular part counts two and a coordinate three; ``max``: that of the longest row.
        """
        rows = _rows("HYB", a)
        lengths, longest = rows.indptr.diff(), _longest(rows)
        if width == "auto":
            width = _fewest(lengths, longest)
        wide = longest if width == "max" else width
        if not isinstance(wide, int) or wide < 0:
            raise ArgumentError("HYB.of", "width", width, "'auto', 'max' or a number of entries")
        beyond = (_positions(rows) >= wide).nonzero().flatten()
        others = rows.majors[beyond], rows.indices[beyond], rows.values[beyond]
        return cls(ELL(*_pad_rows(rows, wide), rows.shape), COOMatrix.sorted(*others, rows.shape))

    def to_csr(self) -> CSRMatrix:
        """Return compressed rows."""
        first, rest = _coordinates(self.ell), self.coo
        row, col, values = map(torch.cat, ((first.row, rest.row), (first.col, rest.col), (first.values, rest.values)))
        return COOMatrix(row, col, values, self.shape).to_csr()


@dataclass(frozen=True, slots=True, eq=False)
class BlockedELL:
    """Block rows of one length, as cuSPARSE has them: ``columns`` [R, W], -1 for none, ``values`` [R * b, W * b]."""

    columns: Tensor
    values: Tensor
    shape: tuple[int, int]

    def __post_init__(self) -> None:
        check.tensor("BlockedELL", columns=self.columns, values=self.values)
        if self.columns.ndim != 2 or self.values.ndim != 2:
            got = {"columns": tuple(self.columns.shape), "values": tuple(self.values.shape)}
            raise ArgumentError("BlockedELL", "dimensions", got)
        b = self.block
        wanted = (len(self.columns) * b, self.columns.shape[1] * b)
        if tuple(self.values.shape) != wanted or len(self.columns) != -(-self.shape[0] // b):
            size = tuple(self.values.shape)
            expected = f"{wanted}, blocks of {b} for {self.shape[0]} rows"
            raise ArgumentError("BlockedELL", "shape of values", size, expected)
        _in_range("BlockedELL", self.columns, -(-self.shape[1] // b))

    @property
    def block(self) -> int:
        """Rows and columns of a block."""
        rows = max(1, len(self.columns))
        return max(1, self.values.shape[0] // rows)

    @classmethod
    def of(cls, a: SparseMatrixLike, block: int) -> BlockedELL:
        """Write a matrix in square blocks."""
        on_host("trnsparse.BlockedELL")
        matrix = sparse("BlockedELL", "a", a)
        check.data("BlockedELL", a=matrix.values)
        blocks = matrix.to_bsr(block)
        columns, values = _pad_rows(blocks, _longest(blocks))
        rows, width = columns.shape
        return cls(columns, values.transpose(1, 2).reshape(rows * block, width * block), blocks.shape)

    def to_bsr(self) -> BSRMatrix:
        """Return the blocks in compressed rows; block columns may be in any order, each once in a row."""
        b, (rows, width) = self.block, self.columns.shape
        values = self.values.reshape(rows, b, width, b).transpose(1, 2)
        columns, order = self.columns.sort(1)
        row, position = (columns >= 0).nonzero(as_tuple=True)
        indices = columns[row, position]
        return BSRMatrix(compress(row, rows), indices, values[row, order[row, position]].contiguous(), self.shape)

    def to_csr(self) -> CSRMatrix:
        """Return compressed rows; zeros inside blocks stay stored."""
        return self.to_bsr().to_csr()


def _rows(op: str, a: SparseMatrixLike) -> CSRMatrix:
    on_host(f"trnsparse.{op}")
    matrix = sparse(op, "a", a)
    check.data(op, a=matrix.values)
    return matrix.to_csr()


def _positions(rows: Compressed) -> Tensor:
    """Return the position of every entry, or block, in its row."""
    return torch.arange(len(rows.indices), device=rows.device) - rows.indptr[rows.majors]


def _longest(rows: Compressed) -> int:
    """Return the entries, or blocks, of the longest row."""
    lengths = rows.indptr.diff()
    return int(lengths.max()) if len(lengths) else 0


def _pad_rows(rows: Compressed, width: int) -> tuple[Tensor, Tensor]:
    """Return columns, -1 for none, and values of the first entries, or blocks, of every row."""
    position = _positions(rows)
    kept = (position < width).nonzero().flatten()
    at, shape = (rows.majors[kept], position[kept]), (len(rows.indptr) - 1, width)
    columns = torch.full(shape, -1, device=rows.device).index_put(at, rows.indices[kept])
    return columns, rows.values.new_zeros((*shape, *rows.values.shape[1:])).index_put(at, rows.values[kept])


def _coordinates(ell: ELL) -> COOMatrix:
    columns = ell.columns.flatten()
    at = (columns >= 0).nonzero().flatten()
    row = at.div(max(1, ell.columns.shape[1]), rounding_mode="floor")
    return COOMatrix(row, columns[at], ell.values.flatten()[at], ell.shape)


def _fewest(lengths: Tensor, longest: int) -> int:
    """Return the width that stores the fewest numbers."""
    widths = torch.arange(longest + 1, device=lengths.device)
    count = torch.bincount(lengths, minlength=longest + 1)
    # entries beyond a width: those of longer rows, less the width times how many these are
    longer, entries = len(lengths) - count.cumsum(0), (count * widths).flip(0).cumsum(0).flip(0) - count * widths
    stored = 2 * len(lengths) * widths + 3 * (entries - longer * widths)
    return int(stored.argmin())


def _in_range(op: str, columns: Tensor, bound: int) -> None:
    if columns.numel() and not columns.is_meta:
        least, most = int(columns.min()), int(columns.max())
        if least < -1 or most >= bound:
            got = least if least < -1 else most
            raise ArgumentError(op, "columns", got, f"-1 to {bound - 1}")
