"""What a plan does to its data on the way in and on the way out: scale, window, multiply, convert, or any function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from trnfft.along_axes import Transformable
from trnfft.complextensor import ComplexTensor
from trnfft.plan import FFTPlan
from trnsci import ArgumentError, check
from trnsci.arrays import from_numpy, to_numpy

Callback: TypeAlias = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Scale:
    """Multiply by a number."""

    factor: complex

    def __call__(self, x: Tensor) -> Tensor:
        """Apply it."""
        return x * self.factor


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Multiply by ``window`` [N] along an axis, as before a spectrum is estimated."""

    window: Tensor
    dim: int = -1

    def __post_init__(self) -> None:
        check.tensor("Window", window=self.window)
        if self.window.ndim != 1:
            raise ArgumentError(
                op="Window", argument="shape of window", got=tuple(self.window.shape), expected="one dimension"
            )

    def __call__(self, x: Tensor) -> Tensor:
        """Apply it."""
        check.equal("Window", "N", window=len(self.window), x=x.shape[self.dim])
        return x * self.window.reshape(-1, *[1] * (x.ndim - 1 - self.dim % x.ndim)).to(x.device)


@dataclass(frozen=True, slots=True, eq=False)
class Multiply:
    """Multiply element by element with a tensor that broadcasts: a filter, or the transform of another signal."""

    factors: Tensor

    def __post_init__(self) -> None:
        check.tensor("Multiply", factors=self.factors)

    def __call__(self, x: Tensor) -> Tensor:
        """Apply it."""
        return x * self.factors.to(x.device)


@dataclass(frozen=True, slots=True)
class Convert:
    """Convert to a dtype; integers on the way in, half precision on the way out."""

    dtype: torch.dtype

    def __call__(self, x: Tensor) -> Tensor:
        """Apply it."""
        return x.to(self.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class CallbackPlan:
    """Transforms in a row, with callbacks before, between and after: `with_callbacks` and `then` make them.

    Call it with data; NumPy in gives NumPy out, gradients flow wherever those of the callbacks do.
    """

    steps: tuple[Callback | FFTPlan, ...]

    def __call__(self, x: Tensor) -> Tensor:
        """Run all steps on data of the shape that the first transform was planned for."""
        if isinstance(x, np.ndarray):
            return to_numpy(self(from_numpy(x)))
        if isinstance(x, ComplexTensor):
            raise ArgumentError(op="CallbackPlan", argument="x", got="a ComplexTensor", expected="a tensor")
        check.tensor("CallbackPlan", x=x)
        for step in self.steps:
            x = _applied(step, x)
        return x

    def then(self, step: Callback | FFTPlan | CallbackPlan) -> CallbackPlan:
        """Append a callback, a transform, or the steps of another plan."""
        return CallbackPlan((*self.steps, *_steps(step)))

    @property
    def plans(self) -> tuple[FFTPlan, ...]:
        """The transforms, each with its algorithm, cost and predicted time."""
        return tuple(step for step in self.steps if isinstance(step, FFTPlan))

    def __str__(self) -> str:
        return "\n".join(str(step) if isinstance(step, FFTPlan) else f"callback {_name(step)}" for step in self.steps)


def with_callbacks(plan: FFTPlan, *, load: Callback | None = None, store: Callback | None = None) -> CallbackPlan:
    """Let a plan pass its data through functions on the way in and on the way out: cuFFT's load and store callbacks.

    Args:
        plan: what `trnfft.plan` made.
        load: of the data, to what the plan was made for: `Scale`, `Window`, `Multiply`, `Convert`, or any function of
            PyTorch.
        store: of the result, likewise.

    Returns:
        A `CallbackPlan`. Its `then` appends further steps, so that a convolution is one plan.

    Error bound:
        that of the transforms, and of the functions given.

    Example:
        >>> import torch
        >>> from trnfft import plan
        >>> forward = with_callbacks(plan((8,), torch.float32, kind="rfft"), load=Convert(torch.float32))
        >>> forward(torch.ones(8, dtype=torch.int16))[0]
        tensor(8.+0.j)
    """
    if not isinstance(plan, FFTPlan):
        raise ArgumentError(op="with_callbacks", argument="plan", got=type(plan).__name__, expected="what plan() made")
    parts = [part for step in (load, plan, store) if step is not None for part in _steps(step)]
    return CallbackPlan(tuple(parts))


def _steps(step: Callback | FFTPlan | CallbackPlan) -> tuple[Callback | FFTPlan, ...]:
    if isinstance(step, CallbackPlan):
        return step.steps
    if not callable(step):
        raise ArgumentError(op="with_callbacks", argument="callback", got=step, expected="a function or a plan")
    return (step,)


def _applied(step: Callback | FFTPlan, x: Tensor) -> Tensor:
    made: Transformable = step(x)
    if not isinstance(made, Tensor):
        got = type(made).__name__
        raise ArgumentError(op="CallbackPlan", argument=f"what {_name(step)} returns", got=got, expected="a tensor")
    return made


def _name(step: object) -> str:
    return getattr(step, "__name__", type(step).__name__)
