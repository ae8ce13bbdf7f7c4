"""Inverse distribution functions, as fixed sequences of exactly rounded operations like `trnrand.maths`."""

import torch
from torch import Tensor

from trnrand import maths
from trnrand.coefficients import COEFFICIENTS


def _ratio(x: Tensor, interval: str) -> Tensor:
    """Evaluate one of Wichura's rational functions (algorithm AS 241, 1988): |p - 1/2| <= 0.425, or part of a tail."""
    polynomials = []
    for first, *others in COEFFICIENTS[f"quantile_{interval}"]:
        total = torch.full_like(x, first)
        for coefficient in others:
            total = total * x + coefficient
        polynomials.append(total)
    return polynomials[0] / polynomials[1]


def normal_quantile(p: Tensor) -> Tensor:
    """Return the standard normal quantile of float64 ``0 < p < 1``, to a relative error of 1e-15."""
    q = p - 0.5
    centre = q * _ratio(0.180625 - q * q, "centre")
    r = maths.sqrt(-maths.log(torch.minimum(p, 1.0 - p)))
    tail = torch.where(r <= 5.0, _ratio(r - 1.6, "tail"), _ratio(r - 5.0, "far"))
    return torch.where(q.abs() <= 0.425, centre, torch.where(q < 0, -tail, tail))
