"""Threefry4x32-20: words from counters and a key."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from trnrand.blocks import Blocks, check_words
from trnrand.engines import THREEFRY, Engine
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
    return run(Threefry(*check_words(THREEFRY, counter, key)))


@op("trnrand::threefry", calls="trnsci._loops.counters")
class Threefry(Blocks):
    """The words of counters and keys of Threefry."""

    __slots__ = ()

    def parts(self) -> tuple[Engine, Any]:
        return THREEFRY, kernels.threefry
