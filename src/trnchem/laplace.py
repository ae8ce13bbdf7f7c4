"""Opposite-spin energy without pairs: the denominator as a sum of exponentials, exactly or by random vectors."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
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
    in a closed shell they are equal. Both are symmetric, so the sum is the trace of ``X_q Y_q``: the mean of
    ``(X_q r) . (Y_q r)`` over vectors ``r`` of random signs, which needs no matrix.

    Args:
        store: B.
        orbitals: with their energies in float64.
        state: [points, 1] or [points, samples], receives the energies.
        points: exponents and weights.
        precision: of the products.
        samples: how many random vectors; ``None`` computes the matrices.
        seed: of the random vectors.
        finished: called with the number of a quadrature point and its energies.
        vectors: columns of B.
        held: orbitals whose rows the store has.
        add: returns the sum of matrices over everybody who has rows of B.
    """
    dtype = dtype_of(precision)
    right = None
    if samples is not None:
        right = trnrand.rademacher(vectors, samples, dtype=dtype, generator=trnrand.Generator(seed))
    columns = vectors if right is None else right.shape[1]
    for number, (t, w) in enumerate(zip(points.t, points.w, strict=True)):
        if bool(state.done[number].all()):
            continue
        products = torch.zeros((orbitals.spins.sets, vectors, columns), dtype=torch.float64)
        for row, i in enumerate(held):
            spin = orbitals.spins.of(i)
            # the factor of two exponentials, half on either side of the product
            scale = torch.exp(-0.5 * t * (orbitals.e_vir[spin] - orbitals.e_occ[i])).to(dtype)
            scaled = store.rows(row, row + 1)[0] * scale[:, None]  # [nvir, vectors]
            inner = scaled if right is None else trnblas.gemm(1.0, scaled, right, precision=precision)
            products[spin] += from_device(trnblas.gemm(1.0, scaled, inner, trans_a=True, precision=precision))
        products = add(products)
        energies = -w * (products[0] * products[-1]).sum(None if right is None else 0).view(-1)
        state.put(number, 0, (energies, torch.zeros_like(energies)))
        finished(number, energies)


def mean_and_error(state: PairState, samples: int | None) -> tuple[float, float | None]:
    """The opposite-spin energy of all quadrature points and, for random vectors, its standard error."""
    totals = state.opposite.sum(0)
    if samples is None:
        return float(totals.sum()), None
    spread = float(totals.std()) / math.sqrt(len(totals)) if len(totals) > 1 else math.inf
    return float(totals.mean()), spread
