"""Sums and products of sparse matrices, and what the operators mean."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from trnsci import array_function, check
from trnsci.analogs import resembles
from trnsci.arrays import from_numpy, to_numpy
from trnsci.backends import on_host
from trnsci.host import refusal
from trnsparse import scipy_views
from trnsparse.arguments import apply_operation, check_ndim, dense, operation, same_kind, sparse
from trnsparse.bsr import BSRMatrix
from trnsparse.coo import COOMatrix
from trnsparse.csr import CSCMatrix, CSRMatrix
from trnsparse.indices import compress, find, merge_positions
from trnsparse.matrix import SparseMatrix, SparseMatrixLike, is_sparse
from trnsparse.spmm import spmm, spmv


def matmul(a: SparseMatrix, other: Any) -> Any:
    """Return ``a @ other`` for a sparse matrix, a dense matrix (or batch) or a vector."""
    if is_sparse(other):
        return spgemm(a, other)
    if isinstance(other, Tensor | np.ndarray):
        return spmv(a, other) if other.ndim == 1 else spmm(a, other)  # type: ignore[arg-type]
    return NotImplemented


def rmatmul(other: Any, a: SparseMatrix) -> Any:
    """Return ``other @ a`` for a sparse matrix, a dense matrix (or batch) or a vector."""
    if is_sparse(other):
        return spgemm(other, a)
    if isinstance(other, np.ndarray):
        return to_numpy(rmatmul(from_numpy(other), a))
    if not isinstance(other, Tensor):
        return NotImplemented
    if other.ndim == 1:
        return spmv(a, other, trans=True)
    return spmm(a, other.mT, trans=True).mT


@array_function
def add(a: SparseMatrixLike, b: SparseMatrixLike, *, alpha: complex = 1.0, beta: complex = 1.0) -> SparseMatrix:
    """Return ``alpha * a + beta * b`` on the union of their patterns, in the format of ``a``.

    Args:
        a: sparse [M, N]
        b: sparse [M, N]
        alpha: a number.
        beta: a number.
    """
    on_host("trnsparse.add")
    a, b = sparse("add", "a", a), sparse("add", "b", b)
    dtype = same_kind("add", a=a, b=b)
    _same_shape("add", a, b)
    _same_place("add", a, b)
    alpha, beta = (check.coefficient("add", *each, dtype) for each in (("alpha", alpha), ("beta", beta)))
    if isinstance(a, BSRMatrix) and isinstance(b, BSRMatrix) and a.block == b.block:
        blocks = [a.values * alpha, b.values * beta]
        return _blocks(torch.cat([a.block_rows, b.block_rows]), torch.cat([a.indices, b.indices]), torch.cat(blocks), a)
    if _by_scipy(a, b):
        x, y = _rows(a, a), _rows(b, a)
        return _unrows(a, (x if alpha == 1 else x * alpha) + (y if beta == 1 else y * beta))
    p, q = a.to_coo(), b.to_coo()
    values = torch.cat([p.values * alpha, q.values * beta]).to(dtype)
    indices = {"row": torch.cat([p.row, q.row]), "col": torch.cat([p.col, q.col])}
    return convert_like(a, COOMatrix._rebuilt(indices, values, a.shape).coalesce())


def _by_scipy(*matrices: SparseMatrix) -> bool:
    """Return whether SciPy can compute with these: values in host memory, of a dtype it has, without gradient."""
    return matrices[0].dtype in scipy_views.DTYPES and refusal(a.values for a in matrices) is None


def _rows(a: SparseMatrix, like: SparseMatrix) -> Any:
    """Return a matrix as SciPy's CSR; as that of its transpose where ``like`` is in compressed columns."""
    rows = a.to_csc().transpose() if isinstance(like, CSCMatrix) else a.to_csr()
    return scipy_views.view(rows.indptr, rows.indices, rows.values, rows.shape[1]).rows


def _unrows(a: SparseMatrix, result: Any) -> SparseMatrix:
    """Return what `_rows` of ``a`` became, in the format of ``a``."""
    indices, values = scipy_views.parts(result)
    if isinstance(a, CSCMatrix):
        return CSCMatrix._rebuilt(indices, values, result.shape[::-1])
    return convert_like(a, CSRMatrix._rebuilt(indices, values, result.shape))


@array_function
def multiply(a: SparseMatrixLike, b: SparseMatrixLike) -> SparseMatrix:
    """Return the elementwise product on the intersection of the patterns, in the format of ``a``."""
    on_host("trnsparse.multiply")
    a, b = sparse("multiply", "a", a), sparse("multiply", "b", b)
    same_kind("multiply", a=a, b=b)
    _same_shape("multiply", a, b)
    _same_place("multiply", a, b)
    if _by_scipy(a, b):
        x, y = _rows(a, a), _rows(b, a)
        return _unrows(a, x.multiply(y).tocsr())
    p, q = a.to_coo(), b.to_coo()
    low, high = (torch.searchsorted(q.row, p.row, right=right) for right in (False, True))
    at = find(low, high, q.col, p.col)
    both = at >= 0
    values = p.values[both] * q.values[at[both]]
    return convert_like(a, COOMatrix.sorted(p.row[both], p.col[both], values, a.shape))


@resembles("aten::_sparse_sparse_matmul", sparse=True)
@array_function
def spgemm(
    a: SparseMatrixLike, b: SparseMatrixLike, *, trans_a: bool | int | str = False, trans_b: bool | int | str = False
) -> SparseMatrix:
    """Return ``op(a) @ op(b)`` as a sparse matrix: BSR when both are BSR with blocks that fit, CSR otherwise.

    SciPy multiplies in host memory, and an entry whose products cancel to exactly 0 is not stored. Where gradients are
    recorded, and elsewhere, it is, and memory beyond the result is that of all products of entries.

    Args:
        a: sparse [M, K]
        b: sparse [K, N]
        trans_a: ``False``/``"n"``, ``True``/``"t"`` or ``"c"``.
        trans_b: the same for ``b``.

    Error bound:
        ``g(r) |a| |b|`` with r the entries of the row of ``a``.
    """
    on_host("trnsparse.spgemm")
    a, b = sparse("spgemm", "a", a), sparse("spgemm", "b", b)
    same_kind("spgemm", a=a, b=b)
    _same_place("spgemm", a, b)
    a = apply_operation(operation("spgemm", trans_a, "trans_a"), a)
    b = apply_operation(operation("spgemm", trans_b, "trans_b"), b)
    check.equal("spgemm", "K", a=a.shape[1], b=b.shape[0])
    if isinstance(a, BSRMatrix) and isinstance(b, BSRMatrix) and a.block[1] == b.block[0]:
        left, right = _pairs(a.indices, b.indptr)
        blocks = torch.bmm(a.values[left], b.values[right])
        empty = {"indptr": a.indptr, "indices": a.indices[:0]}
        shaped = BSRMatrix._rebuilt(empty, blocks.new_empty((0, *blocks.shape[1:])), (a.shape[0], b.shape[1]))
        return _blocks(a.block_rows[left], b.indices[right], blocks, shaped)
    x, y = a.to_csr(), b.to_csr()
    if _by_scipy(x, y):
        indices, product = scipy_views.parts(_rows(x, x) @ _rows(y, y))
        return CSRMatrix._rebuilt(indices, product, (a.shape[0], b.shape[1]))
    left, right = _pairs(x.indices, y.indptr)
    terms = x.values[left] * y.values[right]
    entries = {"row": x.majors[left], "col": y.indices[right]}
    return COOMatrix._rebuilt(entries, terms, (a.shape[0], b.shape[1])).to_csr()


def _pairs(columns: Tensor, indptr: Tensor) -> tuple[Tensor, Tensor]:
    """Return, for every entry of a, all entries of the row of b it meets: positions in a and in b."""
    counts = indptr.diff()[columns]
    left = torch.repeat_interleave(torch.arange(columns.numel(), device=columns.device), counts)
    first = counts.cumsum(0) - counts
    offset = torch.arange(left.numel(), device=columns.device) - first[left]
    return left, indptr[columns][left] + offset


def _blocks(row: Tensor, col: Tensor, blocks: Tensor, like: BSRMatrix) -> BSRMatrix:
    """Return a BSR matrix from blocks at positions, those at one position added up."""
    merged = merge_positions(row, col, like.grid)
    indices = {"indptr": compress(merged.row, like.grid[0]), "indices": merged.col}
    return BSRMatrix._rebuilt(indices, merged.add_up(blocks), like.shape)


def convert_like(a: SparseMatrix, result: SparseMatrix) -> SparseMatrix:
    """Return a matrix in the format of another."""
    if isinstance(a, BSRMatrix):
        return result.to_bsr(a.block)
    converted: SparseMatrix = getattr(result, f"to_{a.format}")()
    return converted


def _same_place(op: str, a: SparseMatrix, b: SparseMatrix) -> None:
    """Refuse a matrix with data beside one without, which plans let pass."""
    if a.device != b.device:
        check.data(op, a=a.values, b=b.values)


def _same_shape(op: str, a: SparseMatrix, b: SparseMatrix) -> None:
    check.equal(op, "shape", a=a.shape, b=b.shape)


@array_function
def norm(a: SparseMatrixLike, ord: float | str = "fro") -> Tensor:  # noqa: A002
    """Return a norm: ``"fro"``, ``"max"``, 1 (largest column sum), inf (largest row sum) or 2 (spectral).

    Args:
        a: sparse [M, N]
        ord: which norm.
    """
    on_host("trnsparse.norm")
    a = sparse("norm", "a", a)
    check.option("norm", "ord", ord, ("fro", "max", 1, 2, float("inf")))
    # whole numbers have whole absolute values, and a norm that is none
    coo = a.to_coo() if a.dtype.is_floating_point or a.dtype.is_complex else a.to_coo().to(torch.float64)
    empty = coo.values.abs().sum() * 0
    if ord == "fro" and coo.nnz:
        largest = coo.values.detach().abs().max()
        # squares of this share of the entries stay in range
        share = torch.where((largest > 0) & largest.isfinite(), largest, 1.0)
        return torch.linalg.vector_norm(coo.values / share) * share
    if coo.nnz == 0:
        return empty
    if ord == "max":
        return coo.values.abs().max()
    if ord in (1, float("inf")):
        return coo.abs().sum(axis=0 if ord == 1 else 1).max()
    check.data("norm", a=coo.values)
    return _spectral(coo.to_csr())


def _spectral(a: CSRMatrix) -> Tensor:
    """Return the largest singular value, by ARPACK from a fixed start on values scaled near 1."""
    wide = a.detach().to("cpu").to(torch.complex128 if a.dtype.is_complex else torch.float64)
    scale = float(wide.values.abs().max())
    if scale == 0 or not math.isfinite(scale):
        return a.values.abs().max()
    near = wide.with_values(wide.values / scale)
    if min(a.shape) < 3:
        value = float(torch.linalg.matrix_norm(near.to_dense(), 2))
    else:
        start = np.random.default_rng(0).standard_normal(min(a.shape))
        value = sp.linalg.svds(_rows(near, near), k=1, v0=start, return_singular_vectors=False)[0]
    return torch.tensor(value * scale, dtype=a.values.abs().dtype, device=a.device)


@array_function
def scale_rows(a: SparseMatrixLike, d: Tensor) -> SparseMatrix:
    """Return ``diag(d) @ a``."""
    return _scale_axis(a, d, 0)


@array_function
def scale_columns(a: SparseMatrixLike, d: Tensor) -> SparseMatrix:
    """Return ``a @ diag(d)``."""
    return _scale_axis(a, d, 1)


def _scale_axis(a: SparseMatrixLike, d: Tensor, axis: int) -> SparseMatrix:
    op = ("scale_rows", "scale_columns")[axis]
    on_host(f"trnsparse.{op}")
    a = sparse(op, "a", a)
    dense(op, d=d)
    same_kind(op, a=a, d=d)
    check_ndim(op, d=(d, "[N]" if axis else "[M]"))
    check.equal(op, "MN"[axis], a=a.shape[axis], d=d.shape[0])
    if a.device != d.device:
        check.data(op, a=a.values, d=d)
    coo = a.to_coo()
    return convert_like(a, coo.with_values(coo.values * d[(coo.row, coo.col)[axis]]))


@array_function
def kron(a: SparseMatrixLike, b: SparseMatrixLike) -> COOMatrix:
    """Return the Kronecker product."""
    on_host("trnsparse.kron")
    a, b = sparse("kron", "a", a), sparse("kron", "b", b)
    same_kind("kron", a=a, b=b)
    _same_place("kron", a, b)
    x, y = a.to_coo(), b.to_coo()
    shape = (a.shape[0] * b.shape[0], a.shape[1] * b.shape[1])
    check.refuse(max(shape) >= 1 << 63, "kron", "shape", shape, "rows and columns below 2**63")
    row = (x.row[:, None] * b.shape[0] + y.row).flatten()
    col = (x.col[:, None] * b.shape[1] + y.col).flatten()
    return COOMatrix._rebuilt({"row": row, "col": col}, (x.values[:, None] * y.values).flatten(), shape).coalesce()


def eye(n: int, *, dtype: torch.dtype = torch.float32, device: torch.device | str | None = None) -> CSRMatrix:
    """Return the identity [n, n]."""
    check.integer("eye", "n", n, 0)
    device = check.device("eye", "cpu" if device is None else device)
    check.kind("eye", "dtype", dtype, torch.dtype, "a torch.dtype")
    index = torch.arange(n, device=device)
    return COOMatrix.sorted(index, index, torch.ones(n, dtype=dtype, device=device), (n, n)).to_csr()


@array_function
def triangle(a: SparseMatrixLike, *, lower: bool = True, offset: int = 0) -> SparseMatrix:
    """Return the entries on and below (or above) a diagonal, in the format of ``a``."""
    a = sparse("triangle", "a", a)
    check.flag("triangle", lower=lower)
    check.integer("triangle", "offset", offset)
    coo = a.to_coo()
    distance = coo.col - coo.row
    return convert_like(a, coo.select(distance <= offset if lower else distance >= offset))


__all__ = [
    "add", "eye", "kron", "matmul", "multiply", "norm", "rmatmul", "scale_columns", "scale_rows", "spgemm", "triangle",
]  # fmt: skip
