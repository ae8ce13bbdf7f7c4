"""Batches of small matrices on the device: when a matrix in each partition pays, and launches that compile."""

from typing import Any

import torch
from torch import Tensor

from trnsci import programs
from trnsci.nki import P_MAX, launch

# Bytes of a partition that the tiles of a kernel may take: less than any generation leaves to kernels.
BYTES = 160 * 1024
# Up to so many rows, from so many matrices on: predicted for trn2, beside the kernel for one matrix.
Least = tuple[tuple[int, int], ...]


def pays(least: Least, a: Tensor) -> bool:
    """Whether the kernel for batches is predicted to be faster on matrices ``a`` [..., M, N] of single precision.

    Complex matrices, which have no other kernel, always take it.
    """
    rows = max(a.shape[-2:])
    if a.dtype == torch.complex64:
        return rows <= least[-1][0]
    count = a.numel() // max(1, a.shape[-2] * a.shape[-1])
    return a.dtype == torch.float32 and any(rows <= most and count >= first for most, first in least)


def planes(a: Tensor) -> int:
    """Two for complex matrices, whose real and imaginary parts a kernel takes apart."""
    return 2 if a.is_complex() else 1


def apart(a: Tensor) -> Tensor:
    """Return matrices [B, M, N] with the imaginary parts of each row, if there are any, behind its real parts."""
    return torch.cat([a.real, a.imag], -1) if a.is_complex() else a.contiguous()


def together(x: Tensor, like: Tensor, dim: int) -> Tensor:
    """Return the planes that `apart` separated as one tensor, complex if ``like`` is."""
    if not like.is_complex():
        return x
    re, im = x.chunk(2, dim)
    return torch.complex(re.contiguous(), im.contiguous())


def group(floats: int) -> int:
    """Return how many matrices lie in a partition, where each takes ``floats`` of it."""
    return max(1, BYTES // (4 * floats))


def launch_groups(kernel: Any, *tensors: Tensor, group: int, **static: Any) -> Any:
    """Launch a kernel on tensors whose first dimensions are the batch, in equal pieces where one program is too long.

    ``group`` is how many matrices lie in a partition at most; the others are compile-time arguments.
    """
    static["group"] = group
    batch, chunk = tensors[0].shape[0], P_MAX * group
    if batch <= chunk:
        return launch(kernel, *tensors, **static)
    one = tuple(t[:chunk] for t in tensors)
    width = chunk * programs.limits().holds(programs.size_of(kernel, one, static))
    parts = [
        launch(kernel, *(t[start : start + width].contiguous() for t in tensors), **static)
        for start in range(0, batch, width)
    ]
    if len(parts) == 1 or isinstance(parts[0], Tensor):
        return parts[0] if len(parts) == 1 else torch.cat(parts)
    return tuple(torch.cat(same) for same in zip(*parts, strict=True))
