"""Polar factors on the device: the first half of a singular value decomposition by products."""

from __future__ import annotations

from torch import Tensor

from trnsci.nki import launch
from trnsolver.divide import PROGRAMS, constants, rotation
from trnsolver.kernels import polar_factor as kernels


def polar_factor(a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return ``u`` and ``h`` with ``a = u @ h``, of matrices [B, N, N] with entries up to 1, and what is left.

    ``u`` is orthogonal, ``h`` symmetric and up to rounding positive semidefinite. What is left are the norms of the
    part of ``u.mT @ a`` that is not symmetric, and of ``1 - u.mT @ u``.
    """
    n = a.shape[-1]
    eye, _ = constants(n, a.device)
    # A rotation that no program of divide and conquer starts from, which may follow.
    u, h, left = launch(kernels.polar_factor, a.contiguous(), rotation(n, PROGRAMS, a.device), eye)
    left = left.reshape(-1, 2).clamp_min(0).sqrt()
    return u, h, left[:, 0], left[:, 1]
