"""A picture of a pattern in characters: darker cells hold more entries."""

from __future__ import annotations

import torch
from torch import Tensor

SHADES = "·░▒▓█"


def picture(row: Tensor, col: Tensor, shape: tuple[int, int], *, height: int = 16, width: int = 32) -> str:
    """Return lines of characters, one cell for each patch of the matrix; ``·`` is empty, ``█`` is full."""
    if min(shape) == 0:
        return "(empty)"
    lines, cells = min(height, shape[0]), min(width, shape[1])
    counts = torch.zeros(lines * cells, dtype=torch.float64)
    at = (row * lines // shape[0]) * cells + col * cells // shape[1]
    counts.index_add_(0, at.cpu(), torch.ones(at.numel(), dtype=torch.float64))
    capacity = torch.outer(_sizes(shape[0], lines), _sizes(shape[1], cells)).flatten()
    shade = (counts / capacity * (len(SHADES) - 1)).ceil().clamp(0, len(SHADES) - 1).long()
    return "\n".join("".join(SHADES[s] for s in line) for line in shade.reshape(lines, cells).tolist())


def _sizes(total: int, parts: int) -> Tensor:
    return torch.bincount(torch.arange(total) * parts // total, minlength=parts).double()
