"""A picture of a pattern, in characters or as SVG: darker cells hold more entries."""

import itertools

import torch
from torch import Tensor

from trnsim import notebook

SHADES = "·░▒▓█"
CELLS = 64
SIDE = 240.0


def picture(row: Tensor, col: Tensor, shape: tuple[int, int], *, height: int = 16, width: int = 32) -> str:
    """Return lines of characters, one cell for each patch of the matrix; ``·`` is empty, ``█`` is full."""
    if min(shape) == 0:
        return "(empty)"
    shade = (_shares(row, col, shape, height, width) * (len(SHADES) - 1)).ceil().clamp(0, len(SHADES) - 1).long()
    return "\n".join("".join(SHADES[s] for s in line) for line in shade.tolist())


def drawn(row: Tensor, col: Tensor, shape: tuple[int, int], title: str) -> str:
    """Return the same as SVG of up to 64 cells a side, for notebooks; a filled cell is at least a quarter dark."""
    if min(shape) == 0:
        return ""
    shares = _shares(row, col, shape, CELLS, CELLS)
    # the longer side is CELLS wide; few rows are drawn larger, so that one can see them
    edge = SIDE / max(shape)
    cells = ((0.25 + 0.75 * shares).mul(10).round() / 10).where(shares > 0, 0.0).tolist()
    high, wide = shape[0] * edge / len(cells), shape[1] * edge / len(cells[0])
    parts = [
        f'<rect x="0.5" y="0.5" width="{shape[1] * edge:.1f}" height="{shape[0] * edge:.1f}" fill="none" '
        'stroke="currentColor" stroke-opacity=".4"/>'
    ]
    for i, line in enumerate(cells):
        at = 0
        for dark, run in itertools.groupby(line):
            count = len(list(run))
            if dark:
                parts.append(
                    f'<rect x="{at * wide + 0.5:.1f}" y="{i * high + 0.5:.1f}" width="{count * wide:.2f}" '
                    f'height="{high:.2f}" fill="#4f81d9" fill-opacity="{dark:.2f}"/>'
                )
            at += count
    return notebook.svg(round(shape[1] * edge + 1), round(shape[0] * edge + 1), title, parts)


def _shares(row: Tensor, col: Tensor, shape: tuple[int, int], height: int, width: int) -> Tensor:
    """Return how much of each patch is filled, from 0 to 1: [lines, cells]."""
    lines, cells = min(height, shape[0]), min(width, shape[1])
    counts = torch.zeros(lines * cells, dtype=torch.float64, device="cpu")
    at = (row * lines // shape[0]) * cells + col * cells // shape[1]
    counts.index_add_(0, at.cpu(), torch.ones(at.numel(), dtype=torch.float64, device="cpu"))
    capacity = torch.outer(_sizes(shape[0], lines), _sizes(shape[1], cells)).flatten()
    return (counts / capacity).clamp(max=1).reshape(lines, cells)


def _sizes(total: int, parts: int) -> Tensor:
    return torch.bincount(torch.arange(total, device="cpu") * parts // total, minlength=parts).double()
