"""Philox4x32-10: words from counters and a key."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from trnrand import blocks
from trnrand.engines import PHILOX, philox_words
from trnrand.kernels import philox as kernels
from trnsci import array_function, op, run


@array_function
def philox4x32(counter: Tensor, key: Tensor) -> Tensor:
    """Compute Philox4x32-10 of counters [..., 4] and keys [..., 2], lowest word first; leading axes broadcast.

    Args:
        counter: integers that hold uint32 words (uint32, int32 by its bits, or int64).
        key: the same.

    Returns:
        uint32 [..., 4].

    Example:
        >>> trnrand.philox4x32(torch.zeros(4, dtype=torch.int64), torch.zeros(2, dtype=torch.int64))
        tensor([1713891541, 3781805453, 3159862348, 2600524760], dtype=torch.uint32)
    """
    return run(Philox(*blocks.checked(PHILOX, counter, key)))


@op("trnrand::philox")
class Philox(NamedTuple):
    """The words of counters, int64 that holds uint32."""

    counter: Tensor  # [..., 4]
    key: Tensor  # [..., 2]

    def fake(self) -> Tensor:
        return blocks.fake(self.counter)

    def cost(self) -> int:
        return self.counter.numel() // 4 * PHILOX.operations

    def pytorch(self) -> Tensor:
        words = philox_words(self.counter.unbind(-1), self.key.unbind(-1))
        return torch.stack(torch.broadcast_tensors(*words), dim=-1).to(torch.uint32)

    def nki(self) -> Tensor:
        return blocks.launched(kernels.philox, PHILOX, self.counter, self.key)

    def limits(self, implementation: str) -> str | None:
        return blocks.limits(implementation, self.key)
