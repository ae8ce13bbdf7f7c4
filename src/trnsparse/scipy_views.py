"""Matrices as SciPy and torch.sparse see them: on the memory of the values, with a pattern that is theirs alone.

Their loops trust indices. The copies of them are checked once and cannot be reached from outside, so that whatever
is written to an index tensor later, a product is right for the pattern it saw and never reads foreign memory.
"""

import functools
import warnings
from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import ref

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from trnsci.arrays import to_numpy
from trnsci.errors import ArgumentError

T = TypeVar("T")

# SciPy computes with these in their own precision.
DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128, torch.int32, torch.int64)


_MKL = torch.backends.mkl.is_available()


class Beside(Generic[T]):
    """Values computed from the pointers and indices of a matrix, as long as these live and torch does not write."""

    def __init__(self) -> None:
        self._kept: dict[Any, tuple[Any, ...]] = {}

    def get(self, indptr: Tensor, indices: Tensor, more: Hashable, compute: Callable[[], T]) -> T:
        """Return what ``compute`` gives for these tensors, and whatever ``more`` it depends on; computed once."""
        # tensors of inference mode count no writes
        key, counted = (id(indices), more), not (indptr.is_inference() or indices.is_inference())
        state = (indptr._version, indices._version) if counted else None
        known = self._kept.get(key)
        if known is None or known[0] != state or known[1]() is not indices or known[2]() is not indptr:
            source = ref(indices, lambda _: self._kept.pop(key, None))
            known = self._kept[key] = (state, source, ref(indptr), compute())
        result: T = known[3]
        return result


class View(NamedTuple):
    """A matrix as SciPy arrays on the memory of its values.

    Attributes:
        address: where the values are, their dtype and shape.
        rows: the matrix: CSR, or BSR where values are blocks.
        transposed: its transpose on the same memory; of BSR there is none.
    """

    address: tuple[Any, ...]
    rows: Any
    transposed: Any


class _Pattern:
    """Checked copies of the pointers and indices of one matrix, in 32 bits where they fit, and the last view of it."""

    def __init__(self, indptr: Tensor, indices: Tensor, columns: int) -> None:
        self.view: View | None = None
        self.rows: tuple[Any, Tensor] | None = None
        small = max(columns, indices.shape[0]) < 1 << 31
        low, high = (int(x) for x in torch.aminmax(indices)) if indices.shape[0] else (0, columns - 1)
        self.indices, self.indptr = (x.numpy().astype(np.int32 if small else np.int64) for x in (indices, indptr))
        ends = self.indptr[:1].tolist() == [0] and int(self.indptr[-1]) == len(self.indices)
        if not ends or bool((np.diff(self.indptr) < 0).any()) or low < 0 or high >= columns:
            raise ArgumentError(
                op="product",
                argument="indices",
                got=f"indices from {low} to {high}, pointers from {self.indptr[:1]} to {self.indptr[-1:]}",
                expected=f"indices from 0 to {columns - 1}, and pointers that rise from 0 to {len(self.indices)}",
                hint="The index tensors of a matrix must not be written to",
            )
        self.tensors = torch.from_numpy(self.indptr), torch.from_numpy(self.indices)


# The values last used are kept alive with the pattern.
_PATTERNS: Beside[_Pattern] = Beside()


def _pattern(indptr: Tensor, indices: Tensor, columns: int) -> _Pattern:
    return _PATTERNS.get(indptr, indices, columns, lambda: _Pattern(indptr, indices, columns))


def pattern_of(indptr: Tensor, indices: Tensor, columns: int) -> tuple[Any, Any]:
    """Return the checked copies as arrays: indices, then pointers."""
    pattern = _pattern(indptr.cpu(), indices.cpu(), columns)
    return pattern.indices, pattern.indptr


def _fit(indices: Tensor, values: Tensor) -> None:
    if values.shape[0] != indices.shape[0]:
        raise ArgumentError("product", "length", {"indices": indices.shape[0], "values": values.shape[0]})


def view(indptr: Tensor, indices: Tensor, values: Tensor, columns: int) -> View:
    """Return the matrix of these parts as SciPy sees it; blocks [blocks, bm, bn] and block columns give BSR."""
    pattern = _pattern(indptr, indices, columns)
    if not values.is_contiguous() or values.is_conj() or values.is_neg():
        values = values.resolve_conj().resolve_neg().contiguous()
    address = (values.data_ptr(), values.dtype, values.shape)
    known = pattern.view
    if known is not None and known.address == address:
        return known
    _fit(indices, values)
    kind, (bm, bn) = (sp.bsr_array, values.shape[1:]) if values.ndim == 3 else (sp.csr_array, (1, 1))
    shape = ((indptr.shape[0] - 1) * bm, columns * bn)
    rows = kind((to_numpy(values), pattern.indices, pattern.indptr), shape=shape)
    # the array keeps the memory of the values, so that no others can have their address
    pattern.view = View(address, rows, rows.T if values.ndim == 1 else None)
    return pattern.view


def product(indptr: Tensor, indices: Tensor, values: Tensor, b: Tensor, columns: int, trans: bool) -> Tensor:
    """Return ``a @ b``, or with ``trans`` ``a.T @ b``, by the library of `multiplies`."""
    if multiplies(values, columns, trans) == "torch":
        a, b = _rows(indptr, indices, values, columns), b.detach() if b.requires_grad else b
        return a @ b if b.ndim == 1 or b.shape[1] != 1 else (a @ b[:, 0]).unsqueeze(1)
    seen = view(indptr, indices, values, columns)
    return torch.from_numpy((seen.transposed if trans else seen.rows) @ to_numpy(b))


def multiplies(values: Tensor, columns: int, trans: bool) -> str:
    """Return who multiplies by a matrix: torch with MKL is the faster one for real rows as they are stored."""
    real = values.ndim == 1 and (values.dtype is torch.float32 or values.dtype is torch.float64)
    # MKL counts in 32 bits
    return "torch" if real and not trans and _MKL and max(columns, values.shape[0]) < 1 << 31 else "scipy"


def _rows(indptr: Tensor, indices: Tensor, values: Tensor, columns: int) -> Tensor:
    """Return the matrix as torch sees it: the last one of its pattern where it has the memory of these values."""
    if not values.is_contiguous():
        return torch_pattern(indptr, indices, values.detach().contiguous(), columns)
    pattern, address = _pattern(indptr, indices, columns), (values.data_ptr(), values.dtype, values.shape)
    rows = pattern.rows
    if rows is None or rows[0] != address:
        # the tensor keeps the memory of the values, so that no others can have their address
        rows = pattern.rows = address, torch_pattern(indptr, indices, values.detach(), columns)
    return rows[1]


def torch_pattern(indptr: Tensor, indices: Tensor, values: Tensor, columns: int) -> Tensor:
    """Return a ``torch.sparse_csr`` tensor on the checked copies of the pattern."""
    _quiet()
    _fit(indices, values)
    pattern, shape = _pattern(indptr, indices, columns), (indptr.shape[0] - 1, columns)
    return torch.sparse_csr_tensor(*pattern.tensors, values, shape, device=values.device, check_invariants=False)


@functools.cache
def _quiet() -> None:
    """Silence torch's warning, given once, that its sparse layouts are young."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1), check_invariants=False, device="cpu")


def transposition(indptr: Tensor, indices: Tensor, columns: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return pointers and indices of the transpose, and where each of its entries was."""
    pattern, order = _pattern(indptr, indices, columns), np.arange(indices.shape[0])
    shape = (indptr.shape[0] - 1, columns)
    other = sp.csr_array((order, pattern.indices, pattern.indptr), shape=shape).tocsc()
    to, row, where = (torch.from_numpy(x).long() for x in (other.indptr, other.indices, other.data))
    return to, row, where


def parts(matrix: Any) -> tuple[dict[str, Tensor], Tensor]:
    """Return pointers and indices, and values, of a SciPy matrix in compressed rows that have no other owner."""
    matrix.sort_indices()
    indices = {"indptr": torch.from_numpy(matrix.indptr).long(), "indices": torch.from_numpy(matrix.indices).long()}
    return indices, torch.from_numpy(matrix.data)
