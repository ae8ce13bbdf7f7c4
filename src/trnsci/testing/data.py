"""Reproducible inputs, sizes worth testing, and published values."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

# One element, one less than a tile, a tile, one more.
EDGES = (1, 127, 128, 129)


def gaussian(shape: Sequence[int], seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw normal numbers from NumPy's Philox, the same on every machine; complex dtypes get two per element."""
    rng = np.random.Generator(np.random.Philox(seed))
    values = torch.from_numpy(rng.standard_normal(tuple(shape)))
    if dtype.is_complex:
        values = torch.complex(values, torch.from_numpy(rng.standard_normal(tuple(shape))))
    return values.to(dtype)


def ill_scaled(shape: Sequence[int], seed: int = 0, dtype: torch.dtype = torch.float32, decades: float = 8.0) -> Tensor:
    """Return normal numbers times powers of ten spread evenly over ``decades``: sums of these cancel badly."""
    rng = np.random.Generator(np.random.Philox(seed + 1))
    exponents = torch.from_numpy(rng.uniform(-decades / 2, decades / 2, tuple(shape)))
    return (gaussian(shape, seed, torch.complex128 if dtype.is_complex else torch.float64) * 10.0**exponents).to(dtype)


def known_answers(path: str | Path) -> list[dict[str, str]]:
    """Return rows of a CSV with a header; lines that start with ``#`` (source, seed) are skipped."""
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))
