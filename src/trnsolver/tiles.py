"""Small constant operands of the kernels."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trnsci.caches import kept
from trnsci.nki import P_MAX


@kept
def identity(device: torch.device) -> Tensor:
    """The identity of one tile."""
    return torch.eye(P_MAX, device=device, dtype=torch.float32)  # [128, 128]


def unit_columns(like: Tensor) -> Tensor:
    """The right-hand sides of which inverses are the solutions."""
    # stored by columns, as LAPACK reads them
    eye = torch.eye(like.shape[-1], dtype=like.dtype, device=like.device).mT
    return eye if like.ndim == 2 else eye.expand(like.shape)


# Rows of a partition beyond the first eight come by the four, so that few programs serve all heights.
_FEW, _STEP = 8, 4


def rows_each(rows: int) -> int:
    """How many of so many rows lie in each partition."""
    each = -(-rows // P_MAX)
    return each if each <= _FEW else -(-each // _STEP) * _STEP


@kept
def row_tiles(rows: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Rows dealt out to partitions, neighbours to each: their ranks, descending, indices, and which there are.

    A rank is the last bits of a number of which the leading bit of the exponent is the only other one.
    """
    each = rows_each(rows)
    held = -(-rows // each) if each <= _FEW else P_MAX
    # bits are put together on the host: a device may read them as numbers
    index = torch.arange(held * each, device="cpu").reshape(-1, each)  # [p, T]
    rank = ((index.numel() - 1 - index).int() | (1 << 30)).view(torch.float32)
    return rank.to(device), index.float().to(device), (index < rows).float().to(device)


def largest(a: Tensor, axes: int | tuple[int, ...]) -> Tensor:
    """The largest magnitude over ``axes``, which stay; zero of nothing."""
    # of nothing there is a sum, but no largest
    return a.abs().amax(axes, keepdim=True) if a.numel() else a.abs().sum(axes, keepdim=True)


def near_one(a: Tensor, axes: int | tuple[int, ...], *, beyond: float = 1.0) -> Tensor:
    """Powers of two, one for each matrix, row or column, that bring the largest magnitude over ``axes`` near 1.

    Multiplying and dividing by them is exact, but for entries that fall below the normal numbers. What is within a
    factor of ``beyond`` of 1 already stays as it is.
    """
    size = largest(a, axes)
    least, most = (-126, 126) if size.dtype == torch.float32 else (-1022, 1022)
    power = torch.where(size > 0, size, 1.0).log2().round().clamp(least, most)
    return torch.exp2(torch.where(power.abs() > math.log2(beyond), -power, 0.0))
