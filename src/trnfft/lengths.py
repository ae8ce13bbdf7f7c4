"""Lengths that transform fast."""

from __future__ import annotations

import functools

from trnfft.arguments import integer
from trnsci import check


def next_fast_len(target: int, real: bool = False) -> int:
    """Return the smallest length from ``target`` on that is fast: a product of 2, 3, 5, and 7 and 11 if complex.

    Args:
        target: length wanted.
        real: whether data is real; the libraries underneath have fewer radices for it.

    Example:
        >>> next_fast_len(1021), next_fast_len(13, real=True)
        (1024, 15)
    """
    target = integer("next_fast_len", "target", target)
    check.refuse(target < 0, "next_fast_len", "target", target, "at least 0")
    check.flag("next_fast_len", real=real)
    return target if target <= 6 else _next_fast(target, bool(real))


@functools.lru_cache(maxsize=1024)
def _next_fast(target: int, real: bool) -> int:
    best = 1 << (target - 1).bit_length()
    for odd in _odd_smooth(best, (3, 5) if real else (3, 5, 7, 11)):
        quotient = -(-target // odd)
        best = min(best, odd << (quotient - 1).bit_length())
    return best


def _odd_smooth(limit: int, primes: tuple[int, ...]) -> list[int]:
    products = [1]
    for prime in primes:
        for value in list(products):
            while (value := value * prime) <= limit:
                products.append(value)
    return products
