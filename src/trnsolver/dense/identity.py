"""Identity matrices, as operands of kernels and as right-hand sides."""

import torch
from torch import Tensor

from trnsci.caches import kept
from trnsci.nki import P_MAX


@kept
def identity(device: torch.device) -> Tensor:
    """Return the identity of one tile."""
    return torch.eye(P_MAX, device=device, dtype=torch.float32)  # [128, 128]


def unit_columns(like: Tensor) -> Tensor:
    """Return the right-hand sides of which inverses are the solutions."""
    # stored by columns, as LAPACK reads them
    eye = torch.eye(like.shape[-1], dtype=like.dtype, device=like.device).mT
    return eye if like.ndim == 2 else eye.expand(like.shape)
