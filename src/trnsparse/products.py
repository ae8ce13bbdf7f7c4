"""Sums and products of sparse matrices, and what the operators mean."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnsci import check
from trnsci.arrays import from_numpy, to_numpy
from trnsci.errors import ArgumentError
from trnsparse import host
from trnsparse.arguments import applied, operation, same_kind, sparse
from trnsparse.bsr import BSRMatrix
from trnsparse.coo import COOMatrix
from trnsparse.csr import CSCMatrix, CSRMatrix
from trnsparse.matrix import SparseMatrix
from trnsparse.spmm import spmm, spmv, straight
from trnsparse.structure import compress, expand, united

# Products of entries for which there may be room that is not used.
ROOM = 1 << 24

_spmm, _spmv = inspect.unwrap(spmm), inspect.unwrap(spmv)


def matmul(a: SparseMatrix, other: Any) -> Any:
    """``a @ other`` for a sparse matrix, a dense matrix (or batch) or a vector."""
    if isinstance(other, Tensor):
        made = straight(a, other, False)
        if made is None:
            # past the door for arrays, which these are not
            made = _spmv(a, other) if other.ndim == 1 else _spmm(a, other)
        return made
    if isinstance(other, np.ndarray):
        return to_numpy(matmul(a, from_numpy(other)))
    return spgemm(a, other) if isinstance(other, SparseMatrix) else NotImplemented


def rmatmul(other: Any, a: SparseMatrix) -> Any:
    """``other @ a`` for a dense matrix (or batch) or a vector."""
    if isinstance(other, np.ndarray):
        return to_numpy(rmatmul(from_numpy(other), a))
    if not isinstance(other, Tensor):
        return NotImplemented
    if other.ndim == 1:
        return spmv(a, other, trans=True)
    return spmm(a, other.mT, trans=True).mT


def add(a: SparseMatrix, b: SparseMatrix, *, alpha: complex = 1.0, beta: complex = 1.0) -> SparseMatrix:
    """Return ``alpha * a + beta * b`` on the union of their patterns, in the format of ``a``.

    Args:
        a: sparse [M, N]
        b: sparse [M, N]
        alpha: a number.
        beta: a number.
    """
    sparse("add", a=a, b=b)
    dtype = same_kind("add", a=a, b=b)
    _same_shape("add", a, b)
    alpha, beta = check.coefficient("add", "alpha", alpha, dtype), check.coefficient("add", "beta", beta, dtype)
    if isinstance(a, BSRMatrix) and isinstance(b, BSRMatrix) and a.block == b.block:
        blocks = [a.values * alpha, b.values * beta]
        return _blocks(torch.cat([a.block_rows, b.block_rows]), torch.cat([a.indices, b.indices]), torch.cat(blocks), a)
    made = _joined(a, b, lambda x, y, p, q: _padded(x, alpha, p) + _padded(y, beta, q), both=False)
    if made is not None:
        return made
    x, y = a.to_coo(), b.to_coo()
    values = torch.cat([x.values * alpha, y.values * beta]).to(dtype)
    return _like(a, COOMatrix(torch.cat([x.row, y.row]), torch.cat([x.col, y.col]), values, a.shape).coalesce())


def _padded(values: Tensor, factor: complex, places: Tensor) -> Tensor:
    """Values times a number at places; one past the last is the zero that stands for an entry which is not there."""
    scaled = values if factor == 1 else (values * factor).to(values.dtype)
    return torch.nn.functional.pad(scaled, (0, 1)).index_select(0, places)


def _joined(a: SparseMatrix, b: SparseMatrix, values: Callable[..., Tensor], *, both: bool) -> SparseMatrix | None:
    """Two matrices entry by entry, row by row, in the format of ``a``; ``None`` where no compiled loop runs.

    ``values`` is called with the values of each and the places of the entries in each.
    """
    turned = isinstance(a, CSCMatrix)
    x, y = (a.transpose(), b.to_csc().transpose()) if turned else (a.to_csr(), b.to_csr())
    found = united((x.indptr, x.indices), (y.indptr, y.indices), both=both)  # type: ignore[attr-defined]
    if found is None:
        return None
    indptr, indices, first, second = found
    joined = values(x.values, y.values, first, second)
    kind: type[CSRMatrix] | type[CSCMatrix] = CSCMatrix if turned else CSRMatrix
    return _like(a, kind._rebuilt({"indptr": indptr, "indices": indices}, joined, a.shape))


def multiply(a: SparseMatrix, b: SparseMatrix) -> SparseMatrix:
    """Return the elementwise product on the intersection of the patterns, in the format of ``a``."""
    sparse("multiply", a=a, b=b)
    same_kind("multiply", a=a, b=b)
    _same_shape("multiply", a, b)
    made = _joined(a, b, lambda x, y, p, q: x.index_select(0, p) * y.index_select(0, q), both=True)
    if made is not None:
        return made
    x, y = a.to_coo(), b.to_coo()
    width = max(a.shape[1], 1)
    mine, theirs = x.row * width + x.col, y.row * width + y.col
    at = torch.searchsorted(theirs, mine).clamp(max=max(theirs.numel() - 1, 0))
    both = theirs[at] == mine if theirs.numel() else torch.zeros_like(mine, dtype=torch.bool)
    product = x.values[both] * y.values[at[both]] if theirs.numel() else x.values[both]
    return _like(a, COOMatrix.sorted(x.row[both], x.col[both], product, a.shape))


def spgemm(
    a: SparseMatrix, b: SparseMatrix, *, trans_a: bool | int | str = False, trans_b: bool | int | str = False
) -> SparseMatrix:
    """Return ``op(a) @ op(b)`` as a sparse matrix: BSR when both are BSR with blocks that fit, CSR otherwise.

    The pattern holds every place that a product of entries reaches. Memory beyond the result is a few rows; where
    gradients are recorded, or no compiled loop runs, that of all products of entries.

    Args:
        a: sparse [M, K]
        b: sparse [K, N]
        trans_a: ``False``/``"n"``, ``True``/``"t"`` or ``"c"``.
        trans_b: the same for ``b``.

    Error bound:
        ``g(r) |a| |b|`` with r the entries of the row of ``a``.
    """
    sparse("spgemm", a=a, b=b)
    same_kind("spgemm", a=a, b=b)
    a = applied(operation("spgemm", trans_a, "trans_a"), a)
    b = applied(operation("spgemm", trans_b, "trans_b"), b)
    check.equal("spgemm", "K", a=a.shape[1], b=b.shape[0])
    if isinstance(a, BSRMatrix) and isinstance(b, BSRMatrix) and a.block[1] == b.block[0]:
        left, right = _pairs(a.indices, b.indptr)
        blocks = torch.bmm(a.values[left], b.values[right])
        shaped = BSRMatrix._rebuilt(
            {"indptr": a.indptr, "indices": a.indices},
            blocks.new_empty((0, *blocks.shape[1:])),
            (a.shape[0], b.shape[1]),
        )
        return _blocks(a.block_rows[left], b.indices[right], blocks, shaped)
    x, y = a.to_csr(), b.to_csr()
    wanted = torch.is_grad_enabled() and (x.requires_grad or y.requires_grad)
    loop = None if wanted else host.loop("spgemm", x.values, y.values)
    count = host.over_indices("reached", x.indptr, x.indices, y.indptr, y.indices)
    if loop is not None and count is not None:
        return _by_rows(x, y, count, loop)
    left, right = _pairs(x.indices, y.indptr)
    terms = x.values[left] * y.values[right]
    made = COOMatrix(x.majors[left], y.indices[right], terms, (a.shape[0], b.shape[1]))
    return made.to_csr()


def _by_rows(a: CSRMatrix, b: CSRMatrix, count: Any, loop: Any) -> CSRMatrix:
    """Gustavson's product: the entries of each row are summed where they fall, and read off by column."""
    rows, columns = a.shape[0], b.shape[1]
    pointers = a.indptr.new_empty(rows + 1)
    parts = host.at(a.indptr, a.indices, b.indptr, b.indices)
    # Room for as many entries as products is enough; where that is much, they are counted first.
    room = int(b.indptr.diff()[a.indices].sum())
    if room > ROOM:
        seen = a.indptr.new_full((columns,), -1)
        count(rows, *parts, *host.at(seen, pointers))
        room = int(pointers[-1])
    indices, values = host.empty(room, pointers), host.empty(room, a.values)
    left, right, sums = a.values.contiguous(), b.values.contiguous(), a.values.new_empty(columns)
    bits, top = pointers.new_zeros(columns // 64 + 1), pointers.new_zeros(columns // 4096 + 1)
    scratch = host.at(pointers, bits, top, sums, indices, values)
    entries = loop(rows, *parts[:2], left.data_ptr(), *parts[2:], right.data_ptr(), *scratch)
    if 4 * entries < 3 * room:
        indices, values = indices[:entries].clone(), values[:entries].clone()
    kept = {"indptr": pointers, "indices": indices[:entries]}
    return CSRMatrix._rebuilt(kept, values[:entries], (rows, columns))


def _pairs(columns: Tensor, indptr: Tensor) -> tuple[Tensor, Tensor]:
    """For every entry of a, all entries of the row of b it meets: positions in a and in b."""
    counts = indptr.diff()[columns]
    left = torch.repeat_interleave(torch.arange(columns.numel(), device=columns.device), counts)
    first = counts.cumsum(0) - counts
    offset = torch.arange(left.numel(), device=columns.device) - first[left]
    return left, indptr[columns][left] + offset


def _blocks(row: Tensor, col: Tensor, blocks: Tensor, like: BSRMatrix) -> BSRMatrix:
    """A BSR matrix from blocks at places, those at one place added up."""
    rows, across = like.grid
    places, slot = torch.unique(row * max(across, 1) + col, return_inverse=True)
    summed = blocks.new_zeros((places.numel(), *blocks.shape[1:])).index_add(0, slot, blocks)
    indices = {"indptr": compress(places // max(across, 1), rows), "indices": places % max(across, 1)}
    return BSRMatrix._rebuilt(indices, summed, like.shape)


def _like(a: SparseMatrix, made: SparseMatrix) -> SparseMatrix:
    """A matrix in the format of another."""
    if isinstance(a, BSRMatrix):
        return made.to_bsr(a.block)
    converted: SparseMatrix = getattr(made, f"to_{a.format}")()
    return converted


def _same_shape(op: str, a: SparseMatrix, b: SparseMatrix) -> None:
    if a.shape != b.shape:
        raise ArgumentError(op=op, argument="shape", got={"a": a.shape, "b": b.shape})


def norm(a: SparseMatrix, ord: float | str = "fro") -> Tensor:  # noqa: A002
    """Return a norm: ``"fro"``, ``"max"``, 1 (largest column sum), inf (largest row sum) or 2 (spectral).

    Args:
        a: sparse [M, N]
        ord: which norm.
    """
    sparse("norm", a=a)
    # whole numbers have whole absolute values, and a norm that is none
    coo = a.to_coo() if a.dtype.is_floating_point or a.dtype.is_complex else a.to_coo().to(torch.float64)
    empty = coo.values.abs().sum() * 0
    if ord == "fro":
        return torch.linalg.vector_norm(coo.values)
    if coo.nnz == 0:
        return empty
    if ord == "max":
        return coo.values.abs().max()
    if ord in (1, float("inf")):
        return coo.abs().sum(axis=0 if ord == 1 else 1).max()
    if ord == 2:
        return _spectral(coo.to_csr())
    raise ArgumentError(op="norm", argument="ord", got=ord, expected="'fro', 'max', 1, 2 or inf")


def _spectral(a: CSRMatrix, most: int = 1000) -> Tensor:
    """The largest singular value, by Golub-Kahan-Lanczos with full reorthogonalisation."""
    small = min(a.shape)
    steps = min(most, small)
    wide = torch.complex128 if a.dtype.is_complex else torch.float64
    b = a.detach().to(wide)
    generator = torch.Generator().manual_seed(0)
    v = torch.randn(a.shape[1], dtype=torch.float64, generator=generator).to(b.device).to(wide)
    v = v / torch.linalg.vector_norm(v)
    right, left = v.unsqueeze(0), v.new_zeros((0, a.shape[0]))
    diagonal: list[Tensor] = []
    beside: list[Tensor] = []
    last = torch.zeros((), dtype=torch.float64, device=b.device)
    for step in range(steps):
        u = spmv(b, right[-1])
        u = u - left.mT @ (left.conj() @ u)
        u = u - left.mT @ (left.conj() @ u)
        diagonal.append(torch.linalg.vector_norm(u))
        left = torch.cat([left, (u / diagonal[-1].clamp(min=torch.finfo(torch.float64).tiny)).unsqueeze(0)])
        w = spmv(b, left[-1], trans="c")
        w = w - right.mT @ (right.conj() @ w)
        w = w - right.mT @ (right.conj() @ w)
        beside.append(torch.linalg.vector_norm(w))
        projected = torch.diag(torch.stack(diagonal))
        if step:
            projected += torch.diag(torch.stack(beside[:-1]), 1)
        found = torch.linalg.matrix_norm(projected, 2)
        settled = beside[-1] <= 1e-14 * found or (step > 8 and abs(found - last) <= 1e-15 * found)
        last = found
        if settled:
            break
        right = torch.cat([right, (w / beside[-1]).unsqueeze(0)])
    return last.to(a.values.abs().dtype)


def scale_rows(a: SparseMatrix, d: Tensor) -> SparseMatrix:
    """Return ``diag(d) @ a``."""
    return _scaled(a, d, 0)


def scale_columns(a: SparseMatrix, d: Tensor) -> SparseMatrix:
    """Return ``a @ diag(d)``."""
    return _scaled(a, d, 1)


def _scaled(a: SparseMatrix, d: Tensor, axis: int) -> SparseMatrix:
    op = ("scale_rows", "scale_columns")[axis]
    sparse(op, a=a)
    check.tensor(op, d=d)
    same_kind(op, a=a, d=d)
    check.equal(op, "MN"[axis], a=a.shape[axis], d=d.shape[0])
    coo = a.to_coo()
    return _like(a, coo.with_values(coo.values * d[(coo.row, coo.col)[axis]]))


def kron(a: SparseMatrix, b: SparseMatrix) -> COOMatrix:
    """Return the Kronecker product."""
    sparse("kron", a=a, b=b)
    same_kind("kron", a=a, b=b)
    x, y = a.to_coo(), b.to_coo()
    row = (x.row[:, None] * b.shape[0] + y.row).flatten()
    col = (x.col[:, None] * b.shape[1] + y.col).flatten()
    shape = (a.shape[0] * b.shape[0], a.shape[1] * b.shape[1])
    return COOMatrix(row, col, (x.values[:, None] * y.values).flatten(), shape).coalesce()


def eye(n: int, *, dtype: torch.dtype = torch.float32, device: torch.device | str | None = None) -> CSRMatrix:
    """Return the identity [n, n]."""
    index = torch.arange(n, device=device)
    return COOMatrix.sorted(index, index, torch.ones(n, dtype=dtype, device=device), (n, n)).to_csr()


def triangle(a: SparseMatrix, *, lower: bool = True, offset: int = 0) -> SparseMatrix:
    """Return the entries on and below (or above) a diagonal, in the format of ``a``."""
    sparse("triangle", a=a)
    coo = a.to_coo()
    distance = coo.col - coo.row
    return _like(a, coo.select(distance <= offset if lower else distance >= offset))


__all__ = [
    "add",
    "expand",
    "eye",
    "kron",
    "matmul",
    "multiply",
    "norm",
    "rmatmul",
    "scale_columns",
    "scale_rows",
    "spgemm",
    "triangle",
]
