"""Stored blocks times a dense matrix: a program for a part of a block row and some columns, summed in registers."""

from __future__ import annotations

import functools

import triton
import triton.language as tl
from torch import Tensor

from trnsci import cuda

# Rows, columns and depth of a tile.
TILES = (64, 64, 32)


@triton.jit
def _bsr_spmm(
    indptr, indices, blocks, b, out, rows, depth, n,
    BM: tl.constexpr, BN: tl.constexpr, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr,
    WORK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    row, part = tl.program_id(0) // tl.cdiv(BM, TM), tl.program_id(0) % tl.cdiv(BM, TM)
    i = part * TM + tl.arange(0, TM)
    j = tl.program_id(1) * TN + tl.arange(0, TN)
    total = tl.zeros((TM, TN), dtype=WORK)
    for p in range(tl.load(indptr + row), tl.load(indptr + row + 1)):
        first = tl.load(indices + p) * BN
        block = blocks + p * (BM * BN)
        for k in range(0, BN, TK):
            at = k + tl.arange(0, TK)
            x = tl.load(block + i[:, None] * BN + at[None, :], mask=(i < BM)[:, None] & (at < BN)[None, :], other=0.0)
            inside = ((at < BN) & (first + at < depth))[:, None] & (j < n)[None, :]
            y = tl.load(b + (first + at)[:, None] * n + j[None, :], mask=inside, other=0.0)
            total = tl.dot(x, y, total, input_precision=PRECISION, out_dtype=WORK)
    at = row.to(tl.int64) * BM + i
    tl.store(
        out + at[:, None] * n + j[None, :],
        total.to(out.dtype.element_ty),
        mask=((i < BM) & (at < rows))[:, None] & (j < n)[None, :],
    )


@functools.lru_cache(maxsize=256)
def _tiles(*sizes: int) -> tuple[int, ...]:
    """Return rows, columns and depth of a tile for blocks of these sizes."""
    return tuple(min(tile, max(16, triton.next_power_of_2(size))) for tile, size in zip(TILES, sizes, strict=True))


def bsr_spmm(indptr: Tensor, indices: Tensor, blocks: Tensor, b: Tensor, rows: int) -> Tensor:
    """Return ``a @ b`` [rows, N] for blocks [blocks, bm, bn] in compressed rows and b [K, N], contiguous."""
    _, bm, bn = blocks.shape
    n = b.shape[1]
    out = b.new_empty((rows, n))
    tm, tn, tk = _tiles(bm, n, bn)
    grid = ((indptr.shape[0] - 1) * -(-bm // tm), -(-n // tn), 1)
    arguments = (indptr, indices, blocks, b, out, rows, b.shape[0], n)
    constants = (bm, bn, tm, tn, tk, tl.float32, PRECISION)
    cuda.launch(_bsr_spmm, grid, b.device, arguments, constants, num_warps=4)
    return out


PRECISION = "ieee"
