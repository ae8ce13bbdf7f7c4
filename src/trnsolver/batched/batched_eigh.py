"""Eigenvalues and vectors of batches of small symmetric matrices on the device, a matrix in each partition."""

import torch
from torch import Tensor

from trnblas import gemm
from trnsci.planning import remark
from trnsolver.arguments import readable, roundoff
from trnsolver.batched.batches import group, launch_groups
from trnsolver.kernels import batched_eigh as kernels

# Divide and conquer takes several small matrices at once.
LEAST = ((13, 1), (16, 9), (32, 33), (kernels.N_MAX, 96))
PROGRAMS = 4


def batch_sweeps(n: int) -> int:
    """Return sweeps after which single precision gains nothing more, but for few distinct eigenvalues among many."""
    return 5 if n <= 8 else 6 if n <= 16 else 7 if n <= 32 else 8


def floats(n: int) -> int:
    """Return the elements that a matrix takes of its partition."""
    return 4 * n * n + 5 * n + 8


def batched_eigh(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Eigenvalues, eigenvectors as rows, and the error left, of symmetric matrices [B, N, N] with entries near 1.

    The error is the norm of ``a @ v - v * w`` relative to that of ``a``, or the loss of orthogonality, whichever is
    more. Sweeps are fixed. Where they do not suffice, those matrices run again, rotated by the vectors they have.
    """
    values, rows, residual = _launch_groups(a)
    for _ in range(PROGRAMS - 1):
        if not readable(residual):
            remark("counted once: matrices with few distinct eigenvalues run again")
            break
        # where sweeps suffice, about 2 N u is left
        failed = (~(residual <= 5 * a.shape[-1] * roundoff(a.dtype))).nonzero().flatten()
        failed = failed[torch.isfinite(residual[failed])]
        if len(failed) == 0:
            break
        v = rows[failed]
        # as orthogonal as rounding leaves them, or what they lack would stay
        v = gemm(-0.5, gemm(1.0, v, v, trans_b="t"), v, 1.5, v)
        core = gemm(1.0, v, gemm(1.0, a[failed], v, trans_b="t"))
        again, further, left = _launch_groups((0.5 * (core + core.mT)).contiguous())
        values[failed], rows[failed], residual[failed] = again, gemm(1.0, further, v), left
    return values, rows, residual


def _launch_groups(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    n = a.shape[-1]
    values, rows, left = launch_groups(kernels.batched_eigh, a, group=group(floats(n)), sweeps=batch_sweeps(n))
    values, left = values.reshape(-1, n), left.reshape(-1, 2).sqrt()
    size = torch.linalg.vector_norm(values, dim=-1).clamp_min(torch.finfo(torch.float32).tiny)
    return values, rows, torch.maximum(left[:, 0] / size, left[:, 1])
