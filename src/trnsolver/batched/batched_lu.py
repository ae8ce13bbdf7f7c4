"""LU factors of batches of small matrices on the device, a matrix in each partition."""

import torch
from torch import Tensor

from trnsolver.batched.batches import apart, group, launch_groups, planes, together
from trnsolver.kernels import batched_lu as kernels
from trnsolver.scaling import near_one

LEAST = ((32, 2), (kernels.N_MAX, 6))


def floats(m: int, n: int, planes: int = 1) -> int:
    """Return the elements that a matrix takes of its partition."""
    return planes * (2 * m * n + 2 * n) + 5 * m + n + 12


def batched_lu(a: Tensor) -> tuple[Tensor, Tensor]:
    """Factors [..., M, N] and pivots [..., K], from 1, of ``getrf``. Where entries overflow: NaN, and no exchanges."""
    m, n = a.shape[-2:]
    k = min(m, n)
    scale = near_one(a, (-2, -1), beyond=2.0**100)
    flat = apart((a * scale).reshape(-1, m, n))
    transposed, rank = launch_groups(kernels.batched_lu, flat, group=group(floats(m, n, planes(a))), planes=planes(a))
    # Rows count down from M.
    pivots = m + 1 - rank.reshape(-1, k)
    factors = together(transposed, a, -2).mT
    if not factors.is_meta:
        lost = ~torch.isfinite(factors).all(-1).all(-1)
        pivots = torch.where(lost[:, None], torch.arange(1.0, k + 1, device=a.device), pivots)
        factors = factors.masked_fill(lost[:, None, None], torch.nan)
    factors = factors.tril(-1) + factors.triu() / scale.reshape(-1, 1, 1)
    return factors.reshape(a.shape), pivots.int().reshape(*a.shape[:-2], k)
