"""Reproducible inputs, sizes worth testing, published values, cases for many options, and independent answers."""

import csv
import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnsci.arrays import to_numpy

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


def in_float64(function: Callable[..., Any], *operands: Tensor, **options: Any) -> Tensor:
    """Apply a NumPy or SciPy function to the operands widened to float64 or complex128.

    Example:
        >>> in_float64(np.matmul, a, b)
    """
    wide = [to_numpy(x.to(torch.complex128 if x.is_complex() else torch.float64)) for x in operands]
    return torch.from_numpy(np.asarray(function(*wide, **options)))


def exact_dot(x: Tensor, y: Tensor, digits: int = 60) -> complex:
    """Return the dot product of two vectors, without conjugation, computed by mpmath with ``digits`` decimal digits."""
    import mpmath

    with mpmath.workdps(digits):
        total = mpmath.mpf(0)
        for left, right in zip(x.tolist(), y.tolist(), strict=True):
            total += mpmath.mpmathify(left) * mpmath.mpmathify(right)
        return complex(total) if x.is_complex() or y.is_complex() else float(total)


def pairs(*options: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return cases, one value from each of ``options``, such that any two values of different options meet in one."""
    products = list(itertools.product(*(range(len(values)) for values in options)))
    return [tuple(values[i] for values, i in zip(options, products[k], strict=True)) for k in covering(products)]


def covering(cases: Sequence[Sequence[Hashable]], strength: int = 2) -> list[int]:
    """Return the indices of cases in which any ``strength`` values that meet in some case meet.

    They are chosen greedily: the most new meetings, then the values used least, then the first, so that the list is
    always the same one and no value is tried much more often than its neighbours.
    """
    columns = range(len(cases[0]) if cases else 0)
    sides = list(itertools.combinations(columns, min(strength, len(columns))))
    met = [{(side, tuple(case[i] for i in side)) for side in sides} for case in cases]
    left = set().union(*met)
    used: Counter[tuple[int, Hashable]] = Counter()
    chosen: list[int] = []
    while left:
        best = max(
            range(len(cases)), key=lambda k: (len(met[k] & left), -sum(used[pair] for pair in enumerate(cases[k])))
        )
        left -= met[best]
        used.update(enumerate(cases[best]))
        chosen.append(best)
    return sorted(chosen)
