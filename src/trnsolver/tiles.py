"""Small constant operands of the kernels."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from trnsci.nki import P_MAX


@functools.cache
def doubling_masks(device: torch.device) -> Tensor:
    """For blocks of 1, 2, 4 ... rows: the block above and right of each neighbouring pair; the last is the identity."""
    i = torch.arange(P_MAX)
    found = []
    size = 1
    while size < P_MAX:
        pair, half = i // (2 * size), (i // size) % 2
        found.append((pair.unsqueeze(1) == pair) & (half.unsqueeze(1) == 0) & (half == 1))
        size *= 2
    found.append(torch.eye(P_MAX, dtype=torch.bool))
    return torch.stack(found).float().to(device)  # [8, 128, 128]
