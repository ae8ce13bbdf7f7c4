"""Triangles packed into vectors, column by column: spmv, hpmv, spr, hpr, spr2, hpr2, tpmv, tpsv.

A packed triangle of an N by N matrix has N (N + 1) / 2 elements. It is unpacked to run on the kernels of the full form.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from trnblas.arguments import flag
from trnblas.symm import hemv, symv
from trnblas.syr import her, her2, syr, syr2
from trnblas.trmm import trmv
from trnblas.trsm import trsv
from trnsci import ArgumentError, array_function, check


def _size(op: str, n: int, ap: Tensor) -> None:
    check.floating(op, ap=ap)
    check.ndim(op, 1, ap=ap)
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise ArgumentError(op=op, argument="n", got=n, expected="a number of rows, 0 or more")
    if ap.shape[-1] != n * (n + 1) // 2:
        expected = f"[..., {n * (n + 1) // 2}], which is n (n + 1) / 2 for n={n}"
        raise ArgumentError(op=op, argument="shape of ap", got=tuple(ap.shape), expected=expected)


@functools.lru_cache(maxsize=8)
def _places(n: int, lower: bool, device: torch.device) -> Tensor:
    """Row-major places of the packed elements in the transposed matrix: BLAS packs columns."""
    rows, columns = (torch.triu_indices if lower else torch.tril_indices)(n, n, device=device)
    return rows * n + columns


def unpacked(n: int, ap: Tensor, lower: bool) -> Tensor:
    """The triangle as a full matrix [..., N, N] with zeros elsewhere."""
    flat = ap.new_zeros((*ap.shape[:-1], n * n)).index_copy(-1, _places(n, lower, ap.device), ap)
    return flat.reshape(*ap.shape[:-1], n, n).mT


def packed(a: Tensor, lower: bool) -> Tensor:
    """The triangle of [..., N, N] as a packed vector."""
    return a.mT.flatten(-2).index_select(-1, _places(a.shape[-1], lower, a.device))


@array_function
def spmv(
    n: int, alpha: complex, ap: Tensor, x: Tensor, beta: complex = 0.0, y: Tensor | None = None,
    lower: bool | int | str = False, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return ``alpha * a @ x + beta * y`` with ``a`` symmetric and packed: ``ap`` is [..., N (N + 1) / 2].

    Example:
        >>> spmv(2, 1.0, torch.tensor([1.0, 2.0, 3.0]), torch.ones(2))
        tensor([3., 5.])
    """
    return _product("spmv", symv, n, alpha, ap, x, beta, y, lower, out)


@array_function
def hpmv(
    n: int, alpha: complex, ap: Tensor, x: Tensor, beta: complex = 0.0, y: Tensor | None = None,
    lower: bool | int | str = False, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return ``alpha * a @ x + beta * y`` with ``a`` Hermitian and packed; arguments as for `spmv`."""
    return _product("hpmv", hemv, n, alpha, ap, x, beta, y, lower, out)


def _product(
    op: str, run: Any, n: int, alpha: complex, ap: Tensor, x: Tensor, beta: complex, y: Tensor | None,
    lower: bool | int | str, out: Tensor | None,
) -> Tensor:  # fmt: skip
    check.tensor(op, ap=ap, x=x)
    _size(op, n, ap)
    stored = flag(op, "lower", lower, "ul")
    made: Tensor = run(alpha, unpacked(n, ap, stored), x, beta, y, stored, out=out)
    return made


@array_function
def spr(
    n: int, alpha: complex, x: Tensor, ap: Tensor, lower: bool | int | str = False, *, out: Tensor | None = None
) -> Tensor:
    """Return ``alpha * outer(x, x) + a``, packed like ``ap``.

    Example:
        >>> spr(2, 1.0, torch.ones(2), torch.zeros(3))
        tensor([1., 1., 1.])
    """
    return _update("spr", syr, n, alpha, (x,), ap, lower, out)


@array_function
def hpr(
    n: int, alpha: float, x: Tensor, ap: Tensor, lower: bool | int | str = False, *, out: Tensor | None = None
) -> Tensor:
    """Return ``alpha * outer(x, conj(x)) + a``, packed like ``ap``."""
    return _update("hpr", her, n, alpha, (x,), ap, lower, out)


@array_function
def spr2(
    n: int, alpha: complex, x: Tensor, y: Tensor, ap: Tensor, lower: bool | int | str = False,
    *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return ``alpha * (outer(x, y) + outer(y, x)) + a``, packed like ``ap``."""
    return _update("spr2", syr2, n, alpha, (x, y), ap, lower, out)


@array_function
def hpr2(
    n: int, alpha: complex, x: Tensor, y: Tensor, ap: Tensor, lower: bool | int | str = False,
    *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return ``alpha * outer(x, conj(y)) + conj(alpha) * outer(y, conj(x)) + a``, packed like ``ap``."""
    return _update("hpr2", her2, n, alpha, (x, y), ap, lower, out)


def _update(
    op: str, run: Any, n: int, alpha: complex, xs: tuple[Tensor, ...], ap: Tensor, lower: bool | int | str,
    out: Tensor | None,
) -> Tensor:  # fmt: skip
    check.tensor(op, ap=ap)
    _size(op, n, ap)
    stored = flag(op, "lower", lower, "ul")
    made = packed(run(alpha, *xs, stored, unpacked(n, ap, stored)), stored)
    if out is None:
        return made
    named = dict(zip(("x", "y"), xs, strict=False))
    check.out(op, out, shape=tuple(made.shape), dtype=made.dtype, ap=ap, **named)
    return out.copy_(made)


@array_function
def tpmv(
    n: int, ap: Tensor, x: Tensor, lower: bool | int | str = False, trans: bool | int | str = False,
    diag: bool | int | str = False, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return ``op(a) @ x`` with ``a`` triangular and packed; flags as for `trmv`.

    Example:
        >>> tpmv(2, torch.tensor([1.0, 2.0, 3.0]), torch.ones(2))
        tensor([3., 3.])
    """
    check.tensor("tpmv", ap=ap, x=x)
    _size("tpmv", n, ap)
    stored = flag("tpmv", "lower", lower, "ul")
    return trmv(unpacked(n, ap, stored), x, stored, trans, diag, out=out)


@array_function
def tpsv(
    n: int, ap: Tensor, x: Tensor, lower: bool | int | str = False, trans: bool | int | str = False,
    diag: bool | int | str = False, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Solve ``op(a) @ y = x`` with ``a`` triangular and packed; flags as for `trsv`."""
    check.tensor("tpsv", ap=ap, x=x)
    _size("tpsv", n, ap)
    stored = flag("tpsv", "lower", lower, "ul")
    return trsv(unpacked(n, ap, stored), x, stored, trans, diag, out=out)
