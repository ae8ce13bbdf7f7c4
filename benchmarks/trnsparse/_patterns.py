"""Inputs the benchmarks of trnsparse share."""

import numpy as np
import torch

import trnsparse


def scattered(rows: int, columns: int, density: float, dtype: torch.dtype = torch.float32) -> trnsparse.CSRMatrix:
    """A matrix with entries at random places."""
    rng = np.random.default_rng(0)
    count = round(rows * columns * density)
    places = np.unique(rng.integers(0, rows * columns, count))
    values = torch.from_numpy(rng.standard_normal(places.size)).to(dtype)
    return trnsparse.COOMatrix(places // columns, places % columns, values, (rows, columns)).to_csr()


def block_columns(side: int, density: float) -> list[np.ndarray]:
    """The columns of 128-blocks at random places, as many in every block row."""
    rng = np.random.default_rng(0)
    grid = side // 128
    return [np.sort(rng.choice(grid, max(1, round(density * grid)), replace=False)) for _ in range(grid)]


def blocky(side: int, density: float, dtype: torch.dtype = torch.float32) -> trnsparse.BSRMatrix:
    """A matrix of 128-blocks, as many in every block row."""
    columns = block_columns(side, density)
    each = len(columns[0])
    values = torch.from_numpy(np.random.default_rng(1).standard_normal((len(columns) * each, 128, 128))).to(dtype)
    return trnsparse.BSRMatrix(np.arange(len(columns) + 1) * each, np.concatenate(columns), values, (side, side))
