"""Index arithmetic shared by the formats: pointers, orders, duplicates, and checks that name the first bad index."""

import operator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnsci import check
from trnsci.errors import ArgumentError, DtypeError
from trnsci.host import refusal
from trnsparse import scipy_views

ORDER = (
    "Indices come first: COOMatrix(row, col, values, shape), CSRMatrix and BSRMatrix(indptr, indices, values, shape)"
)


def as_index(op: str, name: str, value: Any, device: torch.device | None = None, hint: str = ORDER) -> Tensor:
    """Return a copy as a one-dimensional int64 tensor; refuse anything that is not a list or array of integers.

    It is a copy because products walk it unchecked: who gave the array may write to it later.
    """
    check.whole(op, **{name: value})
    try:
        index = torch.as_tensor(value, device=device)
    except (TypeError, ValueError, RuntimeError):
        raise DtypeError(op, name, type(value), "a list or array of integers") from None
    if index.layout != torch.strided or index.is_nested:
        raise DtypeError(op, f"layout of {name}", index.layout, "a dense array of integers")
    if index.numel() == 0 and index.ndim == 1 and not isinstance(value, Tensor):
        index = index.long()
    if index.dtype.is_floating_point or index.dtype.is_complex or index.dtype == torch.bool:
        raise DtypeError(op, f"dtype of {name}", index.dtype, "an integer dtype", hint=hint)
    check.refuse(index.ndim != 1, op, f"shape of {name}", tuple(index.shape), "one dimension")
    return index.to(torch.int64, copy=True, memory_format=torch.contiguous_format)


def as_shape(op: str, shape: Any) -> tuple[int, int]:
    """Return (rows, columns) as two non-negative integers."""
    try:
        sizes = tuple(operator.index(size) for size in shape)
    except TypeError:
        raise DtypeError(op, "shape", shape, "two integers") from None
    if len(sizes) != 2 or min(sizes) < 0:
        raise ArgumentError(op, "shape", sizes, "two sizes that are not negative")
    return sizes


def expand(pointers: Tensor, entries: int) -> Tensor:
    """Return the row of each of ``entries`` entries, from row pointers."""
    counts = pointers.diff()
    rows = torch.arange(counts.shape[0], device=pointers.device)
    return torch.repeat_interleave(rows, counts, output_size=entries)


def compress(rows: Tensor, count: int) -> Tensor:
    """Return row pointers, from the sorted or unsorted rows of entries."""
    pointers = torch.zeros(count + 1, dtype=torch.int64, device=rows.device)
    return pointers.index_add_(0, rows + 1, torch.ones_like(rows)).cumsum_(0)


class Merged(NamedTuple):
    """Distinct positions by row, then column, and how entries come to them.

    Attributes:
        row: [positions]
        col: [positions]
        order: which sorts the entries; ``None`` where they are in order and distinct already.
        rank: position of every sorted entry; ``None`` where none repeats.
    """

    row: Tensor
    col: Tensor
    order: Tensor | None
    rank: Tensor | None

    def add_up(self, values: Tensor) -> Tensor:
        """Return values of the positions, or blocks: those at one position added up."""
        if self.order is None:
            return values
        values = values.index_select(0, self.order)
        if self.rank is None:
            return values
        return values.new_zeros((self.row.shape[0], *values.shape[1:])).index_add(0, self.rank, values)


def merge_positions(row: Tensor, col: Tensor, shape: tuple[int, int]) -> Merged:
    """Sort entries by row, then column, and find those at one position."""
    check.data("coalesce", row=row)
    down, across = row.diff(), col.diff()
    if bool(((down > 0) | ((down == 0) & (across > 0))).all()):
        return Merged(row, col, None, None)
    if shape[0] * shape[1] < 1 << 63:
        order = torch.argsort(row * shape[1] + col, stable=True)
    else:
        order = torch.argsort(col, stable=True)
        order = order[torch.argsort(row[order], stable=True)]
    row, col = row[order], col[order]
    fresh = torch.nn.functional.pad((row.diff() != 0) | (col.diff() != 0), (1, 0), value=True)
    if bool(fresh.all()):
        return Merged(row, col, order, None)
    return Merged(row[fresh], col[fresh], order, fresh.cumsum(0) - 1)


def find(low: Tensor, high: Tensor, indices: Tensor, wanted: Tensor) -> Tensor:
    """Return where ``wanted`` is among the rising ``indices[low:high]``, or -1; elementwise, by bisection."""
    end = high
    for _ in range(indices.shape[0].bit_length()):
        middle = (low + high) // 2
        below = (low < high) & (indices[middle.clamp(max=indices.shape[0] - 1)] < wanted)
        low, high = torch.where(below, middle + 1, low), torch.where(below, high, middle)
    if indices.shape[0] == 0:
        return torch.full_like(low, -1)
    return torch.where((low < end) & (indices[low.clamp(max=indices.shape[0] - 1)] == wanted), low, -1)


def scatter_values(values: Tensor, at: Tensor, size: int) -> Tensor:
    """Return ``size`` zeros with the values at their positions. Gradients flow to them."""
    return values.new_zeros(size).index_put((at,), values)


def transposition(pointers: Tensor, indices: Tensor, columns: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return pointers and indices of the transpose, and where each of its entries was."""
    if refusal((pointers, indices)) is None:
        return scipy_views.transposition(pointers, indices, columns)
    order = torch.argsort(indices, stable=True)
    return compress(indices, columns), expand(pointers, indices.shape[0])[order], order


def in_blocks(row: Tensor, col: Tensor, block: tuple[int, int], grid: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
    """Return pointers and columns of the blocks of sorted entries, and each entry's position in them."""
    bm, bn = block
    down, across, order, rank = merge_positions(row // bm, col // bn, grid)
    slot = torch.arange(row.shape[0], device=row.device)
    if order is not None:
        slot = torch.empty_like(order).index_copy_(0, order, slot if rank is None else rank)
    return compress(down, grid[0]), across, (slot * bm + row % bm) * bn + col % bn


def check_range(op: str, name: str, index: Tensor, bound: int) -> None:
    """Check that every index is at least 0 and below ``bound``; the error names the first that is not."""
    if index.numel() == 0:
        return
    low, high = torch.aminmax(index)
    if int(low) < 0 or int(high) >= bound:
        at = int(((index < 0) | (index >= bound)).to(torch.uint8).argmax())
        raise ArgumentError(op, f"{name}[{at}]", int(index[at]), f"an index from 0 to {bound - 1}")


def check_compressed(op: str, pointers: Tensor, indices: Tensor, count: int, bound: int) -> None:
    """Check that pointers fit and rise, and that indices are in range, sorted and distinct in every row."""
    if pointers.numel() != count + 1:
        raise ArgumentError(op, "length of indptr", pointers.numel(), f"{count + 1}: one more than rows")
    if int(pointers[0]) != 0:
        raise ArgumentError(op, "indptr[0]", int(pointers[0]), "0")
    falls = pointers.diff() < 0
    if bool(falls.any()):
        at = int(falls.to(torch.uint8).argmax()) + 1
        raise ArgumentError(
            op, f"indptr[{at}]", int(pointers[at]), f"at least indptr[{at - 1}] = {int(pointers[at - 1])}"
        )
    if int(pointers[-1]) != indices.numel():
        raise ArgumentError(op, f"indptr[{count}]", int(pointers[-1]), f"{indices.numel()}, the number of indices")
    check_range(op, "indices", indices, bound)
    at = _find_unsorted(pointers, indices)
    if at >= 0:
        twice = int(indices[at]) == int(indices[at - 1])
        raise ArgumentError(
            op=op,
            argument=f"indices[{at}]",
            got=int(indices[at]),
            expected=f"more than indices[{at - 1}] = {int(indices[at - 1])} in the same row",
            hint=("The entry occurs twice: " if twice else "The row is not sorted: ")
            + "build a COOMatrix, which takes any order, and convert it",
        )


def _find_unsorted(pointers: Tensor, indices: Tensor) -> int:
    """Return the first index that is not above the one before it in its row, or -1."""
    stays = indices.diff() <= 0
    first = pointers[1:-1]
    first = first[(first > 0) & (first < indices.numel())]
    stays[first - 1] = False
    return int(stays.to(torch.uint8).argmax()) + 1 if bool(stays.any()) else -1


def check_length(op: str, **lengths: int) -> None:
    """Check that index and value arrays have one length."""
    check.refuse(len(set(lengths.values())) > 1, op, "length", lengths)
