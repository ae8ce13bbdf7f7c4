"""Triangles packed into vectors, column by column: spmv, hpmv, spr, hpr, spr2, hpr2, tpmv, tpsv.

A packed triangle of an N by N matrix has N (N + 1) / 2 elements. The host's BLAS reads it as it is; it is unpacked to
run on the kernels of the full form.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling

from trnblas import host
from trnblas.arguments import accumulated, alike, flag, in_place, nonsingular, transposition
from trnblas.symm import hemv, symv
from trnblas.syr import her, her2, syr, syr2
from trnblas.trmm import trmv
from trnblas.trsm import trsv
from trnsci import ArgumentError, Op, array_function, check


def _size(op: str, n: int, ap: Tensor) -> None:
    check.floating(op, ap=ap)
    if type(n) is int and n >= 0 and ap.ndim and ap.shape[-1] == n * (n + 1) // 2:
        return
    check.ndim(op, 1, ap=ap)
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise ArgumentError(op=op, argument="n", got=n, expected="a number of rows, 0 or more")
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
    stored = flag(op, "lower", lower, "ul")
    if _simple(n, ap, x):
        return accumulated(op, alpha, _apply(ap, x, "spmv", stored, False, False), beta, y, out, ap=ap, x=x)
    check.tensor(op, ap=ap, x=x)
    _size(op, n, ap)
    made: Tensor = run(alpha, unpacked(n, ap, stored), x, beta, y, stored, out=out)
    return made


def _simple(n: int, ap: Tensor, *vectors: Tensor) -> bool:
    """Whether a call is of one real triangle and vectors that fit it, and nothing is to be differentiated."""
    if not alike(ap, *vectors) or ap.is_complex() or type(n) is not int or n <= 0:
        return False
    if ap.shape != (n * (n + 1) // 2,) or not in_place(ap, *vectors) or is_compiling():
        return False
    return all(x.shape == (n,) for x in vectors)


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
    stored = flag(op, "lower", lower, "ul")
    if _simple(n, ap, *xs):
        made = _updated(
            ap, xs[0], xs[1] if len(xs) > 1 else None, check.coefficient(op, "alpha", alpha, ap.dtype), stored
        )
    else:
        check.tensor(op, ap=ap)
        _size(op, n, ap)
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
    return _triangular("tpmv", trmv, n, ap, x, lower, trans, diag, out)


@array_function
def tpsv(
    n: int, ap: Tensor, x: Tensor, lower: bool | int | str = False, trans: bool | int | str = False,
    diag: bool | int | str = False, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Solve ``op(a) @ y = x`` with ``a`` triangular and packed; flags as for `trsv`."""
    return _triangular("tpsv", trsv, n, ap, x, lower, trans, diag, out)


def _triangular(
    op: str, run: Any, n: int, ap: Tensor, x: Tensor, lower: bool | int | str, trans: bool | int | str,
    diag: bool | int | str, out: Tensor | None,
) -> Tensor:  # fmt: skip
    stored = flag(op, "lower", lower, "ul")
    if not _simple(n, ap, x):
        check.tensor(op, ap=ap, x=x)
        _size(op, n, ap)
        made: Tensor = run(unpacked(n, ap, stored), x, stored, trans, diag, out=out)
        return made
    unit = flag(op, "diag", diag, "nu")
    if op == "tpsv" and not unit:
        nonsingular(op, ap.index_select(0, _diagonal(n, stored, ap.device)))
    made = _apply(ap, x, op, stored, transposition(op, trans) != "n", unit)
    return accumulated(op, 1.0, made, 0.0, None, out, ap=ap, x=x)


@functools.lru_cache(maxsize=8)
def _diagonal(n: int, lower: bool, device: torch.device) -> Tensor:
    """Places of the diagonal in the packed triangle."""
    j = torch.arange(n, device=device)
    return j * n - j * (j - 1) // 2 if lower else j * (j + 3) // 2


def _apply_fake(ap: Tensor, x: Tensor, op: str, lower: bool, trans: bool, unit: bool) -> Tensor:
    return torch.empty_like(x)


def _apply_cost(ap: Tensor, x: Tensor, op: str, lower: bool, trans: bool, unit: bool) -> int:
    return (4 if op == "spmv" else 2) * ap.numel()


_apply = Op("trnblas::packed_product", fake=_apply_fake, cost=_apply_cost)


@_apply.impl("pytorch")
def _apply_pytorch(ap: Tensor, x: Tensor, op: str, lower: bool, trans: bool, unit: bool) -> Tensor:
    n = x.shape[0]
    if not host.vectors(ap, x):
        return _apply_nki(ap, x, op, lower, trans, unit)
    if op == "spmv":
        return torch.from_numpy(host.call(op, x, n, 1.0, ap.numpy(), x.numpy(), lower=lower))
    return torch.from_numpy(host.call(op, x, n, ap.numpy(), x.numpy(), lower=lower, trans=trans, diag=unit))


@_apply.impl("nki")
def _apply_nki(ap: Tensor, x: Tensor, op: str, lower: bool, trans: bool, unit: bool) -> Tensor:
    whole = unpacked(x.shape[0], ap, lower)
    if op == "spmv":
        return symv(1.0, whole, x, lower=lower)
    return (trmv if op == "tpmv" else trsv)(whole, x, lower, trans, unit)


def _updated_fake(ap: Tensor, x: Tensor, y: Tensor | None, alpha: complex, lower: bool) -> Tensor:
    return torch.empty_like(ap)


def _updated_cost(ap: Tensor, x: Tensor, y: Tensor | None, alpha: complex, lower: bool) -> int:
    return (2 if y is None else 4) * ap.numel()


_updated = Op(
    "trnblas::packed_update",
    fake=_updated_fake,
    cost=_updated_cost,
    schema="(Tensor ap, Tensor x, Tensor? y, Scalar alpha, bool lower) -> Tensor",
)


@_updated.impl("pytorch")
def _updated_pytorch(ap: Tensor, x: Tensor, y: Tensor | None, alpha: complex, lower: bool) -> Tensor:
    if not host.vectors(ap, x):
        return _updated_nki(ap, x, y, alpha, lower)
    if y is None:
        return torch.from_numpy(host.call("spr", x, x.shape[0], alpha, x.numpy(), ap.numpy(), lower=lower))
    return torch.from_numpy(host.call("spr2", x, x.shape[0], alpha, x.numpy(), y.numpy(), ap.numpy(), lower=lower))


@_updated.impl("nki")
def _updated_nki(ap: Tensor, x: Tensor, y: Tensor | None, alpha: complex, lower: bool) -> Tensor:
    whole = unpacked(x.shape[0], ap, lower)
    made = syr(alpha, x, lower, whole) if y is None else syr2(alpha, x, y, lower, whole)
    return packed(made, lower)
