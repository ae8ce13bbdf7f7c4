"""Index arithmetic shared by the formats: pointers, orders, duplicates, and checks that name the first bad place."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnsci.errors import ArgumentError, DtypeError


def as_index(op: str, name: str, value: Any, device: torch.device | None = None) -> Tensor:
    """Return a one-dimensional int64 tensor; refuse anything that is not a list or array of integers."""
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


def canonical(row: Tensor, col: Tensor, values: Tensor, columns: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sort entries by row, then column, and add up those at the same place. Gradients flow to ``values``."""
    key = row * max(columns, 1) + col
    if key.numel() == 0 or bool((key.diff() > 0).all()):
        return row, col, values
    places, inverse = torch.unique(key, return_inverse=True)
    if places.numel() == key.numel():
        order = torch.empty_like(inverse)
        order[inverse] = torch.arange(key.numel(), device=key.device)
        summed = values[order]
    else:
        summed = values.new_zeros((places.numel(), *values.shape[1:])).index_add(0, inverse, values)
    return places // max(columns, 1), places % max(columns, 1), summed


def transposition(pointers: Tensor, indices: Tensor, columns: int) -> tuple[Tensor, Tensor, Tensor]:
    """Pointers and indices of the transpose, and where each of its entries was."""
    order = torch.argsort(indices, stable=True)
    return compress(indices, columns), expand(pointers)[order], order


def check_range(op: str, name: str, index: Tensor, bound: int) -> None:
    """Every index is at least 0 and below ``bound``; the first that is not is named with its position."""
    bad = (index < 0) | (index >= bound)
    if bool(bad.any()):
        at = int(bad.to(torch.uint8).argmax())
        raise ArgumentError(
            op=op, argument=f"{name}[{at}]", got=int(index[at]), expected=f"an index from 0 to {bound - 1}"
        )


def check_compressed(op: str, pointers: Tensor, indices: Tensor, count: int, bound: int) -> None:
    """Pointers fit and rise, indices are in range, sorted and distinct in every row."""
    if pointers.numel() != count + 1:
        raise ArgumentError(
            op=op, argument="length of indptr", got=pointers.numel(), expected=f"{count + 1}: one more than rows"
        )
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
    if indices.numel() > 1:
        stays = indices.diff() <= 0
        first = pointers[1:-1]
        first = first[(first > 0) & (first < indices.numel())]
        stays[first - 1] = False
        if bool(stays.any()):
            at = int(stays.to(torch.uint8).argmax()) + 1
            twice = int(indices[at]) == int(indices[at - 1])
            raise ArgumentError(
                op=op,
                argument=f"indices[{at}]",
                got=int(indices[at]),
                expected=f"more than indices[{at - 1}] = {int(indices[at - 1])} in the same row",
                hint=("The entry occurs twice: " if twice else "The row is not sorted: ")
                + "build a COOMatrix, which takes any order, and convert it",
            )


def check_length(op: str, **lengths: int) -> None:
    """Index and value arrays have one length."""
    if len(set(lengths.values())) > 1:
        raise ArgumentError(op=op, argument="length", got=lengths)
