"""How kernels of streams are launched."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from trnrand.segment import Segment
from trnsci import cuda

# Elements of a program that rejects, one warp: what is rejected costs the others of the warp another attempt.
_WARP = 64
# Arguments of kernels that change from call to call: how many elements, key and counter.
SCALARS = ["count", "k0", "k1", "k2", "k3", "c0", "c1", "c2", "c3"]


def key_and_counter(segment: Segment) -> tuple[int, ...]:
    """Return key and counter of a segment as eight int32, which have one type whatever their values are."""
    return struct.unpack("<8i", segment.key_and_counter)


def bits(value: float) -> int:
    """Return the bits of a float64 as an integer."""
    integer: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return integer


def launch_blocks(
    kernel: Any,
    blocks: int,
    device: torch.device,
    args: tuple[Any, ...],
    *,
    words: tuple[int, ...],
    constants: tuple[int, ...],
    warps: int = 4,
) -> None:
    """Launch ``blocks`` blocks of a kernel on a device, each operation rounded once."""
    if blocks:
        cuda.launch(kernel, (blocks, 1, 1), device, args, constants, words, num_warps=warps, enable_fp_fusion=False)


def launch_sampler(
    kernel: Any, segment: Segment, parameters: Sequence[Tensor], *more: int, tables: tuple[Tensor, ...] = ()
) -> Tensor:
    """Draw float64 by a kernel that rejects; parameters are float64 of one element, or of one for each."""
    out = parameters[0].new_empty(segment.elements)
    constants = (*(int(x.numel() > 1) for x in parameters), segment.engine.code, _WARP)
    args, words = (*parameters, *tables, out, segment.elements, *more), key_and_counter(segment)
    launch_blocks(kernel, -(-segment.elements // _WARP), out.device, args, words=words, constants=constants, warps=1)
    return out
