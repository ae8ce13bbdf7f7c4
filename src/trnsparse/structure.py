"""Index arithmetic shared by the formats: pointers, orders, duplicates, and checks that name the first bad place."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnsci import check
from trnsci.errors import ArgumentError, DtypeError
from trnsparse import host


def as_index(op: str, name: str, value: Any, device: torch.device | None = None) -> Tensor:
    """Return a one-dimensional int64 tensor; refuse anything that is not a list or array of integers."""
    check.whole(op, **{name: value})
    index = torch.as_tensor(value, device=device)
    if index.numel() == 0 and index.ndim == 1 and not isinstance(value, Tensor):
        index = index.long()
    if index.dtype.is_floating_point or index.dtype.is_complex or index.dtype == torch.bool:
        raise DtypeError(op=op, argument=f"dtype of {name}", got=index.dtype, expected="an integer dtype")
    if index.ndim != 1:
        raise ArgumentError(op=op, argument=f"shape of {name}", got=tuple(index.shape), expected="one dimension")
    return index.long().contiguous()


def as_shape(op: str, shape: Any) -> tuple[int, int]:
    """Return (rows, columns) as two non-negative integers."""
    sizes = tuple(int(size) for size in shape)
    if len(sizes) != 2 or min(sizes) < 0:
        raise ArgumentError(op=op, argument="shape", got=sizes, expected="two sizes that are not negative")
    return sizes


def expand(pointers: Tensor) -> Tensor:
    """Row of every entry, from row pointers."""
    counts = pointers.diff()
    return torch.repeat_interleave(torch.arange(counts.numel(), device=pointers.device), counts)


def compress(rows: Tensor, count: int) -> Tensor:
    """Row pointers, from the sorted or unsorted rows of entries."""
    pointers = torch.zeros(count + 1, dtype=torch.int64, device=rows.device)
    torch.cumsum(torch.bincount(rows, minlength=count), 0, out=pointers[1:])
    return pointers


class Sorted(NamedTuple):
    """Entries by row, then column: where each was, its row and column, and where places repeat, their numbers."""

    order: Tensor
    row: Tensor
    col: Tensor
    place: Tensor | None


def by_place(row: Tensor, col: Tensor, shape: tuple[int, int]) -> Sorted | None:
    """Sort entries by row, then column; ``None`` says that they are in order and distinct already."""
    falls, loop = host.over_indices("falls", row, col), host.over_indices("sorted", row, col)
    entries = row.shape[0]
    if falls is not None and falls(entries, *host.at(row, col)) < 0:
        return None
    # counting needs memory for every row and column there could be
    if loop is not None and sum(shape) <= 8 * entries + 2048:
        pointers, by_col = row.new_zeros(shape[0] + 1), row.new_zeros(shape[1] + 1)
        order, out, row_of, entry = (host.empty(entries, row) for _ in range(4))
        repeats = loop(entries, *shape, *host.at(row, col, pointers, order, out, by_col, row_of, entry))
        row, col = expand(pointers), out
        if not repeats:
            return Sorted(order, row, col, None)
    else:
        key = row * max(shape[1], 1) + col
        if bool((key.diff() > 0).all()):
            return None
        order = torch.argsort(key, stable=True)
        row, col = row[order], col[order]
    fresh = (row.diff() != 0) | (col.diff() != 0)
    return Sorted(order, row, col, None if bool(fresh.all()) else torch.nn.functional.pad(fresh.cumsum(0), (1, 0)))


def united(
    a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor], *, both: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor] | None:
    """Pointers and columns of two patterns in one, or with ``both`` of what they share, and where each entry was.

    An entry that one of them lacks is one past its last. ``None`` where no compiled loop runs.
    """
    found = host.over_indices("united", *a, *b)
    if found is None:
        return None
    # one more than the most there can be: what is not kept is written there too
    most = (min if both else int.__add__)(a[1].shape[0], b[1].shape[0]) + 1
    to, col, first, second = torch.empty_like(a[0]), *(host.empty(most, a[1]) for _ in range(3))
    count = found(a[0].shape[0] - 1, int(both), *host.at(*a, *b, to, col, first, second))
    return to, col[:count].clone(), first[:count], second[:count]


def placed(values: Tensor, at: Tensor, size: int) -> Tensor:
    """``size`` zeros with the values at their places. Gradients flow to them."""
    return host.zeros(size, values).index_put_((at,), values)


def transposition(pointers: Tensor, indices: Tensor, columns: int) -> tuple[Tensor, Tensor, Tensor]:
    """Pointers and indices of the transpose, and where each of its entries was."""
    found = host.over_indices("turned", pointers, indices)
    if found is not None:
        to, row, order = indices.new_zeros(columns + 1), *(host.empty(indices.shape[0], indices) for _ in range(2))
        found(pointers.shape[0] - 1, columns, *host.at(pointers, indices, to, row, order))
        return to, row, order
    order = torch.argsort(indices, stable=True)
    return compress(indices, columns), expand(pointers)[order], order


def in_blocks(
    pointers: Tensor, row: Tensor, col: Tensor, block: tuple[int, int], grid: tuple[int, int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Pointers and columns of the blocks that hold sorted entries, and the place of every entry in them."""
    (bm, bn), (down, across) = block, grid
    found = host.over_indices("blocks", pointers, col)
    if found is None:
        places, slot = torch.unique((row // bm) * across + col // bn, return_inverse=True)
        return compress(places // across, down), places % across, (slot * bm + row % bm) * bn + col % bn
    most = min(col.shape[0], down * across)
    seen, place, to = col.new_full((across,), -1), host.empty(col.shape[0], col), pointers.new_zeros(down + 1)
    columns = host.empty(most, col)
    count = found(pointers.shape[0] - 1, bm, bn, *host.at(pointers, col, seen, place, to, columns))
    return to, columns[:count].clone(), place


def check_range(op: str, name: str, index: Tensor, bound: int) -> None:
    """Every index is at least 0 and below ``bound``; the first that is not is named with its position."""
    if index.numel() == 0:
        return
    low, high = torch.aminmax(index)
    if int(low) < 0 or int(high) >= bound:
        at = int(((index < 0) | (index >= bound)).to(torch.uint8).argmax())
        raise ArgumentError(
            op=op, argument=f"{name}[{at}]", got=int(index[at]), expected=f"an index from 0 to {bound - 1}"
        )


def check_compressed(op: str, pointers: Tensor, indices: Tensor, count: int, bound: int) -> None:
    """Pointers fit and rise, indices are in range, sorted and distinct in every row."""
    if pointers.numel() != count + 1:
        raise ArgumentError(
            op=op, argument="length of indptr", got=pointers.numel(), expected=f"{count + 1}: one more than rows"
        )
    # One pass says that all is well; where it does not, what follows finds out what is wrong.
    sound = host.over_indices("sound", pointers, indices)
    if sound is not None and sound(count, bound, indices.shape[0], *host.at(pointers, indices)):
        return
    if int(pointers[0]) != 0:
        raise ArgumentError(op=op, argument="indptr[0]", got=int(pointers[0]), expected="0")
    falls = pointers.diff() < 0
    if bool(falls.any()):
        at = int(falls.to(torch.uint8).argmax()) + 1
        raise ArgumentError(
            op=op,
            argument=f"indptr[{at}]",
            got=int(pointers[at]),
            expected=f"at least indptr[{at - 1}] = {int(pointers[at - 1])}",
        )
    if int(pointers[-1]) != indices.numel():
        raise ArgumentError(
            op=op,
            argument=f"indptr[{count}]",
            got=int(pointers[-1]),
            expected=f"{indices.numel()}, the number of indices",
        )
    check_range(op, "indices", indices, bound)
    at = _unsorted(pointers, indices)
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


def _unsorted(pointers: Tensor, indices: Tensor) -> int:
    """The first index that is not above the one before it in its row, or -1."""
    found = host.over_indices("unsorted", pointers, indices)
    if found is not None:
        return int(found(pointers.shape[0] - 1, *host.at(pointers, indices)))
    stays = indices.diff() <= 0
    first = pointers[1:-1]
    first = first[(first > 0) & (first < indices.numel())]
    stays[first - 1] = False
    return int(stays.to(torch.uint8).argmax()) + 1 if bool(stays.any()) else -1


def check_length(op: str, **lengths: int) -> None:
    """Index and value arrays have one length."""
    if len(set(lengths.values())) > 1:
        raise ArgumentError(op=op, argument="length", got=lengths)
