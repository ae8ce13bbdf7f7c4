"""Transforms of trnfft that stand in no other table, each beside the call of torch.fft that it makes."""

from __future__ import annotations

import torch

import trnfft
from benchmarks.called import Row, called
from trnsci.testing import gaussian


def _row(name: str, shape: tuple[int, int], dtype: torch.dtype, passes: int = 1) -> Row:
    """A function by its name in both libraries, over the last axis or, with two passes, over both."""
    count = shape[0] * shape[1]
    flops = 5 * count * sum(n.bit_length() for n in shape[-passes:]) // (1 if dtype.is_complex else 2)
    title = f"{name} {shape[0]}x{shape[1]} {str(dtype).removeprefix('torch.')}"
    ours, library = getattr(trnfft, name), getattr(torch.fft, name)
    return Row(title, ours, library, lambda: (gaussian(shape, 1, dtype),), flops, 2 * count * dtype.itemsize, True)


BENCH = called(
    "trnfft.fftn",
    "tests/trnfft/test_fft.py",
    (
        _row("ifft", (256, 4096), torch.complex64),
        _row("rfft", (256, 4096), torch.float32),
        _row("irfft", (256, 2049), torch.complex64),
        _row("hfft", (256, 2049), torch.complex64),
        _row("fftn", (1024, 1024), torch.complex64, 2),
        _row("ifftn", (1024, 1024), torch.complex128, 2),
        _row("rfft2", (1024, 1024), torch.float32, 2),
        _row("irfft2", (1024, 513), torch.complex64, 2),
    ),
    tolerance=1e-5,
)
