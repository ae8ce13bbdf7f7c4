"""Linear systems, inverses, determinants and least squares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, overload

import numpy as np
import torch
from torch import Tensor

from trnblas import gemm
from trnsci import ArgumentError, Op, array_function, check
from trnsci.gradient import Saved
from trnsolver.arguments import (
    matrices,
    mirrored,
    nonsingular,
    readable,
    right_hand_side,
    roundoff,
    settled,
    square,
    written,
)
from trnsolver.contract import Solution, lstsq_to, solve_to
from trnsolver.lu import lu_inverse_op, lu_op, lu_solve_op
from trnsolver.qr import qr
from trnsolver.solve_triangular import triangular
from trnsolver.spd import solve_spd
from trnsolver.svd import svd, svdvals


@overload
def solve(
    a: Tensor,
    b: Tensor,
    *,
    left: bool = ...,
    assume: Literal["gen", "pos"] = ...,
    target_error: None = ...,
    out: Tensor | None = ...,
) -> Tensor: ...
@overload
def solve(
    a: Tensor, b: Tensor, *, left: bool = ..., assume: Literal["gen", "pos"] = ..., target_error: float
) -> Solution: ...
@array_function
def solve(
    a: Tensor,
    b: Tensor,
    *,
    left: bool = True,
    assume: Literal["gen", "pos"] = "gen",
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor | Solution:
    """Solve ``a @ x = b``.

    Args:
        a: [..., N, N].
        b: [..., N, K] or [..., N], by torch's rule; [..., K, N] where ``left`` is false.
        left: solve ``a @ x = b``; otherwise ``x @ a = b``.
        assume: ``gen``, or ``pos`` for Hermitian positive definite matrices.
        target_error: relative forward error to reach. The factors are then float32, corrected with accurate residuals;
            the result is a `Solution` in float64 with the error reached, for one matrix ``a``.
        out: where the result goes; it must fit and share no memory with an operand.

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
        for name, given in (("left", not left), ("out", out is not None)):
            if given:
                raise ArgumentError(op="solve", argument=name, got="given", expected="left out with target_error")
        return solve_to(a, b, target_error)
    if not left:
        turned = solve(a.mH, mirrored("solve", a, b), assume=assume)
        return written("solve", out, turned.mH, a=a, b=b)
    if assume == "pos":
        return written("solve", out, solve_spd(a, b), a=a, b=b)
    square("solve", look=False, a=a)
    vector = right_hand_side("solve", a, b, look=False)
    x = _solved("solve", a, b.unsqueeze(-1) if vector else b)
    settled("solve", x, a=a, b=b)
    return written("solve", out, x.squeeze(-1) if vector else x, a=a, b=b)


def _solved(op: str, a: Tensor, b: Tensor) -> Tensor:
    factors, pivots, turned = _factored(a)
    nonsingular(op, factors.diagonal(dim1=-2, dim2=-1), a=a)
    return lu_solve_op(factors, pivots, b, turned)


def _factored(a: Tensor) -> tuple[Tensor, Tensor, bool]:
    """LU of ``a``, or of its transpose where that lies as LAPACK wants it, which saves a copy."""
    turned = a.is_cpu and not a.is_complex() and a.is_contiguous()
    return *lu_op(a.mT if turned else a), turned


@array_function
def inv(a: Tensor, *, out: Tensor | None = None) -> Tensor:
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
    factors, pivots, turned = _factored(a)
    nonsingular("inv", factors.diagonal(dim1=-2, dim2=-1), a=a)
    x = lu_inverse_op(factors, pivots)
    settled("inv", x, a=a)
    return written("inv", out, x.mT if turned else x, a=a)


@array_function
def slogdet(a: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
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
    sign = torch.sgn(diagonal).prod(-1)
    return written("slogdet", out, (_signed(sign, pivots), diagonal.abs().log().sum(-1)), a=a)


@array_function
def det(a: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Determinant of ``a`` [..., N, N]; `slogdet` does not overflow.

    Example:
        >>> det(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor(8.)
    """
    square("det", look=False, a=a)
    factors, pivots, _ = _factored(a)
    diagonal = factors.diagonal(dim1=-2, dim2=-1)
    settled("det", diagonal, a=a)
    product = diagonal.prod(-1)
    return written("det", out, _signed(product, pivots), a=a)


def _signed(x: Tensor, pivots: Tensor) -> Tensor:
    """``-x`` where the number of exchanges is odd."""
    if pivots.ndim == 1 and pivots.is_cpu and readable(pivots):
        # NumPy takes a fraction of the time torch does for so little
        exchanged = np.count_nonzero(pivots.numpy() != np.arange(1, len(pivots) + 1, dtype=np.int32))
        return -x if exchanged % 2 else x
    steps = torch.arange(1, pivots.shape[-1] + 1, dtype=torch.int32, device=pivots.device)
    return torch.where((pivots != steps).sum(-1) % 2 == 1, -x, x)


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
    vector = right_hand_side("lstsq", a, b, look=False)
    x = _lstsq(a, b.unsqueeze(-1) if vector else b, -1.0 if rcond is None else rcond)
    settled("lstsq", x, b=b)
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
    if a.shape[:-2] != b.shape[:-2]:
        batch = check.broadcast("lstsq", a=a.shape[:-2], b=b.shape[:-2])
        a, b = a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])
    # Complete orthogonal factorisation: the rank by pivoted QR.
    return torch.linalg.lstsq(a, b, rcond=least, driver="gelsy").solution


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
def pinv(
    a: Tensor,
    rcond: float | None = None,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
    hermitian: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Moore-Penrose inverse [..., N, M] of ``a`` [..., M, N].

    Args:
        a: [..., M, N].
        rcond: NumPy's name for ``rtol``.
        atol: singular values up to this count as zero; a number, or one for each matrix.
        rtol: those up to this share of the largest do, too; ``max(M, N)`` times epsilon unless ``atol`` is given.
        hermitian: ``a`` is Hermitian, of which the lower triangle is read: by `eigh` rather than by `svd`.
        out: where the result goes; it must fit and share no memory with an operand.

    Example:
        >>> pinv(torch.tensor([[2.0], [0.0]]))
        tensor([[0.5000, 0.0000]])
    """
    from trnsolver.eigh import eigh

    matrices("pinv", a=a)
    if hermitian:
        signed, u = eigh(a)
        vh = u.mH
    else:
        u, signed, vh = svd(a, full_matrices=False)
    s = signed.abs()
    kept = s > _threshold("pinv", a, s, rcond, atol, rtol)
    inverse = torch.where(kept, 1.0 / torch.where(kept, signed, 1.0), 0.0)
    return written("pinv", out, gemm(1.0, vh.mH * inverse.unsqueeze(-2).to(a.dtype), u, trans_b="c"), a=a)


def _threshold(
    op: str,
    a: Tensor,
    s: Tensor,
    rcond: float | None,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
) -> Tensor:
    """What singular values have to exceed, [..., 1]."""
    if rcond is not None and rtol is not None:
        raise ArgumentError(op=op, argument="rcond", got=rcond, expected=f"None with rtol={rtol}: they are the same")
    share = rcond if rtol is None else rtol
    if share is None:
        share = max(a.shape[-2:]) * 2 * roundoff(a.dtype) if atol is None else 0.0
    largest = s.detach().amax(-1, keepdim=True) if s.shape[-1] else s.detach()
    if isinstance(share, Tensor):
        share = share.unsqueeze(-1)
    if atol is None:
        return share * largest
    least = atol.unsqueeze(-1) if isinstance(atol, Tensor) else torch.full_like(largest, atol)
    return torch.maximum(share * largest, least.to(largest.dtype))


@array_function
def matrix_rank(
    a: Tensor,
    *,
    rcond: float | None = None,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
    hermitian: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Number of singular values of ``a`` [..., M, N] that do not count as zero; arguments as for `pinv`.

    Example:
        >>> matrix_rank(torch.ones(3, 3))
        tensor(1)
    """
    from trnsolver.eigh import eigvalsh

    matrices("matrix_rank", a=a)
    s = eigvalsh(a).abs() if hermitian else svdvals(a)
    return written("matrix_rank", out, (s > _threshold("matrix_rank", a, s, rcond, atol, rtol)).sum(-1), a=a)


@array_function
def null_space(a: Tensor, rcond: float | None = None) -> Tensor:
    """Orthonormal basis [N, N - rank] of the vectors ``a`` [M, N] maps to zero.

    Example:
        >>> null_space(torch.tensor([[1.0, 0.0]])).abs()
        tensor([[0.],
                [1.]])
    """
    matrices("null_space", a=a)
    check.equal("null_space", "dimensions", a=a.ndim, matrix=2)
    _, s, vh = svd(a)
    rank = int((s > _threshold("null_space", a, s, rcond)).sum())
    return vh[rank:].mH.contiguous()


@array_function
def orth(a: Tensor, rcond: float | None = None) -> Tensor:
    """Orthonormal basis [M, rank] of the range of ``a`` [M, N].

    Example:
        >>> orth(torch.tensor([[0.0], [2.0]])).abs()
        tensor([[0.],
                [1.]])
    """
    matrices("orth", a=a)
    check.equal("orth", "dimensions", a=a.ndim, matrix=2)
    u, s, _ = svd(a, full_matrices=False)
    return u[:, : int((s > _threshold("orth", a, s, rcond)).sum())].contiguous()
