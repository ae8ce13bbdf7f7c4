"""Slices: rows in groups, each group padded to its longest row (SELL, sliced ELLPACK)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trnsci import check
from trnsci.arrays import Numbers
from trnsci.errors import ArgumentError
from trnsparse.coo import COOMatrix
from trnsparse.indices import as_index, as_shape, check_length
from trnsparse.matrix import Foreign, SparseMatrix, as_values


class SELLMatrix(SparseMatrix):
    """A sparse matrix in slices of ``size`` rows, each as wide as its longest row and stored by columns.

    What products run in is not this: a device's gathers arrange rows by the pattern alone (`spmm`, ``format="sell"``).

    Args:
        size: rows of a slice; kept as a tensor [1], with the other indices.
        offsets: [slices + 1], where a slice begins.
        columns: [stored], distinct in every row; -1 where a row is shorter than its slice.
        values: [stored]; those of no column are never read.
        shape: (M, N)

    Raises:
        ArgumentError: offsets do not grow by multiples of ``size``, or columns lie outside the matrix.

    Example:
        >>> SELLMatrix(2, [0, 4], [0, 1, 1, -1], torch.tensor([1.0, 2.0, 3.0, 0.0]), (2, 2)).to_dense()
        tensor([[1., 3.],
                [0., 2.]])
    """

    format = "sell"
    _index_names = ("size", "offsets", "columns")

    def __init__(
        self, size: int | Numbers, offsets: Numbers, columns: Numbers, values: Numbers, shape: Sequence[int]
    ) -> None:
        entries = as_values("SELLMatrix", values)
        self.shape = rows, across = as_shape("SELLMatrix", shape)
        size = [size] if isinstance(size, int) else size
        for name, index in (("size", size), ("offsets", offsets), ("columns", columns)):
            self.__dict__[name] = as_index("SELLMatrix", name, index, entries.device)
        check.refuse(entries.ndim != 1, "SELLMatrix", "shape of values", tuple(entries.shape), "one dimension")
        check_length("SELLMatrix", columns=self.columns.numel(), values=entries.numel())
        self.values = entries
        if entries.is_meta:
            return
        each = int(self.size[0]) if self.size.numel() == 1 else 0
        if each < 1:
            raise ArgumentError("SELLMatrix", "size", self.size.tolist(), "one number from 1 on")
        slices, widths = -(-rows // each), self.offsets.diff()
        if self.offsets.numel() != slices + 1:
            expected = f"{slices + 1}, for slices of {each} of {rows} rows"
            raise ArgumentError("SELLMatrix", "offsets", self.offsets.numel(), expected)
        if bool((widths % each).any() or (widths < 0).any()) or self.offsets[[0, -1]].tolist() != [0, entries.numel()]:
            expected = f"multiples of {each} that grow from 0 to {entries.numel()}"
            raise ArgumentError("SELLMatrix", "offsets", self.offsets.tolist()[-3:], expected)
        wrong = ((self.columns < -1) | (self.columns >= across)).nonzero()
        if wrong.numel():
            raise ArgumentError("SELLMatrix", "columns", int(self.columns[wrong[0]]), f"-1 to {across - 1}")

    size: Tensor
    offsets: Tensor
    columns: Tensor

    @property
    def nnz(self) -> int:
        """Stored entries, zeros among them included, padding not."""
        return int((self.columns >= 0).sum())

    @property
    def _entries(self) -> tuple[Tensor, Tensor, Tensor]:
        """Rows, columns and positions in ``values`` of the entries, by slices."""

        def locate() -> tuple[Tensor, Tensor, Tensor]:
            at, size = (self.columns >= 0).nonzero().flatten(), int(self.size)
            piece = torch.searchsorted(self.offsets, at, right=True) - 1
            return piece * size + (at - self.offsets[piece]) % size, self.columns[at], at

        return self._once("entries", locate)

    def to_coo(self) -> COOMatrix:
        """Return the matrix as sorted coordinates; columns may be in any order, and repeated ones are added up."""
        row, col, at = self._entries
        entries = COOMatrix._rebuilt({"row": row, "col": col}, self.values[at], self.shape)
        return self._share(entries).coalesce()

    def to_sell(self, size: int | None = None) -> SELLMatrix:
        """Return itself, or the matrix in slices of other sizes."""
        return self if size in (None, int(self.size)) else super().to_sell(size)

    def transpose(self) -> SELLMatrix:
        """Return the transpose, in slices of the same size."""
        return self.to_coo().transpose().to_sell(int(self.size))

    def to_scipy(self) -> Foreign:
        """Return a ``scipy.sparse.csr_array``, detached from gradients: SciPy has no slices."""
        return self.to_csr().to_scipy()

    def to_torch(self) -> Tensor:
        """Return a ``torch.sparse_csr`` tensor: torch has no slices."""
        return self.to_csr().to_torch()

    def _extra(self) -> str:
        return f", slices of {int(self.size)} rows"
