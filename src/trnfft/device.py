"""Transforms on Trainium: which program serves a call, its tables, and its launch."""

from __future__ import annotations

from torch import Tensor


def _none(*args: object) -> str | None:
    return "kernels are being written"


c2c_limits = r2c_limits = c2r_limits = c2c_planes_limits = c2r_planes_limits = _none


def c2c(re: Tensor, im: Tensor | None, dims: list[int], inverse: bool, scale: str, precision: str) -> tuple[Tensor, Tensor]:
    raise NotImplementedError


def r2c(x: Tensor, dims: list[int], scale: str, precision: str) -> tuple[Tensor, Tensor]:
    raise NotImplementedError


def c2r(re: Tensor, im: Tensor, dims: list[int], n: int, scale: str, precision: str) -> Tensor:
    raise NotImplementedError


from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Stage:
    """How one axis is transformed."""

    axis: int
    length: int
    algorithm: str
    factors: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.length} points, {self.algorithm} {' x '.join(map(str, self.factors))}"


def stages(steps: tuple[Any, ...]) -> tuple[tuple[Stage, ...], tuple[Tensor, ...]]:
    return (), ()
