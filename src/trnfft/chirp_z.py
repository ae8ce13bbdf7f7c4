"""The chirp z-transform: a polynomial's values along a spiral, by one convolution."""

from __future__ import annotations

import cmath
import functools
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnfft import transform
from trnfft.arguments import as_complex, axis_of, length_of, numeric
from trnfft.lengths import next_fast_len
from trnsci import ArgumentError, array_function, check
from trnsci.precision import Precision, resolve


@array_function
def chirp_z(
    x: Any,
    m: int | None = None,
    w: complex | None = None,
    a: complex = 1.0,
    dim: int = -1,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
) -> Any:
    """Evaluate ``y[k] = sum_j x[j] z_k**-j`` at ``z_k = a * w**-k`` for k < m, by Bluestein's algorithm.

    Args:
        x: [..., N] real or complex.
        m: number of points; by default N.
        w: ratio of neighbouring points; by default ``exp(-2 pi i / m)``, once around the unit circle, whose angles are
            reduced exactly in integers.
        a: the first point.
        dim: the axis.
        axis: NumPy's name for ``dim``.
        precision: as for `fft`.

    Returns:
        [..., m] complex, in the precision of ``x``.

    Raises:
        ArgumentError: an axis, a length or a point does not fit.

    Error bound:
        for points on the unit circle and the default ``w``, that of three transforms. A given ``w`` is raised to powers
        up to ``max(N, m)**2 / 2``, so that its own rounding is amplified by as much.

    Cost:
        three complex transforms of about ``N + m`` points, one of them kept for the next call.

    Example:
        >>> chirp_z(torch.tensor([1.0, 2.0]), 2).real
        tensor([ 3., -1.])
    """
    x = as_complex(numeric("chirp_z", x))
    dim = axis_of("chirp_z", dim, axis, x.ndim)
    n = length_of("chirp_z", None, x.shape[dim])
    count = length_of("chirp_z", m, n, "m")
    start = complex(check.number("chirp_z", "a", a))
    ratio = None if w is None else complex(check.number("chirp_z", "w", w))
    for name, value in (("a", start), ("w", ratio)):
        if value == 0:
            raise ArgumentError(op="chirp_z", argument=name, got=value, expected="a point that is not 0")
    policy = resolve("chirp_z", precision, x.dtype)
    before, kernel, after = _tables(n, count, ratio, start, x.dtype, x.device)
    length = kernel.shape[-1]
    padded = torch.nn.functional.pad(x.movedim(dim, -1) * before, (0, length - n))
    last = [x.ndim - 1]
    spectrum = transform.c2c(padded, last, False, "none", policy)
    folded = transform.c2c(spectrum * kernel, last, True, "full", policy)
    return (folded[..., n - 1 : n - 1 + count] * after).movedim(-1, dim)


@functools.lru_cache(maxsize=32)
def _tables(
    n: int, m: int, w: complex | None, a: complex, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """What multiplies the input, the spectrum of the chirp, and what multiplies the output; all from float64."""
    j, k = np.arange(n), np.arange(m)
    lags = np.abs(np.arange(-(n - 1), m))
    before = _chirp(j, w, m) * _powers(a, -j)
    length = next_fast_len(n + m - 1)
    inverse = np.zeros(length, np.complex128)
    inverse[: n + m - 1] = 1 / _chirp(lags, w, m)
    kernel = np.fft.fft(inverse)
    return tuple(torch.from_numpy(t).to(dtype).to(device) for t in (before, kernel, _chirp(k, w, m)))  # type: ignore[return-value]


def _chirp(j: np.ndarray[Any, Any], w: complex | None, m: int) -> np.ndarray[Any, Any]:
    """``w ** (j**2 / 2)``."""
    if w is None:
        return np.exp(-1j * math.pi / m * (j.astype(np.int64) ** 2 % (2 * m)))
    return _powers(w, j.astype(np.float64) ** 2 / 2)


def _powers(base: complex, exponents: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Powers of one number; the phase is reduced to one turn before it is used."""
    radius, angle = abs(base), cmath.phase(base)
    turns = np.remainder(exponents * (angle / (2 * math.pi)), 1.0)
    return radius**exponents * np.exp(2j * math.pi * turns)
