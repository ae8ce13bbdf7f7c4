"""Opposite-spin energy without pairs: the denominator as a sum of exponentials, exactly or by random vectors."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from scipy.special import ndtr, stdtrit
from torch import Tensor

import trnblas
import trnrand
from trnchem.budget import MP2Plan, dtype_of
from trnchem.orbitals import Orbitals
from trnchem.pairs import PairState
from trnchem.store import Store
from trnsci import from_device
from trnsci.precision import Precision

if TYPE_CHECKING:
    from trnchem.stages import Run


def run_laplace(
    run: Run, store: Store, state: PairState, seed: int, finished: Callable[[int, tuple[Tensor, Tensor]], None]
) -> None:
    """Compute ``-w_q sum(X_q Y_q)`` at every quadrature point that is not done: together the opposite-spin energy.

    ``X_q = sum_ia B_ia B_ia.T exp(-t_q (e_a - e_i))`` over the orbitals of spin up, ``Y_q`` over those of spin down;
    in a closed shell they are equal. Both are symmetric, so one triangle of each is computed, and the sum is the trace
    of ``X_q Y_q``: the mean of ``(X_q r) . (Y_q r)`` over vectors ``r`` of random signs, which needs no matrix. These
    can sample the same-spin energy as well, see `_exchanged`.

    Args:
        run: the calculation: orbitals, options, the quadrature, and which rows of B are here.
        store: B.
        state: [points, 1] or [points, samples], receives the energies.
        seed: of the random vectors.
        finished: called with the index of a quadrature point and its energies.
    """
    plan, orbitals, held = run.plan, run.orbitals, run.held
    vectors, points = run.metric.vectors, run.quadrature()
    dtype, spins, precision = dtype_of(plan.precision), orbitals.spins, plan.precision
    right, images = None, None
    if bool(state.done.all()):
        # nobody has built B
        return
    if plan.samples is not None:
        stream = trnrand.Generator(seed)
        right = trnrand.rademacher(vectors, plan.samples, dtype=dtype, generator=stream)
        if plan.same_spin:
            other = trnrand.rademacher(vectors, plan.samples, dtype=dtype, generator=stream)
            images = run.sum_over_ranks(_images(store, held, orbitals, (right, other), precision))
    columns = vectors if right is None else right.shape[1]
    add_products = Products(run, store)
    for index, (t, w) in enumerate(zip(points.t, points.w, strict=True)):
        if bool(state.done[index].all()):
            continue
        # a row more for exchange
        sums = torch.zeros((spins.sets, vectors + (images is not None), columns), dtype=torch.float64, device="cpu")
        # the factor of two exponentials, half on either side of the product
        add_products(sums[:, :vectors], functools.partial(_decay, float(t)), right)
        if images is not None:
            _add_exchange(sums[:, -1], images, orbitals, float(t), held, precision)
        sums = run.sum_over_ranks(sums)
        energies = -w * _traces(sums[:, :vectors], triangles=right is None)
        same = torch.zeros_like(energies)
        if images is not None:
            direct = energies if spins.up is None else -w * sums[:, :vectors].square().sum((0, 1)) / 2
            same = direct + w * sums[:, -1].sum(0) / spins.sets
        state.put(index, 0, (energies, same))
        finished(index, (energies, same))


def _decay(t: float, gaps: Tensor) -> Tensor:
    return torch.exp(-0.5 * t * gaps)


class Products:
    """Products ``sum_ia s_ia**2 B_ia B_ia.T`` of each set of orbitals, or those times vectors, in memory it keeps.

    Blocks of several sizes would leave holes, and take more memory than is planned.
    """

    def __init__(self, run: Run, store: Store) -> None:
        self._run, self._store, n = run, store, run.plan.sizes
        self._vectors, self._dtype = run.metric.vectors, dtype_of(run.plan.precision)
        self._room = torch.empty((run.plan.rows, n.nvir, self._vectors), dtype=self._dtype, device="cpu")

    def __call__(self, sums: Tensor, scale: Callable[[Tensor], Tensor], right: Tensor | None = None) -> None:
        """Add the products of the rows that are here to ``sums``, [sets, vectors, columns].

        Args:
            sums: receives one triangle of each product.
            scale: gives ``s`` for differences of virtual and occupied energies.
            right: vectors to multiply by.
        """
        run, orbitals, precision = self._run, self._run.orbitals, self._run.plan.precision
        first, held, spins = run.held.start, run.held, orbitals.spins
        while first < held.stop:
            last, spin = spins.until(first, min(held.stop, first + run.plan.rows)), spins.of(first)
            factors = scale(orbitals.e_vir[spin] - orbitals.e_occ[first:last, None]).to(self._dtype)
            block = self._store.rows(first - held.start, last - held.start, self._room)
            into = self._room[: last - first] if block.device == self._room.device else None
            scaled = torch.mul(block, factors[:, :, None], out=into).view(-1, self._vectors)  # [rows nvir, vectors]
            if right is None:
                product = trnblas.syrk(1.0, scaled, trans=True, precision=precision)
            else:
                inner = trnblas.gemm(1.0, scaled, right, precision=precision)
                product = trnblas.gemm(1.0, scaled, inner, trans_a=True, precision=precision)
            sums[spin] += from_device(product)
            first = last


def _images(
    store: Store, held: range, orbitals: Orbitals, signs: tuple[Tensor, Tensor], precision: Precision
) -> Tensor:
    """Return [2, n, nocc, nvir], B times random vectors; zero in rows of orbitals that are not here."""
    nocc, nvir = len(orbitals.e_occ), orbitals.e_vir.shape[1]
    images = torch.zeros((2, signs[0].shape[1], nocc, nvir), dtype=torch.float64, device="cpu")
    for k, i in enumerate(held):
        for image, right in zip(images, signs, strict=True):
            image[:, i] = from_device(trnblas.gemm(1.0, store.rows(k, k + 1)[0], right, precision=precision)).T
    return images


def _add_exchange(
    into: Tensor, images: Tensor, orbitals: Orbitals, t: float, held: range, precision: Precision
) -> None:
    """Put ``sum_ij M_ij M_ji`` of each random vector into [sets, n], over orbitals ``i`` that are here.

    With images ``R = B r`` and ``S = B s`` of two vectors, ``(ia|jb)`` is the mean of ``R_ia R_jb``, and the exchange
    ``(ia|jb) (ib|ja)`` that of ``R_ia S_ja R_jb S_ib``: a product of ``M = R S.T`` with its transpose. Cubic for a
    vector, where without random vectors exchange is quintic.
    """
    for spin, rows in enumerate(orbitals.spins.ranges(len(orbitals.e_occ))):
        here = range(max(rows.start, held.start), min(rows.stop, held.stop))
        if not here:
            continue
        scale = torch.exp(-0.5 * t * (orbitals.e_vir[spin] - orbitals.e_occ[rows.start : rows.stop, None]))
        R, S = (images[:, :, rows.start : rows.stop] * scale).to(dtype_of(precision))  # [n, rows, nvir]
        mine = slice(here.start - rows.start, here.stop - rows.start)
        ahead, back = (
            from_device(trnblas.gemm(1.0, one[:, mine].contiguous(), other, trans_b=True, precision=precision))
            for one, other in ((R, S), (S, R))
        )
        into[spin] = (ahead.double() * back.double()).sum((1, 2))


def _traces(products: Tensor, *, triangles: bool) -> Tensor:
    """Return scalar products of the columns of both spins, [n], or of two symmetric matrices from triangles, [1]."""
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


class Energies(NamedTuple):
    """Energies of a calculation, with the errors of sampling.

    Attributes:
        opposite: opposite-spin energy.
        same: same-spin energy, where there is one.
        sampling: of the opposite-spin energy where it was sampled, of the sum where both were.
    """

    opposite: float
    same: float | None = None
    sampling: Sampling | None = None


def no_energies(plan: MP2Plan) -> Energies:
    """Return the energies where there is nothing to correlate."""
    exactly = None if plan.samples is None else Sampling(0.0, (0.0, 0.0), (0.0, 0.0))
    return Energies(0.0, 0.0 if plan.method == "pairs" or plan.same_spin else None, exactly)


def average_energies(state: PairState, plan: MP2Plan) -> Energies:
    """Return the energies of all quadrature points and, for random vectors, how well they are known."""
    opposite, same = state.opposite.sum(0), state.same.sum(0)
    if plan.samples is None:
        return Energies(float(opposite.sum()))
    if not plan.same_spin:
        return Energies(float(opposite.mean()), None, _sampling(opposite.numpy()))
    return Energies(float(opposite.mean()), float(same.mean()), _sampling((opposite + same).numpy()))


def _sampling(totals: Any) -> Sampling:
    """Return intervals of the mean, from the deviation and the skewness of independent totals."""
    count, mean = len(totals), float(totals.mean())
    everything = (-math.inf, math.inf)
    if count < 3:
        known = float(totals.std(ddof=1)) / math.sqrt(count) if count == 2 else math.inf
        return Sampling(known, everything, everything)
    deviation = float(totals.std(ddof=1))
    skew = float(((totals - mean) ** 3).mean()) / (float(totals.std()) ** 3 or 1.0)

    def end(deviations: float) -> float:
        x = float(stdtrit(count - 1, ndtr(deviations))) / math.sqrt(count)
        if abs(skew) < 1e-6:
            return mean - deviation * x
        return mean - deviation * 3 * float(np.cbrt(1 + skew * (x - skew / (6 * count))) - 1) / skew

    return Sampling(deviation / math.sqrt(count), (end(2), end(-2)), (end(3), end(-3)))
