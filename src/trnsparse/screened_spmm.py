"""Screened product: entries whose bound is too small take no part, and blocks without others are not touched."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.compiler import is_compiling

from trnsci import array_function, check
from trnsci.host import is_transformed
from trnsparse.arguments import check_ndim, dense, same_kind, sparse
from trnsparse.bsr import BSRMatrix
from trnsparse.bsr_sddmm import pad_blocks
from trnsparse.bsr_spmm import block_product
from trnsparse.csr import CSRMatrix
from trnsparse.indices import compress
from trnsparse.matrix import SparseMatrixLike
from trnsparse.screening import as_threshold, check_bounds
from trnsparse.spmm import spmm


@array_function
@check.hands_on("from_dense")
def screened_spmm(a: SparseMatrixLike, u: Tensor, w: Tensor, b: Tensor, threshold: float) -> Tensor:
    """Return ``a' @ b`` with ``a'[i, k] = a[i, k]`` where ``u[i] w[k] > threshold`` and 0 elsewhere.

    Blocks and entries that are not above it are left out; a screened copy is multiplied, as `spmm` does it.

    Args:
        a: [M, K]: dense, taken in blocks of 128, or sparse, which BSR keeps in its blocks and others by entries.
        u: [M] bounds of the rows, finite and not negative.
        w: [K] bounds of the columns, finite and not negative.
        b: [K, N]
        threshold: products of bounds above it are kept.

    Error bound:
        That of `spmm`. A product of bounds within three roundings of the threshold may fall on either side, and one
        below the dtype's range, taken relative to the largest, counts as 0.
    """
    u, w = check_bounds("screened_spmm", u=u, w=w)
    dense("screened_spmm", b=b)
    check_ndim("screened_spmm", u=(u, "[M]"), w=(w, "[K]"), b=(b, "[K, N]"))
    if isinstance(a, Tensor) and a.layout is torch.strided:
        a = BSRMatrix.from_dense(a)
    a = sparse("screened_spmm", "a", a)
    a = a.to_bsr(a.block) if isinstance(a, BSRMatrix) else a.to_csr()
    same_kind("screened_spmm", a=a, b=b)
    check.equal("screened_spmm", "K", a=a.shape[1], w=w.shape[0], b=b.shape[0])
    check.equal("screened_spmm", "M", a=a.shape[0], u=u.shape[0])
    check.same_device("screened_spmm", u=u, w=w, b=b)
    limit = as_threshold("screened_spmm", threshold)
    if any(x.is_meta for x in (u, w, b)):
        # planning runs on shapes
        a, u, w = a.to("meta"), u.to("meta"), w.to("meta")
    exact = torch.float64 if a.dtype in (torch.float64, torch.complex128) else torch.float32
    (u, u_scale), (w, w_scale) = _near_one(u), _near_one(w)
    u, w, limit = u.to(exact), w.to(exact), limit * u_scale * w_scale
    # neither a plan, nor torch.func, nor a tracer sees sizes that depend on data
    shrinks = not (u.is_meta or is_transformed() or is_compiling())
    if isinstance(a, CSRMatrix):
        return spmm(_screen_entries(a, u, w, limit, shrinks), b)
    return block_product(_screen_blocks(a, u, w, limit, shrinks), b)


def _screen_entries(a: CSRMatrix, u: Tensor, w: Tensor, limit: float, shrinks: bool) -> CSRMatrix:
    """Return the matrix without entries of too small a bound."""
    coo = a.to_coo()
    stays = u[coo.row] * w[coo.col] > limit
    return (coo.select(stays) if shrinks else coo.with_values(torch.where(stays, coo.values, 0))).to_csr()


def _screen_blocks(a: BSRMatrix, u: Tensor, w: Tensor, limit: float, shrinks: bool) -> BSRMatrix:
    """Return the matrix with zeros at entries of too small a bound, and without blocks of only such."""
    bm, bn = a.block
    of_rows = pad_blocks(u[:, None], bm).reshape(-1, bm)[a.block_rows]  # [blocks, bm]
    of_columns = pad_blocks(w[:, None], bn).reshape(-1, bn)[a.indices]  # [blocks, bn]
    if shrinks:
        kept = (of_rows.amax(1) * of_columns.amax(1) > limit).nonzero().flatten()
        parts = {"indptr": compress(a.block_rows[kept], a.grid[0]), "indices": a.indices[kept]}
        a, of_rows, of_columns = BSRMatrix._rebuilt(parts, a.values[kept], a.shape), of_rows[kept], of_columns[kept]
    stays = of_rows[:, :, None] * of_columns[:, None, :] > limit
    return a.with_values(torch.where(stays, a.values, 0))


def _near_one(bounds: Tensor) -> tuple[Tensor, float]:
    """Scale bounds by a power of two that brings the largest near 1, and return that power too."""
    if bounds.is_meta or bounds.numel() == 0:
        return bounds.double(), 1.0
    scale = 2.0 ** -min(max(math.frexp(float(bounds.max()))[1], -1000), 1000)
    return bounds.double() * scale, scale
