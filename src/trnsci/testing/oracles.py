"""Independent answers: NumPy in float64, and mpmath where float64 is not enough."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnsci.arrays import to_numpy


def in_float64(function: Callable[..., Any], *operands: Tensor, **options: Any) -> Tensor:
    """Apply a NumPy or SciPy function to the operands widened to float64 or complex128.

    Example:
        >>> in_float64(np.matmul, a, b)
    """
    wide = [to_numpy(x.to(torch.complex128 if x.is_complex() else torch.float64)) for x in operands]
    return torch.from_numpy(np.asarray(function(*wide, **options)))


def exact_dot(x: Tensor, y: Tensor, digits: int = 60) -> complex:
    """Return the dot product of two vectors, without conjugation, computed by mpmath with ``digits`` decimal digits."""
    import mpmath

    with mpmath.workdps(digits):
        total = mpmath.mpf(0)
        for left, right in zip(x.tolist(), y.tolist(), strict=True):
            total += mpmath.mpmathify(left) * mpmath.mpmathify(right)
        return complex(total) if x.is_complex() or y.is_complex() else float(total)
