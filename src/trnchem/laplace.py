"""Opposite-spin energy without pairs: the denominator as a sum of exponentials, exactly or by random vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

import trnblas
import trnrand
from trnblas.mp2 import exponentials
from trnchem.budget import dtype_of
from trnchem.store import Store
from trnsci import from_device
from trnsci.precision import Precision

# relative error of 1/D: far below what either arithmetic loses
QUADRATURE_ERROR = {"fp64": 1e-11, "compensated": 1e-8, "fp32": 1e-8, "fast": 1e-5}


class Quadrature(NamedTuple):
    """``1/x = sum w exp(-t x)`` for every energy difference ``x`` there is."""

    t: Tensor
    w: Tensor


def quadrature(e_occ: Tensor, e_vir: Tensor, precision: Precision) -> Quadrature:
    """Choose exponents and weights for orbital energies."""
    smallest = 2 * float(e_vir.min() - e_occ.max())
    largest = 2 * float(e_vir.max() - e_occ.min())
    t, w = (torch.from_numpy(x) for x in exponentials(largest / smallest, QUADRATURE_ERROR[precision]))
    return Quadrature(t / smallest, w / smallest)


def run_laplace(
    store: Store,
    energies: tuple[Tensor, Tensor],
    *,
    precision: Precision,
    samples: int | None,
    seed: int,
    finished: Callable[[int, int], None],
    vectors: int,
    held: range,
    add: Callable[[Tensor], Tensor] = lambda product: product,
) -> tuple[float, float | None]:
    """Return the opposite-spin energy ``-sum_q w_q norm(X_q)**2`` and, for random vectors, its standard error.

    ``X_q = sum_ia B_ia B_ia.T exp(-t_q (e_a - e_i))`` is symmetric, so ``norm(X_q)**2`` is the trace of its square:
    the mean of ``norm(X_q r)**2`` over vectors ``r`` of random signs, which needs no matrix ``X_q``.

    Args:
        store: B.
        energies: float64, of the occupied and the virtual orbitals.
        precision: of the products.
        samples: how many random vectors; ``None`` computes ``X_q``.
        seed: of the random vectors.
        finished: called with quadrature points done and their number.
        vectors: columns of B.
        held: orbitals whose rows the store has.
        add: returns the sum of a matrix over everybody who has rows of B.
    """
    e_occ, e_vir = energies
    points = quadrature(e_occ, e_vir, precision)
    dtype = dtype_of(precision)
    right = None
    if samples is not None:
        right = trnrand.rademacher(vectors, samples, dtype=dtype, generator=trnrand.Generator(seed))
    totals = torch.zeros(1 if right is None else right.shape[1], dtype=torch.float64)
    for number, (t, w) in enumerate(zip(points.t, points.w, strict=True), 1):
        product = torch.zeros((vectors, vectors if right is None else right.shape[1]), dtype=torch.float64)
        for row, i in enumerate(held):
            # the factor of two exponentials, half on either side of the product
            scale = torch.exp(-0.5 * t * (e_vir - e_occ[i])).to(dtype)
            scaled = store.rows(row, row + 1)[0] * scale[:, None]  # [nvir, vectors]
            inner = scaled if right is None else trnblas.gemm(1.0, scaled, right, precision=precision)
            product += from_device(trnblas.gemm(1.0, scaled, inner, trans_a=True, precision=precision))
        totals -= w * (add(product) ** 2).sum(None if right is None else 0)
        finished(number, len(points.t))
    if right is None:
        return float(totals), None
    spread = float(totals.std()) / math.sqrt(len(totals)) if len(totals) > 1 else math.inf
    return float(totals.mean()), spread
