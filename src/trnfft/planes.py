"""What a tensor of two planes does to both alike: indexing, shapes, copies and sums."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

from torch import Tensor


class Planes(ABC):
    """Methods that are one function of each plane."""

    @abstractmethod
    def _each(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """Return the tensor whose planes are ``fn`` of these."""

    def __getitem__(self, index: Any) -> Self:
        return self._each(lambda plane: plane[index])

    def reshape(self, *shape: Any) -> Self:
        """Other sizes, same elements."""
        return self._each(lambda plane: plane.reshape(*shape))

    view = reshape

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """Merge dimensions."""
        return self._each(lambda plane: plane.flatten(start_dim, end_dim))

    def transpose(self, dim0: int, dim1: int) -> Self:
        """Swap two dimensions, without conjugation."""
        return self._each(lambda plane: plane.transpose(dim0, dim1))

    def permute(self, *dims: Any) -> Self:
        """Reorder dimensions."""
        return self._each(lambda plane: plane.permute(*dims))

    def squeeze(self, *dim: int) -> Self:
        """Drop dimensions of size 1."""
        return self._each(lambda plane: plane.squeeze(*dim))

    def unsqueeze(self, dim: int) -> Self:
        """Insert a dimension of size 1."""
        return self._each(lambda plane: plane.unsqueeze(dim))

    def expand(self, *shape: Any) -> Self:
        """Repeat dimensions of size 1 without a copy."""
        return self._each(lambda plane: plane.expand(*shape))

    def contiguous(self) -> Self:
        """Both planes contiguous."""
        return self._each(lambda plane: plane.contiguous())

    def clone(self) -> Self:
        """A copy, differentiable."""
        return self._each(lambda plane: plane.clone())

    def detach(self) -> Self:
        """The same data outside the graph."""
        return self._each(lambda plane: plane.detach())

    def sum(self, dim: Any = None, keepdim: bool = False) -> Self:
        """Sum over dimensions."""
        return self._each(lambda plane: plane.sum(dim, keepdim=keepdim) if dim is not None else plane.sum())

    def mean(self, dim: Any = None, keepdim: bool = False) -> Self:
        """Mean over dimensions."""
        return self._each(lambda plane: plane.mean(dim, keepdim=keepdim) if dim is not None else plane.mean())

    @property
    def mT(self) -> Self:
        """Last two dimensions swapped."""
        return self._each(lambda plane: plane.mT)

    @property
    def T(self) -> Self:
        """A matrix transposed."""
        return self._each(lambda plane: plane.transpose(0, 1) if plane.ndim == 2 else plane.T)
