"""Residuals as if computed in twice the precision of float64."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trnblas.split import two_sum


def residual(a: Tensor, x: Tensor, b: Tensor) -> Tensor:
    """Return ``b - a @ x`` with an error of about ``2**-53 |result| + 2**-90 |a| @ |x|`` elementwise.

    Operands, in float64 or complex128, are cut into slices short enough for their products and sums to be exact in
    float64 (Ozaki); what is left after cancellation is added up in double-double. It costs a dozen products of ``a``
    with ``x``, on the host: few columns against the cube of the factorisation.
    """
    if a.is_complex():
        double = torch.cat([torch.cat([a.real, -a.imag], -1), torch.cat([a.imag, a.real], -1)], -2)
        both = residual(double, torch.cat([x.real, x.imag], -2), torch.cat([b.real, b.imag], -2))
        return torch.complex(*both.chunk(2, -2))
    bits = (53 - math.ceil(math.log2(max(2, a.shape[-1])))) // 2
    left, right = _slices(a, -1, bits), _slices(x, -2, bits)
    high, low = b.clone(), torch.zeros_like(b)
    for total in range(len(left) + len(right) - 1):
        # Beyond twice float64's digits nothing is gained.
        if total * bits > 100:
            break
        for i, part in enumerate(left):
            if 0 <= total - i < len(right):
                high, lost = two_sum(high, -(part @ right[total - i]))
                low = low + lost
    return high + low


def _slices(x: Tensor, axis: int, bits: int) -> list[Tensor]:
    """Leading ``bits`` bits relative to the largest entry along an axis, then the next ones, until nothing is left."""
    parts: list[Tensor] = []
    rest = x
    while bool(rest.any()) and len(parts) < 5:
        largest = rest.abs().amax(axis, keepdim=True)
        exponent = torch.frexp(largest).exponent.double()
        shift = torch.where(largest > 0, torch.exp2(exponent + (53 - bits)), 0.0)
        part = (rest + shift) - shift
        parts.append(part)
        rest = rest - part
    return parts or [torch.zeros_like(x)]
