"""Rows, columns and elements of a sparse matrix, by numbers, slices, lists and masks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnsci.errors import ArgumentError
from trnsparse.coo import COOMatrix
from trnsparse.matrix import SparseMatrix
from trnsparse.structure import compress


def sliced(matrix: SparseMatrix, key: Any) -> Any:
    """Return an element, or a sparse matrix of the rows and columns chosen, in the format of ``matrix``.

    A number keeps its axis away only when both are numbers: ``a[2]`` is a matrix of one row.
    """
    row_key, col_key = key if isinstance(key, tuple) and len(key) == 2 else (key, slice(None))
    if isinstance(row_key, int) and isinstance(col_key, int):
        rows, cols = _chosen(matrix, row_key, 0), _chosen(matrix, col_key, 1)
        coo = matrix.to_coo()
        return coo.values[(coo.row == rows) & (coo.col == cols)].sum()
    coo = matrix.to_coo()
    coo = _picked(coo, _chosen(matrix, row_key, 0), 0)
    coo = _picked(coo, _chosen(matrix, col_key, 1), 1)
    if matrix.format == "bsr":
        return coo.to_bsr(matrix.values.shape[1:])  # type: ignore[arg-type]
    return getattr(coo, f"to_{matrix.format}")()


def _chosen(matrix: SparseMatrix, key: Any, axis: int) -> Tensor:
    size = matrix.shape[axis]
    everything = torch.arange(size, device=matrix.device)
    if isinstance(key, slice):
        start, stop, step = key.indices(size)
        return torch.arange(start, stop, step, device=matrix.device) if (stop - start) * step > 0 else everything[:0]
    index = torch.as_tensor(key, device=matrix.device).reshape(-1)
    if index.dtype == torch.bool:
        if index.numel() != size:
            raise ArgumentError(op="getitem", argument="length of the mask", got=index.numel(), expected=str(size))
        return everything[index]
    if index.dtype.is_floating_point or index.dtype.is_complex:
        raise ArgumentError(op="getitem", argument="index", got=key, expected="integers, a slice or a mask")
    bad = (index < -size) | (index >= size)
    if bool(bad.any()):
        raise ArgumentError(
            op="getitem", argument=f"index of axis {axis}", got=int(index[bad][0]), expected=f"below {size}"
        )
    return index.long() % max(size, 1)


def _picked(coo: COOMatrix, chosen: Tensor, axis: int) -> COOMatrix:
    """Entries of the chosen rows or columns, in the order chosen; one chosen twice appears twice."""
    size = coo.shape[axis]
    shape = (chosen.numel(), coo.shape[1]) if axis == 0 else (coo.shape[0], chosen.numel())
    along, other = (coo.row, coo.col) if axis == 0 else (coo.col, coo.row)
    order = torch.argsort(along, stable=True)
    start = compress(along, size)
    counts = start.diff()[chosen]
    made = torch.repeat_interleave(torch.arange(chosen.numel(), device=coo.device), counts)
    offset = torch.arange(made.numel(), device=coo.device) - torch.repeat_interleave(counts.cumsum(0) - counts, counts)
    entry = order[start[chosen][made] + offset]
    row, col = (made, other[entry]) if axis == 0 else (other[entry], made)
    return COOMatrix(row, col, coo.values[entry], shape).coalesce()
