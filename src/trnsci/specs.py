"""Tensors without their data: the hashable, picklable form of call arguments, and the mark of residency."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, overload

import torch
from torch import Tensor


class ResidentTensor(Tensor):
    """A host tensor that stands for one in device memory. Whatever torch computes from it is resident too."""


def is_resident(tensor: Tensor) -> bool:
    """Return whether a tensor is in device memory, or marked as if it were."""
    if type(tensor) is Tensor and tensor.is_cpu:
        return False
    return isinstance(tensor, ResidentTensor) or tensor.device.type in ("xla", "neuron")


HOST = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class Opaque:
    """A Python object inside a call, such as a function or a sparse matrix; frozen, only its description is left.

    Attributes:
        text: what it is, for plans.
        value: the object. Its method ``frozen_calls``, where it has one, returns what a use of it calls.
        calls: those calls, once it is frozen: predictions run them.
    """

    text: str
    value: Any = field(default=None, compare=False, repr=False)
    calls: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor without its data, with the part of a tensor's interface that limits of implementations read.

    Attributes:
        shape, dtype: as of the tensor.
        strides: ``None`` for contiguous tensors.
        resident: whether it is in device memory, or marked so.
        device: where torch has it.
        requires_grad: whether a gradient is wanted of it.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    strides: tuple[int, ...] | None = None
    resident: bool = False
    device: torch.device = HOST
    requires_grad: bool = False

    is_meta: ClassVar[bool] = False
    layout: ClassVar[torch.layout] = torch.strided

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def is_cpu(self) -> bool:
        """Whether it is in host memory."""
        return self.device.type == "cpu"

    @property
    def is_cuda(self) -> bool:
        """Whether it is on an NVIDIA GPU."""
        return self.device.type == "cuda"

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.dtype.itemsize * math.prod(self.shape)

    def element_size(self) -> int:
        """Return bytes of one element."""
        return self.dtype.itemsize

    def numel(self) -> int:
        """Return the number of elements."""
        return math.prod(self.shape)

    @overload
    def stride(self) -> tuple[int, ...]: ...

    @overload
    def stride(self, dim: int) -> int: ...

    def stride(self, dim: int | None = None) -> tuple[int, ...] | int:
        """Return the distance of neighbours along each axis, or along one, in elements."""
        strides = self.strides
        if strides is None:
            sizes = [max(size, 1) for size in self.shape]
            strides = tuple(math.prod(sizes[axis + 1 :]) for axis in range(len(sizes)))
        return strides if dim is None else strides[dim]

    def is_contiguous(self) -> bool:
        """Return whether elements lie in order without gaps."""
        return self.strides is None

    def is_complex(self) -> bool:
        """Return whether elements are complex."""
        return self.dtype.is_complex

    def is_floating_point(self) -> bool:
        """Return whether elements are real floating-point numbers."""
        return self.dtype.is_floating_point

    def is_conj(self) -> bool:
        """Return whether it is a lazy conjugate: never, since specs describe the values such a tensor shows."""
        return False

    def is_neg(self) -> bool:
        """Return whether torch keeps it as the lazy negative of another tensor; see `is_conj`."""
        return False

    def meta(self) -> Tensor:
        """Return a tensor of this kind on torch's ``meta`` device."""
        if self.strides is None:
            tensor = torch.empty(self.shape, dtype=self.dtype, device="meta")
        else:
            tensor = torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device="meta")
        if self.resident:
            tensor = tensor.as_subclass(ResidentTensor)
        return tensor.requires_grad_() if self.requires_grad else tensor

    def __str__(self) -> str:
        size = "x".join(map(str, self.shape)) or "scalar"
        return f"{str(self.dtype).removeprefix('torch.')}[{size}]"


def freeze(value: Any, home: torch.device = HOST) -> Any:
    """Replace tensors by their specs and lists by tuples: the hashable, picklable form of a call or of its arguments.

    Args:
        value: a tensor, a call, or anything that holds tensors in lists and tuples.
        home: the device that tensors on ``meta`` stand for.
    """
    if isinstance(value, Tensor):
        strides = None if value.layout != torch.strided or value.is_contiguous() else tuple(value.stride())
        device = home if value.is_meta else value.device
        return TensorSpec(tuple(value.shape), value.dtype, strides, is_resident(value), device, value.requires_grad)
    if isinstance(value, Opaque):
        known = getattr(value.value, "frozen_calls", None)
        return Opaque(value.text, calls=value.calls if known is None else known())
    return _rebuilt(value, tuple, lambda item: freeze(item, home))


def thaw(value: Any) -> Any:
    """Replace specs by meta tensors, and tuples by the lists they were: the inverse of `freeze` as far as shapes go."""
    return value.meta() if isinstance(value, TensorSpec) else _rebuilt(value, list, thaw)


def _rebuilt(value: Any, kind: type, fn: Callable[[Any], Any]) -> Any:
    if isinstance(value, list | tuple):
        items = map(fn, value)
        return type(value)(*items) if hasattr(value, "_fields") else kind(items)
    return value


def tensors_in(value: Any) -> Iterable[Any]:
    """Yield the tensors, or the specs, inside nested arguments."""
    if isinstance(value, Tensor | TensorSpec):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)


def map_tensors(value: Any, fn: Callable[[Tensor], Any]) -> Any:
    """Apply a function to the tensors inside nested arguments or results."""
    if isinstance(value, Tensor):
        return fn(value)
    return _rebuilt(value, type(value), lambda item: map_tensors(item, fn))
