"""Matrix times vector, and outer products: gemv, ger, geru, gerc."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trnblas import host
from trnblas.arguments import HALF, alike, needed, transposition, vectors
from trnblas.gemm import gemm
from trnblas.kernels import gemv as kernels
from trnblas.split import split_gemm
from trnsci import Op, array_function, check
from trnsci.gradient import Saved
from trnsci.nki import P_MAX, launch
from trnsci.precision import Precision, arithmetic, resolve

# Elements of a vector that stay in SBUF.
_LONGEST = 16384


@array_function
def gemv(
    alpha: complex,
    a: Tensor,
    x: Tensor,
    beta: complex = 0.0,
    y: Tensor | None = None,
    trans: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * op(a) @ x + beta * y``.

    Args:
        alpha: a number.
        a: [..., M, N]
        x: [..., N], or [..., M] when transposed.
        beta: a number. When it is 0, ``y`` is not read.
        y: [..., M], or [..., N] when transposed.
        trans: ``False``/``"n"``/0, ``True``/``"t"``/1 or ``"c"``/2 (conjugate transpose).
        precision: ``fast``, ``fp32``, ``compensated`` or ``fp64``; by default never less precise than the operands.
        out: memory for the result, shared with no operand.

    Error bound:
        That of `gemm` with K the length of ``x``.

    Example:
        >>> gemv(1.0, torch.ones(2, 3), torch.ones(3))
        tensor([3., 3.])
    """
    if not (alike(a, x) if y is None else alike(a, x, y)):
        operands = {"a": a, "x": x} if y is None else {"a": a, "x": x, "y": y}
        check.floating("gemv", **operands)
        check.same_device("gemv", **operands)
    dtype, kind = a.dtype, transposition("gemv", trans)
    if a.ndim < 2 or x.ndim < 1:
        check.ndim("gemv", 2, a=a)
        check.ndim("gemv", 1, x=x)
    inner, outer = (a.shape[-1], a.shape[-2]) if kind == "n" else (a.shape[-2], a.shape[-1])
    if x.shape[-1] != inner:
        check.equal("gemv", "N" if kind == "n" else "M", a=inner, x=x.shape[-1])
    alpha, beta = check.coefficient("gemv", "alpha", alpha, dtype), check.coefficient("gemv", "beta", beta, dtype)
    needed("gemv", "y", y, "beta", beta, "[..., M]")
    if y is not None:
        check.ndim("gemv", 1, y=y)
        check.equal("gemv", "M" if kind == "n" else "N", a=outer, y=y.shape[-1])
    batch: tuple[int, ...] = ()
    if a.ndim != 2 or x.ndim != 1 or y is not None:
        batch = check.broadcast("gemv", a=a.shape[:-2], x=x.shape[:-1], y=() if y is None else y.shape[:-1])
    policy = resolve("gemv", precision, dtype)
    if out is not None:
        check.out("gemv", out, shape=(*batch, outer), dtype=dtype, a=a, x=x, y=y)
    if policy in ("fast", "compensated") or arithmetic(policy, dtype) is not dtype:
        column = None if y is None else y.unsqueeze(-1)
        target = None if out is None else out.unsqueeze(-1)
        made = gemm(alpha, a, x.unsqueeze(-1), beta, column, kind, precision=policy, out=target)
        return made.squeeze(-1) if out is None else out
    if kind == "c" and a.is_complex():
        a = a.conj()
    if out is None:
        return _gemv(a, x, y, alpha, beta, kind != "n")
    return _gemv.write(out, a, x, y, alpha, beta, kind != "n")


@array_function
def ger(alpha: complex, x: Tensor, y: Tensor, a: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return ``alpha * outer(x, y) + a``, without conjugation.

    Args:
        alpha: a number.
        x: [..., M]
        y: [..., N]
        a: [..., M, N]; zero when left out.
        out: [..., M, N], memory for the result, shared with no operand.

    Error bound:
        ``g(3) (|alpha| |x| |y| + |a|)`` elementwise.

    Example:
        >>> ger(1.0, torch.ones(1), torch.ones(2))
        tensor([[1., 1.]])
    """
    return _outer("ger", alpha, x, y, a, out)


@array_function
def geru(alpha: complex, x: Tensor, y: Tensor, a: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return ``alpha * outer(x, y) + a``: `ger` under BLAS's name for complex vectors."""
    return _outer("geru", alpha, x, y, a, out)


@array_function
def gerc(alpha: complex, x: Tensor, y: Tensor, a: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return ``alpha * outer(x, conj(y)) + a``; arguments as for `ger`."""
    check.tensor("gerc", y=y)
    return _outer("gerc", alpha, x, y.conj(), a, out)


def _outer(op: str, alpha: complex, x: Tensor, y: Tensor, a: Tensor | None, out: Tensor | None) -> Tensor:
    vectors(op, x, y)
    beta = 0.0 if a is None else 1.0
    return gemm(alpha, x.unsqueeze(-1), y.unsqueeze(-2), beta, a, out=out)


def _fake(a: Tensor, x: Tensor, y: Tensor | None, alpha: complex, beta: complex, trans: bool) -> Tensor:
    batch = check.broadcast("gemv", a=a.shape[:-2], x=x.shape[:-1], y=() if y is None else y.shape[:-1])
    return a.new_empty((*batch, a.shape[-1] if trans else a.shape[-2]))


def _cost(a: Tensor, x: Tensor, y: Tensor | None, alpha: complex, beta: complex, trans: bool) -> int:
    batch = math.prod(check.broadcast("gemv", a=a.shape[:-2], x=x.shape[:-1]))
    return 2 * batch * a.shape[-1] * a.shape[-2] * (4 if a.is_complex() else 1)


_gemv = Op(
    "trnblas::gemv",
    fake=_fake,
    cost=_cost,
    schema="(Tensor a, Tensor x, Tensor? y, Scalar alpha, Scalar beta, bool trans) -> Tensor",
)


@_gemv.impl("pytorch")
def _pytorch(a: Tensor, x: Tensor, y: Tensor | None, alpha: complex, beta: complex, trans: bool) -> Tensor:
    return _multiply(a.mT if trans else a, x, y, alpha, beta)


def _multiply(
    a: Tensor, x: Tensor, y: Tensor | None, alpha: complex, beta: complex, out: Tensor | None = None
) -> Tensor:
    if alpha == 0:
        zero = a.new_zeros(_fake(a, x, y, alpha, beta, False).shape)
        return torch.add(zero, zero if y is None or beta == 0 else y, alpha=beta, out=out)
    if a.ndim == 2 and x.ndim == 1 and y is None:
        if out is None and host.multiplies(a, x):
            made = host.product(a, x)
            return made if alpha == 1 else made.mul_(alpha)
        if alpha == 1:
            return torch.mv(a, x, out=out)
        return torch.addmv(a.new_empty(a.shape[0]), a, x, beta=0, alpha=alpha, out=out)
    if a.ndim == 2 and x.ndim == 1 and y is not None and y.ndim == 1 and beta != 0:
        return torch.addmv(y, a, x, beta=beta, alpha=alpha, out=out)
    shape = _fake(a, x, y, alpha, beta, False).shape
    product = (a @ x.unsqueeze(-1)).squeeze(-1).expand(shape)
    if y is None or beta == 0:
        return torch.mul(product, alpha, out=out)
    return torch.add(product * alpha, y, alpha=beta, out=out)


@_gemv.into
def _pytorch_into(
    out: Tensor, a: Tensor, x: Tensor, y: Tensor | None, alpha: complex, beta: complex, trans: bool
) -> None:
    _multiply(a.mT if trans else a, x, y, alpha, beta, out)


@_gemv.vjp(saves=("a", "x"))
def _gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    a, x = saved.a, saved.x
    found: dict[str, Any] = {}
    alpha, beta = complex(saved.alpha).conjugate(), complex(saved.beta).conjugate()
    alpha, beta = (alpha, beta) if a.is_complex() else (alpha.real, beta.real)
    if saved.needs("a"):
        left, right = (x.conj(), grad) if saved.trans else (grad, x.conj())
        found["a"] = ger(alpha, left, right).sum_to_size(a.shape)
    if saved.needs("x"):
        found["x"] = gemv(alpha, a.conj(), grad, trans="n" if saved.trans else "t").sum_to_size(x.shape)
    if saved.needs("y"):
        found["y"] = (beta * grad).sum_to_size(saved.y.shape)
    return found


@_gemv.impl("nki")
def _nki(a: Tensor, x: Tensor, y: Tensor | None, alpha: complex, beta: complex, trans: bool) -> Tensor:
    result = _fake(a, x, y, alpha, beta, trans)
    if result.numel() == 0 or x.shape[-1] == 0 or alpha == 0:
        product = result.zero_()
    else:
        product = _product(a, x, trans).expand(result.shape)
    product = product if alpha == 1 else alpha * product
    return product if y is None or beta == 0 else product + beta * y


def _product(a: Tensor, x: Tensor, trans: bool) -> Tensor:
    batch = torch.broadcast_shapes(a.shape[:-2], x.shape[:-1])
    if a.is_complex():
        # Planes as a batch of four real products.
        shape = (4, *[1] * (len(batch) - a.ndim + 2))
        matrices = torch.stack([a.real, a.imag, a.real, a.imag]).reshape(*shape, *a.shape)
        columns = torch.stack([x.real, x.imag, x.imag, x.real]).reshape(4, *[1] * (len(batch) - x.ndim + 1), *x.shape)
        rr, ii, ri, ir = _product(matrices, columns, trans)
        return torch.complex(rr - ii, ri + ir)
    if a.dtype == torch.float64:
        return split_gemm(a.mT if trans else a, x.unsqueeze(-1)).squeeze(-1)
    if not trans and x.shape[-1] > _LONGEST:
        # The vector stays in SBUF; a longer one is taken in parts.
        parts = zip(a.split(_LONGEST, -1), x.split(_LONGEST, -1), strict=True)
        return torch.stack([_product(u, v, trans) for u, v in parts]).sum(0)
    dtype = a.dtype
    operand = dtype if dtype in HALF else torch.float32
    a = a.expand(*batch, *a.shape[-2:]).reshape(-1, *a.shape[-2:]).to(operand).contiguous()  # [B, M, N]
    x = x.expand(*batch, x.shape[-1]).reshape(-1, x.shape[-1]).to(operand)  # [B, K]
    if trans:
        made: Tensor = launch(kernels.gemv, a, x.unsqueeze(-1).contiguous(), trans=True)  # [B, 1, N]
    else:
        made = launch(kernels.gemv, a, x.unsqueeze(1).expand(-1, P_MAX, -1).contiguous(), trans=False)  # [B, M, 1]
    return made.reshape(*batch, -1).to(dtype)
