"""Rows, columns and elements of a sparse matrix, by numbers, slices, lists and masks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnsci.errors import ArgumentError
from trnsparse import host
from trnsparse.bsr import BSRMatrix
from trnsparse.csr import CSCMatrix, CSRMatrix
from trnsparse.matrix import SparseMatrix
from trnsparse.structure import compress

WHOLE = slice(None)


def sliced(matrix: SparseMatrix, key: Any) -> Any:
    """Return an element, or a sparse matrix of the rows and columns chosen, in the format of ``matrix``.

    A number keeps its axis away only when both are numbers: ``a[2]`` is a matrix of one row.
    """
    row_key, col_key = key if isinstance(key, tuple) and len(key) == 2 else (key, WHOLE)
    if isinstance(row_key, int) and isinstance(col_key, int):
        return _element(matrix, int(_chosen(matrix, row_key, 0)), int(_chosen(matrix, col_key, 1)))
    if isinstance(matrix, CSCMatrix):
        turned = _part(matrix.transpose(), _chosen(matrix, col_key, 1), _chosen(matrix, row_key, 0))
        return CSCMatrix._rebuilt(turned._indices(), turned.values, turned.shape[::-1])
    made = _part(matrix.to_csr(), _chosen(matrix, row_key, 0), _chosen(matrix, col_key, 1))
    return made.to_bsr(matrix.block) if isinstance(matrix, BSRMatrix) else getattr(made, f"to_{matrix.format}")()


def _element(matrix: SparseMatrix, i: int, j: int) -> Tensor:
    """One element, found in its row alone."""
    if isinstance(matrix, BSRMatrix):
        (bm, bn), kept = matrix.block, matrix
        (i, at), (j, to) = divmod(i, bm), divmod(j, bn)
        lo, hi = kept.indptr[i : i + 2].tolist()
        return kept.values[lo:hi, at, to][kept.indices[lo:hi] == j].sum()
    if isinstance(matrix, CSCMatrix):
        return _element(matrix.transpose(), j, i)
    rows = matrix.to_csr()
    lo, hi = rows.indptr[i : i + 2].tolist()
    return rows.values[lo:hi][rows.indices[lo:hi] == j].sum()


Chosen = Tensor | range


def _chosen(matrix: SparseMatrix, key: Any, axis: int) -> Any:
    """The rows or columns a key means: a range, or a tensor of numbers."""
    size = matrix.shape[axis]
    if isinstance(key, slice):
        return range(*key.indices(size))
    index = torch.as_tensor(key, device=matrix.device).reshape(-1)
    if index.dtype == torch.bool:
        if index.numel() != size:
            raise ArgumentError(op="getitem", argument="length of the mask", got=index.numel(), expected=str(size))
        return index.nonzero().flatten()
    if index.dtype.is_floating_point or index.dtype.is_complex:
        raise ArgumentError(op="getitem", argument="index", got=key, expected="integers, a slice or a mask")
    bad = (index < -size) | (index >= size)
    if bool(bad.any()):
        raise ArgumentError(
            op="getitem", argument=f"index of axis {axis}", got=int(index[bad][0]), expected=f"below {size}"
        )
    return index.long() % max(size, 1)


def _part(matrix: CSRMatrix, rows: Chosen, columns: Chosen) -> CSRMatrix:
    made = _rows(matrix, rows)
    made = _columns(made, columns)
    return made.clone() if made is matrix else made


def _numbers(chosen: range, like: Tensor) -> Tensor:
    # torch refuses empty ranges that numpy and Python have
    return torch.arange(chosen.start, chosen.stop, chosen.step, device=like.device) if len(chosen) else like[:0]


def _rows(matrix: CSRMatrix, chosen: Chosen) -> CSRMatrix:
    """The rows chosen, in their order; one chosen twice appears twice."""
    pointers, columns = matrix.indptr, matrix.shape[1]
    if isinstance(chosen, range):
        if chosen == range(matrix.shape[0]):
            return matrix
        if chosen.step == 1 and len(chosen):
            own = pointers[chosen.start : chosen.stop + 1]
            lo, hi = int(own[0]), int(own[-1])
            parts = {"indptr": own - lo, "indices": matrix.indices[lo:hi]}
            # the pattern never changes and may be shared; values may be written to
            return CSRMatrix._rebuilt(parts, matrix.values[lo:hi].clone(), (len(chosen), columns))
        chosen = _numbers(chosen, pointers)
    counts = (pointers[1:] - pointers[:-1])[chosen]
    indptr = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    entry = torch.repeat_interleave(pointers[:-1][chosen] - indptr[:-1], counts)
    entry += torch.arange(entry.numel(), device=matrix.device)
    parts = {"indptr": indptr, "indices": matrix.indices.index_select(0, entry)}
    return CSRMatrix._rebuilt(parts, matrix.values.index_select(0, entry), (chosen.numel(), columns))


def _columns(matrix: CSRMatrix, chosen: Chosen) -> CSRMatrix:
    """The columns chosen, in their order; one chosen twice appears twice."""
    rows, size = matrix.shape
    if isinstance(chosen, range):
        if chosen == range(size):
            return matrix
        chosen = _numbers(chosen, matrix.indptr)
    if not bool((chosen.diff() > 0).all()):
        return _rows(matrix.transpose(), chosen).transpose()
    number = chosen.new_full((size,), -1)
    number[chosen] = torch.arange(chosen.numel(), device=matrix.device)
    found = host.over_indices("kept", matrix.indptr, matrix.indices)
    if found is not None:
        indptr, (col, entry) = torch.empty_like(matrix.indptr), (chosen.new_empty(matrix.nnz + 1) for _ in range(2))
        count = found(rows, *host.at(matrix.indptr, matrix.indices, number, indptr, col, entry))
        col, entry = col[:count].clone(), entry[:count]
    else:
        entry = (number[matrix.indices] >= 0).nonzero().flatten()
        col, indptr = number[matrix.indices[entry]], compress(matrix.majors[entry], rows)
    return CSRMatrix._rebuilt(
        {"indptr": indptr, "indices": col}, matrix.values.index_select(0, entry), (rows, chosen.numel())
    )
