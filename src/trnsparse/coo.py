"""Coordinates: row, column and value of every entry, in any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import scipy.sparse as sp
import torch
from torch import Tensor

from trnsci import check
from trnsci.arrays import Array, Numbers, to_numpy
from trnsci.errors import ArgumentError, DtypeError
from trnsparse.indices import as_index, as_shape, check_length, check_range, compress, merge_positions
from trnsparse.matrix import Foreign, SparseMatrix, as_scipy, as_values


class COOMatrix(SparseMatrix):
    """A sparse matrix in coordinates. Entries may be unsorted and repeated; repeated ones count as their sum.

    Args:
        row: [nnz] row of every entry.
        col: [nnz] column of every entry.
        values: [nnz]
        shape: (M, N)

    Example:
        >>> COOMatrix([0, 1, 1], [0, 2, 2], torch.tensor([1.0, 2.0, 3.0]), (2, 3)).to_dense()
        tensor([[1., 0., 0.],
                [0., 0., 5.]])
    """

    format = "coo"
    _index_names = ("row", "col")
    _canonical = False

    def __init__(self, row: Numbers, col: Numbers, values: Numbers, shape: Sequence[int]) -> None:
        self.values = entries = as_values("COOMatrix", values)
        self.shape = as_shape("COOMatrix", shape)
        check.refuse(entries.ndim != 1, "COOMatrix", "shape of values", tuple(entries.shape), "one dimension")
        self.row = as_index("COOMatrix", "row", row, entries.device)
        self.col = as_index("COOMatrix", "col", col, entries.device)
        check_length("COOMatrix", row=self.row.numel(), col=self.col.numel(), values=entries.numel())
        if not entries.is_meta:
            check_range("COOMatrix", "row", self.row, self.shape[0])
            check_range("COOMatrix", "col", self.col, self.shape[1])

    @classmethod
    def sorted(cls, row: Tensor, col: Tensor, values: Tensor, shape: tuple[int, int]) -> Self:
        """Return a matrix from entries known to be sorted, distinct and in range."""
        result = cls._rebuilt({"row": row, "col": col}, values, shape)
        result._canonical = True
        return result

    @classmethod
    def from_dense(cls, dense: Tensor | Array) -> Self:
        """Return the nonzero entries of a dense matrix [M, N]."""
        tensor = as_values("from_dense", dense)
        check.refuse(tensor.ndim != 2, "from_dense", "shape", tuple(tensor.shape), "two dimensions")
        check.data("from_dense", dense=tensor)
        row, col = (index.contiguous() for index in (tensor.detach() != 0).nonzero(as_tuple=True))
        return cls.sorted(row, col, tensor[row, col], (tensor.shape[0], tensor.shape[1]))

    @classmethod
    def from_scipy(cls, matrix: Foreign) -> COOMatrix:
        """Return a ``scipy.sparse`` matrix or array of any format. Its arrays are copied."""
        coo = as_scipy("COOMatrix.from_scipy", matrix).tocoo()
        return cls(coo.row, coo.col, coo.data, coo.shape)

    @classmethod
    def from_torch(cls, tensor: Tensor) -> Self:
        """Return a two-dimensional ``torch.sparse`` tensor of any layout."""
        check.whole("from_torch", tensor=tensor)
        if not isinstance(tensor, Tensor) or tensor.is_nested:
            raise DtypeError("from_torch", "tensor", type(tensor), "a torch.sparse tensor")
        if tensor.layout == torch.strided:
            return cls.from_dense(tensor)
        coo = tensor.to_sparse_coo().coalesce()
        if coo.sparse_dim() != 2 or coo.dense_dim():
            raise ArgumentError("from_torch", "shape", tuple(coo.shape), "two sparse dimensions")
        as_values("from_torch", coo.values())
        row, col = coo.indices().clone()
        return cls.sorted(row, col, coo.values(), (coo.shape[0], coo.shape[1]))

    def with_values(self, values: Tensor | Array) -> Self:
        """Return a matrix of the same pattern with other values."""
        result = super().with_values(values)
        result._canonical = self._canonical
        return result

    def select(self, kept: Tensor) -> COOMatrix:
        """Return the entries where ``kept`` [nnz] is true."""
        result = COOMatrix._rebuilt({"row": self.row[kept], "col": self.col[kept]}, self.values[kept], self.shape)
        result._canonical = self._canonical
        return result

    def coalesce(self) -> COOMatrix:
        """Return sorted entries, those at one position added up."""
        if self._canonical:
            return self
        merged = self._once("merged", lambda: merge_positions(self.row, self.col, self.shape))
        if merged.order is None:
            self._canonical = True
            return self
        empty = self.values.new_empty(()).expand(merged.row.shape)
        pattern = self._once("pattern", lambda: COOMatrix.sorted(merged.row, merged.col, empty, self.shape))
        return pattern.with_values(merged.add_up(self.values))

    @property
    def pointers(self) -> Tensor:
        """Row pointers of sorted entries."""
        return self._once("pointers", lambda: compress(self.row, self.shape[0]))

    to_coo = _summed = coalesce

    def transpose(self) -> COOMatrix:
        """Return the transpose."""
        return COOMatrix._rebuilt({"row": self.col, "col": self.row}, self.values, self.shape[::-1])

    def to_scipy(self) -> Foreign:
        """Return a ``scipy.sparse.coo_array`` with arrays of its own, detached from gradients."""
        entries = (to_numpy(self.values), (to_numpy(self.row), to_numpy(self.col)))
        return sp.coo_array(entries, shape=self.shape, copy=True)

    def to_torch(self) -> Tensor:
        """Return a ``torch.sparse_coo`` tensor."""
        at, known = torch.stack([self.row, self.col]), self._canonical or None
        return torch.sparse_coo_tensor(at, self.values, self.shape, is_coalesced=known, device=self.device)
