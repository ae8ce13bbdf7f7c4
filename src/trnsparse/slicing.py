"""Rows, columns and elements of a sparse matrix, by numbers, slices, lists and masks."""

from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from trnsci import check, host
from trnsci.errors import ArgumentError
from trnsparse.bsr import BSRMatrix
from trnsparse.coo import COOMatrix
from trnsparse.csr import Compressed, CSCMatrix, CSRMatrix
from trnsparse.indices import compress, find
from trnsparse.matrix import SparseMatrix

WHOLE = slice(None)


def slice_matrix(matrix: SparseMatrix, key: Any) -> Any:
    """Return an element, the elements at some positions, or a sparse matrix of the rows and columns chosen.

    A matrix has the format of ``matrix``. A number keeps its axis away only when both are numbers: ``a[2]`` is a matrix
    of one row. Two lists are positions, as in NumPy and SciPy: ``a[[0, 1], [2, 3]]`` is a vector of two elements, and
    ``a[[0, 1]][:, [2, 3]]`` or ``a[numpy.ix_([0, 1], [2, 3])]`` a matrix.
    """
    if matrix.device.type == "meta":
        check.data("getitem", a=matrix.values)
    row_key, col_key = _keys(key)
    if isinstance(row_key, Integral) and isinstance(col_key, Integral):
        i, j = _index(matrix, int(row_key), 0), _index(matrix, int(col_key), 1)
        if isinstance(matrix, CSRMatrix | CSCMatrix) and _in_host_memory(matrix):
            return _element(matrix, *((j, i) if isinstance(matrix, CSCMatrix) else (i, j)))
        return _at(matrix, *torch.tensor([i, j], device=matrix.device))
    if _list_positions(row_key) and _list_positions(col_key):
        rows, columns = _tensor(matrix, row_key), _tensor(matrix, col_key)
        if not (rows.ndim == columns.ndim == 2 and rows.shape[1] == columns.shape[0] == 1):
            return _elements(matrix, rows, columns)
    if isinstance(matrix, CSCMatrix):
        other = _part(matrix.transpose(), _choose_indices(matrix, col_key, 1), _choose_indices(matrix, row_key, 0))
        return CSCMatrix._rebuilt(other._indices(), other.values, other.shape[::-1])
    part = _part(matrix.to_csr(), _choose_indices(matrix, row_key, 0), _choose_indices(matrix, col_key, 1))
    return part.to_bsr(matrix.block) if isinstance(matrix, BSRMatrix) else getattr(part, f"to_{matrix.format}")()


def _keys(key: Any) -> tuple[Any, Any]:
    """Return what chooses rows and what chooses columns."""
    keys = key if isinstance(key, tuple) else (key,)
    if any(x is Ellipsis for x in keys):
        at = next(n for n, x in enumerate(keys) if x is Ellipsis)
        keys = (*keys[:at], *(WHOLE,) * (3 - len(keys)), *keys[at + 1 :])
    if len(keys) not in (1, 2) or any(x is None or x is Ellipsis for x in keys):
        raise ArgumentError("getitem", "index", key, "one for rows, or one each for both axes")
    return keys[0], keys[1] if len(keys) == 2 else WHOLE


def _list_positions(key: Any) -> bool:
    """Return whether a key is a list of indices, or a mask."""
    return not isinstance(key, slice) and not isinstance(key, Integral) and getattr(key, "ndim", 1) > 0


def _tensor(matrix: SparseMatrix, key: Any) -> Tensor:
    try:
        return torch.as_tensor(key, device=matrix.device)
    except (TypeError, ValueError, RuntimeError):
        raise ArgumentError("getitem", "index", key, "integers, a slice or a mask") from None


def _index(matrix: SparseMatrix, key: int, axis: int) -> int:
    size = matrix.shape[axis]
    check.refuse(not -size <= key < size, "getitem", f"index of axis {axis}", key, f"below {size}")
    return key % size


def _elements(matrix: SparseMatrix, rows: Any, columns: Any) -> Tensor:
    """Return elements at listed positions, zeros where nothing is stored."""
    chosen = []
    for axis, index in enumerate((rows, columns)):
        numbers = _choose_indices(matrix, index, axis)
        chosen.append(numbers if index.dtype == torch.bool else numbers.reshape(index.shape))
    try:
        i, j = torch.broadcast_tensors(*chosen)
    except RuntimeError:
        shapes = {name: tuple(x.shape) for name, x in zip(("rows", "columns"), chosen, strict=True)}
        raise ArgumentError(
            op="getitem",
            argument="shapes of the lists",
            got=shapes,
            expected="one shape",
            hint="For all pairs of some rows and columns write a[rows][:, columns]",
        ) from None
    return _at(matrix, i.contiguous(), j.contiguous())


def _in_host_memory(matrix: CSRMatrix | CSCMatrix) -> bool:
    """Return whether NumPy may read the pattern here and now."""
    return not torch.compiler.is_compiling() and host.refusal((matrix.indptr, matrix.indices)) is None


def _element(matrix: CSRMatrix | CSCMatrix, major: int, minor: int) -> Tensor:
    """Return one element of compressed rows or columns: NumPy finds it before torch has made tensors of the indices."""
    low, high = matrix.indptr.numpy()[major : major + 2]
    at = low + matrix.indices.numpy()[low:high].searchsorted(minor)
    stored = at < high and matrix.indices.numpy()[at] == minor
    # a copy, as of every other part: what is written to it does not reach the matrix
    return matrix.values[int(at)].clone() if stored else matrix.values.new_zeros(())


def _at(matrix: SparseMatrix, i: Tensor, j: Tensor) -> Tensor:
    """Return elements (i, j): for each, search the stored indices of its row."""
    inside: tuple[Tensor, ...] = ()
    if isinstance(matrix, COOMatrix):
        entries = matrix.coalesce()
        low, high = (torch.searchsorted(entries.row, i, right=right) for right in (False, True))
        indices, values = entries.col, entries.values
    else:
        compressed: Any = matrix if isinstance(matrix, Compressed) else matrix.to_csr()
        indices, values = compressed.indices, compressed.values
        if isinstance(matrix, BSRMatrix):
            bm, bn = matrix.block
            inside, i, j = (i % bm, j % bn), i // bm, j // bn
        elif isinstance(matrix, CSCMatrix):
            i, j = j, i
        low, high = compressed.indptr[i], compressed.indptr[i + 1]
    at = find(low, high, indices, j)
    if values.shape[0] == 0:
        return values.new_zeros(at.shape)
    return torch.where(at >= 0, values[(at.clamp(min=0), *inside)], values.new_zeros(()))


Chosen = Tensor | range


def _choose_indices(matrix: SparseMatrix, key: Any, axis: int) -> Any:
    """Return the rows or columns a key means: a range, or a tensor of indices."""
    size = matrix.shape[axis]
    if isinstance(key, slice):
        return range(*key.indices(size))
    if isinstance(key, Integral):
        start = _index(matrix, int(key), axis)
        return range(start, start + 1)
    index = _tensor(matrix, key).reshape(-1)
    # an empty list has no dtype of its own
    index = index.long() if index.numel() == 0 and not isinstance(key, Tensor) else index
    if index.dtype == torch.bool:
        if index.numel() != size:
            raise ArgumentError("getitem", "length of the mask", index.numel(), str(size))
        return index.nonzero().flatten()
    if index.dtype.is_floating_point or index.dtype.is_complex:
        raise ArgumentError("getitem", "index", key, "integers, a slice or a mask")
    bad = (index < -size) | (index >= size)
    if bool(bad.any()):
        raise ArgumentError("getitem", f"index of axis {axis}", int(index[bad][0]), f"below {size}")
    return index.long() % max(size, 1)


def _part(matrix: CSRMatrix, rows: Chosen, columns: Chosen) -> CSRMatrix:
    part = _columns(_rows(matrix, rows), columns)
    return part.clone() if part is matrix else part


def _indices(chosen: range, like: Tensor) -> Tensor:
    # torch refuses empty ranges that numpy and Python have
    return torch.arange(chosen.start, chosen.stop, chosen.step, device=like.device) if len(chosen) else like[:0]


def _rows(matrix: CSRMatrix, chosen: Chosen) -> CSRMatrix:
    """Return the chosen rows, in their order; one chosen twice appears twice."""
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
        chosen = _indices(chosen, pointers)
    counts = (pointers[1:] - pointers[:-1])[chosen]
    indptr = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    entry = torch.repeat_interleave(pointers[:-1][chosen] - indptr[:-1], counts)
    entry += torch.arange(entry.numel(), device=matrix.device)
    parts = {"indptr": indptr, "indices": matrix.indices.index_select(0, entry)}
    return CSRMatrix._rebuilt(parts, matrix.values.index_select(0, entry), (chosen.numel(), columns))


def _columns(matrix: CSRMatrix, chosen: Chosen) -> CSRMatrix:
    """Return the chosen columns, in their order; one chosen twice appears twice."""
    rows, size = matrix.shape
    if isinstance(chosen, range):
        if chosen == range(size):
            return matrix
        chosen = _indices(chosen, matrix.indptr)
    count = chosen.numel()
    if not bool((chosen.diff() > 0).all()):
        return _rows(matrix.transpose(), chosen).transpose()
    if chosen.numel() == 0:
        chosen = chosen.new_full((1,), -1)
    col = torch.searchsorted(chosen, matrix.indices).clamp(max=chosen.numel() - 1)
    entry = (chosen[col] == matrix.indices).nonzero().flatten()
    col, indptr = col[entry], compress(matrix.majors[entry], rows)
    return CSRMatrix._rebuilt({"indptr": indptr, "indices": col}, matrix.values.index_select(0, entry), (rows, count))
