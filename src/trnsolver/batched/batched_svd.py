"""Orthogonal rows by rotations, for singular values of batches of small matrices, a matrix in each partition."""

from torch import Tensor

from trnsolver.batched.batches import group, launch_groups
from trnsolver.kernels import batched_svd as kernels

# Polar factors take several small matrices at once, and their eigenproblems are batches too.
LEAST = ((5, 1), (32, 64), (kernels.N_MAX, 128))


def floats(n: int) -> int:
    """Return the elements that a matrix takes of its partition."""
    return 6 * n * n + 5 * n + 5


def batched_svd(x: Tensor) -> tuple[Tensor, Tensor]:
    """``y = w @ x`` with orthogonal rows, and the rotation ``w``, of matrices [B, N, N] with entries near 1."""
    n = x.shape[-1]
    sweeps = 6 if n <= 8 else 8 if n <= 32 else 9
    y, w = launch_groups(kernels.batched_svd, x.contiguous(), group=group(floats(n)), sweeps=sweeps)
    return y, w
