"""QR factors of batches of small matrices on the device, a matrix in each partition."""

import torch
from torch import Tensor

from trnsolver.batched.batches import group, launch_groups, planes
from trnsolver.kernels import batched_qr as kernels

LEAST = ((8, 4), (16, 6), (32, 10), (kernels.M_MAX, 24))


def floats(m: int, n: int, planes: int = 1) -> int:
    """Return the elements that a matrix takes of its partition."""
    return planes * (3 * m * n + n * n + m + n) + 2 * n + 8


def batched_qr(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return Q [B, M, N] and r [B, N, N] of ``a`` [B, M, N], M >= N, whose columns have entries near 1."""
    m, n = a.shape[-2:]
    # real and imaginary parts alternate, from row to row
    flat = torch.view_as_real(a).movedim(-1, -2).reshape(-1, 2 * m, n) if a.is_complex() else a
    q, r = launch_groups(kernels.batched_qr, flat.contiguous(), group=group(floats(m, n, planes(a))), planes=planes(a))
    if not a.is_complex():
        return q.mT, r.mT
    q, r = (torch.view_as_complex(x.reshape(-1, n, x.shape[-1] // 2, 2)).mT for x in (q, r))
    # the diagonal of r made real, as LAPACK has it
    diagonal = r.diagonal(dim1=-2, dim2=-1)
    phase = torch.polar(torch.ones_like(diagonal.real), diagonal.angle())
    r = r * phase.conj().unsqueeze(-1)
    return q * phase.unsqueeze(-2), torch.complex(r.real, r.imag.triu(1))
