"""Transforms more precise than fp32 on Trainium: products with DFT matrices in digits of base 256, without rounding.

Lengths of one or two factors up to 64 are one program. Longer ones are several, and between those digits are put
together, turned by twiddles and taken apart again in float64 on the host.
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

# Digits that meet the stated error: 31 bits and 55 bits of what a transform could become at most.
DIGITS = {"compensated": 4, "fp64": 7}
# Real and imaginary parts share the partitions.
LARGEST = P_MAX // 2


def digits(x: Tensor, count: int) -> Tensor:
    """[count, ...] bfloat16 whose sum is x, where ``|x| <= 1``: multiples, up to 128, of ``2**(-7 - 8 i)``."""
    found, rest = [], x
    for i in range(count):
        unit = 2.0 ** (-7 - 8 * i)
        digit = torch.round(rest / unit) * unit
        found.append(digit.to(torch.bfloat16))
        rest = rest - digit
    return torch.stack(found)


def together(found: Tensor) -> Tensor:
    """The inverse of `digits`, in float64."""
    total = torch.zeros(found.shape[1:], dtype=torch.float64, device=found.device)
    for digit in found.flip(0):
        total = total + digit.double()
    return total


def _shift(r: int) -> int:
    """The power of two that a product with r points is divided by: about what random data grows by."""
    return max(1, int(math.log2(r) / 2))


def _table(w: np.ndarray, shift: int, count: int) -> Tensor:
    """[plane n1, n2, count, part k1] of w [n1, n2, k1], halved as the kernel wants it."""
    parts = np.array([[w.real, w.imag], [-w.imag, w.real]]) * 2.0**-shift  # [plane, part, n1, n2, k1]
    whole = parts.transpose(0, 2, 3, 1, 4).reshape(2 * w.shape[0], w.shape[1], 2 * w.shape[2])
    found = digits(torch.from_numpy(np.ascontiguousarray(whole)), count)  # [count, plane n1, n2, part k1]
    return (found * 0.5).permute(1, 2, 0, 3).contiguous()


# Tables of 4096 points take 15 MB.
@functools.lru_cache(maxsize=16)
def _tables(n1: int, n2: int, sign: int, count: int) -> tuple[Tensor, ...]:
    n = np.arange(n1)[:, None] * n2 + np.arange(n2)
    first = _table(tables.roots(n[:, :, None] * np.arange(n1), n1 * n2, sign), _shift(n1) - 1, count)
    if n2 == 1:
        return (first,)
    second = tables.roots(np.outer(np.arange(n2), np.arange(n2)), n2, sign)
    return first, _table(second[:, None], _shift(n2) - 1, count)


def _product(x: Tensor, n1: int, n2: int, sign: int, count: int) -> Tensor:
    """The transform of the first axis of [n1 n2, F] in one program."""
    parts = torch.stack((x.real, x.imag)).reshape(2, n1, n2, -1)
    # Powers of two per column: rows of very different size in one batch keep their own precision.
    largest = parts.abs().amax((0, 1, 2))
    finite = torch.isfinite(largest)
    exponent = torch.frexp(largest)[1].double().clamp(-1000, 1023)
    scaled = torch.where(finite, parts * torch.exp2(-exponent), 0.0)
    # No sum of a column, after either factor, may exceed 1.
    sizes = scaled[0].abs() + scaled[1].abs()
    first = sizes.sum(0).amax(0) * 2.0 ** -_shift(n1)
    both = sizes.sum((0, 1)) * 2.0 ** -(_shift(n1) + (_shift(n2) if n2 > 1 else 0))
    room = torch.frexp(torch.maximum(first, both))[1].double().clamp(min=0)
    made = digits(scaled * torch.exp2(-room), count).movedim(0, 3).contiguous()  # [plane, n1, n2, S, F]
    found: Tensor = launch(kernels.exact, made, *_tables(n1, n2, sign, count))
    shift = _shift(n1) + (_shift(n2) if n2 > 1 else 0)
    y = together(found.movedim(2, 0)).reshape(2, n1 * n2, -1) * torch.exp2(room + shift) * torch.exp2(exponent)
    # Digits hold no infinities: a column with one is NaN, as it is where infinities meet in a sum.
    re, im = torch.where(finite, y, torch.nan)
    return torch.complex(re, im)


@functools.lru_cache(maxsize=1024)
def programs(n: int) -> tuple[tuple[int, int], ...] | None:
    """The factors of each program of a length: two up to 64 each, one of them 1 at the end of an odd number."""
    split = tables.factors(n, LARGEST)
    if split is None:
        return None
    found = [(a, b) for a, b in zip(split[::2], split[1::2], strict=False)]
    return tuple(found) if len(split) % 2 == 0 else (*found, (split[-1], 1))


def _first_axis(x: Tensor, sign: int, count: int) -> Tensor:
    """Transform the first axis of [n, F]."""
    n = x.shape[0]
    split = programs(n)
    if split is None:
        return _chirp(x, sign, count)
    rest = n
    for n1, n2 in split:
        r = n1 * n2
        m = rest // r
        y = _product(x.reshape(r, -1), n1, n2, sign, count).reshape(r, m, -1)
        if m > 1:
            turns = torch.from_numpy(tables.roots(np.outer(np.arange(r), np.arange(m)), rest, sign))
            y = y * turns.to(y.device).unsqueeze(2)
        x = y.transpose(0, 1).reshape(n, -1)
        rest = m
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
