"""The error that a precision policy guarantees, and the policy that a target asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from trnblas.arguments import has_data
from trnsci import ArgumentError, check
from trnsci.precision import PRECISIONS, ROUNDOFF, Precision, arithmetic, resolve

# Where float32 has its full precision and does not overflow.
_SMALLEST, _LARGEST = 2.0**-126, 2.0**127


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
    check.integer("error_bound", "k", k, 0)
    check.option("error_bound", "dtype", dtype, ROUNDOFF)
    policy = resolve("error_bound", precision, dtype)
    terms, factor = (2 * k + 3, 2**0.5) if dtype.is_complex else (k + 2, 1.0)
    single, double = 2.0**-24, 2.0**-53
    stored = ROUNDOFF[dtype]
    if policy == "fast":
        rounded = 0.0 if stored > single else 2.0**-6.99
        return factor * (rounded + terms * single / (1 - terms * single)) + stored
    if policy == "fp32":
        operands = 2.0**-22.99 if stored < single else 0.0
        return factor * (operands + terms * single / (1 - terms * single)) + (stored if stored > single else 0.0)
    if policy == "compensated":
        return max(stored, double) * factor + factor * terms * double
    return factor * terms * double / (1 - terms * double) + (stored if stored > double else 0.0)


def dot_bound(n: int, dtype: torch.dtype, precision: Precision | None = None) -> float:
    """Return the guaranteed error of a dot product of ``n`` terms, relative to ``|x| . |y|``.

    It is `error_bound`, except that compensated sums double the precision of the dtype they run in, and no more.

    Example:
        >>> dot_bound(1000, torch.float32, "compensated") < 1e-7
        True
    """
    policy = resolve("dot_bound", precision, dtype)
    if policy != "compensated":
        return error_bound(n, dtype, policy)
    terms, factor = (2 * n + 3, 2**0.5) if dtype.is_complex else (n + 2, 1.0)
    unit = min(ROUNDOFF[dtype], 2.0**-24)
    doubled = terms * unit / (1 - terms * unit)
    return factor * (unit + doubled * doubled) + (ROUNDOFF[dtype] if ROUNDOFF[dtype] > unit else 0.0)


def working_dtype(precision: Precision, dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of the arithmetic before the one rounding: float32 for half precision."""
    return _WORKING[precision, dtype]


_WORKING = {
    (precision, dtype): arithmetic("fp64" if precision in ("compensated", "fp64") else "fp32", dtype)
    for precision in PRECISIONS
    for dtype in check.FLOATING
}


def within_single(terms: int, operands: Sequence[Tensor]) -> bool:
    """Return whether sums of ``terms`` products neither overflow nor underflow float32.

    Where there is no data to look at (shapes alone, a trace), the answer is no.
    """
    if not has_data(*operands):
        return False
    low, high = 1.0, float(max(terms, 1))
    for x in operands:
        x = x.detach()
        sizes = torch.maximum(x.real.abs(), x.imag.abs()) if x.is_complex() else x.abs()
        used = sizes[sizes != 0]
        if used.numel() == 0:
            continue
        least, most = (float(end) for end in torch.aminmax(used))
        if x.is_complex():
            # A part may be smaller than the element; what it adds is measured against the whole.
            most *= 2
        if not (least >= _SMALLEST and most < _LARGEST):
            return False
        low, high = low * least, high * most
    return low >= _SMALLEST and high < _LARGEST


def check_target(op: str, precision: Precision | None, target: float | None) -> None:
    """Check a target of accuracy, which stands in place of a policy."""
    if target is not None and precision is not None:
        raise ArgumentError(op, "target_error", target, f"None, because precision is {precision!r}")
    number = isinstance(target, int | float) and not isinstance(target, bool)
    if target is not None and not (number and target > 0):
        raise ArgumentError(op, "target_error", target, "a positive number")


def choose_for_size(
    op: str,
    precision: Precision | None,
    target: float | None,
    dtype: torch.dtype,
    bound: Callable[[int, torch.dtype, Precision], float],
    operands: Sequence[Tensor] | None,
    **size: int,
) -> Precision:
    """Apply `choose` to a bound of one size, given by its letter: ``K=5``; sums have as many terms."""
    ((letter, n),) = size.items()
    what = f"{letter}={n}"
    return choose(
        op, precision, target, dtype, lambda policy: bound(n, dtype, policy), what=what, operands=operands, terms=n
    )


def choose(
    op: str,
    precision: Precision | None,
    target: float | None,
    dtype: torch.dtype,
    bound: Callable[[Precision], float],
    *,
    what: str,
    operands: Sequence[Tensor] | None,
    terms: int = 1,
) -> Precision:
    """Return the policy in force: the one asked for, the default, or the cheapest whose bound meets a target.

    Float32's range must hold sums of ``terms`` products of the operands for a policy in float32 to qualify; they are
    ``None`` where they are not known beforehand. ``what`` the bound is of, ``K=5``, is for the error.
    """
    if target is None:
        return resolve(op, precision, dtype)
    check_target(op, precision, target)
    double = dtype in (torch.float64, torch.complex128)
    # On float64, error-free transformations cost more than float64 itself.
    by_cost: tuple[Precision, ...] = ("fast", "fp32", "fp64", "compensated") if double else PRECISIONS
    bounds = {policy: bound(policy) for policy in by_cost}
    for policy, reached in bounds.items():
        if reached > target:
            continue
        if double and policy in ("fast", "fp32") and (operands is None or not within_single(terms, operands)):
            continue
        return policy
    best = min(bounds, key=lambda policy: bounds[policy])
    raise ArgumentError(
        op=op,
        argument="target_error",
        got=target,
        expected=f"at least {bounds[best]:.3g}, the bound of {best!r} for {what}",
        hint="Pass operands of a wider dtype: the result is rounded to theirs",
    )
