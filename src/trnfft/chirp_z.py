"""The chirp z-transform: a polynomial's values along a spiral, by one convolution."""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnfft.arguments import as_complex, axis_of, length_of, numeric
from trnfft.complextensor import ComplexTensor
from trnfft.device.tables import Array
from trnfft.lengths import next_fast_len
from trnfft.ops import C2C
from trnsci import ArgumentError, array_function, check, neuron, run
from trnsci.caches import kept
from trnsci.precision import Precision, resolve


@array_function
def chirp_z(
    x: Tensor,
    m: int | None = None,
    w: complex | None = None,
    a: complex = 1.0,
    dim: int = -1,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
) -> Tensor:
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
        of every value, relative to ``sqrt(N)`` times the norm of its terms: 1e-6 in fp32, 1e-13 in fp64, and
        ``N m 2**-50`` for the angle of a given ``w``, which is multiplied by up to ``N m``.

    Cost:
        three complex transforms of about ``N + m`` points, one of them kept for the next call. Points off the unit
        circle take blocks of ``sqrt(2 / |log |w||)`` points, in which powers of ``w`` stay near 1: ``N m`` over that
        size in all.

    Example:
        >>> chirp_z(torch.tensor([1.0, 2.0]), 2).real
        tensor([ 3., -1.])
    """
    x = numeric("chirp_z", x)
    if neuron.give_planes(x):
        # chirps are complex tables
        options: Any = {"dim": dim, "axis": axis, "precision": precision}
        values = chirp_z(neuron.from_device(x), m, w, a, **options)
        planes: Any = ComplexTensor(*(neuron.to_device(part.contiguous()) for part in (values.real, values.imag)))
        return planes
    x = as_complex(x)
    dim = axis_of("chirp_z", dim, axis, x.ndim)
    n = length_of("chirp_z", None, x.shape[dim])
    count = length_of("chirp_z", m, n, "m")
    start = complex(check.number("chirp_z", "a", a))
    ratio = None if w is None else complex(check.number("chirp_z", "w", w))
    for name, value in (("a", start), ("w", ratio)):
        if value is not None and (value == 0 or not cmath.isfinite(value)):
            raise ArgumentError("chirp_z", name, value, "a finite point that is not 0")
    policy = resolve("chirp_z", precision, x.dtype)
    rows = x.movedim(dim, -1)
    block = _block(max(n, count), ratio)
    if block >= max(n, count):
        return _bluestein(rows, count, ratio, start, policy).movedim(-1, dim)
    assert ratio is not None
    parts = torch.nn.functional.pad(rows, (0, -n % block)).unflatten(-1, (-1, block))  # [..., b, i]
    blocks = []
    for first in range(0, count, block):
        # j = j0 + i and k = k0 + l: z_k**-j is z_k0**-i w**(i l) z_k**-j0.
        inner, outer = _turns(first, block, parts.shape[-2], ratio, start, x.dtype, x.device)
        values = _bluestein(parts * inner, block, ratio, 1.0, policy)
        blocks.append((values * outer).sum(-2))
    return torch.cat(blocks, -1)[..., :count].movedim(-1, dim)


def _block(most: int, w: complex | None) -> int:
    """Return how many points keep powers ``w ** (j**2 / 2)`` within a factor of e."""
    rate = 0.0 if w is None else abs(math.log(abs(w)))
    return most if rate * most * most <= 2 else max(1, int(math.sqrt(2 / rate)))


@kept
def _turns(
    first: int, block: int, parts: int, w: complex, a: complex, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return the factors of a block of points: [i] of every part before its transform, [b, l] after it."""
    inner = _values(np.arange(block), np.array([first]), w, a)[0]
    outer = _values(np.arange(parts) * block, first + np.arange(block), w, a).T
    before, after = (torch.from_numpy(np.ascontiguousarray(t)).to(dtype).to(device) for t in (inner, outer))
    return before, after


def _bluestein(x: Tensor, m: int, w: complex | None, a: complex, policy: Precision) -> Tensor:
    """Return the values for rows [..., n], by a convolution with a chirp."""
    n = x.shape[-1]
    before, kernel, after = _tables(n, m, w, a, x.dtype, x.device)
    padded = torch.nn.functional.pad(x * before, (0, kernel.shape[-1] - n))
    last = [x.ndim - 1]
    spectrum = run(C2C(padded, last, inverse=False, scale="none", precision=policy))
    folded = run(C2C(spectrum * kernel, last, inverse=True, scale="full", precision=policy))
    return folded[..., n - 1 : n - 1 + m] * after


@kept
def _tables(
    n: int, m: int, w: complex | None, a: complex, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the factor of the input, the spectrum of the chirp, and the factor of the output, from float64."""
    j, k = np.arange(n), np.arange(m)
    lags = np.abs(np.arange(-(n - 1), m))
    before = _chirp(j, w, m) * _powers(a, -j)
    length = next_fast_len(n + m - 1)
    inverse = np.zeros(length, np.complex128)
    inverse[: n + m - 1] = 1 / _chirp(lags, w, m)
    kernel = np.fft.fft(inverse)
    first, second, third = (torch.from_numpy(t).to(dtype).to(device) for t in (before, kernel, _chirp(k, w, m)))
    return first, second, third


def _chirp(j: Array, w: complex | None, m: int) -> Array:
    """Return ``w ** (j**2 / 2)``."""
    if w is None:
        return np.exp(-1j * math.pi / m * (j.astype(np.int64) ** 2 % (2 * m)))
    return _powers(w, j.astype(np.float64) ** 2 / 2)


def _powers(base: complex, exponents: Array) -> Array:
    """Return powers of one number, whose phase is first reduced to one turn."""
    size, turn = _logarithm(base)
    wide = exponents.astype(np.longdouble)
    return _exponential(wide * size, wide * turn)


def _logarithm(base: complex) -> tuple[np.longdouble, np.longdouble]:
    """Return the logarithm of the modulus, and the phase in turns.

    They are multiplied by up to the square of a length: a chirp of few points to many would lose what float64 rounds.
    """
    re, im = np.longdouble(base.real), np.longdouble(base.imag)
    return np.log(np.hypot(re, im)), np.arctan2(im, re) / (8 * np.arctan(np.longdouble(1)))


def _exponential(logs: Array, turns: Array) -> Array:
    # Beyond a float is infinity, which is no mistake of the caller's arithmetic here.
    with np.errstate(over="ignore"):
        return np.exp(logs.astype(np.float64) + 2j * math.pi * np.remainder(turns, 1.0).astype(np.float64))


def _values(j: Array, k: Array, w: complex, a: complex) -> Array:
    """Return [k, j]: ``z_k**-j``, magnitudes multiplied as logarithms, so that none overflows before its end."""
    powers, (size, turn), (first, angle) = np.outer(k, j).astype(np.longdouble), _logarithm(w), _logarithm(a)
    return _exponential(powers * size - j * first, powers * turn - j * angle)
