"""BSR matrix times dense matrix: one matmul of the Tensor Engine for each stored block."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from trnsci import Op
from trnsci.gradient import Saved
from trnsci.nki import K_TILE, launch
from trnsparse.arguments import KERNEL_DTYPES, evenly
from trnsparse.bsr import BSRMatrix
from trnsparse.bsr_sddmm import padded, sampled_blocks
from trnsparse.kernels import bsr_spmm as kernels
from trnsparse.structure import expand, transposition

# Elements of a block from which a call for each costs less than gathering what they meet.
LARGE = 4096


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
    plain = type(b) is Tensor and type(blocks) is Tensor and torch._C._functorch.peek_interpreter_stack() is None
    if b.device.type == "cpu" and plain and not recorded and bm * bn >= LARGE:
        return _accumulated(indptr, indices, blocks.to(work), b.to(work), rows).to(b.dtype)
    taken = padded(b.to(work), bn).reshape(-1, bn, n)[indices]
    terms = torch.bmm(blocks.to(work), taken)  # [blocks, bm, n]
    made = terms.new_zeros((indptr.shape[0] - 1, bm, n)).index_add(0, expand(indptr), terms)
    return made.reshape(-1, n)[:rows].to(b.dtype)


def _accumulated(indptr: Tensor, indices: Tensor, blocks: Tensor, b: Tensor, rows: int) -> Tensor:
    """Large blocks one by one, each added where it belongs: nothing is gathered, nothing scattered."""
    _, bm, bn = blocks.shape
    made = b.new_zeros((rows, b.shape[1]))
    for block, i, j in zip(blocks, expand(indptr).tolist(), indices.tolist(), strict=True):
        to, of = made[i * bm : (i + 1) * bm], b[j * bn : (j + 1) * bn]
        to.addmm_(block[: to.shape[0], : of.shape[0]], of)
    return made


@_bsr_spmm.impl("nki", dtypes=KERNEL_DTYPES)
def _nki(indptr: Tensor, indices: Tensor, blocks: Tensor, b: Tensor, rows: int) -> Tensor:
    return _launched(indptr.tolist(), indices.tolist(), blocks, b, rows)


@_bsr_spmm.prediction
def _predicted(indptr: Tensor, indices: Tensor, blocks: Tensor, b: Tensor, rows: int) -> Tensor:
    pointers, columns = evenly(indices.shape[0], indptr.shape[0] - 1)
    return _launched(pointers, columns, blocks, b, rows)


def _launched(pointers: list[int], columns: list[int], blocks: Tensor, b: Tensor, rows: int) -> Tensor:
    if not columns or b.numel() == 0:
        return b.new_zeros((rows, b.shape[1]))
    chunks, tiles_hbm = packed(pointers, columns, blocks, b.shape[0])
    made: Tensor = launch(kernels.bsr_spmm, tiles_hbm, b.contiguous(), rows=rows, height=blocks.shape[1], chunks=chunks)
    return made


Chunks = tuple[tuple[tuple[tuple[int, int], ...], ...], ...]


def packed(pointers: list[int], columns: list[int], blocks: Tensor, depth: int) -> tuple[Chunks, Tensor]:
    """Blocks as the stationary tiles of a kernel, side by side in HBM, and the rows of ``b`` each tile meets.

    A block deeper than the array is cut; several shallow blocks of one block row share a tile. For each block row, for
    each tile, there is one (start, size) for each run of rows of ``b``.
    """
    count, bm, bn = blocks.shape
    if bn <= K_TILE:
        share, cuts, part = K_TILE // bn, 1, bn
    else:
        share, cuts, part = 1, -(-bn // K_TILE), K_TILE
    pieces = [
        [
            (column * bn + cut * part, min(part, bn - cut * part, depth - column * bn - cut * part))
            for column in columns[lo:hi]
            for cut in range(cuts)
        ]
        for lo, hi in pairwise(pointers)
    ]
    # What reaches over the edge of the matrix is zero and has no rows to meet.
    chunks = tuple(tuple(tuple(row[at : at + share]) for at in range(0, len(row), share)) for row in pieces)
    turned = blocks.mT  # [blocks, bn, bm]
    if cuts > 1:
        turned = torch.nn.functional.pad(turned, (0, 0, 0, cuts * part - bn)).reshape(count * cuts, part, bm)
    if share == 1:
        return _clipped(chunks), turned.permute(1, 0, 2).reshape(part, -1).contiguous()
    slots: list[int] = []
    slot = 0
    for row in pieces:
        slots += range(slot, slot + len(row))
        slot += -(-len(row) // share) * share
    tiles = turned.new_zeros((slot, part, bm))
    tiles[torch.tensor(slots, device=tiles.device)] = turned
    made = tiles.reshape(slot // share, share * part, bm).permute(1, 0, 2).reshape(share * part, -1)
    return _clipped(chunks), made.contiguous()


def _clipped(chunks: Chunks) -> Chunks:
    return tuple(tuple(tuple(piece for piece in tile if piece[1] > 0) for tile in row) for row in chunks)


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
