"""Error bounds of whole contractions, and the cheapest policy that meets a target."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from trnblas.accuracy import error_bound
from trnsci import ArgumentError
from trnsci.precision import PRECISIONS, Precision, arithmetic

WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


def working_dtype(dtype: torch.dtype, precision: Precision) -> torch.dtype:
    """The dtype intermediates are kept in: float64 arithmetic keeps them in float64, whatever the operands are."""
    return arithmetic(precision, dtype) if precision == "fp64" else dtype


def contraction_bound(terms: Sequence[int], dtype: torch.dtype, precision: Precision) -> float:
    """Error relative to the contraction of absolute values: one factor ``1 + e`` per step, ``e`` as for a product.

    Args:
        terms: lengths of the sums of every step.
        dtype: that of the operands and the result.
        precision: policy of the products.
    """
    work = working_dtype(dtype, precision)
    total = 1.0
    for count in terms:
        total *= 1.0 + error_bound(count, work, precision)
    if work is not dtype:
        total *= 1.0 + error_bound(0, dtype, "compensated")
    return total - 1.0


def cheapest(op: str, target: float, terms: Sequence[int], dtype: torch.dtype) -> Precision:
    """The cheapest policy whose bound is at most ``target``."""
    if isinstance(target, bool) or not isinstance(target, int | float) or not target > 0:
        raise ArgumentError(op=op, argument="target_error", got=target, expected="a positive number")
    bounds = {policy: contraction_bound(terms, dtype, policy) for policy in PRECISIONS}
    # Of float64, the error-free transformations cost more than float64 itself.
    double = dtype in (torch.float64, torch.complex128)
    order: tuple[Precision, ...] = ("fast", "fp32", "fp64", "compensated") if double else PRECISIONS
    for policy in order:
        if bounds[policy] <= target:
            return policy
    best = min(bounds, key=lambda policy: bounds[policy])
    raise ArgumentError(
        op=op,
        argument="target_error",
        got=target,
        expected=f"at least {bounds[best]:.3g}, the bound of {best!r} for this contraction",
        hint="Pass operands of a wider dtype: the result is rounded to theirs",
    )
