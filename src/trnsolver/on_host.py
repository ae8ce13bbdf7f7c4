"""Ops that run on the host whatever the backend: plans and ledgers see them, and say why no kernel takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from torch import Tensor

from trnsci import Cost, Op

P = ParamSpec("P")
R = TypeVar("R")


class HostOp(Op[P, R]):
    """An `Op` without a kernel, by nature; ``why`` is the reason its plans give. Strict blocks admit it.

    Args:
        name: ``library::name``.
        fake: the op on shapes alone.
        cost: FLOPs of a call.
        why: why it runs on the host.
        traceable: its implementation is torch's own calls, which a tracer follows and differentiates.
    """

    def __init__(
        self, name: str, *, fake: Callable[P, R], cost: Callable[P, int | Cost], why: str, traceable: bool = False
    ) -> None:
        super().__init__(name, fake=fake, cost=cost)
        self.kind.host_only = why
        self.kind.traceable = traceable
        self.core.inspect()


def cubes(a: Tensor, factor: float) -> int:
    """``factor * N**3`` FLOPs a matrix, four times that for complex ones."""
    return round(factor * a.numel() * a.shape[-1] * (4 if a.is_complex() else 1))
