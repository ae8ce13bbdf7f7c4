"""Singular values and vectors."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from trnblas import gemm
from trnsci import Op, array_function
from trnsolver.arguments import matrices
from trnsolver.eigh import eigh
from trnsolver.qr import qr


class SVD(NamedTuple):
    """``a = u * s @ vh``; the singular values ``s`` descend."""

    u: Tensor
    s: Tensor
    vh: Tensor


@array_function
def svd(a: Tensor, *, full_matrices: bool = True) -> SVD:
    """Singular value decomposition ``a = u @ diag(s) @ vh``.

    Args:
        a: [..., M, N].
        full_matrices: ``u`` [..., M, M] and ``vh`` [..., N, N]; otherwise K = min(M, N) columns and rows of them.

    Error bound:
        ``norm(u @ diag(s) @ vh - a) <= 20 max(M, N) u norm(a)``; orthonormality to ``20 max(M, N) u``.

    Example:
        >>> svd(torch.tensor([[0.0, 3.0], [2.0, 0.0]])).s
        tensor([3., 2.])
    """
    matrices("svd", a=a)
    return SVD(*_svd(a, full_matrices))


@array_function
def svdvals(a: Tensor) -> Tensor:
    """Singular values [..., min(M, N)] of ``a`` [..., M, N], descending.

    Example:
        >>> svdvals(torch.tensor([[0.0, 3.0], [2.0, 0.0]]))
        tensor([3., 2.])
    """
    matrices("svdvals", a=a)
    return _svdvals(a)


def _fake(a: Tensor, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    u, s, vh = torch.linalg.svd(a, full_matrices=full)
    return u, s, vh


def _cost(a: Tensor, full: bool = False) -> int:
    return 20 * a.numel() * min(a.shape[-2:]) * (4 if a.is_complex() else 1)


def _fake_values(a: Tensor) -> Tensor:
    return torch.linalg.svdvals(a)


def _cost_values(a: Tensor) -> int:
    return _cost(a)


_svd = Op("trnsolver::svd", fake=_fake, cost=_cost)
_svdvals = Op("trnsolver::svdvals", fake=_fake_values, cost=_cost_values)


@_svd.impl("pytorch")
def _pytorch(a: Tensor, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    u, s, vh = torch.linalg.svd(a, full_matrices=full)
    return u, s, vh


@_svdvals.impl("pytorch")
def _pytorch_values(a: Tensor) -> Tensor:
    return torch.linalg.svdvals(a)


@_svdvals.impl("nki")
def _nki_values(a: Tensor) -> Tensor:
    return _svd(a, False)[1]


@_svd.impl("nki")
def _nki(a: Tensor, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    m, n = a.shape[-2:]
    if a.numel() == 0:
        return _pytorch(a, full)
    if m < n:
        u, s, vh = _nki(a.mH, full)
        return vh.mH, s, u.mH
    if full and m > n:
        q, r = qr(a, mode="complete")
        u, s, vh = _nki(r[..., :n, :], False)
        return torch.cat([gemm(1.0, q[..., :n], u), q[..., n:]], -1), s, vh
    if m > n:
        q, r = qr(a)
        u, s, vh = _nki(r, False)
        return gemm(1.0, q, u), s, vh
    # The eigenvalues of [[0, a], [a.mH, 0]] are the singular values with both signs, its vectors (u, v) / sqrt(2).
    zero = torch.zeros_like(a)
    _, x = eigh(torch.cat([torch.cat([zero, a], -1), torch.cat([a.mH, zero], -1)], -2), subset=(n, 2 * n - 1))
    x = x.flip(-1) * 2**0.5
    # Vectors of small singular values mix; orthogonalising in descending order moves only those, by what is harmless.
    u, v = qr(x[..., :n, :]).q, qr(x[..., n:, :]).q
    core = gemm(1.0, u, gemm(1.0, a, v), trans_a="c").diagonal(dim1=-2, dim2=-1)
    s = core.abs()
    phase = torch.where(s > 0, core / torch.where(s > 0, s, 1.0), 1.0)
    order = s.argsort(-1, descending=True)
    u = (u * phase.unsqueeze(-2)).gather(-1, order.unsqueeze(-2).expand(u.shape))
    return u, s.gather(-1, order), v.gather(-1, order.unsqueeze(-2).expand(v.shape)).mH
