"""QR factors of batches of small matrices on the device, a matrix in each partition."""

from __future__ import annotations

from torch import Tensor

from trnsolver.batches import group, launched
from trnsolver.kernels import batched_qr as kernels

LEAST = ((16, 1), (32, 2), (kernels.M_MAX, 4))


def floats(m: int, n: int) -> int:
    """What a matrix takes of its partition."""
    return 3 * m * n + n * n + 3 * n + 4


def batched_qr(a: Tensor) -> tuple[Tensor, Tensor]:
    """Q [B, M, N] and r [B, N, N] of ``a`` [B, M, N], M >= N, whose columns have entries near 1."""
    m, n = a.shape[-2:]
    q, r = launched(kernels.batched_qr, a.contiguous(), group=group(floats(m, n)))
    return q.mT, r.mT
