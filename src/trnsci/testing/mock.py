"""An op that counts: proof of which implementation a call reached."""

from __future__ import annotations

import itertools
from collections import Counter

import torch
from torch import Tensor

from trnsci.deprecated import Limits, Op

_serial = itertools.count()


class CountingOp:
    """``op(x)`` returns ``x + 1`` and counts the implementation that ran in ``calls``."""

    def __init__(self, library: str, limits: Limits | None) -> None:
        self.calls: Counter[str] = Counter()
        self.op = Op(f"{library}::counting_{next(_serial)}", fake=_fake, cost=_cost)
        self.op.impl("pytorch")(lambda x: self._count("pytorch", x))
        self.op.impl("nki", dtypes=(torch.float32,), limits=limits)(lambda x: self._count("nki", x))

    def _count(self, name: str, x: Tensor) -> Tensor:
        self.calls[name] += 1
        return x + 1

    def __call__(self, x: Tensor) -> Tensor:
        return self.op(x)


def counting_op(library: str = "trnmock", limits: Limits | None = None) -> CountingOp:
    """Return a new counting op in a library; ``limits`` are those of its ``nki`` implementation."""
    return CountingOp(library, limits)


def _fake(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def _cost(x: Tensor) -> int:
    return x.numel()
