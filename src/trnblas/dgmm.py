"""CUDA's extensions: a matrix times a diagonal one (dgmm), and sums of matrices (geam)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trnblas.arguments import HALF, alike, applied, flag, rounds, transposition
from trnblas.axpy import combine
from trnblas.kernels import dgmm as kernels
from trnsci import Op, array_function, check
from trnsci.gradient import Saved
from trnsci.nki import launch


@array_function
def geam(
    alpha: complex,
    a: Tensor,
    beta: complex,
    b: Tensor,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * op(a) + beta * op(b)``.

    Args:
        alpha: a number.
        a: [..., M, N] after ``trans_a``.
        beta: a number.
        b: [..., M, N] after ``trans_b``; leading axes broadcast.
        trans_a: ``"n"``, ``"t"`` or ``"c"``.
        trans_b: likewise.
        out: memory for the result, shared with no operand.

    Error bound:
        ``g(2) (|alpha a| + |beta b|)`` elementwise.

    Example:
        >>> geam(1.0, torch.eye(2), 2.0, torch.eye(2))
        tensor([[3., 0.],
                [0., 3.]])
    """
    if not alike(a, b):
        check.floating("geam", a=a, b=b)
        check.same_device("geam", a=a, b=b)
    check.ndim("geam", 2, a=a, b=b)
    dtype = a.dtype
    x = applied(transposition("geam", trans_a, "trans_a"), a)
    y = applied(transposition("geam", trans_b, "trans_b"), b)
    shape = tuple(x.shape)
    if x.shape != y.shape:
        check.equal("geam", "shape", a=tuple(x.shape[-2:]), b=tuple(y.shape[-2:]))
        shape = check.broadcast("geam", a=x.shape, b=y.shape)
        x, y = x.expand(shape), y.expand(shape)
    row = [check.coefficient("geam", "alpha", alpha, dtype), check.coefficient("geam", "beta", beta, dtype)]
    if out is None:
        return combine([x, y], row)
    check.out("geam", out, shape=shape, dtype=dtype, a=a, b=b)
    return combine.write(out, [x, y], row)


@array_function
def dgmm(a: Tensor, x: Tensor, side: bool | int | str = True, *, out: Tensor | None = None) -> Tensor:
    """Return ``a @ diag(x)``, or ``diag(x) @ a``.

    Args:
        a: [..., M, N]
        x: [..., N] on the right, [..., M] on the left.
        side: the diagonal matrix on the left (0, ``"l"``) or on the right (1, ``"r"``).
        out: [..., M, N], memory for the result, shared with no operand.

    Error bound:
        One rounding.

    Example:
        >>> dgmm(torch.ones(2, 2), torch.tensor([1.0, 2.0]))
        tensor([[1., 2.],
                [1., 2.]])
    """
    if not alike(a, x):
        check.floating("dgmm", a=a, x=x)
        check.same_device("dgmm", a=a, x=x)
    check.ndim("dgmm", 2, a=a)
    check.ndim("dgmm", 1, x=x)
    right = flag("dgmm", "side", side, "lr")
    check.equal("dgmm", "N" if right else "M", a=a.shape[-1 if right else -2], x=x.shape[-1])
    batch = check.broadcast("dgmm", a=a.shape[:-2], x=x.shape[:-1])
    if out is None:
        return _dgmm(a, x, right)
    check.out("dgmm", out, shape=(*batch, *a.shape[-2:]), dtype=a.dtype, a=a, x=x)
    return _dgmm.write(out, a, x, right)


def _fake(a: Tensor, x: Tensor, right: bool) -> Tensor:
    return a.new_empty((*check.broadcast("dgmm", a=a.shape[:-2], x=x.shape[:-1]), *a.shape[-2:]))


def _cost(a: Tensor, x: Tensor, right: bool) -> int:
    return _fake(a, x, right).numel() * (6 if a.is_complex() else 1)


_dgmm = Op("trnblas::dgmm", fake=_fake, cost=_cost)


@_dgmm.impl("pytorch")
def _pytorch(a: Tensor, x: Tensor, right: bool) -> Tensor:
    return a * x.unsqueeze(-2 if right else -1)


@_dgmm.into
def _pytorch_into(out: Tensor, a: Tensor, x: Tensor, right: bool) -> None:
    torch.mul(a, x.unsqueeze(-2 if right else -1), out=out)


@_dgmm.vjp(saves=("a", "x"))
def _gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    found = {}
    if saved.needs("a"):
        found["a"] = _dgmm(grad, saved.x.conj(), saved.right).sum_to_size(saved.a.shape)
    if saved.needs("x"):
        found["x"] = (grad * saved.a.conj()).sum(-2 if saved.right else -1).sum_to_size(saved.x.shape)
    return found


def _limits(a: Tensor, x: Tensor, right: bool) -> str | None:
    return rounds(a)


@_dgmm.impl("nki", limits=_limits)
def _nki(a: Tensor, x: Tensor, right: bool) -> Tensor:
    result = _fake(a, x, right)
    if result.numel() == 0:
        return result
    if a.is_complex():
        lead = len(result.shape) - 2
        matrices = torch.stack([a.real, a.imag, a.real, a.imag]).reshape(4, *[1] * (lead - a.ndim + 2), *a.shape)
        scales = torch.stack([x.real, x.imag, x.imag, x.real]).reshape(4, *[1] * (lead - x.ndim + 1), *x.shape)
        rr, ii, ri, ir = _nki(matrices, scales, right)
        return torch.complex(rr - ii, ri + ir)
    if right:
        # Scaling columns is scaling rows of the transpose; rows are partitions, which scale for free.
        return _nki(a.mT, x, False).mT
    operand = a.dtype if a.dtype in HALF else torch.float32
    batch = result.shape[:-2]
    rows = a.to(operand).expand(result.shape).reshape(-1, a.shape[-1]).contiguous()  # [B M, N]
    scale = x.float().expand(*batch, a.shape[-2]).reshape(-1, 1).contiguous()  # [B M, 1]
    made: Tensor = launch(kernels.dgmm, rows, scale)
    return made.reshape(result.shape)
