"""What error a precision policy guarantees, and which policy a target asks for."""

from __future__ import annotations

import torch

from trnsci import ArgumentError
from trnsci.precision import PRECISIONS, Precision, resolve

_ROUNDOFF = {
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
    torch.float32: 2.0**-24,
    torch.complex64: 2.0**-24,
    torch.float64: 2.0**-53,
    torch.complex128: 2.0**-53,
}


def error_bound(k: int, dtype: torch.dtype, precision: Precision | None = None) -> float:
    """Return the guaranteed error of a product with inner dimension ``k``, relative to ``|a| @ |b|``.

    Args:
        k: terms of each sum.
        dtype: that of the operands and the result.
        precision: a policy; by default the one operations choose for ``dtype``.

    Example:
        >>> error_bound(1024, torch.float32) < 1e-4
        True
    """
    policy = resolve("error_bound", precision, dtype)
    terms, factor = (2 * k + 3, 2**0.5) if dtype.is_complex else (k + 2, 1.0)
    single, double = 2.0**-24, 2.0**-53
    stored = _ROUNDOFF[dtype]
    if policy == "fast":
        rounded = 0.0 if stored > single else 2.0**-6.99
        return factor * (rounded + terms * single / (1 - terms * single)) + stored
    if policy == "fp32":
        operands = 2.0**-22.99 if stored < single else 0.0
        return factor * (operands + terms * single / (1 - terms * single)) + (stored if stored > single else 0.0)
    if policy == "compensated":
        return max(stored, double) * factor + factor * terms * double
    return factor * terms * double / (1 - terms * double) + (stored if stored > double else 0.0)


def policy_for(op: str, target: float, k: int, dtype: torch.dtype) -> Precision:
    """Return the cheapest policy whose guaranteed error is at most ``target``."""
    if isinstance(target, bool) or not isinstance(target, int | float) or not target > 0:
        raise ArgumentError(op=op, argument="target_error", got=target, expected="a positive number")
    for policy in PRECISIONS:
        if error_bound(k, dtype, policy) <= target:
            return policy
    best = min(PRECISIONS, key=lambda policy: error_bound(k, dtype, policy))
    raise ArgumentError(
        op=op,
        argument="target_error",
        got=target,
        expected=f"at least {error_bound(k, dtype, best):.3g}, the bound of {best!r} for K={k}",
        hint="Pass operands of a wider dtype: the result is rounded to theirs",
    )
