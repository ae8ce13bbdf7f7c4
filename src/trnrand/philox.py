"""Philox4x32-10: words from counters and a key."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from trnrand.blocks import Blocks, check_words
from trnrand.engines import PHILOX, Engine
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
    return run(Philox(*check_words(PHILOX, counter, key)))


@op("trnrand::philox", calls="trnsci._loops.counters")
class Philox(Blocks):
    """The words of counters and keys of Philox."""

    __slots__ = ()

    def parts(self) -> tuple[Engine, Any]:
        return PHILOX, kernels.philox
