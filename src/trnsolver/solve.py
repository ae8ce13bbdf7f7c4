"""Linear systems, inverses, determinants and least squares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, overload

import torch
from torch import Tensor

from trnblas import gemm
from trnsci import ArgumentError, Op, array_function, check
from trnsci.gradient import Saved
from trnsolver.arguments import (
    finite,
    matrices,
    nonsingular,
    readable,
    right_hand_side,
    roundoff,
    settled,
    square,
)
from trnsolver.contract import Solution, lstsq_to, solve_to
from trnsolver.lu import lu_op, lu_solve_op
from trnsolver.qr import qr
from trnsolver.solve_triangular import triangular
from trnsolver.spd import solve_spd
from trnsolver.svd import svd, svdvals


@overload
def solve(a: Tensor, b: Tensor, *, assume: Literal["gen", "pos"] = ..., target_error: None = ...) -> Tensor: ...
@overload
def solve(a: Tensor, b: Tensor, *, assume: Literal["gen", "pos"] = ..., target_error: float) -> Solution: ...
@array_function
def solve(
    a: Tensor, b: Tensor, *, assume: Literal["gen", "pos"] = "gen", target_error: float | None = None
) -> Tensor | Solution:
    """Solve ``a @ x = b``.

    Args:
        a: [..., N, N].
        b: [..., N, K] or [..., N], by torch's rule.
        assume: ``gen``, or ``pos`` for Hermitian positive definite matrices.
        target_error: relative forward error to reach. The factors are then float32, corrected with accurate residuals;
            the result is a `Solution` in float64 with the error reached, for one matrix ``a``.

    Raises:
        Singular: a pivot is zero.
        NotConverged: the condition number forbids ``target_error``; ``residual`` is the error reached.

    Error bound:
        backward: ``norm(b - a @ x) <= 20 N u (norm(a) norm(x) + norm(b))``.

    Example:
        >>> solve(torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.ones(2))
        tensor([0.5000, 0.2500])
        >>> solve(torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.ones(2), target_error=1e-12).x
        tensor([0.5000, 0.2500], dtype=torch.float64)
    """
    check.option("solve", "assume", assume, ("gen", "pos"))
    if target_error is not None:
        return solve_to(a, b, target_error)
    if assume == "pos":
        return solve_spd(a, b)
    square("solve", look=False, a=a)
    vector = right_hand_side("solve", a, b, look=False)
    x = _solved("solve", a, b.unsqueeze(-1) if vector else b)
    settled("solve", x, a=a, b=b)
    return x.squeeze(-1) if vector else x


def _solved(op: str, a: Tensor, b: Tensor) -> Tensor:
    factors, pivots, turned = _factored(a)
    if not bool((factors.diagonal(dim1=-2, dim2=-1) != 0).all() if readable(factors) else True):
        finite(op, a=a)
        nonsingular(op, factors.diagonal(dim1=-2, dim2=-1))
    return lu_solve_op(factors, pivots, b, turned)


def _factored(a: Tensor) -> tuple[Tensor, Tensor, bool]:
    """LU of ``a``, or of its transpose where that lies as LAPACK wants it, which saves a copy."""
    turned = a.is_cpu and not a.is_complex() and a.is_contiguous()
    return *lu_op(a.mT if turned else a), turned


@array_function
def inv(a: Tensor) -> Tensor:
    """Invert a matrix [..., N, N] by LU.

    Raises:
        Singular: a pivot is zero.

    Error bound:
        each column is a solution with the bound of `solve`.

    Example:
        >>> inv(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.2500]])
    """
    square("inv", look=False, a=a)
    eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    x = _solved("inv", a, eye.expand(a.shape))
    settled("inv", x, a=a)
    return x


@array_function
def slogdet(a: Tensor) -> tuple[Tensor, Tensor]:
    """Sign (or phase) and logarithm of the modulus of the determinant of ``a`` [..., N, N].

    Example:
        >>> sign, logarithm = slogdet(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
        >>> sign, logarithm
        (tensor(-1.), tensor(0.))
    """
    square("slogdet", look=False, a=a)
    factors, pivots, _ = _factored(a)
    diagonal = factors.diagonal(dim1=-2, dim2=-1)
    settled("slogdet", diagonal, a=a)
    sign = torch.sgn(diagonal).prod(-1) * _parity(pivots).to(a.dtype)
    return sign, diagonal.abs().log().sum(-1)


@array_function
def det(a: Tensor) -> Tensor:
    """Determinant of ``a`` [..., N, N]; `slogdet` does not overflow.

    Example:
        >>> det(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor(8.)
    """
    square("det", look=False, a=a)
    factors, pivots, _ = _factored(a)
    diagonal = factors.diagonal(dim1=-2, dim2=-1)
    settled("det", diagonal, a=a)
    return diagonal.prod(-1) * _parity(pivots).to(a.dtype)


def _parity(pivots: Tensor) -> Tensor:
    steps = torch.arange(1, pivots.shape[-1] + 1, device=pivots.device)
    return 1 - 2 * ((pivots != steps).sum(-1) % 2)


@overload
def lstsq(a: Tensor, b: Tensor, *, rcond: float | None = ..., target_error: None = ...) -> Tensor: ...
@overload
def lstsq(a: Tensor, b: Tensor, *, rcond: float | None = ..., target_error: float) -> Solution: ...
@array_function
def lstsq(a: Tensor, b: Tensor, *, rcond: float | None = None, target_error: float | None = None) -> Tensor | Solution:
    """Return the ``x`` of least norm that minimises ``norm(a @ x - b)``.

    Args:
        a: [..., M, N], of any rank.
        b: [..., M, K] or [..., M].
        rcond: singular values below ``rcond`` times the largest count as zero; ``max(M, N)`` times epsilon by default.
        target_error: relative forward error to reach, for one matrix of full column rank; the result is then a
            `Solution` in float64, from float32 factors of the system that residual and solution fulfil together.

    Returns:
        [..., N, K] or [..., N]. The rank is decided by pivoted QR on the host; on chip, full column rank is solved by
        QR, anything else by the SVD.

    Raises:
        NotConverged: ``target_error`` was not reached; ``residual`` is what was.

    Error bound:
        ``x`` solves a system within ``20 M u norm(a)`` and ``20 M u norm(b)`` of this one.

    Cost:
        ``2 N**2 (M - N / 3)`` FLOPs for full rank, about ten times that otherwise.

    Example:
        >>> lstsq(torch.tensor([[1.0], [1.0]]), torch.tensor([1.0, 3.0])).round(decimals=4)
        tensor([2.])
    """
    if target_error is not None:
        if rcond is not None:
            raise ArgumentError(op="lstsq", argument="rcond", got=rcond, expected="None with target_error")
        return lstsq_to(a, b, target_error)
    matrices("lstsq", a=a)
    vector = right_hand_side("lstsq", a, b)
    x = _lstsq(a, b.unsqueeze(-1) if vector else b, -1.0 if rcond is None else rcond)
    return x.squeeze(-1) if vector else x


def _fake_lstsq(a: Tensor, b: Tensor, rcond: float) -> Tensor:
    batch = check.broadcast("lstsq", a=a.shape[:-2], b=b.shape[:-2])
    return b.new_empty((*batch, a.shape[-1], b.shape[-1]))


def _cost_lstsq(a: Tensor, b: Tensor, rcond: float) -> int:
    m, n = max(a.shape[-2:]), min(a.shape[-2:])
    return (
        a.numel() // max(1, m * n) * (2 * n * n * (m - n // 3) + 4 * m * n * b.shape[-1]) * (4 if a.is_complex() else 1)
    )


_lstsq = Op("trnsolver::lstsq", fake=_fake_lstsq, cost=_cost_lstsq)


@_lstsq.impl("pytorch")
def _pytorch_lstsq(a: Tensor, b: Tensor, rcond: float) -> Tensor:
    if not a.is_cpu or not a.numel() or not readable(a) or (torch.is_grad_enabled() and a.requires_grad):
        return _composed(a, b, rcond)
    least = max(a.shape[-2:]) * 2 * roundoff(a.dtype) if rcond < 0 else rcond
    batch = check.broadcast("lstsq", a=a.shape[:-2], b=b.shape[:-2])
    whole, right = a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])
    # Complete orthogonal factorisation: the rank by pivoted QR.
    return torch.linalg.lstsq(whole, right, rcond=least, driver="gelsy").solution


@_lstsq.impl("nki")
def _composed(a: Tensor, b: Tensor, rcond: float) -> Tensor:
    """QR for a rank that is clearly full, the SVD for anything else."""
    m, n = a.shape[-2:]
    if m >= n > 0 and readable(a):
        q, r = qr(a)
        diagonal = r.detach().diagonal(dim1=-2, dim2=-1).abs()
        least = (m * 2 * roundoff(a.dtype) if rcond < 0 else rcond) * 32
        if bool((diagonal.amin(-1) > least * torch.linalg.matrix_norm(r.detach())).all()):
            return triangular(r, gemm(1.0, q, b, trans_a="c"), lower=False)
    return gemm(1.0, pinv(a, rcond=None if rcond < 0 else rcond), b)


@_lstsq.vjp(saves=("a", "b"))
def _gradient_lstsq(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    with torch.enable_grad():
        a, b = saved.a.detach().requires_grad_(), saved.b.detach().requires_grad_()
        found = torch.autograd.grad(_composed(a, b, saved.rcond), (a, b), grad)
    return {"a": found[0], "b": found[1]}


@array_function
def pinv(a: Tensor, *, rcond: float | None = None) -> Tensor:
    """Moore-Penrose inverse [..., N, M] of ``a`` [..., M, N] by the SVD; ``rcond`` as for `lstsq`.

    Example:
        >>> pinv(torch.tensor([[2.0], [0.0]]))
        tensor([[0.5000, 0.0000]])
    """
    matrices("pinv", a=a)
    u, s, vh = svd(a, full_matrices=False)
    kept = s > _threshold(a, s, rcond)
    inverse = torch.where(kept, 1.0 / torch.where(kept, s, 1.0), 0.0)
    return gemm(1.0, vh.mH * inverse.unsqueeze(-2).to(a.dtype), u, trans_b="c")


def _threshold(a: Tensor, s: Tensor, rcond: float | None) -> Tensor:
    share = max(a.shape[-2:]) * 2 * roundoff(a.dtype) if rcond is None else rcond
    return share * s.detach().amax(-1, keepdim=True) if s.shape[-1] else s.detach()


@array_function
def matrix_rank(a: Tensor, *, rcond: float | None = None, hermitian: bool = False) -> Tensor:
    """Number of singular values above ``rcond`` times the largest, for ``a`` [..., M, N].

    Example:
        >>> matrix_rank(torch.ones(3, 3))
        tensor(1)
    """
    from trnsolver.eigh import eigvalsh

    matrices("matrix_rank", a=a)
    s = eigvalsh(a).abs() if hermitian else svdvals(a)
    return (s > _threshold(a, s, rcond)).sum(-1)


@array_function
def null_space(a: Tensor, *, rcond: float | None = None) -> Tensor:
    """Orthonormal basis [N, N - rank] of the vectors ``a`` [M, N] maps to zero.

    Example:
        >>> null_space(torch.tensor([[1.0, 0.0]])).abs()
        tensor([[0.],
                [1.]])
    """
    matrices("null_space", a=a)
    check.equal("null_space", "dimensions", a=a.ndim, matrix=2)
    _, s, vh = svd(a)
    rank = int((s > _threshold(a, s, rcond)).sum())
    return vh[rank:].mH.contiguous()


@array_function
def orth(a: Tensor, *, rcond: float | None = None) -> Tensor:
    """Orthonormal basis [M, rank] of the range of ``a`` [M, N].

    Example:
        >>> orth(torch.tensor([[0.0], [2.0]])).abs()
        tensor([[0.],
                [1.]])
    """
    matrices("orth", a=a)
    check.equal("orth", "dimensions", a=a.ndim, matrix=2)
    u, s, _ = svd(a, full_matrices=False)
    return u[:, : int((s > _threshold(a, s, rcond)).sum())].contiguous()
