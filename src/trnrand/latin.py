"""Latin hypercubes: in every dimension each of N equal slices holds exactly one of N points."""

from __future__ import annotations

import torch
from torch import Tensor

from trnrand.bits import stream_words
from trnrand.quasi import Sequence
from trnrand.request import half_open
from trnrand.source import Source
from trnrand.uniform import cut
from trnsci import check


class LatinHypercube(Sequence):
    """A Latin hypercube of ``points`` points; `random` hands them out in order, `at` goes anywhere among them.

    Args:
        d: dimensions.
        points: how many points the design has.
        jitter: ``True`` puts a point anywhere in its cell, ``False`` in the middle.
        generator: where orders and positions come from.
        seed: the same as a number: ``Generator(seed)``.

    Example:
        >>> trnrand.LatinHypercube(2, 4, generator=trnrand.Generator(0)).random(4).shape
        torch.Size([4, 2])
    """

    def __init__(
        self,
        d: int,
        points: int,
        *,
        jitter: bool = True,
        generator: Source | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__("LatinHypercube", d, 1 << 20, True, ("cells",), generator, seed)
        self.points = self.end = check.integer("LatinHypercube", "points", points, 1, 1 << 40)
        self.jitter = jitter

    def _points(self, n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        assert self.stream is not None
        here = slice(self.position, self.position + n)
        columns = []
        for axis in range(self.d):
            # every axis has its own words: orders first, then positions
            own = self.stream.jump(axis + 1)
            keys = stream_words(own, 0, 2 * self.points, device).view(-1, 2)
            cell = torch.argsort(keys[:, 1] << 32 | keys[:, 0], stable=True)[here].double()
            if self.jitter:
                words = stream_words(own, 2 * (self.points + here.start), 2 * n, device).view(-1, 2)
                cell = cell + half_open(words[:, 0], words[:, 1])
            else:
                cell = cell + 0.5
            columns.append((cell / self.points).clamp(max=1.0 - 2.0**-53))
        return cut(torch.stack(columns, 1), dtype)
