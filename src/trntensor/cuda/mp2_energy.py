"""Pair energies on a GPU: panels of integrals by cuBLAS, each divided and summed in one pass that reads it once.

A panel holds the integrals of a few orbitals ``i`` with many ``j``. For a pair of tiles (a, b) and (b, a) one program
loads both, so that the denominator is computed once for the two, and nothing is written but two numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from trnblas.cuda.mp2 import TILE, add_rows, launch_pairs

# Rows of a panel that keep cuBLAS busy, and its bytes.
ROWS = 1024
PANEL_BYTES = 1 << 29
# Below it everything is one panel, mirror images included: fewer launches cost less than half the arithmetic.
SMALL_BYTES = 1 << 26
# What torch gives cuBLAS as memory of its own, once for each stream.
CUBLAS_BYTES = 34 << 20


class Panel(NamedTuple):
    """Orbitals i and j of a panel of integrals."""

    rows: int
    columns: int

    @classmethod
    def of(cls, rows: int, columns: int, nvir: int, itemsize: int) -> Panel:
        """Return the largest panel that keeps cuBLAS busy in bounded memory; at least one pair."""
        pair = max(1, nvir * nvir * itemsize)
        if rows * columns * pair <= SMALL_BYTES:
            return cls(rows, columns)
        high = max(1, min(rows, -(-ROWS // max(1, nvir)), PANEL_BYTES // pair))
        return cls(high, max(1, min(columns, PANEL_BYTES // (high * pair))))

    def nbytes(self, nvir: int, itemsize: int) -> int:
        """Return bytes of its integrals."""
        return self.rows * self.columns * nvir * nvir * itemsize


def energies(
    left: Tensor,
    right: Tensor,
    eps_left: Tensor,
    eps_right: Tensor,
    eps_vir: Tensor,
    eps_vir_right: Tensor | None = None,
    *,
    once: bool,
) -> tuple[Tensor, Tensor]:
    """Return both sums over all pairs; ``once``: both sets are one, pairs i < j count twice, and no gap gives NaN.

    With ``eps_vir_right`` the sets are of different spins, and the second sum is zero.
    """
    (rows, nvir, _), columns = left.shape, right.shape[0]
    panel, tiles = Panel.of(rows, columns, nvir, left.dtype.itemsize), -(-nvir // TILE)
    half, before = _tiles(rows, columns, panel, once) * tiles * tiles, 0
    sums = left.new_empty((2, half), dtype=torch.float64)
    for (i, j), (high, wide), block in _products(left, right, panel, once):
        virtual = (eps_vir, eps_vir_right)
        launch_pairs(block, eps_left, eps_right, virtual, sums, (high, wide), (i, j), before, once=once)
        before += high * wide * tiles * tiles
    return add_rows(sums, eps_left, eps_vir, gap=once)


def _products(left: Tensor, right: Tensor, panel: Panel, once: bool) -> Iterator[tuple[Panel, Panel, Tensor]]:
    """Yield the first orbitals of each panel, its orbitals, and its integrals, [I V, J V]."""
    (rows, nvir, naux), columns = left.shape, right.shape[0]
    some = left.view(rows * nvir, naux)
    others = (some if right is left else right.view(columns * nvir, naux)).t()
    if panel == (rows, columns):
        yield Panel(0, 0), panel, torch.mm(some, others)
        return
    memory = left.new_empty(panel.rows * panel.columns * nvir * nvir)
    for i in range(0, rows, panel.rows):
        high = min(panel.rows, rows - i)
        for j in range(i if once else 0, columns, panel.columns):
            wide = min(panel.columns, columns - j)
            block = memory[: high * wide * nvir * nvir].view(high * nvir, wide * nvir)
            torch.mm(some[i * nvir : (i + high) * nvir], others[:, j * nvir : (j + wide) * nvir], out=block)
            yield Panel(i, j), Panel(high, wide), block


def _tiles(rows: int, columns: int, panel: Panel, once: bool) -> int:
    """Return the pairs of all panels, skipped ones included."""
    return sum(min(panel.rows, rows - i) * (columns - (i if once else 0)) for i in range(0, rows, panel.rows))


def workspace(rows: int, columns: int, nvir: int, itemsize: int) -> int:
    """Return bytes needed beyond contiguous operands and the result."""
    panel, tiles = Panel.of(rows, columns, nvir, itemsize), -(-nvir // TILE)
    # Two sums of float64 for every tile; small tensors take 512 bytes each of torch's allocator.
    return panel.nbytes(nvir, itemsize) + 16 * rows * columns * tiles * tiles + CUBLAS_BYTES + (1 << 16)
