"""Products along diagonals: which there are, entries arranged by them, and the launch."""

import torch
from torch import Tensor

from trnsci.nki import launch
from trnsparse.indices import expand
from trnsparse.kernels import dia_spmm as kernels

# Diagonals at most: a kernel is compiled for their offsets.
MOST = 256


def count_diagonals(indptr: Tensor, indices: Tensor, columns: int) -> tuple[int, ...] | None:
    """Return the offsets of diagonals that hold an entry, rising; ``None`` where there are too many to matter."""
    rows, entries = indptr.shape[0] - 1, indices.shape[0]
    # a few rows tell most patterns that have none
    if entries == 0 or (indptr[:1025].diff() > MOST).any():
        return None
    head = indices[: int(indptr[min(rows, 1024)])] - expand(indptr[: min(rows, 1024) + 1], int(indptr[min(rows, 1024)]))
    if torch.unique(head).numel() > MOST:
        return None
    held = torch.zeros(rows + columns, dtype=torch.bool, device=indices.device)
    held[indices - expand(indptr, entries) + (rows - 1)] = True
    offsets = (held.nonzero().flatten() - (rows - 1)).tolist()
    return tuple(offsets) if len(offsets) <= MOST else None


def to_positions(indptr: Tensor, indices: Tensor, offsets: tuple[int, ...]) -> Tensor:
    """Return where every entry goes among diagonals [D, M], flattened."""
    row = expand(indptr, indices.shape[0])
    rank = torch.searchsorted(torch.tensor(offsets, device=indices.device), indices - row)
    return rank * (indptr.shape[0] - 1) + row


def multiply_diagonals(diagonals: Tensor, b: Tensor, offsets: tuple[int, ...]) -> Tensor:
    """Return the product [M, N] of diagonals [D, M] at these offsets with b [K, N]."""
    return launch(kernels.dia_spmm, diagonals, b, rows=diagonals.shape[1], offsets=offsets)
