"""Tables of programs: DFT matrices, twiddles and chirps, from float64 with angles reduced exactly in integers."""

import functools
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnfft.arguments import REAL_OF

Array = np.ndarray[Any, Any]


def roots(exponents: Array, n: int, sign: int) -> Array:
    """Return ``exp(sign 2 pi i e / n)``, e reduced modulo n and then to an eighth of a turn, in integers."""
    e = exponents.astype(np.int64) % n
    octant, rest = np.divmod(8 * e, n)
    # The angle within an octant, from its nearer end: at most an eighth of a turn.
    odd = octant % 2 == 1
    angle = 2 * math.pi / (8 * n) * np.where(odd, n - rest, rest)
    c, s = np.cos(angle), np.sin(angle)
    # The end that the angle is measured from, and in which direction.
    quarter = (octant + 1) // 2 % 4
    s = np.where(odd, -s, s)
    rotated = np.choose(quarter, [c + 1j * s, -s + 1j * c, -c - 1j * s, s - 1j * c])
    return rotated if sign > 0 else np.conj(rotated)


def tensor(array: Array, dtype: torch.dtype) -> Tensor:
    """Return a contiguous tensor."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(dtype)


def as_real(w: Array) -> Array:
    """Return [plane, part, ...] of multiplication by w."""
    return np.array([[w.real, w.imag], [-w.imag, w.real]])


def dft(n: int, rows: int, columns: int, sign: int, scale: float) -> Array:
    """Return [rows, columns] of ``scale * W_n^(j k)``."""
    return scale * roots(np.outer(np.arange(rows), np.arange(columns)), n, sign)


# How repeated blocks are interleaved with planes in the rows and with parts in the columns of a table.
_LAYOUTS = {"moving": (0, 1, 2, 3, 4, 5), "stationary": (0, 1, 2, 4, 3, 5), "split": (1, 0, 2, 4, 3, 5)}


def matrix(
    n: int,
    rows: int,
    columns: int,
    sign: int,
    scale: float,
    *,
    lanes: int = 1,
    layout: str = "moving",
    real_in: bool = False,
    real_out: bool = False,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Return a DFT matrix acting on parts, ``lanes`` times along the diagonal.

    Rows are lane, plane and j for layouts ``moving`` and ``stationary``, plane, lane and j for ``split``; columns are
    lane, part and k for ``moving``, part, lane and k for the others.
    """
    w = dft(n, rows, columns, sign, scale)
    parts = as_real(w)  # [plane, part, j, k]
    parts = parts[: 1 if real_in else 2, : 1 if real_out else 2].transpose(0, 2, 1, 3)
    whole = np.einsum("st,pjqk->spjtqk", np.eye(lanes), parts).transpose(_LAYOUTS[layout])
    return tensor(whole.reshape(lanes * parts.shape[0] * rows, -1), dtype)


def weight_half(x: Tensor, axis: int, n: int, weight: float) -> Tensor:
    """Multiply the frequencies that a half spectrum stands for twice."""
    weights = torch.full((x.shape[axis],), weight, dtype=REAL_OF.get(x.dtype, x.dtype), device=x.device)
    if n and not x.is_meta:
        weights[0] = 1.0
        if n % 2 == 0:
            weights[n // 2] = 1.0
    return x * weights.reshape(-1, *[1] * (x.ndim - axis - 1))


def twiddles(n: int, rows: int, columns: int, copies: int, sign: int) -> Tensor:
    """Return [2, copies * rows, columns]: both parts of ``W_n^(j k)``, repeated downwards."""
    w = np.tile(roots(np.outer(np.arange(rows), np.arange(columns)), n, sign), (copies, 1))
    return both_parts(w)


def chirp(n: int, count: int, sign: int, scale: float = 1.0) -> Array:
    """Return [count]: ``scale * exp(sign pi i j^2 / n)``, the squares reduced as integers modulo 2n."""
    return scale * roots(np.arange(count, dtype=np.int64) ** 2 % (2 * n), 2 * n, sign)


def chirp_spectrum(n: int, inputs: int, outputs: int, length: int, sign: int) -> Array:
    """Transform the conjugate chirp at lags ``1 - inputs`` to ``outputs - 1``, over ``length``: [length]."""
    lags = np.conj(chirp(n, max(inputs, outputs), sign))
    b = np.zeros(length, np.complex128)
    b[:outputs] = lags[:outputs]
    b[length - inputs + 1 :] = lags[inputs - 1 : 0 : -1]
    return np.fft.fft(b) / length


def both_parts(w: Array) -> Tensor:
    """Return [2, ...]: real and imaginary part."""
    return tensor(np.stack((w.real, w.imag)), torch.float32)


@functools.lru_cache(maxsize=4096)
def factors(n: int, most: int) -> tuple[int, ...] | None:
    """Return the fewest factors of n up to ``most``, as equal as can be; ``None`` where a prime is larger."""
    divisors = [d for d in range(2, min(n, most) + 1) if n % d == 0]
    if n <= most:
        return (n,)
    for count in range(2, 12):
        best = _split(n, count, most, tuple(divisors))
        if best is not None:
            return best
    return None


def _split(n: int, count: int, most: int, divisors: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return ``count`` factors with the smallest largest one, in ascending order."""
    if count == 1:
        return (n,) if n <= most else None
    best: tuple[int, ...] | None = None
    for d in divisors:
        if n % d == 0 and d**count <= n:
            rest = _split(n // d, count - 1, most, divisors)
            if rest is not None and rest[0] >= d and (best is None or rest[-1] < best[-1]):
                best = (d, *rest)
    return best
