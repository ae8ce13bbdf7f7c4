"""Dense blocks in compressed rows: the format whose unit is the tile of the Tensor Engine."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import scipy.sparse as sp
import torch
from torch import Tensor

from trnsci import check
from trnsci.arrays import Array, Numbers, to_numpy
from trnsci.errors import ArgumentError, DtypeError
from trnsparse.coo import COOMatrix
from trnsparse.csr import Compressed
from trnsparse.indices import ORDER, compress
from trnsparse.matrix import Foreign, as_scipy, as_values
from trnsparse.scipy_views import pattern_of


def as_block(op: str, block: int | tuple[int, int]) -> tuple[int, int]:
    """Return a block shape as two positive integers."""
    try:
        bm, bn = map(operator.index, block if isinstance(block, tuple | list) else (block, block))
    except (TypeError, ValueError):
        raise DtypeError(op, "block", block, "one size, or two") from None
    check.refuse(min(bm, bn) < 1, op, "block", (bm, bn), "two positive sizes")
    return bm, bn


class BSRMatrix(Compressed):
    """A sparse matrix of dense blocks of one shape; absent blocks are zero and cost nothing.

    Where the block does not divide the matrix, the last blocks reach over the edge; what lies outside becomes 0.

    Args:
        indptr: [block rows + 1] pointers, rising from 0 to the number of blocks.
        indices: [blocks] block columns, sorted and distinct in every block row.
        values: [blocks, bm, bn]
        shape: (M, N)

    Example:
        >>> BSRMatrix([0, 1, 1], [1], torch.ones(1, 2, 2), (4, 4)) @ torch.ones(4)
        tensor([2., 2., 0., 0.])
    """

    format = "bsr"
    axis = 0

    def __init__(self, indptr: Numbers, indices: Numbers, values: Numbers, shape: Sequence[int]) -> None:
        super().__init__(indptr, indices, values, shape)
        self.values = self._check_values(self.values)

    def _check_values(self, values: Any) -> Tensor:
        values = super()._check_values(values)
        if values.is_meta or not (self.shape[0] % self.block[0] or self.shape[1] % self.block[1]):
            return values
        # products multiply whole blocks, and 0 times NaN is NaN
        return torch.where(self._once("inside", lambda: self._positions[2]).to(values.device), values, 0)

    def _check_shape(self, entries: Tensor) -> None:
        if entries.ndim != 3 or min(entries.shape[1:]) < 1:
            raise ArgumentError(
                op="BSRMatrix",
                argument="shape of values",
                got=tuple(entries.shape),
                expected="(blocks, bm, bn) with positive bm and bn",
                hint=ORDER,
            )

    @classmethod
    def from_dense(cls, dense: Tensor | Array, block: int | tuple[int, int] = 128) -> BSRMatrix:
        """Return the blocks of a dense matrix [M, N] that hold a nonzero."""
        tensor = as_values("from_dense", dense)
        check.refuse(tensor.ndim != 2, "from_dense", "shape", tuple(tensor.shape), "two dimensions")
        check.data("from_dense", dense=tensor)
        bm, bn = as_block("from_dense", block)
        rows, cols = -(-tensor.shape[0] // bm), -(-tensor.shape[1] // bn)
        padded = torch.nn.functional.pad(tensor, (0, cols * bn - tensor.shape[1], 0, rows * bm - tensor.shape[0]))
        tiles = padded.reshape(rows, bm, cols, bn).transpose(1, 2)
        row, col = (tiles.detach() != 0).flatten(2).any(2).nonzero(as_tuple=True)
        indices = {"indptr": compress(row, rows), "indices": col}
        return cls._rebuilt(indices, tiles[row, col].contiguous(), (tensor.shape[0], tensor.shape[1]))

    @classmethod
    def from_scipy(cls, matrix: Foreign, block: int | tuple[int, int] | None = None) -> BSRMatrix:
        """Return a ``scipy.sparse`` matrix or array; a BSR one keeps its block shape unless told otherwise.

        Its arrays are copied.
        """
        if as_scipy("BSRMatrix.from_scipy", matrix).format == "bsr" and block in (None, matrix.blocksize):
            own = matrix.copy()
            own.sum_duplicates()
            return cls(own.indptr, own.indices, own.data, own.shape)
        return COOMatrix.from_scipy(matrix).to_bsr(128 if block is None else block)

    @classmethod
    def from_torch(cls, tensor: Tensor, block: int | tuple[int, int] | None = None) -> BSRMatrix:
        """Return a two-dimensional ``torch.sparse`` tensor; a BSR one keeps its block shape unless told otherwise."""
        if tensor.layout == torch.sparse_bsr and block is None:
            # views of a sparse tensor have no real part
            return cls(tensor.crow_indices(), tensor.col_indices(), tensor.values().clone(), tensor.shape)
        return COOMatrix.from_torch(tensor.to_sparse_coo()).to_bsr(128 if block is None else block)

    @property
    def block(self) -> tuple[int, int]:
        """The block shape (bm, bn)."""
        return self.values.shape[1], self.values.shape[2]

    @property
    def grid(self) -> tuple[int, int]:
        """Block rows and block columns."""
        return -(-self.shape[0] // self.block[0]), -(-self.shape[1] // self.block[1])

    @property
    def n_blocks(self) -> int:
        """Stored blocks."""
        return self.values.shape[0]

    @property
    def block_density(self) -> float:
        """Stored blocks over all blocks."""
        return self.n_blocks / max(self.grid[0] * self.grid[1], 1)

    @property
    def _counts(self) -> tuple[int, int]:
        return self.grid

    @property
    def block_rows(self) -> Tensor:
        """The block row of every block."""
        return self.majors

    def transpose(self) -> BSRMatrix:
        """Return the transpose, in blocks (bn, bm)."""
        indptr, indices, order = self.transposed
        values = self.values.index_select(0, order).mT.contiguous()
        return BSRMatrix._rebuilt({"indptr": indptr, "indices": indices}, values, self.shape[::-1])

    @property
    def _positions(self) -> tuple[Tensor, Tensor, Tensor]:
        """Row and column of every element of the blocks, [blocks, bm, bn], and whether it lies inside the matrix."""
        (bm, bn), device = self.block, self.device
        row = (self.block_rows * bm)[:, None, None] + torch.arange(bm, device=device)[:, None]
        col = (self.indices * bn)[:, None, None] + torch.arange(bn, device=device)
        row, col = row.expand(-1, bm, bn), col.expand(-1, bm, bn)
        return row, col, (row < self.shape[0]) & (col < self.shape[1])

    def to_coo(self) -> COOMatrix:
        """Return every element of the stored blocks that lies inside the matrix, as sorted coordinates."""
        row, col, inside = self._positions
        indices = {"row": row[inside], "col": col[inside]}
        return COOMatrix._rebuilt(indices, self.values[inside], self.shape).coalesce()

    def to_bsr(self, block: int | tuple[int, int] | None = None) -> BSRMatrix:
        """Return itself, or the same matrix in blocks of another shape."""
        if block is None or as_block("to_bsr", block) == self.block:
            return self
        return self.to_coo().to_bsr(block)

    def to_scipy(self) -> Foreign:
        """Return a ``scipy.sparse.bsr_array`` with arrays of its own, detached from gradients.

        It is of CSR format where the block does not divide the matrix.
        """
        if self.shape[0] % self.block[0] or self.shape[1] % self.block[1] or self.n_blocks == 0:
            return self.to_csr().to_scipy()
        arrays = (to_numpy(self.values), *pattern_of(self.indptr, self.indices, self.grid[1]))
        return sp.bsr_array(arrays, shape=self.shape, copy=True)

    def to_torch(self) -> Tensor:
        """Return a ``torch.sparse_bsr`` tensor; a CSR one where the block does not divide the matrix."""
        if self.shape[0] % self.block[0] or self.shape[1] % self.block[1]:
            return self.to_csr().to_torch()
        return torch.sparse_bsr_tensor(
            self.indptr.clone(), self.indices.clone(), self.values, self.shape, device=self.device
        )

    def _extra(self) -> str:
        return f", {self.n_blocks} blocks of {self.block[0]}x{self.block[1]}"
