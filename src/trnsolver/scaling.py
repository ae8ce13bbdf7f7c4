"""Powers of two that bring matrices, rows or columns near 1."""

import math

import torch
from torch import Tensor


def largest(a: Tensor, axes: int | tuple[int, ...]) -> Tensor:
    """Return the largest magnitude over ``axes``, which stay; zero of nothing."""
    # of nothing there is a sum, but no largest
    return a.abs().amax(axes, keepdim=True) if a.numel() else a.abs().sum(axes, keepdim=True)


def near_one(a: Tensor, axes: int | tuple[int, ...], *, beyond: float = 1.0) -> Tensor:
    """Return powers of two, one for each matrix, row or column, that bring the largest magnitude over ``axes`` near 1.

    Multiplying and dividing by them is exact, but for entries that fall below the normal numbers. What is within a
    factor of ``beyond`` of 1 already stays as it is.
    """
    size = largest(a, axes)
    least, most = (-126, 126) if size.dtype == torch.float32 else (-1022, 1022)
    power = torch.where(size > 0, size, 1.0).log2().round().clamp(least, most)
    return torch.exp2(torch.where(power.abs() > math.log2(beyond), -power, 0.0))
