"""Sample frequencies and shifts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from trnfft.arguments import check_strided, dims_of, integer
from trnfft.complextensor import ComplexTensor
from trnsci import DtypeError, array_function, check
from trnsci.arrays import to_numpy

Array = TypeVar("Array", Tensor, ComplexTensor, np.ndarray[Any, Any])
Axes = int | Sequence[int] | None
Device = torch.device | str | None


def fftfreq(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, device: Device = None) -> Tensor:
    """Return frequencies of `fft`'s terms in cycles per unit of ``d``: ``[0, 1, ..., -2, -1] / (n d)``.

    Args:
        n: length of the transform.
        d: distance of samples.
        dtype: of the result; torch's default otherwise. One of NumPy's asks for an array.
        device: of the result.

    Example:
        >>> fftfreq(5, 0.2)
        tensor([ 0.,  1.,  2., -2., -1.])
    """
    return _frequencies("fftfreq", n, d, dtype, device)


def rfftfreq(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, device: Device = None) -> Tensor:
    """Return frequencies of `rfft`'s terms: ``[0, 1, ..., n // 2] / (n d)``; arguments as `fftfreq`.

    Example:
        >>> rfftfreq(4)
        tensor([0.0000, 0.2500, 0.5000])
    """
    return _frequencies("rfftfreq", n, d, dtype, device)


def _frequencies(op: str, n: Any, d: float, dtype: Any, device: Any) -> Any:
    if isinstance(dtype, np.dtype) or (isinstance(dtype, type) and issubclass(dtype, np.generic | float)):
        check.refuse(np.dtype(dtype).kind != "f", op, "dtype", dtype, "a floating-point dtype")
        return to_numpy(_frequencies(op, n, d, torch.float64, device)).astype(dtype)
    n = integer(op, "n", n)
    check.refuse(n < 1, op, "n", n, "at least 1")
    distance = float(check.real(op, "d", d))
    check.refuse(distance == 0, op, "d", d, "a distance that is not 0")
    if dtype is not None and not (isinstance(dtype, torch.dtype) and (dtype.is_floating_point or dtype.is_complex)):
        raise DtypeError(op, "dtype", dtype, "a floating-point dtype of torch")
    where = None if device is None else check.device(op, device)
    k: Tensor = getattr(torch.fft, op)(n, 1.0 / n, dtype=torch.float64, device=where).round()
    # In double precision, so that the one rounding is the last.
    return (k / (n * distance)).to(dtype or torch.get_default_dtype())


@array_function
def fftshift(x: Array, dim: Axes = None, *, axes: Axes = None) -> Array:
    """Move the zero frequency to the middle of the axes, by default all of them.

    Example:
        >>> fftshift(fftfreq(5, 0.2))
        tensor([-2., -1.,  0.,  1.,  2.])
    """
    return _shift_axes("fftshift", x, dim, axes)


@array_function
def ifftshift(x: Array, dim: Axes = None, *, axes: Axes = None) -> Array:
    """Undo `fftshift`, for odd lengths too.

    Example:
        >>> ifftshift(torch.tensor([-2., -1., 0., 1., 2.]))
        tensor([ 0.,  1.,  2., -2., -1.])
    """
    return _shift_axes("ifftshift", x, dim, axes)


def _shift_axes(op: str, x: Any, dim: Any, axes: Any) -> Any:
    if not isinstance(x, ComplexTensor):
        x = check_strided(op, x)
    dims = dims_of(op, dim, axes, x.ndim)
    if not dims:
        return x.clone()
    shift = getattr(torch.fft, op)
    return x._each(lambda plane: shift(plane, dims)) if isinstance(x, ComplexTensor) else shift(x, dims)
