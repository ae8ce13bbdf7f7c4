"""How kernels of streams are launched."""

from __future__ import annotations

import struct
from typing import Any

import torch

from trnrand.segment import Segment
from trnsci import cuda


def key_and_counter(segment: Segment) -> tuple[int, ...]:
    """Return key and counter of a segment as eight int32, which have one type whatever their values are."""
    return struct.unpack("<8i", segment.key_and_counter)


def bits(value: float) -> int:
    """Return the bits of a float64 as an integer."""
    integer: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return integer


def launched(
    kernel: Any,
    blocks: int,
    device: torch.device,
    args: tuple[Any, ...],
    *,
    words: tuple[int, ...],
    constants: tuple[int, ...],
    warps: int = 4,
) -> None:
    """Launch so many blocks of a kernel on a device, each operation rounded once."""
    if blocks:
        cuda.launch(kernel, (blocks, 1, 1), device, args, constants, words, num_warps=warps, enable_fp_fusion=False)
