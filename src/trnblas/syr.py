"""Updates of one triangle of rank one and two: syr, her, syr2, her2. They are `syrk` and its kin with K = 1."""

from __future__ import annotations

import functools
from typing import Any

from torch import Tensor

from trnblas.arguments import vectors
from trnblas.syrk import rank_k
from trnsci import array_function
from trnsci.arrays import like


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
    return _rank_one("syr2", alpha, x, y, lower, a, out=out)


def _rank_one(
    name: str,
    alpha: complex,
    x: Tensor,
    y: Tensor,
    lower: bool | int | str = False,
    a: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    vectors(name, x, y)
    beta, column = 0.0 if a is None else 1.0, x.unsqueeze(-1)
    other = column if y is x else y.unsqueeze(-1)
    return rank_k(name, alpha, column, other, beta, a, False, lower, out=out)


@like(syr, lambda alpha, x, *more, **options: _rank_one("her", alpha, x, x, *more, **options))
def her(*args: Any, **kwargs: Any) -> Any:
    """Return one triangle of ``alpha * outer(x, conj(x)) + a``, ``alpha`` and the diagonal real; otherwise as `syr`."""


@like(syr2, functools.partial(_rank_one, "her2"))
def her2(*args: Any, **kwargs: Any) -> Any:
    """Return one triangle of ``alpha * outer(x, conj(y)) + conj(alpha) * outer(y, conj(x)) + a``; else as `syr`."""
