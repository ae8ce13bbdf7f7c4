"""CUDA's extensions: a matrix times a diagonal one (dgmm), and sums of matrices (geam)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from trnblas.arguments import HALF, alike, by_planes, flag, large_pages, rounds, transpose_by, transposition
from trnblas.axpy import Combine
from trnblas.kernels import dgmm as kernels
from trnsci import array_function, check, op, run
from trnsci.gradient import saves
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
    alike("geam", a=a, b=b)
    check.ndim("geam", 2, a=a, b=b)
    dtype = a.dtype
    x = transpose_by(transposition("geam", trans_a, "trans_a"), a)
    y = transpose_by(transposition("geam", trans_b, "trans_b"), b)
    shape = tuple(x.shape)
    if x.shape != y.shape:
        check.equal("geam", "shape", a=tuple(x.shape[-2:]), b=tuple(y.shape[-2:]))
        shape = check.broadcast("geam", a=x.shape, b=y.shape)
        x, y = x.expand(shape), y.expand(shape)
    row = [check.coefficient("geam", "alpha", alpha, dtype), check.coefficient("geam", "beta", beta, dtype)]
    if out is not None:
        check.out("geam", out, shape=shape, dtype=dtype, a=a, b=b)
    return run(Combine([x, y], row), out)


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
    alike("dgmm", a=a, x=x)
    right = flag("dgmm", "side", side, "lr")
    if a.ndim != 2 or x.ndim != 1 or a.shape[right] != x.shape[0]:
        check.ndim("dgmm", 2, a=a)
        check.ndim("dgmm", 1, x=x)
        check.equal("dgmm", "N" if right else "M", a=a.shape[-1 if right else -2], x=x.shape[-1])
        check.broadcast("dgmm", a=a.shape[:-2], x=x.shape[:-1])
    call = Dgmm(a, x, right)
    if out is not None:
        check.out("dgmm", out, shape=call.shape, dtype=a.dtype, a=a, x=x)
    return run(call, out)


@op("trnblas::dgmm")
class Dgmm(NamedTuple):
    """``a @ diag(x)``, or ``diag(x) @ a`` unless ``right``."""

    a: Tensor  # [..., M, N]
    x: Tensor  # [..., N] or [..., M]
    right: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return (*check.broadcast("dgmm", a=self.a.shape[:-2], x=self.x.shape[:-1]), *self.a.shape[-2:])

    def fake(self) -> Tensor:
        return self.a.new_empty(self.shape)

    def cost(self) -> int:
        return math.prod(self.shape) * (6 if self.a.is_complex() else 1)

    def limits(self, implementation: str) -> str | None:
        return rounds(self.a) if implementation == "nki" else None

    def pytorch(self) -> Tensor:
        factors = self.a, self.x.unsqueeze(-2 if self.right else -1)
        return torch.mul(*factors, out=large_pages(self.a, self.x) if self.x.ndim == 1 else None)

    def into(self, out: Tensor) -> None:
        torch.mul(self.a, self.x.unsqueeze(-2 if self.right else -1), out=out)

    @saves("a", "x")
    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        gradients = {}
        if "a" in needs:
            gradients["a"] = run(Dgmm(grad, self.x.conj(), self.right)).sum_to_size(self.a.shape)
        if "x" in needs:
            products = (grad * self.a.conj()).sum(-2 if self.right else -1)
            gradients["x"] = products.sum_to_size(self.x.shape)
        return gradients

    def nki(self) -> Tensor:
        return _kernel(self.a, self.x, self.right)


def _kernel(a: Tensor, x: Tensor, right: bool) -> Tensor:
    shape = Dgmm(a, x, right).shape
    if 0 in shape:
        return a.new_empty(shape)
    if a.is_complex():
        return by_planes(lambda matrices, scales: _kernel(matrices, scales, right), a, x, (2, 1))
    if right:
        # Scaling columns is scaling rows of the transpose; rows are partitions, which scale for free.
        return _kernel(a.mT, x, False).mT
    operand = a.dtype if a.dtype in HALF else torch.float32
    rows = a.to(operand).expand(shape).reshape(-1, a.shape[-1]).contiguous()  # [B M, N]
    scale = x.float().expand(*shape[:-2], a.shape[-2]).reshape(-1, 1).contiguous()  # [B M, 1]
    product: Tensor = launch(kernels.dgmm, rows, scale)
    return product.reshape(shape)
