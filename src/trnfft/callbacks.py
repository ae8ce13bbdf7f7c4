"""Callbacks of a plan, for data on the way in and out: scale, window, multiply, convert, or any function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

import trnsci
from trnfft.along_axes import Transformable
from trnfft.arguments import axis_of
from trnfft.complextensor import ComplexTensor
from trnfft.fft import hfft, ihfft
from trnfft.fftn import hfft2, hfftn, ihfft2, ihfftn
from trnfft.ops import C2R, R2C
from trnfft.ops.callbacks import Chain, join_steps
from trnfft.plan import FFTPlan
from trnsci import ArgumentError, check, run
from trnsci.arrays import from_numpy, to_numpy
from trnsci.specs import thaw

Callback: TypeAlias = Callable[[Tensor], Tensor]
# Transforms that conjugate their operand or result, besides the one step of their plan.
_HERMITIAN = frozenset(f.__name__ for f in (hfft, ihfft, hfft2, ihfft2, hfftn, ihfftn))
# Dtypes that a program can convert its real result to.
_STORED = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True, slots=True)
class Scale:
    """Multiply by a number."""

    factor: complex

    def __post_init__(self) -> None:
        check.number("Scale", "factor", self.factor)

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
        check.refuse(self.window.ndim != 1, "Window", "shape of window", tuple(self.window.shape), "one dimension")

    def __call__(self, x: Tensor) -> Tensor:
        """Apply it."""
        axis = axis_of("Window", self.dim, None, x.ndim)
        check.equal("Window", "N", window=len(self.window), x=x.shape[axis])
        return x * self.window.reshape(-1, *[1] * (x.ndim - 1 - axis)).to(x.device)


@dataclass(frozen=True, slots=True, eq=False)
class Multiply:
    """Multiply element by element with a tensor that broadcasts: a filter, or the transform of another signal."""

    factors: Tensor

    def __post_init__(self) -> None:
        check.tensor("Multiply", factors=self.factors)

    def __call__(self, x: Tensor) -> Tensor:
        """Apply it."""
        check.broadcast("Multiply", factors=tuple(self.factors.shape), x=tuple(x.shape))
        return x * self.factors.to(x.device)


@dataclass(frozen=True, slots=True)
class Convert:
    """Convert to a dtype; integers on the way in, half precision on the way out."""

    dtype: torch.dtype

    def __post_init__(self) -> None:
        check.kind("Convert", "dtype", self.dtype, torch.dtype, "a torch.dtype")

    def __call__(self, x: Tensor) -> Tensor:
        """Apply it."""
        return x.to(self.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class _Program:
    """Steps that run as one op, on Trainium as one program, for data of one shape and dtype."""

    steps: tuple[Callback | FFTPlan, ...]
    shape: tuple[int, ...]
    dtype: torch.dtype
    result: torch.dtype
    calls: tuple[Any, ...]

    @property
    def __name__(self) -> str:
        return ", ".join(_name(step) for step in self.steps)

    def __call__(self, x: Tensor) -> Tensor:
        """Run the steps; one after the other where data does not fit, so that the one that objects says so."""
        converts = isinstance(self.steps[0], Convert) and not x.is_complex()
        if tuple(x.shape) != self.shape or not (converts or x.dtype == self.dtype):
            for step in self.steps:
                x = _apply_step(step, x)
            return x
        factors = [_factor(step, x.ndim) for step in self.steps if isinstance(step, Scale | Window | Multiply)]
        transform = next(call for call in self.calls if call is not None)
        moved, dims = [factor.to(x.device) for factor in factors], list(transform.dims)
        steps = join_steps([_describe_call(call) for call in self.calls])
        return run(Chain(x, moved, dims, **steps, dtype=self.result, precision=transform.precision))

    def __str__(self) -> str:
        x = torch.empty(self.shape, dtype=self.dtype, device="meta")
        lines = str(trnsci.plan(self, x)).splitlines()
        return "\n".join((f"one program on Trainium: {self.__name__}", *("  " + line for line in lines)))


@dataclass(frozen=True, slots=True, eq=False)
class CallbackPlan:
    """Transforms in a row, with callbacks before, between and after: `with_callbacks` and `then` make them.

    Call it with data; NumPy in gives NumPy out, gradients flow wherever those of the callbacks do. ``parts`` are what
    runs one after the other: programs, which hold transforms with the callbacks known to them, and other functions.
    """

    steps: tuple[Callback | FFTPlan, ...]
    parts: tuple[Callback | FFTPlan, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(_parts(self.steps)))

    def __call__(self, x: Tensor) -> Tensor:
        """Run all steps on data of the shape that the first transform was planned for."""
        if isinstance(x, np.ndarray):
            return to_numpy(self(from_numpy(x)))
        if isinstance(x, ComplexTensor):
            raise ArgumentError("CallbackPlan", "x", "a ComplexTensor", "a tensor")
        check.tensor("CallbackPlan", x=x)
        for part in self.parts:
            x = _apply_step(part, x)
        return x

    def then(self, step: Callback | FFTPlan | CallbackPlan) -> CallbackPlan:
        """Append a callback, a transform, or the steps of another plan."""
        return CallbackPlan((*self.steps, *_steps(step)))

    @property
    def plans(self) -> tuple[FFTPlan, ...]:
        """The transforms, each with its algorithm, cost and predicted time."""
        return tuple(step for step in self.steps if isinstance(step, FFTPlan))

    def __str__(self) -> str:
        return "\n".join(
            str(part) if isinstance(part, FFTPlan | _Program) else f"callback {_name(part)}: PyTorch, beside programs"
            for part in self.parts
        )


def with_callbacks(plan: FFTPlan, *, load: Callback | None = None, store: Callback | None = None) -> CallbackPlan:
    """Let a plan pass its data through functions on the way in and on the way out: cuFFT's load and store callbacks.

    Args:
        plan: what `trnfft.plan` returned.
        load: of the data, to what the plan expects: `Scale`, `Window`, `Multiply`, `Convert`, or any function of
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
        raise ArgumentError("with_callbacks", "plan", type(plan).__name__, "what plan() returned")
    parts = [part for step in (load, plan, store) if step is not None for part in _steps(step)]
    return CallbackPlan(tuple(parts))


def _steps(step: Callback | FFTPlan | CallbackPlan) -> tuple[Callback | FFTPlan, ...]:
    if isinstance(step, CallbackPlan):
        return step.steps
    check.refuse(not callable(step), "with_callbacks", "callback", step, "a function or a plan")
    return (step,)


def _apply_step(step: Callback | FFTPlan, x: Tensor) -> Tensor:
    result: Transformable = step(x)
    if not isinstance(result, Tensor):
        raise ArgumentError("CallbackPlan", f"what {_name(step)} returns", type(result).__name__, "a tensor")
    return result


def _name(step: object) -> str:
    return step.kind if isinstance(step, FFTPlan) else getattr(step, "__name__", type(step).__name__)


def _parts(steps: tuple[Callback | FFTPlan, ...]) -> Iterator[Callback | FFTPlan]:
    """Yield runs of steps as programs, each as long as it can be, and the steps that are in none."""
    at = 0
    while at < len(steps):
        programs = (_program(steps[at:end]) for end in range(len(steps), at + 1, -1))
        part = next((program for program in programs if program is not None), None)
        yield steps[at] if part is None else part
        at += 1 if part is None else len(part.steps)


def _program(steps: tuple[Callback | FFTPlan, ...]) -> _Program | None:
    """Join steps in one program: float32 transforms of the same axes, factors that keep shape and dtype, casts."""
    first = next((step for step in steps if isinstance(step, FFTPlan)), None)
    if first is None or first.dtype not in (torch.float32, torch.complex64):
        return None
    shape, dtype = first.shape, first.dtype
    calls: list[Any] = []
    for i, step in enumerate(steps):
        if isinstance(step, FFTPlan):
            call = _transform(step, shape, dtype)
            others = [call for call in calls if call is not None]
            if call is None or any((call.dims, call.precision) != (other.dims, other.precision) for other in others):
                return None
            if others and not (dtype.is_complex or isinstance(call, R2C)):
                return None
            calls.append(call)
            result = thaw(call).fake()
            shape, dtype = tuple(result.shape), result.dtype
        elif isinstance(step, Scale | Window | Multiply):
            factor = _factor(step, len(shape))
            if not _keeps(factor, shape, dtype):
                return None
            calls.append(None)
        elif not isinstance(step, Convert):
            return None
        elif i == len(steps) - 1 and step.dtype in _STORED and not dtype.is_complex:
            dtype = step.dtype
        elif i > 0 or step.dtype != dtype or dtype.is_complex:
            return None
    return _Program(steps, first.shape, first.dtype, dtype, tuple(calls))


def _transform(plan: FFTPlan, shape: tuple[int, ...], dtype: torch.dtype) -> Any:
    """Return the call of a plan that is one transform of data like this, and nothing beside it."""
    if plan.kind in _HERMITIAN or len(plan.steps) != 1 or plan.shape != shape or plan.dtype != dtype:
        return None
    call = plan.steps[0].call
    same = tuple(call.x.shape) == shape and call.x.dtype == dtype
    return call if same and call.precision in ("fp32", "fast") else None


def _describe_call(call: Any) -> tuple[str, int, str]:
    """Return kind, points and scale of a step."""
    if call is None:
        return "times", 0, "none"
    if isinstance(call, C2R):
        return "irfft", call.n, call.scale
    kind = "rfft" if isinstance(call, R2C) else "ifft" if call.inverse else "fft"
    return kind, call.x.shape[call.dims[-1]], call.scale


def _factor(step: Scale | Window | Multiply, ndim: int) -> Tensor:
    """Return what a step multiplies by, as a tensor that broadcasts against data of ``ndim`` axes."""
    if isinstance(step, Scale):
        number = complex(step.factor)
        kind = torch.complex64 if number.imag else torch.float32
        return torch.tensor(number if number.imag else number.real, dtype=kind, device="cpu")
    if isinstance(step, Window):
        return step.window.reshape(-1, *[1] * (ndim - 1 - step.dim % ndim))
    return step.factors


def _keeps(factor: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> bool:
    """Return whether data stays what it is when it is multiplied by a factor."""
    fits = factor.ndim <= len(shape) and all(
        size in (1, want) for size, want in zip(factor.shape[::-1], shape[::-1], strict=False)
    )
    return fits and factor.dtype in (torch.float32, dtype)
