"""Cholesky factors of batches of small matrices on the device, a matrix in each partition."""

import torch
from torch import Tensor

from trnsolver.batched.batches import group, launch_groups, planes
from trnsolver.kernels import batched_cholesky as kernels

# A complex matrix goes in as a real one of twice the rows.
LEAST = ((16, 2), (32, 3), (kernels.N_MAX // 2, 6))


def floats(n: int) -> int:
    """Return the elements that a matrix takes of its partition."""
    return 2 * n * n + 2 * n


def batched_cholesky(a: Tensor) -> Tensor:
    """Return lower factors of ``a`` [..., N, N], with NaN from the first pivot on that is not positive."""
    flat = a.reshape(-1, *a.shape[-2:])
    flat = _real(flat) if a.is_complex() else flat.contiguous()
    factors: Tensor = launch_groups(kernels.batched_cholesky, flat, group=group(floats(flat.shape[-1])))
    if planes(a) == 2:
        # the blocks of a lower triangle with a real diagonal are a lower triangle too: there is but one
        factors = torch.complex(factors[:, 0::2, 0::2].contiguous(), factors[:, 1::2, 0::2].tril(-1))
    return factors.reshape(a.shape).tril()


def _real(a: Tensor) -> Tensor:
    """Each entry as the block [[re, -im], [im, re]]; of the upper triangle nothing is read."""
    top = torch.stack([a.real, -a.imag], -1)
    bottom = torch.stack([a.imag, a.real], -1)
    whole = torch.stack([top, bottom], -3)  # [B, N, 2, N, 2]
    real = whole.reshape(a.shape[0], 2 * a.shape[1], 2 * a.shape[2])
    # the diagonal is real, whatever stands there
    real.diagonal(offset=-1, dim1=-2, dim2=-1)[:, 0::2] = 0.0
    return real
