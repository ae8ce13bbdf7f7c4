"""Compressed rows and compressed columns."""

from __future__ import annotations

from collections.abc import Sequence

import scipy.sparse as sp
import torch
from torch import Tensor

from trnsci import check
from trnsci.arrays import Numbers, to_numpy
from trnsci.libraries import operand
from trnsparse.coo import COOMatrix
from trnsparse.indices import as_index, as_shape, check_compressed, check_length, expand, transposition
from trnsparse.matrix import Foreign, S, SparseMatrix, as_scipy, as_values
from trnsparse.scipy_views import pattern_of


class Compressed(SparseMatrix):
    """Pointers along one axis, sorted and distinct indices along the other."""

    # The axis the pointers run along: 0 for rows, 1 for columns.
    axis: int

    def __init__(self, indptr: Numbers, indices: Numbers, values: Numbers, shape: Sequence[int]) -> None:
        name = type(self).__name__
        self.values = entries = as_values(name, values)
        self.shape = as_shape(name, shape)
        self._check_shape(entries)
        self.indptr = as_index(name, "indptr", indptr, entries.device)
        self.indices = as_index(name, "indices", indices, entries.device)
        check_length(name, indices=self.indices.numel(), values=entries.shape[0])
        if not entries.is_meta:
            check_compressed(name, self.indptr, self.indices, *self._counts)

    def _check_shape(self, entries: Tensor) -> None:
        wrong = entries.ndim != 1
        check.refuse(wrong, type(self).__name__, "shape of values", tuple(entries.shape), "one dimension")

    @property
    def _counts(self) -> tuple[int, int]:
        """How many rows, or columns, the pointers run along, and the bound of the indices."""
        return self.shape[self.axis], self.shape[1 - self.axis]

    @property
    def transposed(self) -> tuple[Tensor, Tensor, Tensor]:
        """Pointers and indices of the same matrix compressed along the other axis, and the order of its values."""
        return self._once("transposed", lambda: transposition(self.indptr, self.indices, self._counts[1]))

    @property
    def majors(self) -> Tensor:
        """The row (of CSR), column (of CSC) or block row of every entry."""
        return self._once("majors", lambda: expand(self.indptr, self.indices.shape[0]))

    def _along_the_other(self, kind: type[S], shape: tuple[int, int]) -> S:
        """Return the matrix compressed along the other axis, as a matrix of this kind and shape."""
        indptr, indices, order = self.transposed
        return kind._rebuilt({"indptr": indptr, "indices": indices}, self.values.index_select(0, order), shape)

    def to_scipy(self) -> Foreign:
        """Return a ``scipy.sparse`` array of the same format with arrays of its own, detached from gradients."""
        arrays = (to_numpy(self.values), *pattern_of(self.indptr, self.indices, self.shape[1 - self.axis]))
        return (sp.csr_array if self.axis == 0 else sp.csc_array)(arrays, shape=self.shape, copy=True)

    def to_torch(self) -> Tensor:
        """Return a ``torch.sparse`` tensor of the same layout."""
        of_parts = torch.sparse_csr_tensor if self.axis == 0 else torch.sparse_csc_tensor
        return of_parts(self.indptr.clone(), self.indices.clone(), self.values, self.shape)


class CSRMatrix(Compressed):
    """A sparse matrix in compressed rows: entries ``indptr[i]`` to ``indptr[i+1]`` belong to row ``i``.

    Args:
        indptr: [M + 1] pointers, rising from 0 to nnz.
        indices: [nnz] columns, sorted and distinct in every row.
        values: [nnz]
        shape: (M, N)

    Raises:
        ArgumentError: the structure is malformed; the first offending position is named.

    Example:
        >>> CSRMatrix([0, 1, 2], [1, 0], torch.tensor([2.0, 3.0]), (2, 2)) @ torch.ones(2)
        tensor([2., 3.])
    """

    format = "csr"
    axis = 0

    @classmethod
    def from_scipy(cls, matrix: Foreign) -> CSRMatrix:
        """Return a ``scipy.sparse`` matrix or array of any format; duplicates are added up. Its arrays are copied."""
        csr = as_scipy("CSRMatrix.from_scipy", matrix).tocsr()
        if not csr.has_canonical_format:
            csr = csr.copy()
            csr.sum_duplicates()
        return cls(csr.indptr, csr.indices, csr.data, csr.shape)

    def to_coo(self) -> COOMatrix:
        """Return the matrix as sorted coordinates."""
        result = COOMatrix.sorted(self.majors, self.indices, self.values, self.shape)
        self._derived.setdefault("pointers", self.indptr)
        return self._share(result)

    def to_csr(self) -> CSRMatrix:
        """Return itself."""
        return self

    def to_csc(self) -> CSCMatrix:
        """Return the matrix in compressed columns."""
        return self._along_the_other(CSCMatrix, self.shape)

    def transpose(self) -> CSRMatrix:
        """Return the transpose, in compressed rows."""
        return self._along_the_other(CSRMatrix, self.shape[::-1])


class CSCMatrix(Compressed):
    """A sparse matrix in compressed columns: entries ``indptr[j]`` to ``indptr[j+1]`` belong to column ``j``.

    Args:
        indptr: [N + 1] pointers, rising from 0 to nnz.
        indices: [nnz] rows, sorted and distinct in every column.
        values: [nnz]
        shape: (M, N)
    """

    format = "csc"
    axis = 1

    def to_csr(self) -> CSRMatrix:
        """Return the matrix in compressed rows."""
        return self._along_the_other(CSRMatrix, self.shape)

    def to_csc(self) -> CSCMatrix:
        """Return itself."""
        return self

    def to_coo(self) -> COOMatrix:
        """Return the matrix as sorted coordinates."""
        return self.to_csr().to_coo()

    def transpose(self) -> CSRMatrix:
        """Return the transpose; compressed columns are its compressed rows."""
        return CSRMatrix._rebuilt(self._indices(), self.values, self.shape[::-1])


def _random_matrix(like: Tensor, density: float) -> CSRMatrix | Tensor:
    """Return a matrix of this shape, symmetric and positive definite where it is square; other arrays as they are."""
    if like.ndim != 2:
        return like
    rows, columns = like.shape
    generator = torch.Generator().manual_seed(0)
    count = max(1, round(density * rows * columns))
    i, j = (torch.randint(size, (count,), generator=generator, device="cpu") for size in (rows, columns))
    values = torch.rand(count, generator=generator, dtype=torch.float32, device="cpu")
    if rows == columns:
        diagonal = torch.arange(rows, device="cpu")
        i, j = torch.cat([i, j, diagonal]), torch.cat([j, i, diagonal])
        values = torch.cat([values, values, values.new_full((rows,), 2.0 + 2 * count / max(rows, 1))])
    return COOMatrix(i, j, values.to(like.dtype), (rows, columns)).to_csr()


operand("Sparse", "SparseMatrix", make=_random_matrix)
