"""Sparse matrices as direct solvers read them: compressed rows, from whichever library they come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from trnsci import ArgumentError, DtypeError, check
from trnsci.arrays import from_numpy, to_numpy
from trnsolver.arguments import DTYPES, all_finite, finite

Index = NDArray[np.int64]


class Stored(Protocol):
    """A sparse matrix of trnsparse or SciPy."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""

    @property
    def nnz(self) -> int:
        """How many entries are stored."""


# What direct solvers take: a matrix of trnsparse or SciPy, or a tensor of a sparse layout.
Sparse: TypeAlias = "Stored | Tensor"


@dataclass(frozen=True, slots=True)
class Compressed:
    """Compressed rows: ``indptr`` [M + 1], sorted and distinct ``indices`` [nnz], ``values`` [..., nnz]."""

    indptr: Index
    indices: Index
    values: Tensor
    shape: tuple[int, int]

    @property
    def rows(self) -> Index:
        """The row of every entry."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))

    @classmethod
    def of_scipy(cls, a: Any) -> Compressed:
        """Take SciPy's compressed rows."""
        indptr, indices = (part.astype(np.int64) for part in (a.indptr, a.indices))
        return cls(indptr, indices, torch.from_numpy(a.data), a.shape)

    def scipy(self, values: NDArray[Any] | None = None) -> Any:
        """Return the pattern with some values, or ones, as SciPy has it."""
        data = np.ones(len(self.indices), dtype=np.int8) if values is None else values
        return sp.csr_array((data, self.indices, self.indptr), shape=self.shape)


def compress_rows(op: str, a: Any, values: Any = None, *, lower: bool = False) -> Compressed:
    """Compress the rows of a matrix of trnsparse, SciPy or ``torch.sparse``; ``values`` [..., nnz] replace its own.

    Entries are finite, those of the ``lower`` triangle where nothing else is read.

    Raises:
        ArgumentError: it is no sparse matrix, or the values do not fit its pattern.
        DtypeError: factorisations are not defined for its dtype.
    """
    indptr, indices, own, shape = _parts(op, a)
    entries = own if values is None else values
    if isinstance(entries, np.ndarray):
        entries = from_numpy(entries)
    if not isinstance(entries, Tensor) or entries.layout != torch.strided or entries.dtype not in DTYPES:
        got = entries.dtype if isinstance(entries, Tensor) else type(entries)
        raise DtypeError(op, "dtype of values", got, "float32, float64, complex64 or complex128")
    check.refuse(entries.is_meta, op, "values", "a tensor without data", "data: they decide pivots")
    if entries.ndim < 1 or entries.shape[-1] != len(indices):
        expected = f"[..., {len(indices)}], one for each entry of a"
        raise ArgumentError(op, "shape of values", tuple(entries.shape), expected)
    matrix = Compressed(np.asarray(indptr, np.int64), np.asarray(indices, np.int64), entries, shape)
    check.pattern(op, matrix.indptr, matrix.indices, shape)
    if not all_finite(entries):
        read = torch.from_numpy((matrix.rows >= matrix.indices) | (not lower)).to(entries.device)
        finite(op, values=torch.where(read, entries, 0))
    return matrix


def compress_square(op: str, a: Any, values: Any = None, *, lower: bool = False) -> Compressed:
    """Return the same of a square matrix."""
    matrix = compress_rows(op, a, values, lower=lower)
    if matrix.shape[0] != matrix.shape[1]:
        rows, columns = matrix.shape
        expected = f"a square matrix, but it has {rows} rows and {columns} columns"
        raise ArgumentError(op, "shape of a", matrix.shape, expected)
    return matrix


def _parts(op: str, a: Any) -> tuple[Any, Any, Tensor, tuple[int, int]]:
    if isinstance(a, Tensor) and a.layout != torch.strided:
        check.refuse(a.ndim != 2, op, "shape of a", tuple(a.shape), "a matrix: 2 dimensions")
        if a.requires_grad:
            hint = "Pass its pattern, and values= that require grad"
            raise ArgumentError(op, "a", "a torch.sparse tensor that requires grad", "none", hint=hint)
        rows = a.to_sparse_csr()
        return (
            to_numpy(rows.crow_indices()),
            to_numpy(rows.col_indices()),
            # a view of a sparse tensor has no real part
            rows.values().detach(),
            (rows.shape[0], rows.shape[1]),
        )
    if isinstance(a, Compressed):
        return a.indptr, a.indices, a.values, a.shape
    if sp.issparse(a):
        if a.format in ("csr", "csc"):
            check.pattern(op, a.indptr, a.indices, a.shape[:: -1 if a.format == "csc" else 1])
        rows = sp.csr_array(a)
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        return rows.indptr, rows.indices, from_numpy(rows.data), rows.shape
    if hasattr(a, "to_csr") and hasattr(a, "nnz"):
        rows = a.to_csr()
        return to_numpy(rows.indptr), to_numpy(rows.indices), rows.values, tuple(rows.shape)
    hint = "Dense matrices go to eigh, solve, cholesky, lu_factor or qr" if isinstance(a, Tensor | np.ndarray) else ""
    raise ArgumentError(op, "a", type(a).__name__, "a sparse matrix of trnsparse, SciPy or torch", hint=hint)


def parity(order: Index) -> int:
    """1 for even permutations and -1 for odd ones."""
    _, label = sp.csgraph.connected_components(
        sp.csr_array((np.ones(len(order)), (np.arange(len(order)), order)), shape=(len(order), len(order)))
    )
    cycles = int(label.max()) + 1 if len(label) else 0
    return -1 if (len(order) - cycles) % 2 else 1
