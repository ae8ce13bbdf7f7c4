"""Cholesky factors of batches of small matrices on the device, a matrix in each partition."""

from __future__ import annotations

from torch import Tensor

from trnsolver.batches import group, launched
from trnsolver.kernels import batched_cholesky as kernels

LEAST = ((32, 1), (kernels.N_MAX, 2))


def floats(n: int) -> int:
    """What a matrix takes of its partition."""
    return 2 * n * n + 2 * n


def batched_cholesky(a: Tensor) -> Tensor:
    """Lower factors of ``a`` [..., N, N], with NaN from the first pivot on that is not positive."""
    n = a.shape[-1]
    flat = a.reshape(-1, n, n).contiguous()
    factors: Tensor = launched(kernels.batched_cholesky, flat, group=group(floats(n)))
    return factors.reshape(a.shape).tril()
