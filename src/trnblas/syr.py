"""Updates of one triangle of rank one and two: syr, her, syr2, her2. They are `syrk` and its kin with K = 1."""

from __future__ import annotations

import functools
from typing import Any

from torch import Tensor

from trnblas.arguments import alike, flag, matching, real, square
from trnblas.syrk import Syrk, into_triangle
from trnsci import array_function, check, run
from trnsci.arrays import like
from trnsci.precision import resolve


@array_function
def syr(
    alpha: complex,
    x: Tensor,
    lower: bool | int | str = False,
    a: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * outer(x, x) + a``; ``x`` is [..., N] and ``a`` [..., N, N].

    Example:
        >>> syr(1.0, torch.ones(2))
        tensor([[1., 1.],
                [0., 1.]])
    """
    return _rank_one("syr", alpha, x, x, lower, a, out=out)


@array_function
def syr2(
    alpha: complex,
    x: Tensor,
    y: Tensor,
    lower: bool | int | str = False,
    a: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * (outer(x, y) + outer(y, x)) + a``; otherwise as `syr`."""
    return _rank_one("syr2", alpha, x, y, lower, a, twice=True, out=out)


def _rank_one(
    name: str,
    alpha: complex,
    x: Tensor,
    y: Tensor,
    lower: bool | int | str = False,
    a: Tensor | None = None,
    *,
    hermitian: bool = False,
    twice: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    if not matching(x, y, a) or not x.ndim or not y.ndim:
        alike(name, x=x, y=y, a=a)
        check.ndim(name, 1, x=x, y=y)
    n, dtype, stored_lower = x.shape[-1], x.dtype, flag(name, "lower", lower, "ul")
    needs_real = hermitian and not twice
    alpha = real(name, "alpha", alpha) if needs_real else check.coefficient(name, "alpha", alpha, dtype)
    if y is not x and y.shape[-1] != n:
        check.equal(name, "N", x=n, y=y.shape[-1])
    if a is not None and a.shape[-2:] != (n, n):
        check.equal(name, "N", x=n, a=square(name, a))
    other, conjugates = None if y is x else y.unsqueeze(-1), hermitian and dtype.is_complex
    beta, policy = 0.0 if a is None else 1.0, resolve(name, None, dtype)
    call = Syrk(x.unsqueeze(-1), other, a, alpha, beta, stored_lower, conjugates, policy, twice)
    if out is not None or x.ndim > 1 or y.ndim > 1 or (a is not None and a.ndim > 2):
        batch = check.broadcast(name, x=x.shape[:-1], y=y.shape[:-1], a=() if a is None else a.shape[:-2])
        if out is not None:
            check.out(name, out, shape=(*batch, n, n), dtype=dtype, x=x, y=y, a=a)
    return into_triangle(run(call), stored_lower, out)


@like(syr, lambda alpha, x, *more, **options: _rank_one("her", alpha, x, x, *more, hermitian=True, **options))
def her(*args: Any, **kwargs: Any) -> Any:
    """Return one triangle of ``alpha * outer(x, conj(x)) + a``, ``alpha`` and the diagonal real; otherwise as `syr`."""


@like(syr2, functools.partial(_rank_one, "her2", hermitian=True, twice=True))
def her2(*args: Any, **kwargs: Any) -> Any:
    """Return one triangle of ``alpha * outer(x, conj(y)) + conj(alpha) * outer(y, conj(x)) + a``; else as `syr`."""
