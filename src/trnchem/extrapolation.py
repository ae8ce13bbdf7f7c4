"""The limit of a complete basis from energies in two bases of a family."""

from __future__ import annotations

import math
from typing import NamedTuple

from trnchem.result import MP2Result
from trnsci import ArgumentError


class CompleteBasis(NamedTuple):
    """Energies extrapolated to a complete basis, in hartree.

    Attributes:
        e_hf: ``E + A (X + 1) exp(-9 sqrt(X))`` (Karton and Martin, Theor. Chem. Acc. 115, 330 (2006)).
        e_corr: ``E + A X**-3`` (Helgaker et al., J. Chem. Phys. 106, 9639 (1997)).
    """

    e_hf: float
    e_corr: float

    @property
    def e_tot(self) -> float:
        """Mean field and correlation."""
        return self.e_hf + self.e_corr


def extrapolate(
    small: MP2Result | tuple[float, float], large: MP2Result | tuple[float, float], cardinals: tuple[int, int]
) -> CompleteBasis:
    """Extrapolate two calculations of one molecule to a complete basis.

    The formulas are for correlation-consistent bases and more reliable the larger they are; 2 and 3 give a hint,
    3 and 4 a number.

    Args:
        small: a result, or its ``(e_hf, e_corr)``.
        large: in the larger basis.
        cardinals: of the bases: 2 for double zeta, 3 for triple zeta.

    Example:
        >>> extrapolate((-76.0268, -0.2040), (-76.0572, -0.2757), (2, 3)).e_tot
        -76.3656...
    """
    given = cardinals if isinstance(cardinals, tuple) else ()
    if len(given) != 2 or not all(isinstance(each, int) and 2 <= each <= 8 for each in given) or given[0] >= given[1]:
        expected = "two cardinal numbers from 2 to 8, the smaller first"
        raise ArgumentError("extrapolate", "cardinals", cardinals, expected)
    x, y = cardinals
    (hf_x, corr_x), (hf_y, corr_y) = (_energies(each) for each in (small, large))
    return CompleteBasis(
        _limit(hf_x, hf_y, *((n + 1) * math.exp(-9 * math.sqrt(n)) for n in (x, y))),
        _limit(corr_x, corr_y, *(float(n) ** -3 for n in (x, y))),
    )


def _energies(given: MP2Result | tuple[float, float]) -> tuple[float, float]:
    if isinstance(given, MP2Result):
        return given.e_hf, given.e_corr
    if not isinstance(given, tuple) or len(given) != 2 or not all(isinstance(each, float) for each in given):
        raise ArgumentError("extrapolate", "small or large", given, "a result of dfmp2, or its energies (e_hf, e_corr)")
    return given


def _limit(small: float, large: float, error_small: float, error_large: float) -> float:
    return (error_small * large - error_large * small) / (error_small - error_large)
