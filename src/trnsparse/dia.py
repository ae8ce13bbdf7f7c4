"""Diagonals: every entry of some diagonals, zeros among them."""

from __future__ import annotations

from collections.abc import Sequence

import scipy.sparse as sp
import torch
from torch import Tensor

from trnsci import check
from trnsci.arrays import Numbers, to_numpy
from trnsci.errors import ArgumentError
from trnsparse.coo import COOMatrix
from trnsparse.indices import as_index, as_shape, check_length
from trnsparse.matrix import Foreign, SparseMatrix, as_values


class DIAMatrix(SparseMatrix):
    """A sparse matrix of diagonals: ``values[d, i]`` is the entry in row ``i`` and column ``i + offsets[d]``.

    Args:
        offsets: [D] rising; 0 is the main diagonal, positive ones lie above it.
        values: [D, M]; what lies outside the matrix is never read.
        shape: (M, N)

    Raises:
        ArgumentError: offsets do not rise or lie outside the matrix, or values have another shape.

    Example:
        >>> DIAMatrix([0, 1], torch.tensor([[1.0, 1.0], [5.0, 0.0]]), (2, 2)).to_dense()
        tensor([[1., 5.],
                [0., 1.]])
    """

    format = "dia"
    _index_names = ("offsets",)

    def __init__(self, offsets: Numbers, values: Numbers, shape: Sequence[int]) -> None:
        entries = as_values("DIAMatrix", values)
        self.shape = rows, columns = as_shape("DIAMatrix", shape)
        self.offsets = as_index("DIAMatrix", "offsets", offsets, entries.device)
        if entries.ndim != 2 or entries.shape[1] != rows:
            raise ArgumentError("DIAMatrix", "shape of values", tuple(entries.shape), f"[D, {rows}]")
        check_length("DIAMatrix", offsets=self.offsets.numel(), values=entries.shape[0])
        self.values = entries
        if not entries.is_meta and self.offsets.numel():
            wrong = bool((self.offsets.diff() <= 0).any())
            wrong = wrong or int(self.offsets[0]) <= -rows or int(self.offsets[-1]) >= columns
            expected = f"rising offsets between {1 - rows} and {columns - 1}"
            check.refuse(wrong, "DIAMatrix", "offsets", self.offsets.tolist()[:8], expected)

    @property
    def nnz(self) -> int:
        """Stored entries inside the matrix, zeros among them included."""
        rows, columns = self.shape
        return sum(min(rows, columns - o) - max(0, -o) for o in self.offsets.tolist())

    @property
    def _entries(self) -> tuple[Tensor, Tensor, Tensor]:
        """Rows, columns and positions in ``values.mT`` of the entries inside, sorted."""

        def compute() -> tuple[Tensor, Tensor, Tensor]:
            row = torch.arange(self.shape[0], device=self.device)[:, None]
            col = row + self.offsets
            at = ((col >= 0) & (col < self.shape[1])).flatten().nonzero().flatten()
            return row.expand(col.shape).flatten()[at], col.flatten()[at], at

        return self._once("entries", compute)

    def to_coo(self) -> COOMatrix:
        """Return every entry of the diagonals, as sorted coordinates."""
        row, col, at = self._entries
        return self._share(COOMatrix.sorted(row, col, self.values.mT.flatten()[at], self.shape))

    def to_dia(self) -> DIAMatrix:
        """Return itself."""
        return self

    def transpose(self) -> DIAMatrix:
        """Return the transpose, of the negated offsets."""
        indices = {"offsets": self.offsets.neg().flip(0)}
        return DIAMatrix._rebuilt(indices, self._by_column().flip(0), self.shape[::-1])

    def _by_column(self) -> Tensor:
        """Return [D, N], the entry of each diagonal in every column, 0 where it has none."""
        rows, columns = self.shape
        row = torch.arange(columns, device=self.device) - self.offsets[:, None]
        inside = (row >= 0) & (row < rows)
        at = row.clamp(0, max(rows - 1, 0))
        return torch.where(inside, self.values.gather(1, at), 0) if rows else self.values.new_zeros(row.shape)

    def to_scipy(self) -> Foreign:
        """Return a ``scipy.sparse.dia_array`` with arrays of its own, detached from gradients."""
        return sp.dia_array((to_numpy(self.detach()._by_column()), to_numpy(self.offsets)), shape=self.shape)

    def to_torch(self) -> Tensor:
        """Return a ``torch.sparse_csr`` tensor: torch has no layout of diagonals."""
        return self.to_csr().to_torch()

    def _extra(self) -> str:
        return f", {self.offsets.numel()} diagonals"
