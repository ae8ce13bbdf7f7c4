"""Products with a triangular matrix: trmm, trmv."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trnblas import host
from trnblas.accuracy import choose, error_bound, reported, working_dtype
from trnblas.arguments import (
    HALF,
    agree,
    alike,
    applied,
    conjugated,
    finished,
    fits,
    flag,
    in_place,
    nonsingular,
    square,
    transposition,
    triangle,
)
from trnblas.gemm import gemm
from trnblas.kernels import trmm as kernels
from trnsci import Op, array_function, check
from trnsci.gradient import Saved
from trnsci.nki import P_MAX, launch
from trnsci.precision import Precision, resolve

# Below this the whole product is cheaper than its parts.
_SMALL = 256
# Rows whose tiles stay in SBUF; longer ones go through the whole product.
_LARGEST = 8192


@array_function
def trmm(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    trans_a: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * op(a) @ b``, or ``alpha * b @ op(a)``, with ``a`` triangular.

    Args:
        alpha: a number.
        a: [..., M, M] on the left, [..., N, N] on the right. Only the triangle ``lower`` names is read.
        b: [..., M, N]
        side: ``a`` on the left (0, ``"l"``) or on the right (1, ``"r"``).
        lower: ``a`` is lower triangular (1, ``"l"``) or upper triangular (0, ``"u"``), before ``trans_a``.
        trans_a: ``"n"``, ``"t"`` or ``"c"``.
        diag: 1 or ``"u"``: the diagonal of ``a`` is not read and counts as ones.
        precision: ``fast``, ``fp32``, ``compensated`` or ``fp64``; by default never less precise than the operands.
        out: [..., M, N], memory for the result, shared with no operand.

    Error bound:
        That of `gemm` with the triangle of ``a``.

    Example:
        >>> trmm(1.0, torch.ones(2, 2), torch.eye(2), lower=True)
        tensor([[1., 0.],
                [1., 1.]])
    """
    return triangular("trmm", _trmm, alpha, a, b, side, lower, trans_a, diag, precision, out)


@array_function
def trmv(
    a: Tensor,
    x: Tensor,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``op(a) @ x`` with ``a`` [..., N, N] triangular and ``x`` [..., N]; flags as for `trmm`.

    Example:
        >>> trmv(torch.ones(2, 2), torch.ones(2))
        tensor([2., 1.])
    """
    return vector("trmv", _trmm, a, x, lower, trans, diag, precision, out)


def vector(
    op: str,
    run: Op[Any, Tensor],
    a: Tensor,
    x: Tensor,
    lower: bool | int | str,
    trans: bool | int | str,
    diag: bool | int | str,
    precision: Precision | None,
    out: Tensor | None,
    *,
    solves: bool = False,
) -> Tensor:
    """The vector form of a triangular operation."""
    if out is None and fits(a, x):
        stored, kind, unit = flag(op, "lower", lower, "ul"), transposition(op, trans), flag(op, "diag", diag, "nu")
        if precision is None and run.straight() and host.takes(a, x):
            found = host.triangular_vector(op, a, x, stored, kind != "n", unit)
            if found is not None:
                return found
        if solves and not unit:
            nonsingular(op, torch.diagonal(a, 0, -2, -1))
        policy = resolve(op, precision, a.dtype)
        return run(applied(kind, a), x.unsqueeze(1), 1.0, stored == (kind == "n"), unit, policy).squeeze(1)
    check.tensor(op, a=a, x=x)
    check.ndim(op, 1, x=x)
    target = None if out is None else out.unsqueeze(-1)
    made = triangular(
        op, run, 1.0, a, x.unsqueeze(-1), False, lower, trans, diag, precision, target, second="x", solves=solves
    )
    return made.squeeze(-1) if out is None else out


def triangular(
    op: str,
    run: Op[Any, Tensor],
    alpha: complex,
    a: Tensor,
    b: Tensor,
    side: bool | int | str,
    lower: bool | int | str,
    trans: bool | int | str,
    diag: bool | int | str,
    precision: Precision | None,
    out: Tensor | None,
    *,
    second: str = "b",
    solves: bool = False,
    target_error: float | None = None,
    return_error: bool = False,
) -> Tensor:
    """Check the arguments and bring every side and transposition to ``op(a) @ b`` with ``op(a)`` lower or upper."""
    if not alike(a, b):
        check.floating(op, **{"a": a, second: b})
        check.same_device(op, **{"a": a, second: b})
    dtype, n = a.dtype, square(op, a=a)
    check.ndim(op, 2, **{second: b})
    right, is_lower = flag(op, "side", side, "lr"), flag(op, "lower", lower, "ul")
    kind, unit = transposition(op, trans, "trans_a" if second == "b" else "trans"), flag(op, "diag", diag, "nu")
    alpha = check.coefficient(op, "alpha", alpha, dtype)
    if b.shape[-1 if right else -2] != n:
        agree(op, "N" if right else "M", {"a": n, second: b.shape[-1 if right else -2]})
    shape = b.shape
    if a.ndim != 2 or b.ndim != 2:
        shape = torch.Size((*check.broadcast(op, **{"a": a.shape[:-2], second: b.shape[:-2]}), *b.shape[-2:]))
    if out is not None:
        shown = {"a": a, second: b}
        check.out(op, out, shape=tuple(shape), dtype=dtype, **shown)
    policy = resolve(op, precision, dtype)
    if target_error is not None:
        # How far a solution grows is not known beforehand, so that float64 stays in its own range.
        policy = choose(op, precision, target_error, dtype, lambda p: solve_bound(n, dtype, p), f"N={n}", None)
    if solves and not unit:
        nonsingular(op, torch.diagonal(a, 0, -2, -1))
    factor = applied(kind, a)
    is_lower = is_lower if kind == "n" else not is_lower
    if alpha == 0:
        made = b.new_zeros(shape)
    elif right:
        # b @ op(a) is the transpose of op(a).T @ b.T.
        made = run(factor.mT, b.mT, alpha, not is_lower, unit, policy).mT
    else:
        made = run(factor, b, alpha, is_lower, unit, policy)
    made = made if out is None else out.copy_(made)
    return reported(made, solve_bound(n, dtype, policy), True) if return_error else made


def solve_bound(n: int, dtype: torch.dtype, precision: Precision) -> float:
    """Guaranteed error of a triangular solve of N rows, relative to ``|inv(a)| |a| |inv(a)| |b|``, on every backend."""
    # One refinement step leaves what conditioning leaves; what is certain is the error before it.
    plain: Precision = precision
    if precision == "compensated":
        plain = "fp64" if dtype in (torch.float64, torch.complex128) else "fp32"
    # Complex systems are real ones of twice the size, after scaling; either part of either factor may err.
    return (
        4 * error_bound(2 * n + P_MAX, dtype, plain) if dtype.is_complex else error_bound(2 * n + P_MAX, dtype, plain)
    )


def _fake(a: Tensor, b: Tensor, alpha: complex, lower: bool, unit: bool, precision: Precision) -> Tensor:
    return b.new_empty((*check.broadcast("trmm", a=a.shape[:-2], b=b.shape[:-2]), *b.shape[-2:]))


def _cost(a: Tensor, b: Tensor, alpha: complex, lower: bool, unit: bool, precision: Precision) -> int:
    batch = math.prod(check.broadcast("trmm", a=a.shape[:-2], b=b.shape[:-2]))
    return batch * a.shape[-1] * b.shape[-1] * b.shape[-2] * (4 if a.is_complex() else 1)


SCHEMA = "(Tensor a, Tensor b, Scalar alpha, bool lower, bool unit, str precision) -> Tensor"
_trmm = Op("trnblas::trmm", fake=_fake, cost=_cost, schema=SCHEMA)


@_trmm.bound
def _bound(backend: str, a: Tensor, b: Tensor, alpha: complex, lower: bool, unit: bool, precision: Precision) -> float:
    return error_bound(a.shape[-1], a.dtype, precision)


@_trmm.impl("pytorch")
def _pytorch(a: Tensor, b: Tensor, alpha: complex, lower: bool, unit: bool, precision: Precision) -> Tensor:
    plain = precision in ("fp32", "fp64") and working_dtype(precision, a.dtype) is a.dtype
    if plain and host.serves(a, b):
        return host.triangular_product(alpha.real, a, b, lower, unit)
    small = a.shape[-1] <= 2 * _SMALL or b.shape[-1] < 32
    if small or not plain or not in_place(a, b):
        return gemm(alpha, triangle(a, lower, unit), b, precision=precision)
    made = _fake(a, b, alpha, lower, unit, precision)
    _fill(made, a, b, lower, unit)
    return made if alpha == 1 else made.mul_(alpha)


def _fill(out: Tensor, a: Tensor, b: Tensor, lower: bool, unit: bool) -> None:
    """Halve the triangle until the whole product is cheap; the square beside it is a product."""
    n = a.shape[-1]
    if n <= _SMALL:
        out.copy_(triangle(a, lower, unit) @ b)
        return
    h = n // 2
    top, bottom = b[..., :h, :], b[..., h:, :]
    _fill(out[..., :h, :], a[..., :h, :h], top, lower, unit)
    _fill(out[..., h:, :], a[..., h:, h:], bottom, lower, unit)
    if lower:
        _add_product(out[..., h:, :], a[..., h:, :h], top)
    else:
        _add_product(out[..., :h, :], a[..., :h, h:], bottom)


def _add_product(out: Tensor, a: Tensor, b: Tensor) -> None:
    if out.ndim == 2:
        out.addmm_(a, b)
    else:
        out.add_(a @ b)


@_trmm.vjp(saves=("a", "b"))
def _gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    a, b, lower, unit, policy = saved.a, saved.b, saved.lower, saved.unit, saved.precision
    alpha = conjugated(saved.alpha, a)
    found = {}
    if saved.needs("a"):
        whole = gemm(alpha, grad, b, trans_b="c", precision=policy)
        kept = (whole.tril(-1) if lower else whole.triu(1)) if unit else triangle(whole, lower)
        found["a"] = kept.sum_to_size(a.shape)
    if saved.needs("b"):
        found["b"] = _trmm(a.mH, grad, alpha, not lower, unit, policy).sum_to_size(b.shape)
    return found


@_trmm.impl("nki")
def _nki(a: Tensor, b: Tensor, alpha: complex, lower: bool, unit: bool, precision: Precision) -> Tensor:
    result = _fake(a, b, alpha, lower, unit, precision)
    if result.numel() == 0:
        return result
    if a.is_complex() or precision in ("fp64", "compensated") or a.shape[-1] > _LARGEST:
        # Planes and slices are made from the triangle with its zeros.
        return gemm(alpha, triangle(a, lower, unit), b, precision=precision)
    operand = a.dtype if a.dtype in HALF else torch.bfloat16 if precision == "fast" else torch.float32
    batch = result.shape[:-2]
    turned = a.mT.to(operand)
    turned = turned.unsqueeze(0) if a.ndim == 2 else turned.expand(*batch, *turned.shape[-2:]).flatten(0, -3)
    columns = b.to(operand).expand(*batch, *b.shape[-2:]).reshape(-1, *b.shape[-2:])
    made: Tensor = launch(kernels.trmm, turned.contiguous(), columns.contiguous(), lower=lower, unit=unit)
    return finished(made.reshape(result.shape), alpha, 0.0, None, result.dtype)
