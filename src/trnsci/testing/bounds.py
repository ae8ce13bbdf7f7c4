"""Error bounds from unit roundoffs and sizes. Tests use these and nothing else as tolerances."""

import torch
from torch import Tensor

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
