"""Triangular systems, backward stable on every backend."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trnblas import gemm, trsm
from trnsci import Op, array_function, check
from trnsci.gradient import Saved
from trnsolver.arguments import matrices, nonsingular, settled, square, written


@array_function
def solve_triangular(
    a: Tensor,
    b: Tensor,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Solve with a triangular matrix: the arguments of `torch.linalg.solve_triangular`.

    Args:
        a: [..., N, N]; only the triangle ``upper`` names is read.
        b: [..., N, K], or [..., K, N] when ``left`` is false.
        upper: ``a`` is upper triangular.
        left: solve ``a @ x = b``; otherwise ``x @ a = b``.
        unitriangular: the diagonal counts as ones.
        out: where the result goes; it must fit and share no memory with an operand.

    Raises:
        Singular: a diagonal entry is zero.

    Error bound:
        backward: ``norm(b - a @ x) <= 20 N u norm(a) norm(x)``.

    Cost:
        ``N**2 K`` FLOPs; twice that and a product on chip, for the correction.

    Example:
        >>> solve_triangular(torch.tensor([[2.0, 0.0], [2.0, 1.0]]), torch.ones(2, 1), upper=False)
        tensor([[0.5000],
                [0.0000]])
    """
    matrices("solve_triangular", look=False, a=a, b=b)
    square("solve_triangular", look=False, a=a)
    rows = b.shape[-2] if left else b.shape[-1]
    if rows != a.shape[-1]:
        check.equal("solve_triangular", "N", a=a.shape[-1], b=rows)
    check.same_device("solve_triangular", a=a, b=b)
    if a.shape[:-2] != b.shape[:-2]:
        check.broadcast("solve_triangular", a=a.shape[:-2], b=b.shape[:-2])
    read = functools.partial(torch.triu if upper else torch.tril, a)
    if not unitriangular:
        nonsingular("solve_triangular", a.diagonal(dim1=-2, dim2=-1), a=read)
    if left:
        x = triangular(a, b, lower=not upper, unit=unitriangular)
    else:
        x = triangular(a.mT, b.mT, lower=upper, unit=unitriangular).mT
    settled("solve_triangular", x, b=b, a=read)
    return written("solve_triangular", out, x, a=a, b=b)


def triangular(a: Tensor, b: Tensor, *, lower: bool, unit: bool = False) -> Tensor:
    """Solve ``a @ x = b`` with checked operands; what the other functions of the library call."""
    return _solve(a, b, lower, unit)


def _fake(a: Tensor, b: Tensor, lower: bool, unit: bool) -> Tensor:
    m, n = b.shape[-2:]
    return b.new_empty((*check.broadcast("solve_triangular", a=a.shape[:-2], b=b.shape[:-2]), n, m)).mT


def _cost(a: Tensor, b: Tensor, lower: bool, unit: bool) -> int:
    batch = math.prod(check.broadcast("solve_triangular", a=a.shape[:-2], b=b.shape[:-2]))
    return batch * a.shape[-1] * b.shape[-1] * b.shape[-2] * (4 if a.is_complex() else 1)


_solve = Op("trnsolver::solve_triangular", fake=_fake, cost=_cost)


@_solve.impl("pytorch")
def _pytorch(a: Tensor, b: Tensor, lower: bool, unit: bool) -> Tensor:
    made: Tensor = torch.linalg.solve_triangular(a, b, upper=not lower, unitriangular=unit)
    return made


@_solve.impl("nki")
def _nki(a: Tensor, b: Tensor, lower: bool, unit: bool) -> Tensor:
    """The kernel multiplies by inverses of diagonal tiles, which is stable only with one correction by the residual."""
    if b.numel() == 0 or a.numel() == 0:
        return torch.zeros_like(_fake(a, b, lower, unit))
    x = trsm(1.0, a, b, lower=lower, diag=unit)
    return x + trsm(1.0, a, _left(a, b, x, lower, unit), lower=lower, diag=unit)


def _left(a: Tensor, b: Tensor, x: Tensor, lower: bool, unit: bool) -> Tensor:
    kept = a.tril(-1 if unit else 0) if lower else a.triu(1 if unit else 0)
    right = b.expand(x.shape) - x if unit else b.expand(x.shape)
    return gemm(-1.0, kept, x, 1.0, right)


@_solve.vjp(saves=("a", "result"))
def _gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    turned = triangular(saved.a.mH, grad, lower=not saved.lower, unit=saved.unit)
    found: dict[str, Any] = {}
    if saved.needs("b"):
        found["b"] = turned.sum_to_size(saved.b.shape)
    if saved.needs("a"):
        whole = gemm(-1.0, turned, saved.result, trans_b="c")
        off = 1 if saved.unit else 0
        found["a"] = (whole.tril(-off) if saved.lower else whole.triu(off)).sum_to_size(saved.a.shape)
    return found
