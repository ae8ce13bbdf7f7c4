"""Eigenvectors of float64 accuracy from approximate ones, by products alone (after Ogita and Aishima)."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from trnblas import gemm

_ROUNDS = 8


def improve_eigenvectors(a: Tensor, x: Tensor, trajectory: list[float] | None = None) -> tuple[Tensor, Tensor]:
    """Refine until nothing is gained, and return eigenvalues, ascending, and eigenvectors.

    Pairs with a gap rotate to first order, which squares what is left off the diagonal. Eigenvalues the approximation
    cannot tell apart form a cluster; its block, shifted and scaled, is an eigenproblem of its own.

    Args:
        a: [..., N, N], symmetric or Hermitian.
        x: [..., N, N], close to orthonormal eigenvectors, of a's dtype.
        trajectory: gets the largest part off the diagonal, relative to ``a``, of every round.
    """
    n = a.shape[-1]
    if a.is_meta or n == 0:
        return a.new_empty(a.shape[:-1], dtype=a.real.dtype if a.is_complex() else a.dtype), torch.empty_like(x)
    values, vectors = [], []
    for matrix, start in zip(a.reshape(-1, n, n), x.reshape(-1, n, n), strict=True):
        value, vector = _one(matrix, start, trajectory)
        values.append(value)
        vectors.append(vector)
    return torch.stack(values).reshape(a.shape[:-1]), torch.stack(vectors).reshape(a.shape)


def _one(a: Tensor, x: Tensor, trajectory: list[float] | None) -> tuple[Tensor, Tensor]:
    n = a.shape[-1]
    size = float(torch.linalg.matrix_norm(a)) or 1.0
    eye = torch.eye(n, dtype=a.dtype, device=a.device)
    before = float("inf")
    best, kept = float("inf"), x
    for _ in range(_ROUNDS):
        x = _orthonormal(x, eye)
        s = gemm(1.0, x, gemm(1.0, a, x), trans_a="c")
        s = 0.5 * (s + s.mH)
        diagonal = s.diagonal().real.contiguous()
        off = s - torch.diag(diagonal).to(s.dtype)
        left = float(torch.linalg.matrix_norm(off)) / size
        if trajectory is not None:
            trajectory.append(left)
        if left < best:
            best, kept = left, x
        if left <= 4 * n**0.5 * 2.0**-53 or left > 0.5 * before:
            break
        before = left
        x = _rotated(x, s, diagonal, off)
    values = gemm(1.0, kept, gemm(1.0, a, kept), trans_a="c").diagonal().real
    order = values.argsort()
    return values[order], kept[:, order]


def _orthonormal(x: Tensor, eye: Tensor) -> Tensor:
    """Newton-Schulz, until columns are orthonormal to roundoff."""
    for _ in range(4):
        defect = gemm(-1.0, x, x, 1.0, eye, trans_a="c")
        if float(torch.linalg.matrix_norm(defect)) <= x.shape[-1] ** 0.5 * 2.0**-52:
            break
        x = gemm(0.5, x, defect, 1.0, x)
    return x


def _rotated(x: Tensor, s: Tensor, diagonal: Tensor, off: Tensor) -> Tensor:
    n = len(diagonal)
    gaps = diagonal.unsqueeze(0) - diagonal.unsqueeze(1)
    least = 8 * n**0.5 * float(off.abs().max())
    turn = torch.where(gaps.abs() > least, off / torch.where(gaps == 0, 1.0, gaps), 0.0)
    order = diagonal.argsort()
    ordered = diagonal[order]
    starts = [0, *(torch.nonzero(ordered.diff() > least).flatten() + 1).tolist(), n]
    blocks: Tensor = torch.eye(n, dtype=s.dtype, device=s.device)
    for first, last in itertools.pairwise(starts):
        if last - first > 1:
            members = order[first:last]
            rows = members.unsqueeze(1), members.unsqueeze(0)
            blocks[rows] = _cluster(s[rows])
            turn[rows] = 0.0
    turned = gemm(1.0, x, turn, 1.0, x)
    return gemm(1.0, turned, blocks)


def _cluster(block: Tensor) -> Tensor:
    """Eigenvectors of a nearly scalar block, in single precision after shift and scale."""
    from trnsolver.eigh import eigh

    middle = block.diagonal().real.mean()
    shifted = block - middle * torch.eye(len(block), dtype=block.dtype, device=block.device)
    size = float(shifted.abs().max())
    if size == 0.0:
        return torch.eye(len(block), dtype=block.dtype, device=block.device)
    single = torch.complex64 if block.is_complex() else torch.float32
    return eigh((shifted / size).to(single)).vectors.to(block.dtype)
