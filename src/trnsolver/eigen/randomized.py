"""Randomised low-rank decompositions, with an estimate of what they miss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trnblas import gemm
from trnsci import array_function, check
from trnsci.analogs import resembles
from trnsci.arrays import Answer
from trnsci.torch_internals import disable_functorch
from trnsolver.arguments import matrices, square
from trnsolver.dense.qr import qr
from trnsolver.eigen.eigh import eigh
from trnsolver.eigen.svd import svd


@dataclass(frozen=True, slots=True, kw_only=True)
class LowRank(Answer):
    """``a`` is about ``u * s @ vh``; for Hermitian matrices ``vh`` is ``u.mH`` and ``s`` holds eigenvalues.

    Attributes:
        u: [..., M, K].
        s: [..., K], descending in magnitude.
        vh: [..., K, N].
        error: [...]: spectral norm of what the sampled space misses, a bound with probability ``1 - 10**-probes``.
    """

    u: Tensor
    s: Tensor
    vh: Tensor
    error: Tensor


@resembles("scipy.sparse.linalg.svds", left="ours is randomised, with an error of its own")
@array_function
def svd_randomized(
    a: Tensor, k: int, *, oversampling: int = 10, power_iterations: int = 2, probes: int = 6, seed: int = 0
) -> LowRank:
    """Find the ``k`` largest singular triplets, by products with a few random vectors (Halko, Martinsson and Tropp).

    Args:
        a: [..., M, N].
        k: how many.
        oversampling: random vectors beyond ``k``.
        power_iterations: products with ``a @ a.mH``, orthogonalised in between; more of them sharpen slow decays.
        probes: random vectors that measure the error.
        seed: of the random vectors; the result is a function of it.

    Cost:
        ``4 M N (k + oversampling) (1 + power_iterations)`` FLOPs.

    Example:
        >>> svd_randomized(torch.diag(torch.tensor([3.0, 2.0, 0.0])), 2).s.round(decimals=4)
        tensor([3., 2.])
    """
    matrices("svd_randomized", a=a)
    q, small, error = _sample_range(
        "svd_randomized", a, k, oversampling=oversampling, power_iterations=power_iterations, probes=probes, seed=seed
    )
    u, s, vh = svd(small, full_matrices=False)
    return LowRank(u=gemm(1.0, q, u[..., :k]), s=s[..., :k], vh=vh[..., :k, :], error=error)


@array_function
def eigh_randomized(
    a: Tensor, k: int, *, oversampling: int = 10, power_iterations: int = 2, probes: int = 6, seed: int = 0
) -> LowRank:
    """Find the ``k`` largest eigenpairs by magnitude of a Hermitian matrix [..., N, N]; as `svd_randomized` otherwise.

    Example:
        >>> eigh_randomized(torch.diag(torch.tensor([3.0, -4.0, 0.0])), 2).s.round(decimals=4)
        tensor([-4.,  3.])
    """
    square("eigh_randomized", a=a)
    q, small, error = _sample_range(
        "eigh_randomized", a, k, oversampling=oversampling, power_iterations=power_iterations, probes=probes, seed=seed
    )
    core = gemm(1.0, small, q)
    values, vectors = eigh(0.5 * (core + core.mH))
    order = values.abs().argsort(-1, descending=True)[..., :k]
    chosen = vectors.gather(-1, order.unsqueeze(-2).expand(*vectors.shape[:-1], k))
    u = gemm(1.0, q, chosen)
    return LowRank(u=u, s=values.gather(-1, order), vh=u.mH, error=error)


def gaussian(shape: Sequence[int], like: Tensor, columns: int, seed: int) -> Tensor:
    """Random vectors [..., N, columns] for a matrix of ``shape`` [..., M, N], in the dtype and place of ``like``."""
    source = torch.Generator().manual_seed(seed)
    # under vmap too the vectors are a function of the seed alone, the same for every matrix
    with disable_functorch():
        drawn = torch.randn((*shape[:-2], shape[-1], columns), dtype=like.dtype, device="cpu", generator=source)
    return drawn.to(like.device)


def norm_bound(lengths: Tensor) -> Tensor:
    """``10 sqrt(2 / pi)`` times the longest image of a random vector bounds the norm (same authors, lemma 4.1)."""
    return 10 * (2 / torch.pi) ** 0.5 * lengths.amax(-1)


def _sample_range(
    op: str, a: Tensor, k: int, *, oversampling: int, power_iterations: int, probes: int, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return a basis of the range that random vectors reach, ``a`` in it, and a bound on the rest."""
    most = min(a.shape[-2:])
    check.integer(op, "k", k, 1, most)
    check.integer(op, "oversampling", oversampling, at_least=0)
    check.integer(op, "power_iterations", power_iterations, at_least=0)
    check.integer(op, "probes", probes, at_least=1)
    check.integer(op, "seed", seed)
    q = qr(gemm(1.0, a, gaussian(a.shape, a, min(most, k + oversampling), seed))).q
    for _ in range(power_iterations):
        q = qr(gemm(1.0, a, q, trans_a="c")).q
        q = qr(gemm(1.0, a, q)).q
    small = gemm(1.0, q, a, trans_a="c")
    w = gaussian(a.shape, a, probes, seed + 1)
    left = gemm(1.0, a, w) - gemm(1.0, q, gemm(1.0, small, w))
    return q, small, norm_bound(torch.linalg.vector_norm(left, dim=-2))
