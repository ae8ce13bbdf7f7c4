"""Cosines of type 2 along the last axis: one pass that reorders, cuFFT's real transform, one pass that turns phases."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from trnsci import cuda

BLOCK = 1024


@triton.jit
def _folded(x, out, n, BLOCK: tl.constexpr):
    """Write even terms forward, odd ones backward (Makhoul)."""
    row = tl.program_id(0).to(tl.int64) * n
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    source = tl.where(2 * at < n, 2 * at, 2 * (n - 1 - at) + 1)
    tl.store(out + row + at, tl.load(x + row + source, mask=at < n), mask=at < n)


@triton.jit
def _unfolded(half, phases, out, n, BLOCK: tl.constexpr):
    """Write real parts of the rotated half spectrum, then imaginary ones backward with their sign changed."""
    row, k = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside, width = k < n, n // 2 + 1
    mirrored = k >= width
    source = tl.where(mirrored, n - k, k)
    re = tl.load(half + 2 * (row * width + source), mask=inside, other=0.0)
    im = tl.load(half + 2 * (row * width + source) + 1, mask=inside, other=0.0)
    cos = tl.load(phases + 2 * source, mask=inside, other=0.0)
    sin = tl.load(phases + 2 * source + 1, mask=inside, other=0.0)
    tl.store(out + row * n + k, tl.where(mirrored, -(re * sin + im * cos), re * cos - im * sin), mask=inside)


def cosine2(x: Tensor, phases: Tensor) -> Tensor:
    """Transform along the last axis of a contiguous x [..., N]; complex ``phases`` [N // 2 + 1] hold any scale."""
    n = x.shape[-1]
    rows, across = x.numel() // n, -(-n // BLOCK)
    folded, out = torch.empty_like(x), torch.empty_like(x)
    grid = (rows, across, 1)
    cuda.launch(_folded, grid, x.device, (x, folded, n), (BLOCK,))
    half = torch.view_as_real(torch.fft.rfft(folded))
    cuda.launch(_unfolded, grid, x.device, (half, torch.view_as_real(phases), out, n), (BLOCK,))
    return out
