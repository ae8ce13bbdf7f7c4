"""How kernels of streams are launched."""

from __future__ import annotations

import struct
from typing import Any

import torch

from trnrand.segment import Segment
from trnsci import cuda


def signed(word: int) -> int:
    """A word as the int32 of its bits, which has one type whatever its value is."""
    return word - (1 << 32) if word >> 31 else word


def place(segment: Segment) -> tuple[int, ...]:
    """Key and counter of a segment: eight int32."""
    return tuple(map(signed, segment[3:]))


def bits(value: float) -> int:
    """The bits of a float64 as an integer."""
    made: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return made


def launched(kernel: Any, blocks: int, device: torch.device, *args: Any, warps: int = 4, **options: Any) -> None:
    """Launch so many blocks of a kernel on a device, each operation rounded once."""
    if blocks:
        with cuda.on(device):
            kernel[(blocks,)](*args, num_warps=warps, enable_fp_fusion=False, **options)
