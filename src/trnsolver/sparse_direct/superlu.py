"""Sparse factors by SuperLU, through SciPy: the host's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from trnsci import NotPositiveDefinite, Singular, UnsupportedError
from trnsci.arrays import to_numpy
from trnsolver.sparse_direct.compressed_rows import Compressed, Index, parity


class Engine(Protocol):
    """Factors of B matrices of one pattern, however they are held."""

    @property
    def fill(self) -> int:
        """Entries of the factors of one matrix."""

    @property
    def order(self) -> Tensor:
        """The order of elimination."""

    def refactor(self, values: Tensor) -> Engine:
        """Factor other values [B, nnz] on the same pattern."""

    def solve(self, b: Tensor, trans: str) -> Tensor:
        """Solve for ``b`` [B, M, K] with ``a``, its transpose ``t`` or its adjoint ``c``."""

    def slogdet(self) -> tuple[Tensor, Tensor]:
        """Return signs [B] and logarithms [B] of determinants."""

    def diagonal(self) -> Tensor:
        """Return the diagonal [B, N] of the triangular factor, in the order of elimination."""


def hermitian(a: Compressed, values: Tensor) -> Any:
    """Return the matrix whose lower triangle is stored, whole, in compressed columns."""
    given = a.scipy(to_numpy(values.detach().resolve_conj()))
    columns = given.tocsc()
    if np.array_equal(columns.indices, given.indices) and np.array_equal(columns.data, given.data.conj()):
        # the adjoint of compressed rows is the same arrays as compressed columns: it is whole already
        return columns
    lower = sp.tril(given, format="csr")
    above = sp.triu(lower.conj().T, 1, format="csr")
    if values.is_complex():
        diagonal = sp.diags_array(lower.diagonal().real.astype(lower.dtype), format="csr")
        lower = sp.tril(lower, -1, format="csr") + diagonal
    return sp.csc_array(lower + above)


def _without_pivot(error: RuntimeError) -> bool:
    """Return whether SuperLU met a pivot of zero: it says so, or gives up inside a supernode."""
    return any(words in str(error) for words in ("singular", "failed to factorize"))


def symmetric_factors(matrix: Any, order: str = "NATURAL") -> Any | None:
    """Factors without exchanges of a Hermitian matrix, by default in its own order; ``None`` where a pivot is zero."""
    try:
        factor = sp.linalg.splu(
            matrix, permc_spec=order, diag_pivot_thresh=0.0, options={"SymmetricMode": True, "Equil": False}
        )
    except RuntimeError as error:
        if not _without_pivot(error):
            raise
        return None
    wanted = np.arange(matrix.shape[0]) if order == "NATURAL" else factor.perm_c
    return factor if np.array_equal(factor.perm_r, wanted) and np.array_equal(factor.perm_c, wanted) else None


@dataclass(frozen=True, slots=True)
class SuperLU:
    """One SuperLU object for each matrix, all of ``a[columns][:, columns]`` (columns only, for LU).

    Without ``columns``, the order is SuperLU's own.
    """

    op: str
    a: Compressed
    kind: str
    columns: Index | None
    factors: tuple[Any, ...]
    dtype: torch.dtype

    @classmethod
    def of(cls, op: str, a: Compressed, values: Tensor, kind: str, columns: Index | None) -> SuperLU:
        """Factor ``values`` [B, nnz]; without an order of columns SuperLU's own, for Cholesky, and LU of one matrix.

        Raises:
            NotPositiveDefinite: a pivot is not positive; ``index`` is its row.
            Singular: a pivot is zero; SuperLU does not say which, and ``index`` is -1.
        """
        each: Any = _cholesky if kind == "cholesky" else _lu
        many = len(values) > 1
        factors = tuple(each(op, a, row, columns, (k,) if many else ()) for k, row in enumerate(values))
        return cls(op, a, kind, columns, factors, values.dtype)

    @property
    def fill(self) -> int:
        """Entries of the factors of one matrix; of L alone for Cholesky."""
        if not self.factors:
            return 0
        first = self.factors[0]
        return int(first.L.nnz) if self.kind == "cholesky" else int(first.L.nnz + first.U.nnz - self.a.shape[0])

    @property
    def order(self) -> Tensor:
        """The order of elimination."""
        return torch.from_numpy(self._elimination_order().copy())

    def _elimination_order(self) -> Index:
        """Return columns in the order of elimination, which SuperLU may have changed."""
        given = np.arange(self.a.shape[0]) if self.columns is None else self.columns
        return given[np.argsort(self.factors[0].perm_c)] if self.factors else given

    def refactor(self, values: Tensor) -> SuperLU:
        """Factor other values [B, nnz] on the same pattern."""
        order = self.columns if self.kind == "cholesky" else self._elimination_order()
        return SuperLU.of(self.op, self.a, values, self.kind, order)

    def solve(self, b: Tensor, trans: str) -> Tensor:
        """Solve for ``b`` [B, N, K]."""
        columns = None if self.columns is None else torch.from_numpy(self.columns)
        there, back = (columns, columns) if self.kind == "cholesky" else (None, columns)
        if trans != "n" and self.kind != "cholesky":
            there, back = back, there
        if b.is_meta:
            return torch.empty_like(b)
        right = b if there is None else b[:, there]
        letter = {"n": "N", "t": "T", "c": "H"}[trans]
        numbers = to_numpy(right.detach().resolve_conj())
        parts = [
            factor.solve(np.asfortranarray(part), letter) for factor, part in zip(self.factors, numbers, strict=True)
        ]
        x = torch.from_numpy(np.stack(parts)) if parts else torch.empty_like(right)
        return x if back is None else torch.empty_like(x).index_copy_(1, back, x)

    def slogdet(self) -> tuple[Tensor, Tensor]:
        """Return signs and logarithms of determinants."""
        diagonal = torch.from_numpy(np.stack([f.U.diagonal() for f in self.factors]))
        sign = torch.sgn(diagonal).prod(-1)
        if self.kind != "cholesky":
            outer = 1 if self.columns is None else parity(self.columns)
            swaps = [outer * parity(f.perm_r) * parity(f.perm_c) for f in self.factors]
            sign = sign * torch.tensor(swaps, dtype=diagonal.dtype, device=diagonal.device)
        return sign, diagonal.abs().log().sum(-1)

    def diagonal(self) -> Tensor:
        """Return the diagonal of L for Cholesky, else of U."""
        diagonal = torch.from_numpy(np.stack([f.U.diagonal() for f in self.factors]))
        return diagonal.real.sqrt().to(diagonal.dtype) if self.kind == "cholesky" else diagonal

    def triangles(self) -> tuple[Any, Any, Index, Index]:
        """L and U of the first matrix, and the rows and columns of ``a`` in their order."""
        if len(self.factors) != 1:
            reason = f"there are {len(self.factors)} matrices, and triangles of one are returned"
            raise UnsupportedError("SparseFactor.triangles", [("superlu", reason)])
        factor = self.factors[0]
        if self.kind == "cholesky":
            root = np.sqrt(factor.U.diagonal().real)
            lower = sp.csr_array(factor.L.multiply(root[None, :]))
            return lower, sp.csr_array(lower.conj().T), self._elimination_order(), self._elimination_order()
        rows = np.argsort(factor.perm_r)
        return sp.csr_array(factor.L), sp.csr_array(factor.U), rows, self._elimination_order()


def _cholesky(op: str, a: Compressed, values: Tensor, order: Index | None, batch: tuple[int, ...]) -> Any:
    matrix = hermitian(a, values)
    if order is None:
        factor = symmetric_factors(matrix, "MMD_AT_PLUS_A")
    else:
        factor = symmetric_factors(sp.csc_array(matrix[order][:, order]))
    pivots = np.zeros(1) if factor is None else factor.U.diagonal()
    if factor is None or not (pivots.real > 0).all():
        bad = -1
        if factor is not None:
            first = np.argsort(factor.perm_c)[np.flatnonzero(~(pivots.real > 0))[0]]
            bad = int(first if order is None else order[first])
        message = "the matrix is not positive definite: a pivot is zero" if bad < 0 else ""
        raise NotPositiveDefinite(
            op=op, index=bad, batch=batch, message=message, hint="Use kind='lu' for indefinite matrices"
        )
    return factor


def _lu(op: str, a: Compressed, values: Tensor, columns: Index | None, batch: tuple[int, ...]) -> Any:
    matrix = sp.csc_array(a.scipy(to_numpy(values.detach().resolve_conj())))
    try:
        if columns is None:
            return sp.linalg.splu(matrix, permc_spec="COLAMD")
        return sp.linalg.splu(sp.csc_array(matrix[:, columns]), permc_spec="NATURAL")
    except RuntimeError as error:
        if not _without_pivot(error):
            raise
        where = f" (batch {batch})" if batch else ""
        raise Singular(
            op=op,
            index=-1,
            batch=batch,
            message=f"the matrix is singular{where}: a pivot is zero",
            hint="kind='qr' names the column that depends on others",
        ) from error
