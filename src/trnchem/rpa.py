"""Correlation energy of the direct random-phase approximation: a matrix and its determinant at every frequency."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
import torch

import trnsolver
from trnchem.budget import MP2Plan
from trnchem.laplace import Products
from trnchem.metric import Metric
from trnchem.options import DEFAULTS, MP2Options, Request
from trnchem.orbitals import Orbitals
from trnchem.preparation import prepare_run
from trnchem.quadrature import relative_error
from trnchem.result import Progress
from trnchem.stages import open_store
from trnsci import ArgumentError, NumericalError, check
from trnsci.backends import inside

# Options of MP2 that say nothing here.
_OTHERS = ("method", "samples", "same_spin", "seed", "pairs", "target_error", "mesh", "device")
# Frequencies to try, and ratios of energy differences on which the quadrature is measured.
_COUNTS, _GRID = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256), 60


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RPAResult:
    """Energies in hartree.

    Attributes:
        reference: of the mean field: ``RHF``, ``UHF`` or ``ROHF``.
        e_hf: energy of the mean field.
        e_corr: correlation energy.
        frequencies: points of the quadrature.
        quadrature_error: the largest relative error of that quadrature for the second-order term, measured.
        metric: how the metric of the auxiliary basis was inverted.
        plan: what was decided before starting.
        timings: measured seconds by stage.
    """

    reference: str
    e_hf: float
    e_corr: float
    frequencies: int
    quadrature_error: float
    metric: Metric
    plan: MP2Plan = field(repr=False)
    timings: dict[str, float] = field(repr=False)

    @property
    def e_tot(self) -> float:
        """Mean field and correlation."""
        return self.e_hf + self.e_corr

    def __repr__(self) -> str:
        return f"<RPAResult: E(corr) = {self.e_corr:.8f} Ha, E(total) = {self.e_tot:.8f} Ha>"


class Frequencies(NamedTuple):
    """Points and weights on the imaginary axis, and the measured error of their sum."""

    omega: Any
    weight: Any
    error: float


@inside("trnchem")
@check.hands_on("dfmp2", "mean_field")
def rpa(mf: Any, *, memory: int | str | None = None, options: MP2Options = DEFAULTS) -> RPAResult:
    """Return the correlation energy of the direct random-phase approximation with density fitting.

    ``E = 1/2pi int_0^oo (log det(1 + Q) - tr Q) dw`` with ``Q = sum_ia B_ia B_ia.T 2 d / (w**2 + d**2)`` over orbitals
    of both spins and their energy differences ``d``: at every frequency a product, a Cholesky factorisation and the
    logarithm of its diagonal.

    Args:
        mf: as in `dfmp2`.
        memory: budget, as in `dfmp2`.
        options: molecule, frozen orbitals, auxiliary basis, precision, ``quadrature_error`` and where B lives; options
            of MP2 alone are refused.

    Raises:
        ArgumentError: an option says nothing here, or the mean field is none of Hartree-Fock.
        CapacityError: the budget is too small.

    Error bound:
        ``quadrature_error`` of the energy, 1e-9 unless given, beside rounding: in ``fp32`` ``2**-24 (64 + g)`` of it,
        where ``g`` is ``result.metric.growth``.

    Cost:
        ``nocc nvir naux**2 + naux**3 / 3`` FLOPs at every frequency; 16 to 48 of them are usual.

    Example:
        >>> print(f"{rpa('water').e_corr:.6f}")
        -0.231149
    """
    want = Request.of("rpa", mf, options, memory=memory)
    for each in fields(MP2Options):
        given = getattr(options, each.name)
        if each.name in _OTHERS and given != each.default:
            raise ArgumentError("rpa", each.name, given, f"{each.default!r}: it is an option of MP2")
    field_, run = prepare_run(want, method="rpa")
    points, total = Frequencies(np.empty(0), np.empty(0), 0.0), 0.0
    if run.plan.stages:
        points = _frequencies(run.orbitals, max(1e-9, relative_error(run.plan.precision, want.quadrature_error)))
        with open_store(run.plan, run.plan.sizes.nocc, want.scratch) as store:
            run.build(store)
            with run.time_stage("rpa"):
                products, spins = Products(run, store), 2 // run.orbitals.spins.sets
                shape = (run.orbitals.spins.sets, run.metric.vectors, run.metric.vectors)
                for count, (omega, weight) in enumerate(zip(points.omega, points.weight, strict=True)):
                    sums = torch.zeros(shape, dtype=torch.float64, device="cpu")
                    products(sums, functools.partial(_response_root, 2 * spins, omega))
                    total += weight / (2 * math.pi) * _log_determinant(sums.sum(0))
                    run.progress(Progress("rpa", count + 1, len(points.omega)))
    return RPAResult(
        reference=run.reference,
        e_hf=float(field_.e_tot),
        e_corr=total,
        frequencies=len(points.omega),
        quadrature_error=points.error,
        metric=run.metric,
        plan=run.plan,
        timings=run.timings,
    )


def _response_root(factor: float, omega: float, gaps: torch.Tensor) -> torch.Tensor:
    return (factor * gaps / (omega**2 + gaps**2)).sqrt()


def _log_determinant(Q: torch.Tensor) -> float:
    """Return ``log det(1 + Q) - tr Q`` of a positive semidefinite matrix, of which one triangle is given."""
    trace = float(Q.diagonal().sum())
    whole = Q + Q.mT
    whole.diagonal().copy_(1 + Q.diagonal())
    factor = trnsolver.cholesky(whole)
    return 2 * float(factor.diagonal().log().sum()) - trace


def _frequencies(orbitals: Orbitals, error: float) -> Frequencies:
    """Choose the fewest points whose error, measured for all energy differences there are, is small enough."""
    gaps = orbitals.gaps
    low, high = min(low for low, _ in gaps), max(high for _, high in gaps)
    for count in _COUNTS:
        rule = _rule(count, high / low)
        if rule.error <= error:
            return Frequencies(low * rule.omega, low * rule.weight, rule.error)
    hint = "Give a larger quadrature_error"
    message = (
        f"{_COUNTS[-1]} frequencies leave {rule.error:.1e} with energy differences from {low:.3g} to {high:.3g} Ha"
    )
    raise NumericalError("rpa", message, hint)


@functools.lru_cache(maxsize=64)
def _rule(count: int, ratio: float) -> Frequencies:
    """Map Gauss and Legendre's points to the half axis, around the geometric mean of the energy differences.

    ``int 2 d 2 e / ((w**2 + d**2) (w**2 + e**2)) dw`` is ``2 pi / (d + e)``: its error is measured.
    """
    x, w = np.polynomial.legendre.leggauss(count)
    middle = math.sqrt(ratio)
    omega, weight = middle * (1 + x) / (1 - x), w * 2 * middle / (1 - x) ** 2
    d = np.exp(np.linspace(0.0, math.log(max(ratio, 1.0)), _GRID))
    terms = 2 * d[:, None] / (omega**2 + d[:, None] ** 2)
    exact = 2 * math.pi / (d[:, None] + d)
    return Frequencies(omega, weight, float(np.abs((terms * weight) @ terms.T / exact - 1).max()))
