"""Polar factors on the device: the first half of a singular value decomposition by products."""

import torch
from torch import Tensor

from trnblas import gemm
from trnsci.nki import launch
from trnsolver.eigen.divide import PROGRAMS, constants, rotation
from trnsolver.kernels import polar_factor as kernels
from trnsolver.kernels._divide import LIFT, NEAR, TAYLOR


def polar_factor(a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return ``u`` and ``h`` with ``a = u @ h``, of matrices [B, N, N] with entries up to 1, and what is left.

    ``u`` is orthogonal, ``h`` symmetric and up to rounding positive semidefinite. What is left are the norms of the
    part of ``u.mT @ a`` that is not symmetric, and of ``1 - u.mT @ u``.
    """
    n = a.shape[-1]
    # A rotation that no program of divide and conquer starts from, which may follow.
    basis = rotation(n, PROGRAMS, a.device)
    if n > kernels.ONE_PROGRAM:
        return _by_products(a, basis)
    eye, _ = constants(n, a.device)
    u, h, left = launch(kernels.polar_factor, a.contiguous(), basis, eye)
    left = left.reshape(-1, 2).clamp_min(0).sqrt()
    return u, h, left[:, 0], left[:, 1]


def _by_products(a: Tensor, basis: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the same steps as the kernel's, of matrices whose steps are too long a program: each product a launch."""
    eye = torch.eye(a.shape[-1], device=a.device, dtype=torch.float32).expand(a.shape)
    x = gemm(1.0, gemm(1.0, basis, a), basis, trans_b="t")
    x = x / (torch.linalg.matrix_norm(x)[..., None, None] + kernels.TINY) + kernels.SEED * eye
    for step in range(kernels.LIFTS + 2):
        c = LIFT if step < kernels.LIFTS else NEAR if step == kernels.LIFTS else TAYLOR
        y = gemm(1.0, x, x, trans_a="t")
        x = gemm(1.0, x, gemm(c[2], y, y, c[1], y) + c[0] * eye)
    x = _take_newton_step(x, eye)
    x = _take_newton_step(gemm(1.0, gemm(1.0, basis, x, trans_a="t"), basis), eye)
    product = gemm(1.0, x, a, trans_a="t")
    h = 0.5 * (product + product.mT)
    lost = gemm(-1.0, x, x, 1.0, eye, trans_a="t")
    return x, h, torch.linalg.matrix_norm(product - h), torch.linalg.matrix_norm(lost)


def _take_newton_step(x: Tensor, eye: Tensor) -> Tensor:
    """Take a Newton-Schulz step."""
    return gemm(0.5, x, gemm(-1.0, x, x, 1.0, eye, trans_a="t"), 1.0, x)
