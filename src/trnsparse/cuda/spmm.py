"""Products with compressed rows by cuSPARSE, through torch's CSR tensors.

The pattern is kept in 32 bits beside the matrix, and that of the transpose where one was asked for.
"""

from __future__ import annotations

import warnings
from typing import Any
from weakref import ref

import torch
from torch import Tensor

from trnsparse.indices import transposition
from trnsparse.scipy_views import Beside

with warnings.catch_warnings():
    # torch says once that its CSR tensors are in beta
    warnings.simplefilter("ignore", UserWarning)
    torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1), check_invariants=False, device="cpu")


class _Pattern:
    """Pointers and indices of one matrix in 32 bits, or of its transpose, with the order of the values in it."""

    def __init__(self, indptr: Tensor, indices: Tensor, columns: int, trans: bool) -> None:
        self.order: Tensor | None = None
        if trans:
            indptr, indices, self.order = transposition(indptr, indices, columns)
        self.parts = indptr.to(torch.int32), indices.to(torch.int32)
        self.last: tuple[Any, Any] = (None, None)
        self._zeros: dict[torch.dtype, Any] = {}

    def matrix(self, values: Tensor, shape: tuple[int, int]) -> Any:
        """Return the matrix of these values; that of the last ones is kept, on the memory of the values."""
        if self.order is not None:
            values = values[self.order]
        elif self.last[0] is not None and self.last[0]() is values:
            return self.last[1]
        matrix = torch.sparse_csr_tensor(
            *self.parts, values.detach().contiguous(), shape, check_invariants=False, device=values.device
        )
        if self.order is None and values.is_contiguous():
            self.last = (ref(values), matrix)
        return matrix

    def zeros(self, dtype: torch.dtype, shape: tuple[int, int]) -> Any:
        """Return the matrix of zeros, which is kept."""
        if dtype not in self._zeros:
            self._zeros[dtype] = self.matrix(self.parts[1].new_zeros(self.parts[1].shape, dtype=dtype), shape)
        return self._zeros[dtype]


_PATTERNS: Beside[_Pattern] = Beside()


def _pattern(indptr: Tensor, indices: Tensor, columns: int, trans: bool = False) -> _Pattern:
    return _PATTERNS.get(indptr, indices, (columns, trans), lambda: _Pattern(indptr, indices, columns, trans))


def product(indptr: Tensor, indices: Tensor, values: Tensor, b: Tensor, columns: int, trans: bool) -> Tensor:
    """Return ``a @ b``, or with ``trans`` that of its transpose, for b [K, N] or [K]."""
    height = indptr.shape[0] - 1
    shape = (columns, height) if trans else (height, columns)
    result: Tensor = _pattern(indptr, indices, columns, trans).matrix(values, shape) @ b
    return result


def sample_product(indptr: Tensor, indices: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return ``a @ b.mT`` at the entries of a pattern, for a [M, D] and b [N, D]."""
    zeros = _pattern(indptr, indices, b.shape[0]).zeros(a.dtype, (a.shape[0], b.shape[0]))
    return torch.sparse.sampled_addmm(zeros, a.detach(), b.detach().mT, beta=0.0).values()
