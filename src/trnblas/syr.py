"""Updates of one triangle of rank one and two: syr, her, syr2, her2. They are `syrk` and its kin with K = 1."""

from __future__ import annotations

from torch import Tensor
from torch.compiler import is_compiling

from trnblas import host
from trnblas.arguments import fits, flag, in_place, vectors
from trnblas.syrk import rank_k
from trnsci import Op, array_function, check


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
    return _rank_one("syr", alpha, x, x, lower, a, out, hermitian=False, twice=False)


@array_function
def her(
    alpha: float,
    x: Tensor,
    lower: bool | int | str = False,
    a: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * outer(x, conj(x)) + a``, ``alpha`` and the diagonal real; otherwise as `syr`."""
    return _rank_one("her", alpha, x, x, lower, a, out, hermitian=True, twice=False)


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
    return _rank_one("syr2", alpha, x, y, lower, a, out, hermitian=False, twice=True)


@array_function
def her2(
    alpha: complex,
    x: Tensor,
    y: Tensor,
    lower: bool | int | str = False,
    a: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * outer(x, conj(y)) + conj(alpha) * outer(y, conj(x)) + a``; else as `syr`."""
    return _rank_one("her2", alpha, x, y, lower, a, out, hermitian=True, twice=True)


def _rank_one(
    op: str,
    alpha: complex,
    x: Tensor,
    y: Tensor,
    lower: bool | int | str,
    a: Tensor | None,
    out: Tensor | None,
    *,
    hermitian: bool,
    twice: bool,
) -> Tensor:
    vectors(op, x, y)
    if out is None and not x.is_complex() and _simple(x, y, a):
        stored, factor = flag(op, "lower", lower, "ul"), check.coefficient(op, "alpha", alpha, x.dtype)
        return _update(x, y if twice else None, a, factor, stored)
    return _general(op, alpha, x, y, lower, a, out, hermitian=hermitian, twice=twice)


def _simple(x: Tensor, y: Tensor, a: Tensor | None) -> bool:
    """Whether a call is of vectors of one size and one matrix that fits them, and nothing is to be differentiated."""
    if x.ndim != 1 or x.shape != y.shape or is_compiling() or not in_place(x, y, a):
        return False
    return a is None or (fits(a, x) and in_place(a))


def _general(
    op: str,
    alpha: complex,
    x: Tensor,
    y: Tensor,
    lower: bool | int | str,
    a: Tensor | None,
    out: Tensor | None,
    *,
    hermitian: bool,
    twice: bool,
) -> Tensor:
    columns = x.unsqueeze(-1), y.unsqueeze(-1)
    beta = 0.0 if a is None else 1.0
    return rank_k(
        op, alpha, *columns, beta, a, "n", lower, None, out, hermitian=hermitian, twice=twice, names=("x", "y", "a")
    )


def _fake(x: Tensor, y: Tensor | None, a: Tensor | None, alpha: complex, lower: bool) -> Tensor:
    return x.new_empty((x.shape[0], x.shape[0]))


def _cost(x: Tensor, y: Tensor | None, a: Tensor | None, alpha: complex, lower: bool) -> int:
    return x.shape[0] * (x.shape[0] + 1) * (1 if y is None else 2)


# What real vectors without gradients go through: the host updates one triangle in one pass.
_update = Op(
    "trnblas::syr",
    fake=_fake,
    cost=_cost,
    schema="(Tensor x, Tensor? y, Tensor? a, Scalar alpha, bool lower) -> Tensor",
)


@_update.impl("pytorch")
def _pytorch(x: Tensor, y: Tensor | None, a: Tensor | None, alpha: complex, lower: bool) -> Tensor:
    if host.vectors(x) and (y is None or host.vectors(y)) and (a is None or host.plain(a)):
        return host.rank_one(alpha.real, x, y, a, lower)
    return _nki(x, y, a, alpha, lower)


@_update.impl("nki")
def _nki(x: Tensor, y: Tensor | None, a: Tensor | None, alpha: complex, lower: bool) -> Tensor:
    twice = y is not None
    return _general("syr", alpha, x, x if y is None else y, lower, a, None, hermitian=False, twice=twice)
