"""Transforms more precise than fp32 on Trainium: products with DFT matrices in digits of base 256, without rounding.

Every factor of the length is one program. Between programs digits are put together, turned by twiddles and taken apart
again in float64 on the host, which is where the only rounding happens.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import torch
from torch import Tensor

from trnfft import tables
from trnfft.kernels import exact as kernels
from trnfft.lengths import next_fast_len
from trnsci.nki import P_MAX, launch

# Digits that meet the stated error: 31 bits and 55 bits of the largest element of a transform.
DIGITS = {"compensated": 4, "fp64": 7}
# Real and imaginary parts share the partitions.
LARGEST = P_MAX // 2


def digits(x: Tensor, count: int) -> Tensor:
    """[count, ...] whole numbers of at most 128, as bfloat16: ``sum_i d_i 2**(-7 - 8 i)`` is x, where ``|x| <= 1``."""
    found, rest = [], x * 128.0
    for _ in range(count):
        digit = torch.round(rest)
        found.append(digit.to(torch.bfloat16))
        rest = (rest - digit) * 256.0
    return torch.stack(found)


def together(found: Tensor) -> Tensor:
    """The inverse of `digits`, in float64."""
    total = torch.zeros(found.shape[1:], dtype=torch.float64, device=found.device)
    for i in reversed(range(found.shape[0])):
        total = total + found[i].double() * 2.0 ** (-7 - 8 * i)
    return total


@functools.lru_cache(maxsize=256)
def _matrix(r: int, sign: int, count: int) -> tuple[Tensor, int]:
    """Digits of a DFT matrix acting on parts, and the power of two that the product is divided by."""
    # Sums of r products of numbers up to sqrt(2) in magnitude; halving is the kernel's.
    shift = max(1, math.ceil(math.log2(math.sqrt(2) * r)))
    w = tables.dft(r, r, r, sign, 2.0 ** (1 - shift))
    parts = np.block([[w.real, w.imag], [-w.imag, w.real]])
    return digits(torch.from_numpy(parts), count), shift


def _product(x: Tensor, sign: int, count: int) -> Tensor:
    """The transform of the first axis of [r, F], r being small, in one program."""
    r = x.shape[0]
    matrix, shift = _matrix(r, sign, count)
    parts = torch.cat((x.real, x.imag))  # [2r, F]
    # Powers of two per column: rows of very different size in one batch keep their own precision.
    largest = parts.abs().amax(0)
    exponent = torch.frexp(largest)[1].double().clamp(-1000, 1023)
    finite = torch.isfinite(largest)
    scaled = torch.where(finite, parts * torch.exp2(-exponent), 0.0)
    found: Tensor = launch(kernels.exact, digits(scaled, count), matrix)
    # Digits hold no infinities: a column with one is NaN, as it is where infinities meet in a sum.
    y = torch.where(finite, together(found) * 2.0**shift * torch.exp2(exponent), torch.nan)
    re, im = y.chunk(2)
    return torch.complex(re, im)


def _first_axis(x: Tensor, sign: int, count: int) -> Tensor:
    """Transform the first axis of [n, F]."""
    n = x.shape[0]
    split = tables.factors(n, LARGEST)
    if split is None:
        return _chirp(x, sign, count)
    rest, done = n, 1
    for r in split:
        m = rest // r
        y = _product(x.reshape(r, -1), sign, count).reshape(r, m, -1)
        if m > 1:
            turns = torch.from_numpy(tables.roots(np.outer(np.arange(r), np.arange(m)), rest, sign))
            y = y * turns.to(y.device).unsqueeze(2)
        x = y.transpose(0, 1).reshape(n, -1)
        rest, done = m, done * r
    return x


def _chirp(x: Tensor, sign: int, count: int) -> Tensor:
    """Bluestein's algorithm around transforms of a length with small factors."""
    n = x.shape[0]
    length = next_fast_len(2 * n - 1)
    j = np.arange(n, dtype=np.int64)
    chirp = tables.roots(j * j, 2 * n, sign)
    lags = np.zeros(length, np.complex128)
    lags[:n] = np.conj(chirp)
    lags[length - n + 1 :] = np.conj(chirp[:0:-1])
    turn = torch.from_numpy(chirp).to(x.device).unsqueeze(1)
    spectrum = torch.from_numpy(np.fft.fft(lags) / length).to(x.device).unsqueeze(1)
    padded = torch.nn.functional.pad(x * turn, (0, 0, 0, length - n))
    return _first_axis(_first_axis(padded, -1, count) * spectrum, 1, count)[:n] * turn


def c2c(x: Tensor, dims: list[int], sign: int, scale: float, precision: str) -> Tensor:
    """A complex transform over axes of a complex128 tensor."""
    for dim in dims:
        moved = x.movedim(dim, 0)
        x = _first_axis(moved.reshape(moved.shape[0], -1), sign, DIGITS[precision]).reshape(moved.shape).movedim(0, dim)
    return x * scale if scale != 1 else x
