"""Preconditioners: functions close to the inverse of a matrix, for `cg`, `gmres` and the others."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnsci import NotPositiveDefinite, check
from trnsci.backends import on_host
from trnsolver.arguments import nonsingular, or_shapes, square
from trnsolver.lu import lu_factor, lu_solve
from trnsolver.operators import Apply, on_columns
from trnsolver.solve_triangular import triangular


def jacobi_preconditioner(a: Tensor) -> Apply:
    """Divide by the diagonal of ``a`` [N, N], dense or sparse; `Singular` when an entry of it is zero.

    Example:
        >>> jacobi_preconditioner(torch.diag(torch.tensor([2.0, 4.0])))(torch.ones(2, 1))
        tensor([[0.5000],
                [0.2500]])
    """
    on_host("trnsolver.jacobi_preconditioner")
    a = _dense("jacobi_preconditioner", a)
    diagonal = a.diagonal().clone().unsqueeze(-1)
    nonsingular("jacobi_preconditioner", diagonal[:, 0])
    return on_columns("jacobi_preconditioner", len(a), lambda r: r / diagonal)


def block_jacobi_preconditioner(a: Tensor, size: int) -> Apply:
    """Solve with the diagonal blocks of ``size`` rows, factored once, all in one batch.

    Example:
        >>> block_jacobi_preconditioner(torch.diag(torch.tensor([2.0, 4.0, 5.0])), 2)(torch.ones(3, 1)).T
        tensor([[0.5000, 0.2500, 0.2000]])
    """
    a = _dense("block_jacobi_preconditioner", a)
    n = a.shape[-1]
    check.integer("block_jacobi_preconditioner", "size", size, 1, max(1, n))
    whole = n // size
    a = or_shapes(a)
    blocks = torch.stack([a[i * size : (i + 1) * size, i * size : (i + 1) * size] for i in range(whole)])
    factors = lu_factor(blocks)
    nonsingular("block_jacobi_preconditioner", factors.factors.diagonal(dim1=-2, dim2=-1))
    rest = lu_factor(a[whole * size :, whole * size :]) if n % size else None
    if rest is not None:
        nonsingular("block_jacobi_preconditioner", rest.factors.diagonal())

    def apply(r: Tensor) -> Tensor:
        head = lu_solve(*factors, r[: whole * size].reshape(whole, size, -1)).reshape(whole * size, -1)
        return head if rest is None else torch.cat([head, lu_solve(*rest, r[whole * size :])])

    return on_columns("block_jacobi_preconditioner", n, apply)


def ssor_preconditioner(a: Tensor, *, omega: float = 1.0) -> Apply:
    """Symmetric successive over-relaxation: one sweep down and one up, with ``omega`` between 0 and 2.

    Example:
        >>> ssor_preconditioner(torch.diag(torch.tensor([2.0, 4.0])))(torch.ones(2, 1))
        tensor([[0.5000],
                [0.2500]])
    """
    a = _dense("ssor_preconditioner", a)
    omega = check.real("ssor_preconditioner", "omega", omega)
    check.refuse(not 0 < omega < 2, "ssor_preconditioner", "omega", omega, "between 0 and 2")
    diagonal = a.diagonal().clone()
    nonsingular("ssor_preconditioner", diagonal)
    middle = torch.diag(diagonal / omega)
    lower, upper = a.tril(-1) + middle, a.triu(1) + middle
    scale = (diagonal * (2 - omega) / omega).unsqueeze(-1)

    def apply(r: Tensor) -> Tensor:
        return triangular(upper, scale * triangular(lower, r, lower=True), lower=False)

    return on_columns("ssor_preconditioner", len(a), apply)


def ic0_preconditioner(a: Tensor) -> Apply:
    """Incomplete Cholesky without fill: the factor has the zeros of ``a``.

    Raises:
        NotPositiveDefinite: a pivot is not positive, which may happen to definite matrices too.

    Example:
        >>> ic0_preconditioner(torch.diag(torch.tensor([2.0, 4.0])))(torch.ones(2, 1))
        tensor([[0.5000],
                [0.2500]])
    """
    a = _dense("ic0_preconditioner", a)
    check.data("ic0_preconditioner", a=a)
    factor = a.tril().clone()
    pattern = factor != 0
    for k in range(len(a)):
        pivot = factor[k, k].real
        if not float(pivot) > 0:
            raise NotPositiveDefinite(op="ic0_preconditioner", index=k, hint="Add a multiple of the diagonal")
        factor[k:, k] /= pivot.sqrt()
        below = factor[k + 1 :, k]
        rows = torch.nonzero(below).flatten()
        if len(rows):
            corner = (rows + k + 1).unsqueeze(1), (rows + k + 1).unsqueeze(0)
            update = torch.outer(below[rows], below[rows].conj())
            factor[corner] = torch.where(pattern[corner], factor[corner] - update, factor[corner])
    factor = factor.tril()

    def apply(r: Tensor) -> Tensor:
        return triangular(factor.mH, triangular(factor, r, lower=True), lower=False)

    return on_columns("ic0_preconditioner", len(a), apply)


def ilu0_preconditioner(a: Tensor) -> Apply:
    """Incomplete LU without fill and without exchanges; `Singular` at a zero pivot.

    Example:
        >>> ilu0_preconditioner(torch.diag(torch.tensor([2.0, 4.0])))(torch.ones(2, 1))
        tensor([[0.5000],
                [0.2500]])
    """
    a = _dense("ilu0_preconditioner", a)
    check.data("ilu0_preconditioner", a=a)
    factors = a.clone()
    pattern = a != 0
    for k in range(len(a)):
        nonsingular("ilu0_preconditioner", torch.cat([torch.ones_like(factors[0, :k]), factors[k, k : k + 1]]))
        rows = torch.nonzero(pattern[k + 1 :, k]).flatten() + k + 1
        columns = torch.nonzero(pattern[k, k + 1 :]).flatten() + k + 1
        factors[rows, k] /= factors[k, k]
        corner = rows.unsqueeze(1), columns.unsqueeze(0)
        update = torch.outer(factors[rows, k], factors[k, columns])
        factors[corner] = torch.where(pattern[corner], factors[corner] - update, factors[corner])

    def apply(r: Tensor) -> Tensor:
        return triangular(factors, triangular(factors, r, lower=True, unit=True), lower=False)

    return on_columns("ilu0_preconditioner", len(a), apply)


def _dense(op: str, a: Any) -> Tensor:
    if not isinstance(a, Tensor) and hasattr(a, "to_dense"):
        a = a.to_dense()
    if isinstance(a, Tensor) and a.layout != torch.strided:
        a = a.to_dense()
    square(op, a=a)
    check.refuse(a.ndim != 2, op, "shape of a", tuple(a.shape), "a matrix: 2 dimensions")
    return a
