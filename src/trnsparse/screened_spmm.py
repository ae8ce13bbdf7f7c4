"""Screened product: entries whose bound is too small take no part, and blocks without others are not touched."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trnsci import Op, array_function, check
from trnsci.gradient import Saved
from trnsci.nki import P_MAX, launch
from trnsparse.arguments import dense, evenly, same_kind, shaped, sparse
from trnsparse.bsr import BSRMatrix
from trnsparse.bsr_sddmm import padded, sampled_blocks
from trnsparse.bsr_spmm import _bsr_spmm
from trnsparse.indices import compress, expand, transposition
from trnsparse.kernels import screened_spmm as kernels
from trnsparse.matrix import SparseMatrix
from trnsparse.screening import as_threshold, check_bounds

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64)


@array_function
def screened_spmm(a: SparseMatrix | Tensor, u: Tensor, w: Tensor, b: Tensor, threshold: float) -> Tensor:
    """Return ``a' @ b`` with ``a'[i, k] = a[i, k]`` where ``u[i] w[k] > threshold`` and 0 elsewhere.

    The screen is applied on the way to the Tensor Engine: no screened copy of ``a`` is made by the kernel.

    Args:
        a: dense or sparse [M, K]; anything but BSR is taken in blocks of 128.
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
    shaped("screened_spmm", u=(u, "[M]"), w=(w, "[K]"), b=(b, "[K, N]"))
    if isinstance(a, Tensor):
        a = BSRMatrix.from_dense(a)
    sparse("screened_spmm", a=a)
    blocks = a.to_bsr(a.block) if isinstance(a, BSRMatrix) else a.to_bsr()
    same_kind("screened_spmm", a=blocks, b=b)
    check.equal("screened_spmm", "K", a=a.shape[1], w=w.shape[0], b=b.shape[0])
    check.equal("screened_spmm", "M", a=a.shape[0], u=u.shape[0])
    check.same_device("screened_spmm", u=u, w=w, b=b)
    exact = torch.float64 if blocks.dtype in (torch.float64, torch.complex128) else torch.float32
    limit = as_threshold("screened_spmm", threshold)
    (u, u_scale), (w, w_scale) = _near_one(u), _near_one(w)
    limit = limit * u_scale * w_scale
    return _screened_spmm(blocks.indptr, blocks.indices, blocks.values, u.to(exact), w.to(exact), b, limit)


def _near_one(bounds: Tensor) -> tuple[Tensor, float]:
    """Bounds times a power of two that brings the largest near 1, so that products stay in range, and that power."""
    if bounds.is_meta or bounds.numel() == 0:
        return bounds.double(), 1.0
    scale = 2.0 ** -min(max(math.frexp(float(bounds.max()))[1], -1000), 1000)
    return bounds.double() * scale, scale


def _fake(indptr: Tensor, indices: Tensor, blocks: Tensor, u: Tensor, w: Tensor, b: Tensor, threshold: float) -> Tensor:
    return b.new_empty((u.shape[0], b.shape[1]))


def _cost(indptr: Tensor, indices: Tensor, blocks: Tensor, u: Tensor, w: Tensor, b: Tensor, threshold: float) -> int:
    return 2 * blocks.numel() * b.shape[1] * (4 if b.is_complex() else 1)


_screened_spmm = Op("trnsparse::screened_spmm", fake=_fake, cost=_cost)


def _survivors(
    indptr: Tensor, indices: Tensor, blocks: Tensor, u: Tensor, w: Tensor, threshold: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Pointers and columns of blocks that hold an entry above the threshold, and which blocks those are."""
    _, bm, bn = blocks.shape
    rows = expand(indptr, indices.shape[0])
    most_u = padded(u[:, None], bm).reshape(-1, bm).amax(1)
    most_w = padded(w[:, None], bn).reshape(-1, bn).amax(1)
    kept = (most_u[rows] * most_w[indices] > threshold).nonzero().flatten()
    return compress(rows[kept], indptr.shape[0] - 1), indices[kept], kept


def _screened(
    indptr: Tensor, indices: Tensor, blocks: Tensor, u: Tensor, w: Tensor, threshold: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The surviving blocks with their entries below the threshold set to zero, and which entries stay."""
    pointers, columns, kept = _survivors(indptr, indices, blocks, u, w, threshold)
    _, bm, bn = blocks.shape
    rows = padded(u[:, None], bm).reshape(-1, bm)[expand(pointers, columns.shape[0])]
    cols = padded(w[:, None], bn).reshape(-1, bn)[columns]
    stays = rows[:, :, None] * cols[:, None, :] > threshold
    return pointers, columns, torch.where(stays, blocks[kept], 0), kept


@_screened_spmm.impl("pytorch")
def _pytorch(
    indptr: Tensor, indices: Tensor, blocks: Tensor, u: Tensor, w: Tensor, b: Tensor, threshold: float
) -> Tensor:
    pointers, columns, left, _ = _screened(indptr, indices, blocks, u, w, threshold)
    return _bsr_spmm(pointers, columns, left, b.resolve_conj(), u.shape[0])


def _limits(
    indptr: Tensor, indices: Tensor, blocks: Tensor, u: Tensor, w: Tensor, b: Tensor, threshold: float
) -> str | None:
    if max(blocks.shape[1:]) > P_MAX:
        return f"takes blocks of up to {P_MAX}x{P_MAX}, not {blocks.shape[1]}x{blocks.shape[2]}"
    return None


@_screened_spmm.impl("nki", dtypes=DTYPES, limits=_limits)
def _nki(indptr: Tensor, indices: Tensor, blocks: Tensor, u: Tensor, w: Tensor, b: Tensor, threshold: float) -> Tensor:
    pointers, columns, kept = _survivors(indptr, indices, blocks, u, w, threshold)
    return _launched(pointers.tolist(), columns.tolist(), blocks[kept], u, w, b, threshold)


@_screened_spmm.prediction
def _predicted(
    indptr: Tensor, indices: Tensor, blocks: Tensor, u: Tensor, w: Tensor, b: Tensor, threshold: float
) -> Tensor:
    pointers, columns = evenly(indices.shape[0], indptr.shape[0] - 1, -(-b.shape[0] // blocks.shape[2]))
    return _launched(pointers, columns, blocks, u, w, b, threshold)


def _launched(
    pointers: list[int], columns: list[int], blocks: Tensor, u: Tensor, w: Tensor, b: Tensor, threshold: float
) -> Tensor:
    if not columns or b.numel() == 0:
        return b.new_zeros((u.shape[0], b.shape[1]))
    count, bm, bn = blocks.shape
    tiles_hbm = blocks.new_empty((bn, count, bm)).copy_(blocks.permute(2, 0, 1)).flatten(1)  # [bn, blocks * bm]
    bounds = u.unsqueeze(0).expand(bn, -1).contiguous()  # [bn, M]
    limit = torch.full((bn, 1), threshold, dtype=torch.float32, device=b.device)  # [bn, 1]
    made: Tensor = launch(
        kernels.screened_spmm,
        tiles_hbm,
        bounds,
        w.unsqueeze(1).contiguous(),
        limit,
        b.contiguous(),
        height=bm,
        pointers=tuple(pointers),
        columns=tuple(columns),
    )  # [M, N]
    return made


@_screened_spmm.workspace
def _workspace(
    backend: str, indptr: Tensor, indices: Tensor, blocks: Tensor, u: Tensor, w: Tensor, b: Tensor, threshold: float
) -> int:
    # Blocks that survive, and either which entries stay and what is left of them, or those turned; bounds in every
    # partition. Only the data tells how many survive, so all are counted.
    return 2 * blocks.nbytes + (blocks.numel() if backend == "pytorch" else blocks.shape[2] * u.nbytes)


@_screened_spmm.vjp(saves=("indptr", "indices", "blocks", "u", "w", "b"))
def _gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    pointers, columns, left, kept = _screened(
        saved.indptr, saved.indices, saved.blocks, saved.u, saved.w, saved.threshold
    )
    _, bm, bn = saved.blocks.shape
    found: dict[str, Any] = {}
    if saved.needs("blocks"):
        part = sampled_blocks(pointers, columns, grad, saved.b.conj(), bm, bn)
        ones = _screened(saved.indptr, saved.indices, torch.ones_like(saved.blocks), saved.u, saved.w, saved.threshold)[
            2
        ]
        found["blocks"] = torch.zeros_like(saved.blocks).index_copy(0, kept, part * ones)
    if saved.needs("b"):
        depth = saved.b.shape[0]
        indptr, indices, order = transposition(pointers, columns, -(-depth // bn))
        found["b"] = _bsr_spmm(indptr, indices, left[order].mT.conj().resolve_conj().contiguous(), grad, depth)
    return found
