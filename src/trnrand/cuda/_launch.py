"""How kernels of streams are launched."""

from __future__ import annotations

import struct
from typing import Any

import torch

from trnrand.segment import Segment
from trnsci import cuda


def place(segment: Segment) -> tuple[int, ...]:
    """Key and counter of a segment: the bits of eight words as int32, which have one type whatever their values are."""
    return struct.unpack("<8i", segment.place)


def bits(value: float) -> int:
    """The bits of a float64 as an integer."""
    made: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return made


def launched(
    kernel: Any,
    blocks: int,
    device: torch.device,
    args: tuple[Any, ...],
    words: tuple[int, ...],
    constants: tuple[int, ...],
    warps: int = 4,
) -> None:
    """Launch so many blocks of a kernel on a device, each operation rounded once."""
    if blocks:
        cuda.launch(kernel, (blocks, 1, 1), device, args, constants, words, num_warps=warps, enable_fp_fusion=False)
