"""Linear systems, inverses, determinants and least squares."""

from __future__ import annotations

from typing import Literal, overload

import torch
from torch import Tensor

from trnblas import gemm, trsm
from trnsci import array_function, check
from trnsolver.arguments import matrices, nonsingular, readable, right_hand_side, roundoff, square
from trnsolver.contract import Solution, solve_to
from trnsolver.lu import lu_op, lu_solve_op
from trnsolver.qr import qr
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
    square("solve", a=a)
    vector = right_hand_side("solve", a, b)
    if assume == "pos":
        return solve_spd(a, b)
    factors, pivots = lu_op(a)
    nonsingular("solve", factors.diagonal(dim1=-2, dim2=-1))
    x = lu_solve_op(factors, pivots, b.unsqueeze(-1) if vector else b, False)
    return x.squeeze(-1) if vector else x


@array_function
def solve_triangular(a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """Solve with a triangular matrix: the arguments of `torch.linalg.solve_triangular`.

    Args:
        a: [..., N, N]; only the triangle ``upper`` names is read.
        b: [..., N, K], or [..., K, N] when ``left`` is false.
        upper: ``a`` is upper triangular.
        left: solve ``a @ x = b``; otherwise ``x @ a = b``.
        unitriangular: the diagonal counts as ones.

    Raises:
        Singular: a diagonal entry is zero.

    Example:
        >>> solve_triangular(torch.tensor([[2.0, 0.0], [2.0, 1.0]]), torch.ones(2, 1), upper=False)
        tensor([[0.5000],
                [0.0000]])
    """
    square("solve_triangular", a=a)
    matrices("solve_triangular", a=a, b=b)
    rows = b.shape[-2] if left else b.shape[-1]
    check.equal("solve_triangular", "N", a=a.shape[-1], b=rows)
    if not unitriangular:
        nonsingular("solve_triangular", a.diagonal(dim1=-2, dim2=-1))
    return trsm(1.0, a, b, side=0 if left else 1, lower=not upper, diag=unitriangular)


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
    square("inv", a=a)
    factors, pivots = lu_op(a)
    nonsingular("inv", factors.diagonal(dim1=-2, dim2=-1))
    eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    return lu_solve_op(factors, pivots, eye.expand(a.shape), False)


@array_function
def slogdet(a: Tensor) -> tuple[Tensor, Tensor]:
    """Sign (or phase) and logarithm of the modulus of the determinant of ``a`` [..., N, N].

    Example:
        >>> sign, logarithm = slogdet(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
        >>> sign, logarithm
        (tensor(-1.), tensor(0.))
    """
    square("slogdet", a=a)
    factors, pivots = lu_op(a)
    diagonal = factors.diagonal(dim1=-2, dim2=-1)
    sign = torch.sgn(diagonal).prod(-1) * _parity(pivots).to(a.dtype)
    return sign, diagonal.abs().log().sum(-1)


@array_function
def det(a: Tensor) -> Tensor:
    """Determinant of ``a`` [..., N, N]; `slogdet` does not overflow.

    Example:
        >>> det(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor(8.)
    """
    square("det", a=a)
    factors, pivots = lu_op(a)
    return factors.diagonal(dim1=-2, dim2=-1).prod(-1) * _parity(pivots).to(a.dtype)


def _parity(pivots: Tensor) -> Tensor:
    steps = torch.arange(1, pivots.shape[-1] + 1, device=pivots.device)
    return 1 - 2 * ((pivots != steps).sum(-1) % 2)


@array_function
def lstsq(a: Tensor, b: Tensor, *, rcond: float | None = None) -> Tensor:
    """Return the ``x`` of least norm that minimises ``norm(a @ x - b)``.

    Args:
        a: [..., M, N], of any rank.
        b: [..., M, K] or [..., M].
        rcond: singular values below ``rcond`` times the largest count as zero; ``max(M, N)`` times epsilon by default.

    Returns:
        [..., N, K] or [..., N]. Full column rank is solved by QR, anything else by the SVD.

    Example:
        >>> lstsq(torch.tensor([[1.0], [1.0]]), torch.tensor([1.0, 3.0]))
        tensor([2.])
    """
    matrices("lstsq", a=a)
    vector = right_hand_side("lstsq", a, b)
    columns = b.unsqueeze(-1) if vector else b
    m, n = a.shape[-2:]
    x: Tensor | None = None
    if m >= n > 0 and readable(a):
        q, r = qr(a)
        diagonal = r.detach().diagonal(dim1=-2, dim2=-1).abs()
        least = (m * 2 * roundoff(a.dtype) if rcond is None else rcond) * 32
        if bool((diagonal.amin(-1) > least * torch.linalg.matrix_norm(r.detach())).all()):
            x = trsm(1.0, r, gemm(1.0, q, columns, trans_a="c"))
    if x is None:
        x = gemm(1.0, pinv(a, rcond=rcond), columns)
    return x.squeeze(-1) if vector else x


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
