"""How far an energy may be off, in hartree, and the cheapest calculation that stays within a target."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from trnchem.references import build_molecule, is_description
from trnchem.result import SOS, MP2Result
from trnsci import ArgumentError, NumericalError
from trnsci.precision import Precision

if TYPE_CHECKING:
    from trnchem.options import Request

# Hartree that fp64 may differ from PySCF by.
FP64 = 1e-9
# Hartree of correlation per electron before anything is known: more than any molecule of the table has.
PER_ELECTRON = 0.06
# What a fit multiplies errors by before it is known: more than usual auxiliary bases do.
GROWTH = 1024.0
# Random vectors whose deviation says how many more there should be; fewer do not tell.
PILOT = 8


def arithmetic(precision: Precision, energy: float, growth: float) -> float:
    """Return hartree that rounding may move an energy by."""
    if precision == "fp64":
        return FP64
    return abs(energy) * (2.0**-24 * (64 + growth) + (2.0**-7 if precision == "fast" else 0))


def within(want: Request, calculate: Callable[[Request], MP2Result]) -> MP2Result:
    """Compute with the cheapest precision, quadrature and number of samples whose error stays below a target, if any.

    What was chosen from estimates is verified with the result; where that fails, the next one is computed.

    Raises:
        NumericalError: nothing reaches the target.
    """
    target = want.target_error
    if target is None:
        return calculate(want)
    if not isinstance(target, int | float) or isinstance(target, bool) or not 0 < target < math.inf:
        raise ArgumentError("dfmp2", "target_error", target, "hartree, more than 0")
    for name in ("precision", "quadrature_error"):
        if getattr(want, name) is not None:
            raise ArgumentError("dfmp2", name, getattr(want, name), "None, because target_error chooses it")
    energy = PER_ELECTRON * _electrons(want)
    best = math.inf
    for precision in _candidates(want, target, energy):
        # a quarter for the quadrature
        loose = None if want.method == "pairs" else min(1e-3, max(1e-11, 0.25 * target / energy))
        result = calculate(replace(want, precision=precision, quadrature_error=loose))
        if want.method == "stochastic" and result.error > target:
            result = _more_samples(want, target, result, calculate)
        if result.error <= target:
            return result
        best = min(best, result.error)
    stated = f"the best stays within {best:.2g}" if best < math.inf else f"fp64 states {FP64:g}"
    message = f"no precision keeps the energy within {target:g} Ha: {stated}"
    raise NumericalError("dfmp2", message, "Give a larger target_error")


def _candidates(want: Request, target: float, energy: float) -> list[Precision]:
    held = getattr(getattr(want.mf, "__dict__", {}).get("with_df"), "_cderi", None) is not None
    growth = 0.0 if held and want.reuse and want.auxbasis is None else GROWTH
    cheap: list[Precision] = ["fast", "fp32"]
    # a file belongs to one precision
    fitting = [each for each in cheap if arithmetic(each, energy, growth) <= target and want.checkpoint is None]
    return [*fitting[:1], "fp64"] if target >= FP64 else []


def _electrons(want: Request) -> int:
    molecule = build_molecule(want.mf, want) if is_description(want.mf) else getattr(want.mf, "mol", None)
    return int(getattr(molecule, "nelectron", 1)) or 1


def _more_samples(
    want: Request, target: float, pilot: MP2Result, calculate: Callable[[Request], MP2Result]
) -> MP2Result:
    """Compute with as many random vectors as the deviation of the first ones asks for."""
    count, naux = want.samples, pilot.plan.sizes.naux
    fixed = arithmetic(pilot.plan.precision, pilot.e_corr, pilot.metric.growth)
    fixed += pilot.plan.quadrature_error * abs(pilot.e_corr)
    # three standard errors and a little for their skewness; and more vectors, because they were sampled too
    factor = 1.0 if pilot.e_ss is not None else SOS
    wider = 3.3 * factor * (pilot.standard_error or 0.0) / (target - fixed) if target > fixed else math.inf
    if count < PILOT and target > fixed:
        samples = PILOT
    else:
        samples = math.ceil(1.3 * count * max(1.0, wider) ** 2) if wider < 1e6 else naux
    if samples >= naux:
        message = (
            f"{samples} random vectors would be needed for {target:g} Ha, and {naux} auxiliary functions are fewer"
        )
        raise NumericalError("dfmp2", message, "method='laplace' is exact and cheaper")
    more = replace(want, samples=samples)
    chosen = replace(more, precision=pilot.plan.precision, quadrature_error=pilot.plan.quadrature_error)
    result = calculate(chosen)
    return result if result.error <= target else _more_samples(more, target, result, calculate)
