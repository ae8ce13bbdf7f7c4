"""Threefry4x32-20: words from counters and a key."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from trnrand import blocks
from trnrand.engines import THREEFRY, threefry_words
from trnrand.kernels import threefry as kernels
from trnsci import array_function, op, run


@array_function
def threefry4x32(counter: Tensor, key: Tensor) -> Tensor:
    """Compute Threefry4x32-20 of counters [..., 4] and keys [..., 4], lowest word first; leading axes broadcast.

    Args:
        counter: integers that hold uint32 words (uint32, int32 by its bits, or int64).
        key: the same.

    Returns:
        uint32 [..., 4].
    """
    return run(Threefry(*blocks.checked(THREEFRY, counter, key)))


@op("trnrand::threefry")
class Threefry(NamedTuple):
    """The words of counters, int64 that holds uint32."""

    counter: Tensor  # [..., 4]
    key: Tensor  # [..., 4]

    def fake(self) -> Tensor:
        return blocks.fake(self.counter)

    def cost(self) -> int:
        return self.counter.numel() // 4 * THREEFRY.operations

    def pytorch(self) -> Tensor:
        words = threefry_words(self.counter.unbind(-1), self.key.unbind(-1))
        return torch.stack(torch.broadcast_tensors(*words), dim=-1).to(torch.uint32)

    def nki(self) -> Tensor:
        return blocks.launched(kernels.threefry, THREEFRY, self.counter, self.key)

    def limits(self, implementation: str) -> str | None:
        return blocks.limits(implementation, self.key)
