"""BSR matrix times dense matrix: one matmul of the Tensor Engine for each stored block."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from trnsci import Op
from trnsci.gradient import Saved
from trnsci.nki import K_TILE, M_TILE, launch
from trnsparse import scipy_views
from trnsparse.arguments import KERNEL_DTYPES, evenly
from trnsparse.bsr import BSRMatrix
from trnsparse.bsr_sddmm import padded, sampled_blocks
from trnsparse.indices import expand, transposition
from trnsparse.kernels import bsr_spmm as kernels
from trnsparse.tile_order import Steps, in_order

# Elements of a block from which a call for each costs less than gathering what they meet.
LARGE = 4096
# Elements of a block, and columns, below which SciPy multiplies faster than torch.
SMALL, FEW = 64, 8


def block_product(a: BSRMatrix, b: Tensor) -> Tensor:
    """``a @ b`` [M, N] for b [K, N]."""
    return _bsr_spmm(a.indptr, a.indices, a.values.resolve_conj(), b.resolve_conj(), a.shape[0])


def _fake(indptr: Tensor, indices: Tensor, blocks: Tensor, b: Tensor, rows: int) -> Tensor:
    return b.new_empty((rows, b.shape[1]))


def _cost(indptr: Tensor, indices: Tensor, blocks: Tensor, b: Tensor, rows: int) -> int:
    return 2 * blocks.numel() * b.shape[1] * (4 if b.is_complex() else 1)


_bsr_spmm = Op("trnsparse::bsr_spmm", fake=_fake, cost=_cost)


@_bsr_spmm.impl("pytorch")
def _pytorch(indptr: Tensor, indices: Tensor, blocks: Tensor, b: Tensor, rows: int) -> Tensor:
    _, bm, bn = blocks.shape
    work = torch.float32 if b.dtype in (torch.float16, torch.bfloat16) else b.dtype
    n = b.shape[1]
    recorded = torch.is_grad_enabled() and (blocks.requires_grad or b.requires_grad)
    if not recorded and by_scipy(b.dtype, bm, bn, n) and scipy_views.usable(indptr, indices, blocks, b):
        columns = -(-b.shape[0] // bn)
        return scipy_views.product(indptr, indices, blocks, padded(b, bn), columns, False)[:rows]
    transformed = torch._C._functorch.peek_interpreter_stack() is not None
    if bm * bn >= LARGE and b.is_cpu and not recorded and not transformed:
        return _accumulated(indptr, indices, blocks.to(work), b.to(work), rows).to(b.dtype)
    met = padded(b.to(work), bn).reshape(-1, bn, n)[indices]
    terms = torch.bmm(blocks.to(work), met)  # [blocks, bm, n]
    sums = terms.new_zeros((indptr.shape[0] - 1, bm, n)).index_add(0, expand(indptr, indices.shape[0]), terms)
    return sums.reshape(-1, n)[:rows].to(b.dtype)


def by_scipy(dtype: torch.dtype, bm: int, bn: int, columns: int) -> bool:
    """Whether SciPy's loops beat dense products of blocks: of small ones, or with few columns."""
    return dtype in scipy_views.DTYPES and (columns < FEW or bm * bn < SMALL)


def _accumulated(indptr: Tensor, indices: Tensor, blocks: Tensor, b: Tensor, rows: int) -> Tensor:
    """Large blocks one by one, each added where it belongs: nothing is gathered, nothing scattered."""
    _, bm, bn = blocks.shape
    result = b.new_zeros((rows, b.shape[1]))
    for block, i, j in zip(blocks, expand(indptr, indices.shape[0]).tolist(), indices.tolist(), strict=True):
        to, of = result[i * bm : (i + 1) * bm], b[j * bn : (j + 1) * bn]
        to.addmm_(block[: to.shape[0], : of.shape[0]], of)
    return result


@_bsr_spmm.impl("nki", dtypes=KERNEL_DTYPES)
def _nki(indptr: Tensor, indices: Tensor, blocks: Tensor, b: Tensor, rows: int) -> Tensor:
    return _launched(indptr.tolist(), indices.tolist(), blocks, b, rows)


@_bsr_spmm.prediction
def _predicted(indptr: Tensor, indices: Tensor, blocks: Tensor, b: Tensor, rows: int) -> Tensor:
    pointers, columns = evenly(indices.shape[0], indptr.shape[0] - 1, -(-b.shape[0] // blocks.shape[2]))
    return _launched(pointers, columns, blocks, b, rows)


def _launched(pointers: list[int], columns: list[int], blocks: Tensor, b: Tensor, rows: int) -> Tensor:
    if not columns or b.numel() == 0:
        return b.new_zeros((rows, b.shape[1]))
    steps, tiles_hbm = packed(pointers, columns, blocks, b.shape[0])
    made: Tensor = launch(kernels.bsr_spmm, tiles_hbm, b.contiguous(), rows=rows, height=blocks.shape[1], steps=steps)
    return made


def packed(pointers: list[int], columns: list[int], blocks: Tensor, depth: int) -> tuple[Steps, Tensor]:
    """Blocks as the stationary tiles of a kernel, side by side in HBM in the order of their use, and that order.

    A block deeper than the array is cut; several shallow blocks of one block row share a tile. What reaches over the
    edge of the matrix is zero and has no rows of ``b`` to meet.
    """
    _, bm, bn = blocks.shape
    share, cuts, part = _shape(bn)
    rows = [
        [
            (column * bn + cut * part, min(part, bn - cut * part, depth - column * bn - cut * part))
            for column in columns[lo:hi]
            for cut in range(cuts)
        ]
        for lo, hi in pairwise(pointers)
    ]
    steps, order = in_order(
        [[tuple(row[at : at + share]) for at in range(0, len(row), share)] for row in rows], -(-bm // M_TILE)
    )
    place = [0] * len(order)
    for at, number in enumerate(order):
        place[number] = at
    # For each piece of a block its tile, and where in the tile it lies.
    tile, slot = [], []
    first = 0
    for row in rows:
        tile += [place[first + at // share] for at in range(len(row))]
        slot += [at % share for at in range(len(row))]
        first += -(-len(row) // share)
    # Written once, in the kernel's layout: a matrix may be most of the memory there is.
    made = blocks.new_zeros((share, part, len(order), bm))
    view = made.permute(2, 0, 3, 1)  # [tiles, share, bm, part]
    where = torch.tensor([tile, slot], device=blocks.device)
    for cut in range(cuts):
        piece = blocks[:, :, cut * part : (cut + 1) * part]
        view[..., : piece.shape[2]][where[0, cut::cuts], where[1, cut::cuts]] = piece
    return steps, made.reshape(share * part, -1)


def _shape(bn: int) -> tuple[int, int, int]:
    """How many blocks share a tile, how many tiles a block is cut into, and the depth of a piece."""
    return max(1, K_TILE // bn), -(-bn // K_TILE), min(bn, K_TILE)


@_bsr_spmm.workspace
def _workspace(backend: str, indptr: Tensor, indices: Tensor, blocks: Tensor, b: Tensor, rows: int) -> int:
    count, bm, bn = blocks.shape
    if backend == "pytorch":
        n, work = b.shape[1], 4 if b.dtype in (torch.float16, torch.bfloat16) else b.element_size()
        near = b.device.type in ("cpu", "meta")
        if near and by_scipy(b.dtype, bm, bn, n):
            # a copy with whole blocks where the last is not
            return (b.shape[0] + -b.shape[0] % bn) * b.shape[1] * work if b.shape[0] % bn else 0
        if near and bm * bn >= LARGE:
            return work * (blocks.numel() + b.numel() + rows * n) if work > b.element_size() else 0
        # What the blocks meet, their products and the sums; operands that are widened or made of whole blocks.
        wide = blocks.numel() + b.numel() if work > b.element_size() else 0
        whole = (b.shape[0] + -b.shape[0] % bn) * n if b.shape[0] % bn else 0
        return work * ((count * (bm + bn) + 2 * rows) * n + wide + whole)
    share, cuts, part = _shape(bn)
    tiles = min(count, -(-count // share) + indptr.shape[0] - 1) if share > 1 else count * cuts
    return tiles * share * part * bm * blocks.element_size()


@_bsr_spmm.vjp(saves=("indptr", "indices", "blocks", "b"))
def _gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    _, bm, bn = saved.blocks.shape
    if saved.needs("blocks"):
        found["blocks"] = sampled_blocks(saved.indptr, saved.indices, grad, saved.b.conj(), bm, bn)
    if saved.needs("b"):
        depth = saved.b.shape[0]
        indptr, indices, order = transposition(saved.indptr, saved.indices, -(-depth // bn))
        turned = saved.blocks[order].mT.conj().resolve_conj().contiguous()
        found["b"] = _bsr_spmm(indptr, indices, turned, grad, depth)
    return found
