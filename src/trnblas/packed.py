"""Triangles packed into vectors, column by column: spmv, hpmv, spr, hpr, spr2, hpr2, tpmv, tpsv.

A packed triangle of an N by N matrix has N (N + 1) / 2 elements. The host's BLAS reads it as it is; it is unpacked to
run on the kernels of the full form.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch._C import _len_torch_dispatch_stack as dispatch_modes
from torch.compiler import is_compiling

from trnblas import host
from trnblas.arguments import alike, finished, flag, needed, nonsingular, real, through, transposition
from trnblas.symm import hemv, symv
from trnblas.syr import her, her2, syr, syr2
from trnblas.trmm import trmv
from trnblas.trsm import trsv
from trnsci import ArgumentError, Op, array_function, check
from trnsci.gradient import Saved


def _size(op: str, n: int, ap: Tensor) -> None:
    check.floating(op, ap=ap)
    if type(n) is int and n >= 0 and ap.ndim and ap.shape[-1] == n * (n + 1) // 2:
        return
    check.ndim(op, 1, ap=ap)
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise ArgumentError(op=op, argument="n", got=n, expected="a number of rows, 0 or more")
    expected = f"[..., {n * (n + 1) // 2}], which is n (n + 1) / 2 for n={n}"
    raise ArgumentError(op=op, argument="shape of ap", got=tuple(ap.shape), expected=expected)


def _positions(n: int, lower: bool, device: torch.device) -> Tensor:
    """Row-major positions of the packed elements in the transposed matrix: BLAS packs columns."""
    # A tracer's sizes are no keys of a cache, and its tensors nothing to keep.
    return (_computed if is_compiling() or dispatch_modes() or type(n) is not int else _cached)(n, lower, device)


def _computed(n: int, lower: bool, device: torch.device) -> Tensor:
    rows, columns = (torch.triu_indices if lower else torch.tril_indices)(n, n, device=device)
    return rows * n + columns


_cached = functools.lru_cache(maxsize=8)(_computed)


def unpacked(n: int, ap: Tensor, lower: bool) -> Tensor:
    """The triangle as a full matrix [..., N, N] with zeros elsewhere."""
    flat = ap.new_zeros((*ap.shape[:-1], n * n)).index_copy(-1, _positions(n, lower, ap.device), ap)
    return flat.reshape(*ap.shape[:-1], n, n).mT


def packed(a: Tensor, lower: bool) -> Tensor:
    """The triangle of [..., N, N] as a packed vector."""
    return a.mT.flatten(-2).index_select(-1, _positions(a.shape[-1], lower, a.device))


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
    return _product("spmv", n, alpha, ap, x, beta, y, lower, out)


@array_function
def hpmv(
    n: int, alpha: complex, ap: Tensor, x: Tensor, beta: complex = 0.0, y: Tensor | None = None,
    lower: bool | int | str = False, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return ``alpha * a @ x + beta * y`` with ``a`` Hermitian and packed; arguments as for `spmv`."""
    return _product("hpmv", n, alpha, ap, x, beta, y, lower, out)


def _product(
    op: str, n: int, alpha: complex, ap: Tensor, x: Tensor, beta: complex, y: Tensor | None,
    lower: bool | int | str, out: Tensor | None,
) -> Tensor:  # fmt: skip
    operands = _checked(op, n, ap, x=x) | ({} if y is None else _checked(op, n, ap, y=y))
    stored = flag(op, "lower", lower, "ul")
    alpha, beta = check.coefficient(op, "alpha", alpha, ap.dtype), check.coefficient(op, "beta", beta, ap.dtype)
    needed(op, "y", y, "beta", beta, "[..., N]")
    name = "hpmv" if op == "hpmv" and ap.is_complex() else "spmv"
    return _written(op, _apply, (ap, x, y, alpha, beta, name, stored, "n", False), operands, out)


def _checked(op: str, n: int, ap: Tensor, **vectors: Tensor) -> dict[str, Tensor]:
    """Vectors [..., N] and a packed triangle of N rows, of one dtype, on one device; returned by name."""
    operands = {"ap": ap, **vectors}
    if not alike(*operands.values()):
        check.floating(op, **operands)
        check.same_device(op, **operands)
    _size(op, n, ap)
    for name, x in vectors.items():
        check.ndim(op, 1, **{name: x})
        check.equal(op, "N", ap=n, **{name: x.shape[-1]})
    check.broadcast(op, **{name: x.shape[:-1] for name, x in operands.items()})
    return operands


def _written(
    op: str, run: Op[Any, Tensor], call: tuple[Any, ...], operands: dict[str, Tensor], out: Tensor | None
) -> Tensor:
    if out is not None:
        check.out(op, out, shape=tuple(run.fake(*call).shape), dtype=call[0].dtype, **operands)
    made = run(*call)
    return made if out is None else out.copy_(made)


@array_function
def spr(
    n: int, alpha: complex, x: Tensor, ap: Tensor, lower: bool | int | str = False, *, out: Tensor | None = None
) -> Tensor:
    """Return ``alpha * outer(x, x) + a``, packed like ``ap``.

    Example:
        >>> spr(2, 1.0, torch.ones(2), torch.zeros(3))
        tensor([1., 1., 1.])
    """
    return _update("spr", n, alpha, (x,), ap, lower, out)


@array_function
def hpr(
    n: int, alpha: float, x: Tensor, ap: Tensor, lower: bool | int | str = False, *, out: Tensor | None = None
) -> Tensor:
    """Return ``alpha * outer(x, conj(x)) + a``, packed like ``ap``."""
    return _update("hpr", n, alpha, (x,), ap, lower, out)


@array_function
def spr2(
    n: int, alpha: complex, x: Tensor, y: Tensor, ap: Tensor, lower: bool | int | str = False,
    *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return ``alpha * (outer(x, y) + outer(y, x)) + a``, packed like ``ap``."""
    return _update("spr2", n, alpha, (x, y), ap, lower, out)


@array_function
def hpr2(
    n: int, alpha: complex, x: Tensor, y: Tensor, ap: Tensor, lower: bool | int | str = False,
    *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return ``alpha * outer(x, conj(y)) + conj(alpha) * outer(y, conj(x)) + a``, packed like ``ap``."""
    return _update("hpr2", n, alpha, (x, y), ap, lower, out)


def _update(
    op: str, n: int, alpha: complex, xs: tuple[Tensor, ...], ap: Tensor, lower: bool | int | str, out: Tensor | None
) -> Tensor:
    operands = _checked(op, n, ap, **dict(zip(("x", "y"), xs, strict=False)))
    stored = flag(op, "lower", lower, "ul")
    hermitian = op in ("hpr", "hpr2") and ap.is_complex()
    factor = real(op, "alpha", alpha) if op == "hpr" else check.coefficient(op, "alpha", alpha, ap.dtype)
    call = (ap, xs[0], xs[1] if len(xs) > 1 else None, factor, stored, hermitian)
    return _written(op, _updated, call, operands, out)


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
    return _triangular("tpmv", n, ap, x, lower, trans, diag, out)


@array_function
def tpsv(
    n: int, ap: Tensor, x: Tensor, lower: bool | int | str = False, trans: bool | int | str = False,
    diag: bool | int | str = False, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Solve ``op(a) @ y = x`` with ``a`` triangular and packed; flags as for `trsv`."""
    return _triangular("tpsv", n, ap, x, lower, trans, diag, out)


def _triangular(
    op: str, n: int, ap: Tensor, x: Tensor, lower: bool | int | str, trans: bool | int | str, diag: bool | int | str,
    out: Tensor | None,
) -> Tensor:  # fmt: skip
    operands = _checked(op, n, ap, x=x)
    stored, kind, unit = flag(op, "lower", lower, "ul"), transposition(op, trans), flag(op, "diag", diag, "nu")
    if op == "tpsv" and not unit:
        nonsingular(op, ap.index_select(-1, _diagonal(n, stored, ap.device)))
    return _written(op, _apply, (ap, x, None, 1.0, 0.0, op, stored, kind, unit), operands, out)


def _diagonal(n: int, lower: bool, device: torch.device) -> Tensor:
    """Positions of the diagonal in the packed triangle."""
    j = torch.arange(n, device=device)
    return j * n - j * (j - 1) // 2 if lower else j * (j + 3) // 2


def _apply_fake(
    ap: Tensor, x: Tensor, y: Tensor | None, alpha: complex, beta: complex, op: str, lower: bool, trans: str, unit: bool
) -> Tensor:
    batch = check.broadcast(op, ap=ap.shape[:-1], x=x.shape[:-1], y=() if y is None else y.shape[:-1])
    return x.new_empty((*batch, x.shape[-1]))


def _apply_cost(ap: Tensor, x: Tensor, y: Tensor | None, alpha: complex, beta: complex, op: str, *_: Any) -> int:
    batch = math.prod(check.broadcast(op, ap=ap.shape[:-1], x=x.shape[:-1]))
    each = (4 if op in ("spmv", "hpmv") else 2) * (4 if ap.is_complex() else 1)
    return each * batch * ap.shape[-1]


# ``alpha * a @ x + beta * y`` (spmv, hpmv), ``op(a) @ x`` (tpmv), ``inv(op(a)) @ x`` (tpsv).
_apply = Op(
    "trnblas::packed_product",
    fake=_apply_fake,
    cost=_apply_cost,
    schema="(Tensor ap, Tensor x, Tensor? y, Scalar alpha, Scalar beta, str op, bool lower, str trans, bool unit)"
    " -> Tensor",
)


@_apply.impl("pytorch")
def _apply_pytorch(
    ap: Tensor, x: Tensor, y: Tensor | None, alpha: complex, beta: complex, op: str, lower: bool, trans: str, unit: bool
) -> Tensor:
    if alpha == 0 or not host.takes_packed(op, ap, x):
        return _apply_nki(ap, x, y, alpha, beta, op, lower, trans, unit)
    n = x.shape[0]
    if op in ("spmv", "hpmv"):
        made = torch.from_numpy(host.call(op, x, n, alpha, ap.numpy(), x.numpy(), lower=lower))
        return finished(made, 1.0, beta, y, x.dtype)
    flags = {"lower": lower, "trans": "ntc".index(trans), "diag": unit}
    return torch.from_numpy(host.call(op, x, n, ap.numpy(), x.numpy(), **flags))


@_apply.impl("nki")
def _apply_nki(
    ap: Tensor, x: Tensor, y: Tensor | None, alpha: complex, beta: complex, op: str, lower: bool, trans: str, unit: bool
) -> Tensor:
    whole = unpacked(x.shape[-1], ap, lower)
    if op in ("spmv", "hpmv"):
        return (symv if op == "spmv" else hemv)(alpha, whole, x, beta, y, lower)
    return (trmv if op == "tpmv" else trsv)(whole, x, lower, trans, unit)


@_apply.vjp(saves=("ap", "x", "y"))
def _apply_gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    options = (saved.alpha, saved.beta, saved.op, saved.lower, saved.trans, saved.unit)
    return through(lambda ap, x, y: _apply_nki(ap, x, y, *options), saved, ("ap", "x", "y"), grad)


def _updated_fake(ap: Tensor, x: Tensor, y: Tensor | None, alpha: complex, lower: bool, hermitian: bool) -> Tensor:
    batch = check.broadcast("spr", ap=ap.shape[:-1], x=x.shape[:-1], y=() if y is None else y.shape[:-1])
    return ap.new_empty((*batch, ap.shape[-1]))


def _updated_cost(ap: Tensor, x: Tensor, y: Tensor | None, *_: Any) -> int:
    return (2 if y is None else 4) * ap.numel() * (4 if ap.is_complex() else 1)


# ``alpha * outer(x, x) + a``, or with ``y`` the sum of both outer products; ``hermitian`` conjugates the second factor.
_updated = Op(
    "trnblas::packed_update",
    fake=_updated_fake,
    cost=_updated_cost,
    schema="(Tensor ap, Tensor x, Tensor? y, Scalar alpha, bool lower, bool hermitian) -> Tensor",
)


@_updated.impl("pytorch")
def _updated_pytorch(ap: Tensor, x: Tensor, y: Tensor | None, alpha: complex, lower: bool, hermitian: bool) -> Tensor:
    if ap.is_complex() or not host.vectors(ap, x, *([] if y is None else [y])):
        return _updated_nki(ap, x, y, alpha, lower, hermitian)
    if y is None:
        return torch.from_numpy(host.call("spr", x, x.shape[0], alpha, x.numpy(), ap.numpy(), lower=lower))
    return torch.from_numpy(host.call("spr2", x, x.shape[0], alpha, x.numpy(), y.numpy(), ap.numpy(), lower=lower))


@_updated.impl("nki")
def _updated_nki(ap: Tensor, x: Tensor, y: Tensor | None, alpha: complex, lower: bool, hermitian: bool) -> Tensor:
    whole = unpacked(x.shape[-1], ap, lower)
    if y is None:
        return packed((her if hermitian else syr)(alpha, x, lower, whole), lower)
    return packed((her2 if hermitian else syr2)(alpha, x, y, lower, whole), lower)


@_updated.vjp(saves=("ap", "x", "y"))
def _updated_gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    options = (saved.alpha, saved.lower, saved.hermitian)
    return through(lambda ap, x, y: _updated_nki(ap, x, y, *options), saved, ("ap", "x", "y"), grad)
