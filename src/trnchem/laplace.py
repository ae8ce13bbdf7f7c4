"""Opposite-spin energy without pairs: the denominator as a sum of exponentials, exactly or by random vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import ndtr, stdtrit
from torch import Tensor

import trnblas
import trnrand
from trnchem.budget import dtype_of
from trnchem.orbitals import Orbitals
from trnchem.pairs import PairState
from trnchem.quadrature import Quadrature
from trnchem.store import Store
from trnsci import from_device
from trnsci.precision import Precision


def run_laplace(
    store: Store,
    orbitals: Orbitals,
    state: PairState,
    *,
    points: Quadrature,
    rows: int,
    precision: Precision,
    samples: int | None,
    seed: int,
    finished: Callable[[int, Tensor], None],
    vectors: int,
    held: range,
    add: Callable[[Tensor], Tensor] = lambda product: product,
) -> None:
    """Compute ``-w_q sum(X_q Y_q)`` at every quadrature point that is not done: together the opposite-spin energy.

    ``X_q = sum_ia B_ia B_ia.T exp(-t_q (e_a - e_i))`` over the orbitals of spin up, ``Y_q`` over those of spin down;
    in a closed shell they are equal. Both are symmetric, so one triangle of each is computed, and the sum is the trace
    of ``X_q Y_q``: the mean of ``(X_q r) . (Y_q r)`` over vectors ``r`` of random signs, which needs no matrix.

    Args:
        store: B.
        orbitals: with their energies in float64.
        state: [points, 1] or [points, samples], receives the energies.
        points: exponents and weights.
        rows: occupied orbitals in a product.
        precision: of the products.
        samples: how many random vectors; ``None`` computes the matrices.
        seed: of the random vectors.
        finished: called with the index of a quadrature point and its energies.
        vectors: columns of B.
        held: orbitals whose rows the store has.
        add: returns the sum of matrices over everybody who has rows of B.
    """
    dtype, spins = dtype_of(precision), orbitals.spins
    right = None
    if samples is not None:
        right = trnrand.rademacher(vectors, samples, dtype=dtype, generator=trnrand.Generator(seed))
    columns = vectors if right is None else right.shape[1]
    for index, (t, w) in enumerate(zip(points.t, points.w, strict=True)):
        if bool(state.done[index].all()):
            continue
        products = torch.zeros((spins.sets, vectors, columns), dtype=torch.float64)
        first = held.start
        while first < held.stop:
            last, spin = spins.until(first, min(held.stop, first + rows)), spins.of(first)
            # the factor of two exponentials, half on either side of the product
            scale = torch.exp(-0.5 * t * (orbitals.e_vir[spin] - orbitals.e_occ[first:last, None])).to(dtype)
            block = store.rows(first - held.start, last - held.start)
            scaled = (block * scale[:, :, None]).view(-1, vectors)  # [rows nvir, vectors]
            if right is None:
                product = trnblas.syrk(1.0, scaled, trans=True, precision=precision)
            else:
                inner = trnblas.gemm(1.0, scaled, right, precision=precision)
                product = trnblas.gemm(1.0, scaled, inner, trans_a=True, precision=precision)
            products[spin] += from_device(product)
            first = last
        energies = -w * _traces(add(products), triangles=right is None)
        state.put(index, 0, (energies, torch.zeros_like(energies)))
        finished(index, energies)


def _traces(products: Tensor, *, triangles: bool) -> Tensor:
    """[n], the scalar products of the columns of both spins; [1], that of two symmetric matrices from a triangle."""
    one, other = products[0], products[-1]
    if not triangles:
        return (one * other).sum(0)
    return (2 * torch.vdot(one.view(-1), other.view(-1)) - torch.dot(one.diagonal(), other.diagonal())).view(1)


class Sampling(NamedTuple):
    """How well random vectors know an energy.

    Few vectors give most of it, so their energies are skewed, and a symmetric bar would hold less often than it says.
    The intervals are corrected for that (P. Hall, J. R. Stat. Soc. B 54, 221 (1992)).

    Attributes:
        standard_error: of the mean.
        likely: holds the energy 95.4 times of 100, as two standard deviations do.
        sure: 99.7 times of 100.
    """

    standard_error: float
    likely: tuple[float, float]
    sure: tuple[float, float]


def mean_and_error(state: PairState, samples: int | None) -> tuple[float, Sampling | None]:
    """The opposite-spin energy of all quadrature points and, for random vectors, how well it is known."""
    totals = state.opposite.sum(0)
    return (float(totals.sum()), None) if samples is None else (float(totals.mean()), _sampling(totals.numpy()))


def _sampling(totals: Any) -> Sampling:
    """Intervals of the mean, from the spread and the skewness of independent totals."""
    count, mean = len(totals), float(totals.mean())
    everything = (-math.inf, math.inf)
    if count < 3:
        known = float(totals.std(ddof=1)) / math.sqrt(count) if count == 2 else math.inf
        return Sampling(known, everything, everything)
    spread = float(totals.std(ddof=1))
    skew = float(((totals - mean) ** 3).mean()) / (float(totals.std()) ** 3 or 1.0)

    def end(deviations: float) -> float:
        x = float(stdtrit(count - 1, ndtr(deviations))) / math.sqrt(count)
        if abs(skew) < 1e-6:
            return mean - spread * x
        return mean - spread * 3 * float(np.cbrt(1 + skew * (x - skew / (6 * count))) - 1) / skew

    return Sampling(spread / math.sqrt(count), (end(2), end(-2)), (end(3), end(-3)))
