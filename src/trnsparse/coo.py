"""Coordinates: row, column and value of every entry, in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from trnsci.arrays import from_numpy, to_numpy
from trnsci.errors import ArgumentError
from trnsparse.matrix import SparseMatrix, as_values
from trnsparse.structure import as_index, as_shape, canonical, check_length, check_range, compress

if TYPE_CHECKING:
    from trnsparse.bsr import BSRMatrix
    from trnsparse.csr import CSCMatrix, CSRMatrix


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

    def __init__(self, row: Any, col: Any, values: Any, shape: Any) -> None:
        self.values = as_values("COOMatrix", values)
        self.shape = as_shape("COOMatrix", shape)
        if self.values.ndim != 1:
            raise ArgumentError(
                op="COOMatrix", argument="shape of values", got=tuple(self.values.shape), expected="one dimension"
            )
        self.row = as_index("COOMatrix", "row", row, self.values.device)
        self.col = as_index("COOMatrix", "col", col, self.values.device)
        check_length("COOMatrix", row=self.row.numel(), col=self.col.numel(), values=self.values.numel())
        if not self.values.is_meta:
            check_range("COOMatrix", "row", self.row, self.shape[0])
            check_range("COOMatrix", "col", self.col, self.shape[1])
        self._canonical = False

    @classmethod
    def _rebuilt(cls, indices: dict[str, Tensor], values: Tensor, shape: tuple[int, int]) -> Self:
        made = cls.__new__(cls)
        made.row, made.col, made.values, made.shape = indices["row"], indices["col"], values, shape
        made._canonical = False
        return made

    @classmethod
    def sorted(cls, row: Tensor, col: Tensor, values: Tensor, shape: tuple[int, int]) -> Self:
        """Return a matrix from entries known to be sorted, distinct and in range."""
        made = cls._rebuilt({"row": row, "col": col}, values, shape)
        made._canonical = True
        return made

    @classmethod
    def from_dense(cls, dense: Any) -> COOMatrix:
        """Return the nonzero entries of a dense matrix [M, N]."""
        tensor = as_values("from_dense", dense)
        if tensor.ndim != 2:
            raise ArgumentError(op="from_dense", argument="shape", got=tuple(tensor.shape), expected="two dimensions")
        row, col = (tensor.detach() != 0).nonzero(as_tuple=True)
        return cls.sorted(row, col, tensor[row, col], (tensor.shape[0], tensor.shape[1]))

    @classmethod
    def from_scipy(cls, matrix: Any) -> COOMatrix:
        """Return a ``scipy.sparse`` matrix or array of any format."""
        coo = matrix.tocoo()
        return cls(from_numpy(coo.row), from_numpy(coo.col), from_numpy(coo.data), coo.shape)

    @classmethod
    def from_torch(cls, tensor: Tensor) -> COOMatrix:
        """Return a two-dimensional ``torch.sparse`` tensor of any layout."""
        if tensor.layout == torch.strided:
            return cls.from_dense(tensor)
        coo = tensor.to_sparse_coo().coalesce()
        row, col = coo.indices()
        return cls.sorted(row, col, coo.values(), (coo.shape[0], coo.shape[1]))

    def _indices(self) -> dict[str, Tensor]:
        return {"row": self.row, "col": self.col}

    def with_values(self, values: Tensor) -> Self:
        """Return a matrix of the same pattern with other values."""
        made = self._rebuilt(self._indices(), values, self.shape)
        made._canonical = self._canonical
        return made

    def select(self, kept: Tensor) -> COOMatrix:
        """Return the entries where ``kept`` [nnz] is true."""
        made = COOMatrix._rebuilt({"row": self.row[kept], "col": self.col[kept]}, self.values[kept], self.shape)
        made._canonical = self._canonical
        return made

    def coalesce(self) -> COOMatrix:
        """Return sorted entries, those at one place added up."""
        if self._canonical:
            return self
        return COOMatrix.sorted(*canonical(self.row, self.col, self.values, self.shape[1]), self.shape)

    def to_coo(self) -> COOMatrix:
        """Return sorted entries, those at one place added up."""
        return self.coalesce()

    def transpose(self) -> COOMatrix:
        """Return the transpose."""
        return COOMatrix._rebuilt({"row": self.col, "col": self.row}, self.values, self.shape[::-1])

    def to_csr(self) -> CSRMatrix:
        """Return the matrix in compressed rows."""
        from trnsparse.csr import CSRMatrix

        own = self.coalesce()
        indices = {"indptr": compress(own.row, self.shape[0]), "indices": own.col}
        return CSRMatrix._rebuilt(indices, own.values, self.shape)

    def to_csc(self) -> CSCMatrix:
        """Return the matrix in compressed columns."""
        from trnsparse.csr import CSCMatrix

        turned = self.transpose().to_csr()
        return CSCMatrix._rebuilt(turned._indices(), turned.values, self.shape)

    def to_bsr(self, block: int | tuple[int, int] = 128) -> BSRMatrix:
        """Return the matrix in dense blocks; only blocks that hold an entry are stored."""
        from trnsparse.bsr import BSRMatrix, as_block

        own = self.coalesce()
        bm, bn = as_block("to_bsr", block)
        across = -(-self.shape[1] // bn)
        key = (own.row // bm) * max(across, 1) + own.col // bn
        places, slot = torch.unique(key, return_inverse=True)
        flat = own.values.new_zeros(places.numel() * bm * bn)
        at = (slot * bm + own.row % bm) * bn + own.col % bn
        blocks = flat.index_put((at,), own.values).reshape(-1, bm, bn)
        rows = -(-self.shape[0] // bm)
        indices = {"indptr": compress(places // max(across, 1), rows), "indices": places % max(across, 1)}
        return BSRMatrix._rebuilt(indices, blocks, self.shape)

    def to_scipy(self) -> Any:
        """Return a ``scipy.sparse.coo_array``, detached from gradients."""
        import scipy.sparse

        entries = (to_numpy(self.values), (to_numpy(self.row), to_numpy(self.col)))
        return scipy.sparse.coo_array(entries, shape=self.shape)

    def to_torch(self) -> Tensor:
        """Return a ``torch.sparse_coo`` tensor."""
        return torch.sparse_coo_tensor(
            torch.stack([self.row, self.col]), self.values, self.shape, is_coalesced=self._canonical or None
        )
