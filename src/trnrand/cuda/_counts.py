"""Logarithms of probabilities of counts: the steps of `trnrand.maths`, in the same order."""

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl

from trnrand.cuda._maths import log
from trnrand.maths import COEFFICIENTS


@functools.cache
def table(device: torch.device) -> torch.Tensor:
    """Return the errors of Stirling's formula up to 15, on a device."""
    return torch.tensor(COEFFICIENTS["stirling"], dtype=torch.float64, device=device)


@triton.jit
def _stirling(n, stirling):
    """Return ``ln(n!) - ln(sqrt(2 pi n) (n / e)**n)`` for whole ``n >= 0`` (0 at 0)."""
    known = tl.load(stirling + tl.minimum(tl.maximum(n, 0.0), 15.0).to(tl.int64))
    large = tl.maximum(n, 16.0)
    square = large * large
    p = 0.0005952380952380953 - 0.0008417508417508417 / square
    p = 0.0007936507936507937 - p / square
    p = 0.002777777777777778 - p / square
    p = 0.08333333333333333 - p / square
    return tl.where(n <= 15.0, known, p / large)


@triton.jit
def _deviance(x, m):
    """Return ``x ln(x / m) + m - x`` without cancellation near ``x = m``; ``x > 0``, ``m > 0``."""
    gap, total = x - m, x + m
    v = gap / total
    near, term, square = gap * v, x * 2.0 * v, v * v
    for j in tl.static_range(1, 11):
        term = term * square
        near = near + term / (2.0 * j + 1.0)
    return tl.where(tl.abs(gap) < total * 0.1, near, x * log(x / m) - gap)


@triton.jit
def log_poisson(k, rate, stirling):
    """Return logarithm of the Poisson probability of ``k >= 0``."""
    some = tl.maximum(k, 1.0)
    y = -_stirling(some, stirling) - _deviance(some, rate)
    y = y - log(some * 6.283185307179586) * 0.5
    return tl.where(k == 0, -rate, y)


@triton.jit
def log_complement(p):
    """Return ``ln(1 - p)`` for ``0 <= p < 1``, as precise for tiny ``p`` as for others."""
    rest = 1.0 - p
    lost = 1.0 - rest
    return tl.where(lost == 0, -p, log(rest) * (p / tl.where(lost == 0, lost * 0.0 + 1.0, lost)))


@triton.jit
def log_binomial(k, n, p, q, stirling):
    """Return logarithm of the binomial probability, by Loader's saddle-point expansion."""
    rest = n - k
    inner_k, inner_rest = tl.maximum(k, 1.0), tl.maximum(rest, 1.0)
    y = _stirling(n, stirling) - _stirling(inner_k, stirling) - _stirling(inner_rest, stirling)
    y = y - _deviance(inner_k, n * p) - _deviance(inner_rest, n * q)
    y = y + log(n / (inner_k * 6.283185307179586 * inner_rest)) * 0.5
    y = tl.where(k == 0, n * log_complement(p), y)
    return tl.where(rest == 0, n * log(tl.maximum(p, 1e-300)), y)
