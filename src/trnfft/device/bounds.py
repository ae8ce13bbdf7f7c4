"""Errors that transforms guarantee for all data, in the L2 norm, relative to ``sqrt(n)`` times that of the operand.

A sum of m terms makes an error of at most u times each partial sum. Partial sums of all results of a product with a DFT
matrix are the transform of data cut short, so that their norm is at most that of the result: m additions cost ``m u``
of it, whatever the data. Rounded tables and products, whose errors differ from element to element, cost ``sqrt(m) u``.
The Tensor Engine adds up to 128 terms in a column and its sums in PSUM.
"""

import functools
import math

import numpy as np

from trnfft.device import digit_programs, pass_programs, tables
from trnsci.nki import K_TILE

# Libraries have passes of their own for the primes below.
LARGE_PRIME = 17
UNIT = {"fp32": 2.0**-24, "fp64": 2.0**-53}
# Roundings of an operand to bfloat16, and of a result, a twiddle and a scale in float32.
_OPERAND = {"fast": 2.0**-8, "fp32": 0.0}
_OTHERS = 6


def guaranteed_error(implementation: str, lengths: list[int], rows: int, inner: int, precision: str) -> float:
    """Return the bound for axes of these lengths, beside ``rows`` and ``inner`` others for the last of them."""
    if implementation != "nki":
        # A few roundings for each of log2 n passes, chirps for large primes; MKL, which torch may call, sums up for
        # factors of up to about a hundred what other libraries transform.
        unit = UNIT["fp64" if precision in ("compensated", "fp64") else "fp32"]
        coarse = _OPERAND["fast"] if precision == "fast" else 0.0
        primes = [] if implementation == "host" else [largest_prime(n) for n in lengths]
        sums = sum(min(prime, 128) for prime in primes if prime >= LARGE_PRIME)
        return coarse + unit * (8 * sum(math.log2(2 * n) for n in lengths) + 4 * sums)
    if precision in digit_programs.BOUND:
        return digit_programs.BOUND[precision]
    return sum(_axis(n, rows, inner, precision) for n in lengths)


@functools.lru_cache(maxsize=4096)
def largest_prime(n: int) -> int:
    """Return the largest prime factor of a length; 1 has none and is its own."""
    largest, factor = 1, 2
    while factor * factor <= n:
        while n % factor == 0:
            largest, n = factor, n // factor
        factor += 1
    return max(largest, n)


@functools.lru_cache(maxsize=1024)
def _axis(n: int, rows: int, inner: int, precision: str) -> float:
    algorithm, split = pass_programs.algorithm_for(n, rows, inner)
    # Several factors are two or four products, as they are folded; none sums up more than both planes of 128 points.
    products = 2 if len(split) == 2 else max(4, len(split))
    inside = products * _product(2 * K_TILE, precision) if len(split) > 1 else _product(2 * split[0], precision)
    if algorithm != "chirp":
        return inside
    length = math.prod(split)
    spectrum = tables.chirp_spectrum(n, n, n, length, -1) * length
    growth = float(np.abs(spectrum).max()) / math.sqrt(n)
    # Forward and back, and multiplications before, between and after.
    return growth * (2 * inside + 3 * _OTHERS * UNIT["fp32"])


def _product(terms: int, precision: str) -> float:
    """Return the error that a product summing up ``terms`` terms adds."""
    depth, unit, coarse = min(terms, K_TILE) + -(-terms // K_TILE), UNIT["fp32"], _OPERAND[precision]
    return unit * (depth + 2 * math.sqrt(terms) + _OTHERS) + coarse * (1 + math.sqrt(terms))
