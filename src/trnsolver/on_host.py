"""Ops that run on the host whatever the backend: plans and ledgers see them, and say why no kernel takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

from torch import Tensor
from torch.compiler import is_compiling

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
        self.why = why
        self.traceable = traceable

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.traceable and is_compiling():
            made: R = self._implementations["pytorch"].fn(*args, **kwargs)
            return made
        return super().__call__(*args, **kwargs)

    def decide(self, args: tuple[Any, ...]) -> tuple[str, str]:
        """Return ``pytorch``, and why."""
        return "pytorch", f"on the host whatever the backend: {self.why}"

    def refusal(self, backend: str, args: Iterable[Any]) -> str | None:
        """Return ``why`` for every backend but ``pytorch``."""
        return None if backend == "pytorch" else self.why


def cubes(a: Tensor, factor: float) -> int:
    """``factor * N**3`` FLOPs a matrix, four times that for complex ones."""
    return round(factor * a.numel() * a.shape[-1] * (4 if a.is_complex() else 1))
