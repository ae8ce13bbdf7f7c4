"""Energies of pairs from their integrals, divided and summed in one pass that reads them once.

For a pair of tiles (a, b) and (b, a) one program loads both, so that the denominator is computed once for the two, and
nothing is written but two numbers.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from trnsci import cuda

TILE = 32


@triton.jit(do_not_specialize=["before", "half", "columns", "first_i", "first_j"])
def _energies(
    t, occ_i, occ_j, vir, vir_j, sums, nvir, before, half, columns, first_i, first_j,
    ONCE: tl.constexpr, SPINS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    pair, p, q = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i, j = pair // columns, pair % columns
    index = before + (pair * tl.num_programs(1) + p) * tl.num_programs(2) + q
    wanted = (p <= q) | SPINS
    if ONCE:
        wanted = wanted & (first_i + i <= first_j + j)
    square = 0.0
    cross = 0.0
    square = square.to(tl.float64)
    cross = cross.to(tl.float64)
    if wanted:
        a, b = p * TILE + tl.arange(0, TILE), q * TILE + tl.arange(0, TILE)
        inside = (a < nvir)[:, None] & (b < nvir)[None, :]
        width = columns.to(tl.int64) * nvir
        corner = t + i.to(tl.int64) * nvir * width + j.to(tl.int64) * nvir
        ahead = tl.load(corner + a.to(tl.int64)[:, None] * width + b[None, :], mask=inside, other=0.0)
        above = tl.load(occ_i + first_i + i) + tl.load(occ_j + first_j + j)
        e_a, e_b = tl.load(vir + a, mask=a < nvir, other=0.0), tl.load(vir_j + b, mask=b < nvir, other=0.0)
        gap = tl.where(inside, above - (e_a[:, None] + e_b[None, :]), 1.0)
        # On the diagonal both tiles are one, and counted twice.
        weight = tl.where(p == q, 0.5, 1.0)
        if ONCE:
            weight = weight * tl.where(first_i + i == first_j + j, 1.0, 2.0)
        if SPINS:
            # tiles have no mirror image, and pairs no exchange
            weight = 1.0
            squares, products = ahead * ahead, tl.zeros_like(ahead)
        else:
            behind = tl.load(
                corner + b.to(tl.int64)[:, None] * width + a[None, :],
                mask=(b < nvir)[:, None] & (a < nvir)[None, :],
                other=0.0,
            )
            behind = tl.trans(behind)
            squares, products = ahead * ahead + behind * behind, ahead * behind
        if gap.dtype == tl.float32:
            squares, products = tl.div_rn(squares, gap), tl.div_rn(products, gap)
        else:
            squares, products = squares / gap, products / gap
        square = tl.sum(tl.sum(squares, 1), 0).to(tl.float64) * weight
        cross = tl.sum(tl.sum(products, 1), 0).to(tl.float64) * (2.0 * weight)
    tl.store(sums + index, square)
    tl.store(sums + half + index, cross)


@triton.jit(do_not_specialize=["half", "nocc", "nvir"])
def _add_rows(sums, square, cross, occ, vir, half, nocc, nvir, GAP: tl.constexpr, BLOCK: tl.constexpr):
    """Add up both rows of sums [2, half], each in one program and one order; with ``GAP``, NaN unless there is one."""
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float64)
    for start in range(0, half, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(sums + row * half + at, mask=at < half, other=0.0)
    energy = tl.sum(total, 0).to(square.dtype.element_ty)
    if GAP:
        highest = tl.full((BLOCK,), float("-inf"), dtype=occ.dtype.element_ty)
        for start in range(0, nocc, BLOCK):
            at = start + tl.arange(0, BLOCK)
            highest = tl.maximum(highest, tl.load(occ + at, mask=at < nocc, other=float("-inf")))
        lowest = tl.full((BLOCK,), float("inf"), dtype=vir.dtype.element_ty)
        for start in range(0, nvir, BLOCK):
            at = start + tl.arange(0, BLOCK)
            lowest = tl.minimum(lowest, tl.load(vir + at, mask=at < nvir, other=float("inf")))
        energy = tl.where(tl.max(highest, 0) < tl.min(lowest, 0), energy, float("nan"))
    if row == 0:
        tl.store(square, energy)
    else:
        tl.store(cross, energy)


def add_rows(sums: Tensor, occ: Tensor, vir: Tensor, *, gap: bool) -> tuple[Tensor, Tensor]:
    """Return the sums of both rows of sums [2, tiles]; with ``gap``, NaN where an energy of occ is above one of vir."""
    square, cross = occ.new_empty(()), occ.new_empty(())
    arguments = (sums, square, cross, occ, vir, sums.shape[1], len(occ), len(vir))
    cuda.launch(_add_rows, (2, 1, 1), sums.device, arguments, (gap, 4096), num_warps=8)
    return square, cross


def launch_pairs(
    t: Tensor,
    occ_i: Tensor,
    occ_j: Tensor,
    vir: tuple[Tensor, Tensor | None],
    sums: Tensor,
    pairs: tuple[int, int],
    first: tuple[int, int],
    before: int,
    *,
    once: bool,
) -> None:
    """Write what the tiles of every pair add to both sums.

    Args:
        t: [I V, J V], contiguous; row ``i V + a``, column ``j V + b`` holds the integral of pair (i, j).
        occ_i: energies of occupied orbitals, of which ``first[0] + i`` is that of rows ``i``.
        occ_j: the same for columns.
        vir: [V], and those of ``j`` where they have another spin: their pairs add nothing to the second sum.
        sums: [2, tiles], float64; those of this call begin at ``before``.
        pairs: I and J.
        first: see ``occ_i``.
        before: see ``sums``.
        once: skip pairs beyond the diagonal, and count the others twice.
    """
    one, other = vir
    nvir = len(one)
    tiles = -(-nvir // TILE)
    arguments = (t, occ_i, occ_j, one, one if other is None else other, sums, nvir, before, sums.shape[1])
    grid, words = (pairs[0] * pairs[1], tiles, tiles), (pairs[1], *first)
    cuda.launch(_energies, grid, t.device, arguments, (once, other is not None, TILE), words, num_warps=4)


def pair_energies(t: Tensor, occ_i: Tensor, occ_j: Tensor, vir: Tensor) -> Tensor:
    """Return ``sum over ab of T (2 T - T') / D`` of every pair: [I, J] in float64."""
    rows, columns, tiles = len(occ_i), len(occ_j), -(-len(vir) // TILE)
    sums = torch.empty((2, rows * columns * tiles * tiles), dtype=torch.float64, device=t.device)
    launch_pairs(t, occ_i, occ_j, (vir, None), sums, (rows, columns), (0, 0), 0, once=False)
    square, cross = sums.view(2, rows, columns, tiles * tiles).sum(-1)
    return torch.lerp(cross, square, 2.0)
