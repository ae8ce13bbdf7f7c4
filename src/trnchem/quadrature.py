"""``1/x`` as a short sum of exponentials, for every energy difference there is, with its error measured."""

import functools
import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnblas.mp2 import exponentials
from trnchem.orbitals import Orbitals
from trnsci import ArgumentError
from trnsci.precision import Precision

# relative error of 1/D: below what the arithmetic may lose
QUADRATURE_ERROR: dict[Precision, float] = {"fp64": 1e-11, "compensated": 1e-6, "fp32": 1e-6, "fast": 1e-5}
# Below this the fit of exponents in double precision does not converge reliably.
FITTED_FROM = 1e-8
# Points on which the error is measured: it has one extremum per exponent and a few hundred points between two.
GRID = 4000


class Quadrature(NamedTuple):
    """``1/x = sum w exp(-t x)``.

    All terms of the opposite-spin energy have one sign, so its relative error is at most ``error``.

    Attributes:
        t, w: exponents and weights.
        error: the largest of ``|1 - x sum w exp(-t x)|``, measured on a fine grid of all energy differences.
        ratio: of the largest to the smallest difference.
    """

    t: Tensor
    w: Tensor
    error: float
    ratio: float


def relative_error(precision: Precision, wanted: float | None) -> float:
    """Return the relative error to ask for: as given, or far below that of the arithmetic."""
    if wanted is None:
        return QUADRATURE_ERROR[precision]
    if not isinstance(wanted, int | float) or isinstance(wanted, bool) or not 1e-13 <= wanted < 1:
        raise ArgumentError("dfmp2", "quadrature_error", wanted, "a relative error from 1e-13 to 1")
    return float(wanted)


def quadrature(orbitals: Orbitals, error: float, same_spin: bool = False) -> Quadrature:
    """Choose exponents and weights for pairs of different spins, or of any; none where there are no such pairs."""
    gaps = orbitals.gaps
    if not gaps or (len(gaps) < orbitals.spins.sets and not same_spin):
        nothing = torch.empty(0, dtype=torch.float64, device="cpu")
        return Quadrature(nothing, nothing, 0.0, 1.0)
    if same_spin:
        smallest, largest = 2 * min(low for low, _ in gaps), 2 * max(high for _, high in gaps)
    else:
        smallest, largest = (gaps[0][k] + gaps[-1][k] for k in (0, 1))
    t, w, reached = _choose_exponents(largest / smallest, error)
    return Quadrature(torch.from_numpy(t) / smallest, torch.from_numpy(w) / smallest, reached, largest / smallest)


@functools.lru_cache(maxsize=64)
def _choose_exponents(ratio: float, error: float) -> tuple[Any, Any, float]:
    """Fitted exponents where the fit meets the error, and the trapezoidal rule, which is longer, where it does not."""
    # The best sums of k exponentials err by about 16 exp(-pi**2 k / ln(8 ratio)) (Braess and Hackbusch, 2005).
    likely = math.log(16 / error) * math.log(8 * ratio) / math.pi**2
    first = max(2, int(likely) - 2)
    start: Any = None
    for count in range(first, first + 7) if error >= FITTED_FROM else ():
        t, w = _fit_exponents(ratio, count, start)
        reached = _measure_error(t, w, ratio)
        if reached <= error and bool((w > 0).all()):
            return t, w, reached
        start = np.interp(np.linspace(0, 1, count + 1), np.linspace(0, 1, count), np.sort(np.log(t)))
    # more than 5000 times the gap, the rule ends at 4e-11
    t, w = exponentials(ratio, max(error, 1e-11 * max(1.0, ratio / 1000)))
    return t, w, _measure_error(t, w, ratio)


def _fit_exponents(ratio: float, count: int, start: Any) -> tuple[Any, Any]:
    """Least squares over exponents, with the best weights for each choice, on points that are denser at the ends."""
    from scipy.optimize import least_squares

    angles = (np.arange(20 * count) + 0.5) * np.pi / (20 * count)
    x = np.exp(0.5 * math.log(max(ratio, 1 + 1e-9)) * (1 - np.cos(angles)))

    def weights(logs: Any) -> tuple[Any, Any]:
        terms = x[:, None] * np.exp(-np.outer(x, np.exp(logs)))
        return terms, np.linalg.lstsq(terms, np.ones(len(x)), rcond=None)[0]

    def residual(logs: Any) -> Any:
        terms, w = weights(logs)
        return terms @ w - 1

    def slope(logs: Any) -> Any:
        # of what the best weights leave: what other weights could undo is projected out (Kaufman, BIT 15, 49 (1975))
        terms, w = weights(logs)
        moved = -np.outer(x, np.exp(logs)) * terms * w
        basis = np.linalg.qr(terms)[0]
        return moved - basis @ (basis.T @ moved)

    first = np.linspace(math.log(0.3 / ratio), math.log(6.0), count) if start is None else start
    logs = least_squares(residual, first, slope, ftol=1e-15, xtol=1e-15, gtol=1e-15, max_nfev=60).x
    return np.exp(logs), weights(logs)[1]


def _measure_error(t: Any, w: Any, ratio: float) -> float:
    x = np.exp(np.linspace(0.0, math.log(max(ratio, 1.0)), GRID))
    return float(np.abs(1 - x * (np.exp(-np.outer(x, t)) @ w)).max())
