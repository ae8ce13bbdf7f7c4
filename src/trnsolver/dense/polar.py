"""Functions of matrices by products and inverses: the sign, and polar factors."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from trnblas import gemm
from trnsci import NotConverged, array_function, check
from trnsci.planning import remark
from trnsolver.arguments import check_result, matrices, readable, roundoff, square
from trnsolver.dense.solve import inv
from trnsolver.eigen.svd import svd
from trnsolver.scaling import near_one

_USUAL = 8


class Polar(NamedTuple):
    """``a = u @ p`` (right) or ``a = p @ u`` (left)."""

    u: Tensor
    p: Tensor


@array_function
def sign(a: Tensor) -> Tensor:
    """Return the matrix sign: eigenvalues become -1 or 1 by their real part; Newton's iteration scaled by determinants.

    Args:
        a: [N, N] or batches, without purely imaginary eigenvalues.

    Raises:
        Singular: an eigenvalue is zero.
        NotConverged: an eigenvalue is too close to the imaginary axis.

    Example:
        >>> sign(torch.tensor([[2.0, 1.0], [0.0, -3.0]])).diagonal()
        tensor([ 1., -1.])
    """
    square("sign", a=a)
    n = a.shape[-1]
    if a.numel() == 0:
        return a.clone()
    # the sign of a multiple is the same, and norms of this one stay in range
    x, change = a * near_one(a.detach(), (-2, -1), beyond=2.0**40), float("inf")
    if a.is_meta:
        remark(f"counted with {_USUAL} iterations: there are as many as it takes, at most 60")
    for step in range(_USUAL if a.is_meta else 60):
        y = inv(x)
        if step < 6 and n:
            size = torch.linalg.matrix_norm(y, dim=(-2, -1)) / torch.linalg.matrix_norm(x, dim=(-2, -1))
            mu = size.sqrt().detach().unsqueeze(-1).unsqueeze(-1).to(a.dtype)
        else:
            mu = torch.ones((), dtype=a.dtype, device=a.device)
        following = 0.5 * (mu * x + y / mu)
        if not readable(a):
            x = following
            continue
        change = float((torch.linalg.matrix_norm(following - x) / torch.linalg.matrix_norm(following)).max())
        x = following
        if change <= 10 * n * roundoff(a.dtype):
            return x
    if readable(a):
        raise NotConverged(
            op="sign", iterations=60, residual=change, hint="Eigenvalues near the imaginary axis have no sign"
        )
    return x


@array_function
def polar(a: Tensor, side: Literal["right", "left"] = "right") -> Polar:
    """Polar decomposition by the SVD: ``a = u @ p``, or ``a = p @ u``, with ``p`` positive semidefinite.

    Args:
        a: [..., M, N].
        side: where ``p`` stands.

    Returns:
        ``u`` [..., M, N] with orthonormal columns or rows, and ``p`` [..., N, N] (right) or [..., M, M] (left).

    Example:
        >>> polar(torch.tensor([[0.0, -2.0], [3.0, 0.0]])).u.round()
        tensor([[ 0., -1.],
                [ 1.,  0.]])
    """
    matrices("polar", a=a)
    check.option("polar", "side", side, ("right", "left"))
    w, s, vh = svd(a, full_matrices=False)
    u = gemm(1.0, w, vh)
    scale = s.to(a.dtype)
    if side == "right":
        p = gemm(1.0, vh.mH * scale.unsqueeze(-2), vh)
    else:
        p = gemm(1.0, w * scale.unsqueeze(-2), w, trans_b="c")
    p = 0.5 * (p + p.mH)
    check_result("polar", p)
    return Polar(u, p)
