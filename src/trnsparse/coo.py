"""Coordinates: row, column and value of every entry, in any order."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from trnsci.arrays import from_numpy, to_numpy
from trnsci.errors import ArgumentError
from trnsparse.matrix import SparseMatrix, as_values
from trnsparse.structure import as_index, as_shape, by_place, check_length, check_range, compress, in_blocks, placed

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
    _canonical = False
    _rows: CSRMatrix | None = None
    # What `coalesce` made last, and of which values: a product should not sort them again.
    _sums: tuple[Any, COOMatrix | None] = (None, None)

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

    @classmethod
    def _rebuilt(cls, indices: dict[str, Tensor], values: Tensor, shape: tuple[int, int]) -> Self:
        made = cls.__new__(cls)
        made.row, made.col, made.values, made.shape = indices["row"], indices["col"], values, shape
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
        row, col = (index.contiguous() for index in (tensor.detach() != 0).nonzero(as_tuple=True))
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
        self._share(made, "merged", "pointers")
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
        pattern, order, place = self.merged
        if pattern is None:
            self._canonical = True
            return self
        version, known = self._sums
        recorded = self.values.requires_grad and torch.is_grad_enabled()
        if known is not None and version == (id(self.values), self.values._version) and not recorded:
            return known
        values = self.values.index_select(0, order)
        if place is not None:
            values = values.new_zeros(pattern.row.shape).index_add(0, place, values)
        made = pattern.with_values(values)
        if not recorded:
            made.settled = self.settled
            self._sums = ((id(self.values), self.values._version), made)
        return made

    @cached_property
    def merged(self) -> tuple[COOMatrix | None, Tensor, Tensor | None]:
        """The sorted pattern without values, the order that sorts the entries, and where places repeat, their numbers.

        There is no pattern where the entries are sorted and distinct already.
        """
        found = by_place(self.row, self.col, self.shape)
        if found is None:
            return None, self.row, None
        order, row, col, place = found
        if place is not None:
            first = torch.nn.functional.pad(place.diff() > 0, (1, 0), value=True)
            row, col = row[first], col[first]
        pattern = COOMatrix.sorted(row, col, self.values.detach()[:0], self.shape)
        pattern.__dict__["pointers"] = compress(row, self.shape[0])
        return pattern, order, place

    @cached_property
    def pointers(self) -> Tensor:
        """Row pointers of sorted entries."""
        return compress(self.row, self.shape[0])

    def to_coo(self) -> COOMatrix:
        """Return sorted entries, those at one place added up."""
        return self.coalesce()

    def transpose(self) -> COOMatrix:
        """Return the transpose."""
        return COOMatrix._rebuilt({"row": self.col, "col": self.row}, self.values, self.shape[::-1])

    def to_csr(self) -> CSRMatrix:
        """Return the matrix in compressed rows."""
        from trnsparse.csr import CSRMatrix

        if self._rows is not None and self._rows.values is self.values:
            return self._rows
        own = self.coalesce()
        if own is not self:
            return own.to_csr()
        made = CSRMatrix._rebuilt({"indptr": own.pointers, "indices": own.col}, own.values, self.shape)
        made.__dict__["majors"] = own.row
        made.settled = self.settled
        # the values are the same tensor, so that it sees what is written to them
        self._rows = made
        return made

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
        grid = -(-self.shape[0] // bm), max(-(-self.shape[1] // bn), 1)
        indptr, indices, place = in_blocks(own.pointers, own.row, own.col, (bm, bn), grid)
        blocks = placed(own.values, place, indices.numel() * bm * bn).reshape(-1, bm, bn)
        return BSRMatrix._rebuilt({"indptr": indptr, "indices": indices}, blocks, self.shape)

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
