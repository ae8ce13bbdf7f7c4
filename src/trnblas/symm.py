"""Products with a symmetric or Hermitian matrix of which one triangle is stored: symm, hemm, symv, hemv."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trnblas import host
from trnblas.accuracy import error_bound, working_dtype
from trnblas.arguments import agree, alike, conjugated, finished, fits, flag, needed, square, triangle
from trnblas.gemm import gemm
from trnblas.kernels import symm as kernels
from trnsci import Op, array_function, check
from trnsci.gradient import Saved
from trnsci.nki import launch
from trnsci.precision import Precision, resolve

# Rows whose tiles stay in SBUF; longer ones go through the whole product.
_LARGEST = 8192


@array_function
def symm(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * a @ b + beta * c``, or ``alpha * b @ a + beta * c``, with ``a`` symmetric.

    Args:
        alpha: a number.
        a: [..., M, M] on the left, [..., N, N] on the right. Only the triangle ``lower`` names is read.
        b: [..., M, N]
        beta: a number. When it is 0, ``c`` is not read.
        c: [..., M, N]
        side: ``a`` on the left (0, ``"l"``) or on the right (1, ``"r"``).
        lower: the lower triangle is stored (1, ``"l"``), or the upper one (0, ``"u"``).
        precision: ``fast``, ``fp32``, ``compensated`` or ``fp64``; by default never less precise than the operands.
        out: [..., M, N], memory for the result, shared with no operand.

    Error bound:
        That of `gemm` with the whole matrix.

    Example:
        >>> symm(1.0, torch.tensor([[1.0, 2.0], [9.0, 3.0]]), torch.eye(2))
        tensor([[1., 2.],
                [2., 3.]])
    """
    return _product("symm", alpha, a, b, beta, c, side, lower, precision, out, hermitian=False)


@array_function
def hemm(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * a @ b + beta * c`` with ``a`` Hermitian; imaginary parts of its diagonal are not read.

    Arguments as for `symm`.
    """
    return _product("hemm", alpha, a, b, beta, c, side, lower, precision, out, hermitian=True)


@array_function
def symv(
    alpha: complex,
    a: Tensor,
    x: Tensor,
    beta: complex = 0.0,
    y: Tensor | None = None,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * a @ x + beta * y`` with ``a`` [..., N, N] symmetric, one triangle stored.

    ``x`` and ``y`` are [..., N]; everything else as for `symm`.

    Example:
        >>> symv(1.0, torch.tensor([[1.0, 2.0], [9.0, 3.0]]), torch.ones(2))
        tensor([3., 5.])
    """
    return _vector("symv", alpha, a, x, beta, y, lower, precision, out, hermitian=False)


@array_function
def hemv(
    alpha: complex,
    a: Tensor,
    x: Tensor,
    beta: complex = 0.0,
    y: Tensor | None = None,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * a @ x + beta * y`` with ``a`` Hermitian; arguments as for `symv`."""
    return _vector("hemv", alpha, a, x, beta, y, lower, precision, out, hermitian=True)


def _vector(
    op: str,
    alpha: complex,
    a: Tensor,
    x: Tensor,
    beta: complex,
    y: Tensor | None,
    lower: bool | int | str,
    precision: Precision | None,
    out: Tensor | None,
    *,
    hermitian: bool,
) -> Tensor:
    if y is None and out is None and type(alpha) is float and alpha != 0 and beta == 0 and fits(a, x):
        stored = flag(op, "lower", lower, "ul")
        if precision is None and _symm.straight() and host.takes(a, x):
            return host.symmetric_vector(alpha, a, x, stored)
        policy = resolve(op, precision, a.dtype)
        return _symm(a, x.unsqueeze(1), None, alpha, 0.0, stored, hermitian and a.is_complex(), policy).squeeze(1)
    check.floating(op, a=a, x=x)
    check.ndim(op, 1, x=x)
    if a.ndim == 0 or a.shape[-1] != x.shape[-1]:
        check.equal(op, "N", a=a.shape[-1] if a.ndim else 0, x=x.shape[-1])
    if y is not None:
        check.floating(op, a=a, y=y)
        check.ndim(op, 1, y=y)
    columns = x.unsqueeze(-1), None if y is None else y.unsqueeze(-1)
    if out is not None:
        batch = check.broadcast(op, a=a.shape[:-2], x=x.shape[:-1], y=() if y is None else y.shape[:-1])
        check.out(op, out, shape=(*batch, x.shape[-1]), dtype=a.dtype, a=a, x=x, y=y)
    made = _product(
        op, alpha, a, columns[0], beta, columns[1], False, lower, precision,
        None if out is None else out.unsqueeze(-1), hermitian=hermitian, names=("x", "y"),
    )  # fmt: skip
    return made.squeeze(-1) if out is None else out


def _product(
    op: str,
    alpha: complex,
    a: Tensor,
    b: Tensor,
    beta: complex,
    c: Tensor | None,
    side: bool | int | str,
    lower: bool | int | str,
    precision: Precision | None,
    out: Tensor | None,
    *,
    hermitian: bool,
    names: tuple[str, str] = ("b", "c"),
) -> Tensor:
    operands = {"a": a, names[0]: b} if c is None else {"a": a, names[0]: b, names[1]: c}
    if not alike(*operands.values()):
        check.floating(op, **operands)
        check.same_device(op, **operands)
    dtype, n = a.dtype, square(op, a=a)
    check.ndim(op, 2, **operands)
    right = flag(op, "side", side, "lr")
    stored_lower = flag(op, "lower", lower, "ul")
    alpha, beta = check.coefficient(op, "alpha", alpha, dtype), check.coefficient(op, "beta", beta, dtype)
    needed(op, names[1], c, "beta", beta, "[..., M, N]")
    if b.shape[-1 if right else -2] != n:
        agree(op, "N" if right else "M", {"a": n, names[0]: b.shape[-1 if right else -2]})
    if c is not None:
        agree(op, "shape", {names[0]: tuple(b.shape[-2:]), names[1]: tuple(c.shape[-2:])})
    shape = tuple(b.shape)
    if a.ndim != 2 or b.ndim != 2 or c is not None:
        shape = (*check.broadcast(op, **{k: v.shape[:-2] for k, v in operands.items()}), *b.shape[-2:])
    if out is not None:
        check.out(op, out, shape=shape, dtype=dtype, **operands)
    policy = resolve(op, precision, dtype)
    hermitian = hermitian and dtype.is_complex
    if right:
        # b @ a is the transpose of a.T @ b.T, and a.T is a, or its conjugate.
        flipped, addend = a.conj() if hermitian else a, None if c is None else c.mT
        made = _symm(flipped, b.mT, addend, alpha, beta, stored_lower, hermitian, policy).mT
    else:
        made = _symm(a, b, c, alpha, beta, stored_lower, hermitian, policy)
    return made if out is None else out.copy_(made)


def filled(a: Tensor, lower: bool, hermitian: bool) -> Tensor:
    """The whole matrix from its stored triangle."""
    kept = triangle(a, lower)
    strict = a.tril(-1) if lower else a.triu(1)
    # Not a lazy conjugate: inside a compiled graph nobody would resolve it.
    whole = kept + (strict.mT.conj_physical() if hermitian else strict.mT)
    if not hermitian:
        return whole
    diagonal = torch.diagonal(a, 0, -2, -1).real
    return torch.diagonal_scatter(whole, torch.complex(diagonal, torch.zeros_like(diagonal)), 0, -2, -1)


def _fake(
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: complex,
    beta: complex,
    lower: bool,
    hermitian: bool,
    precision: Precision,
) -> Tensor:
    batch = check.broadcast("symm", a=a.shape[:-2], b=b.shape[:-2], c=() if c is None else c.shape[:-2])
    return b.new_empty((*batch, *b.shape[-2:]))


def _cost(a: Tensor, b: Tensor, *_: Any) -> int:
    batch = math.prod(check.broadcast("symm", a=a.shape[:-2], b=b.shape[:-2]))
    return 2 * batch * a.shape[-1] * b.shape[-1] * b.shape[-2] * (4 if a.is_complex() else 1)


_symm = Op(
    "trnblas::symm",
    fake=_fake,
    cost=_cost,
    schema="(Tensor a, Tensor b, Tensor? c, Scalar alpha, Scalar beta, bool lower, bool hermitian, str precision)"
    " -> Tensor",
)


@_symm.bound
def _bound(backend: str, a: Tensor, *rest: Any) -> float:
    return error_bound(a.shape[-1], a.dtype, rest[-1])


@_symm.impl("pytorch")
def _pytorch(
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: complex,
    beta: complex,
    lower: bool,
    hermitian: bool,
    precision: Precision,
) -> Tensor:
    native = precision in ("fp32", "fp64") and working_dtype(precision, a.dtype) is a.dtype
    if native and not hermitian and alpha != 0 and host.serves(a, b):
        made = host.symmetric_product(alpha.real, a, b, lower)
        return made if c is None else finished(made, 1.0, beta, c, a.dtype)
    return gemm(alpha, filled(a, lower, hermitian), b, beta, c, precision=precision)


@_symm.vjp(saves=("a", "b"))
def _gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    a, b, lower, hermitian, policy = saved.a, saved.b, saved.lower, saved.hermitian, saved.precision
    alpha = conjugated(saved.alpha, a)
    found = {}
    if saved.needs("b"):
        factor = a if hermitian else a.conj()
        found["b"] = _symm(factor, grad, None, alpha, 0.0, lower, hermitian, policy).sum_to_size(b.shape)
    if saved.needs("a"):
        whole = gemm(alpha, grad, b, trans_b="c", precision=policy)
        other = whole.mH if hermitian else whole.mT
        both = triangle(whole, lower) + (other.tril(-1) if lower else other.triu(1))
        if hermitian:
            diagonal = torch.diagonal(both, 0, -2, -1).real
            both = torch.diagonal_scatter(both, torch.complex(diagonal, torch.zeros_like(diagonal)), 0, -2, -1)
        found["a"] = both.sum_to_size(a.shape)
    if saved.needs("c"):
        found["c"] = (conjugated(saved.beta, a) * grad).sum_to_size(saved.c.shape)
    return found


@_symm.impl("nki")
def _nki(
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: complex,
    beta: complex,
    lower: bool,
    hermitian: bool,
    precision: Precision,
) -> Tensor:
    batch = check.broadcast("symm", a=a.shape[:-2], b=b.shape[:-2])
    if a.dtype != torch.float32 or precision != "fp32" or a.shape[-1] > _LARGEST or b.numel() == 0 or alpha == 0:
        # Planes, slices and rounded operands are made from the whole matrix.
        return gemm(alpha, filled(a, lower, hermitian), b, beta, c, precision=precision)
    # The upper triangle of a matrix is the lower one of its transpose.
    stored = a if lower else a.mT
    stored = stored.unsqueeze(0) if a.ndim == 2 else stored.expand(*batch, *a.shape[-2:]).flatten(0, -3)
    made: Tensor = launch(
        kernels.symm, stored.contiguous(), b.expand(*batch, *b.shape[-2:]).reshape(-1, *b.shape[-2:]).contiguous()
    )
    return finished(made.reshape(*batch, *b.shape[-2:]), alpha, beta, c, a.dtype)
