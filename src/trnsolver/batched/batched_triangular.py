"""Triangular systems of batches of small matrices on the device, a matrix in each partition."""

from torch import Tensor

from trnsolver.batched.batches import apart, group, launch_groups, planes, together
from trnsolver.kernels import batched_triangular as kernels

LEAST = ((16, 1), (32, 4), (kernels.N_MAX, 16))
# The inverse of one matrix by doubling is a shorter chain.
LEAST_INVERSE = ((16, 2), (32, 10), (kernels.N_MAX, 46))


def floats(n: int, k: int, planes: int = 1) -> int:
    """Return the elements that a matrix takes of its partition."""
    return planes * (n * n + 2 * n * k + n + k) + 3 * n


def batched_triangular(a: Tensor, b: Tensor, *, lower: bool, unit: bool) -> Tensor:
    """Return ``x`` [..., N, K] with ``a @ x = b``, where ``a`` [..., N, N] and ``b`` have the same leading axes."""
    n, k = b.shape[-2:]
    left, right = apart(a.reshape(-1, n, n)), apart(b.reshape(-1, n, k))
    x: Tensor = launch_groups(
        kernels.batched_triangular,
        left,
        right,
        group=group(floats(n, k, planes(a))),
        lower=lower,
        unit=unit,
        planes=planes(a),
    )
    return together(x, a, -1).reshape(b.shape)
