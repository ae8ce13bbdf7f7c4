"""Error bounds from unit roundoffs and sizes, and comparison by them: the only tolerances of the tests."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnsci.arrays import from_numpy
from trnsci.precision import ROUNDOFF


def unit_roundoff(dtype: torch.dtype) -> float:
    """Half the distance from 1 to the next number: the relative error of one rounding."""
    return ROUNDOFF[dtype]


def gamma(n: float, dtype: torch.dtype) -> float:
    """``n u / (1 - n u)``: the relative error of ``n`` roundings in a row (Higham, Lemma 3.1)."""
    product = n * unit_roundoff(dtype)
    if product >= 1:
        raise ValueError(f"gamma({n}) has no meaning in {dtype}: n u = {product} is not below 1")
    return product / (1 - product)


def dot_bound(n: int, magnitude: Tensor, dtype: torch.dtype) -> Tensor:
    """Bound a dot product of length ``n`` in any order of summation; ``magnitude`` is ``|x| . |y|``, in float64.

    Complex numbers count as dot products of twice the length, and both parts may err.
    """
    if dtype.is_complex:
        return gamma(2 * n + 1, dtype) * 2**0.5 * magnitude
    return gamma(n, dtype) * magnitude


def gemm_bound(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    arithmetic: torch.dtype | None = None,
    operands: torch.dtype | None = None,
) -> Tensor:
    """Bound ``|computed - exact|`` elementwise for ``alpha * a @ b + beta * c``.

    Args:
        a: the left factor, after transposition.
        b: the right factor, after transposition.
        c: the addend.
        alpha: factor of the product.
        beta: factor of the addend.
        arithmetic: the dtype of products and sums; the operands' own by default.
        operands: the dtype ``a`` and ``b`` are rounded to first, if another.
    """
    dtype = a.dtype
    work = arithmetic or dtype
    k = a.shape[-1]
    product = abs(alpha) * (a.abs().double() @ b.abs().double())
    addend = 0.0 if c is None or beta == 0 else abs(beta) * c.abs().double()
    length = 2 * k + 1 if dtype.is_complex else k
    bound = gamma(length + 2, work) * (product + addend) * (2**0.5 if dtype.is_complex else 1.0)
    if operands is not None:
        u = unit_roundoff(operands)
        bound = bound + (2 * u + u * u) * (1 + gamma(length + 2, work)) * product
    # One rounding to the result's dtype, of a value no larger than the exact one plus the error so far.
    if unit_roundoff(dtype) > unit_roundoff(work):
        bound = bound + unit_roundoff(dtype) * (product + addend + bound)
    return bound + torch.finfo(dtype).smallest_normal


def assert_within(got: Any, expected: Any, bound: Any, *, what: str = "result") -> None:
    """Fail unless ``|got - expected| <= bound`` elementwise.

    NaN matches NaN and an infinity matches the same infinity; anything else that is not finite is a violation.

    Args:
        got: a tensor or array.
        expected: the oracle's values, of at least float64 precision.
        bound: finite and not negative, broadcast against ``expected``.
        what: named in the message.
    """
    got, expected = _exactable(got), _exactable(expected)
    if tuple(got.shape) != tuple(expected.shape):
        raise AssertionError(f"{what}: shape is {tuple(got.shape)}, expected {tuple(expected.shape)}")
    limit = torch.as_tensor(bound, dtype=torch.float64, device="cpu").broadcast_to(expected.shape)
    if not bool(((limit >= 0) & limit.isfinite()).all()):
        raise AssertionError(f"{what}: the bound itself is negative, infinite or NaN somewhere")
    error = (got - expected).abs()
    same = (got == expected) | (got.isnan() & expected.isnan())
    bad = ~same & ~(error <= limit)
    if not bool(bad.any()):
        return
    places = bad.nonzero()
    ratio = torch.where(bad, torch.nan_to_num(error / limit, nan=torch.inf, posinf=torch.inf), 0.0)
    worst = tuple(int(i) for i in torch.unravel_index(ratio.argmax(), ratio.shape))
    first = tuple(places[0].tolist())
    lines = [f"{what}: {len(places)} of {expected.numel()} elements exceed the bound"]
    for label, place in (("first", first), ("worst", worst)):
        lines.append(
            f"  {label} at {place}: got {got[place].item()!r}, expected {expected[place].item()!r}, "
            f"error {error[place].item():.3g}, bound {limit[place].item():.3g}, ratio {ratio[place].item():.3g}"
        )
    raise AssertionError("\n".join(lines))


def _exactable(value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        value = from_numpy(np.asarray(value).copy())
    plain: Tensor = value.detach().as_subclass(Tensor).cpu()
    return plain.to(torch.complex128 if plain.is_complex() else torch.float64)
