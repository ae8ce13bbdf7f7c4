"""Tensors without their data: the hashable, picklable form of call arguments, and the mark of residency."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


class ResidentTensor(Tensor):
    """A host tensor that stands for one in device memory. Whatever torch computes from it is resident too."""


def is_resident(tensor: Tensor) -> bool:
    """Whether a tensor is in device memory, or marked as if it were."""
    if type(tensor) is Tensor and tensor.is_cpu:
        return False
    return isinstance(tensor, ResidentTensor) or tensor.device.type in ("xla", "neuron")


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor without its data. ``stride`` is ``None`` for contiguous tensors."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    stride: tuple[int, ...] | None = None
    resident: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        count = self.dtype.itemsize
        for size in self.shape:
            count *= size
        return count

    def meta(self) -> Tensor:
        """Return a tensor of this kind on torch's ``meta`` device."""
        if self.stride is None:
            tensor = torch.empty(self.shape, dtype=self.dtype, device="meta")
        else:
            tensor = torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device="meta")
        return tensor.as_subclass(ResidentTensor) if self.resident else tensor

    def __str__(self) -> str:
        size = "x".join(map(str, self.shape)) or "scalar"
        return f"{str(self.dtype).removeprefix('torch.')}[{size}]"


def freeze(value: Any) -> Any:
    """Replace tensors by their specs and lists by tuples: the hashable, picklable form of call arguments."""
    if isinstance(value, Tensor):
        stride = None if value.layout != torch.strided or value.is_contiguous() else tuple(value.stride())
        return TensorSpec(tuple(value.shape), value.dtype, stride, is_resident(value))
    if isinstance(value, list | tuple):
        return tuple(freeze(item) for item in value)
    return value


def thaw(value: Any) -> Any:
    """Replace specs by meta tensors: the inverse of `freeze` as far as shapes go."""
    if isinstance(value, TensorSpec):
        return value.meta()
    if isinstance(value, tuple):
        return [thaw(item) for item in value]
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
    if isinstance(value, list | tuple):
        return type(value)(map_tensors(item, fn) for item in value)
    return value
