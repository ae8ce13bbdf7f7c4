"""Halton points: digits of the point's number, reversed, in a prime base for each dimension."""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

from trnrand import host
from trnrand.bits import stream_words
from trnrand.kernels import halton as kernels
from trnrand.quasi import Sequence, cut
from trnrand.source import Source
from trnsci import Cost, Op
from trnsci.nki import N_TILE, P_MAX, launch

MAX_DIMENSIONS = 10000
# mirrored digits of numbers below it fit int64 in every base
MAX_POINTS = 1 << 45
# numbers whose digits the kernel finds exactly in fp32
KERNEL_LIMIT = 1 << 22


@functools.lru_cache(maxsize=8)
def primes(d: int) -> list[int]:
    """The first ``d`` primes."""
    top = max(15, int(d * (math.log(d + 1) + math.log(math.log(d + 2) + 1)) + 20))
    sieve = bytearray([1]) * top
    for n in range(2, math.isqrt(top) + 1):
        if sieve[n]:
            sieve[n * n :: n] = bytes(len(range(n * n, top, n)))
    return [n for n in range(2, top) if sieve[n]][:d]


class Halton(Sequence):
    """Points of the Halton sequence.

    Args:
        d: dimensions, 1 to 10 000.
        scramble: ``True`` for a random permutation of the digits at every place of every dimension (Owen 2017).
        generator: where the permutations come from.

    Example:
        >>> trnrand.Halton(2).at(1).random(2)
        tensor([[0.5000, 0.3333],
                [0.2500, 0.6667]])
    """

    end = MAX_POINTS

    def __init__(self, d: int, *, scramble: bool = False, generator: Source | None = None) -> None:
        super().__init__("Halton", d, MAX_DIMENSIONS, scramble, ("digits",), generator)
        self._orders = None if self.stream is None else self._permutations()

    def _permutations(self) -> list[Tensor]:
        """For each dimension the orders of its digits at every place that float64 sees: int64 [places, base]."""
        assert self.stream is not None
        made, first = [], 0
        for base in primes(self.d):
            places = math.ceil(54 / math.log2(base))
            words = stream_words(self.stream, first, 2 * places * base, torch.device("cpu")).view(places, base, 2)
            made.append(torch.argsort(words[..., 1] << 32 | words[..., 0], dim=-1, stable=True))
            first += 2 * places * base
        return made

    def _points(self, n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        if self._orders is None:
            wide = dtype == torch.float64
            return cut(_halton(primes(self.d), self.position, n, wide, str(device)), dtype)
        index = torch.arange(self.position, self.position + n, device=device)
        columns = []
        for base, orders in zip(primes(self.d), self._orders, strict=True):
            rest, x, scale = index, torch.zeros(n, dtype=torch.float64, device=device), 1.0
            for order in orders.to(device):
                scale /= base
                x += order[rest % base] * scale
                rest = rest // base
            columns.append(x.clamp(max=1.0 - 2.0**-53))
        points = torch.stack(columns, 1)
        return points if dtype == torch.float64 else cut((points * 2.0**24).floor().float() * 2.0**-24, dtype)


def _fake(bases: list[int], first: int, count: int, wide: bool, device: str) -> Tensor:
    return torch.empty((count, len(bases)), dtype=torch.float64 if wide else torch.float32, device=device)


def _cost(bases: list[int], first: int, count: int, wide: bool, device: str) -> Cost:
    digits = sum(_digits(first + count, base) for base in bases)
    return Cost(flops=4 * digits * count, read=0, written=(8 if wide else 4) * count * len(bases))


_halton = Op("trnrand::halton", fake=_fake, cost=_cost)


def _digits(end: int, base: int) -> int:
    """Digits of every number below ``end``."""
    digits, reach = 1, base
    while reach < end:
        digits, reach = digits + 1, reach * base
    return digits


@_halton.impl("pytorch")
def _pytorch(bases: list[int], first: int, count: int, wide: bool, device: str) -> Tensor:
    library = host.helper(torch.device(device))
    if library is not None:
        made = host.empty((count, len(bases)), torch.float64 if wide else torch.float32)
        table = torch.tensor([*bases, *(_digits(first + count, base) for base in bases)])
        kind, threads = host.UNIFORM64 if wide else host.UNIFORM32, torch.get_num_threads()
        library.trnrand_halton(kind, table.data_ptr(), len(bases), first, count, made.data_ptr(), threads)
        return made
    index = torch.arange(first, first + count, device=device)
    out = _fake(bases, first, count, wide, device)
    for column, base in enumerate(bases):
        rest, mirrored = index, torch.zeros_like(index)
        digits = _digits(first + count, base)
        for _ in range(digits):
            above = torch.div(rest, base, rounding_mode="floor")
            mirrored = mirrored * base + (rest - above * base)
            rest = above
        whole = 1.0
        for _ in range(digits):
            whole *= base
        x = mirrored.double() / whole
        # rounding to float32 would reach 1
        out[:, column] = x if wide else (x * 2.0**24).floor() * 2.0**-24
    return out


def _limits(bases: list[int], first: int, count: int, wide: bool, device: str) -> str | None:
    if wide:
        return "the kernel makes float32 points"
    if first + count > KERNEL_LIMIT:
        return f"the kernel finds the digits of numbers below {KERNEL_LIMIT}, and the last is {first + count - 1}"
    return None


@_halton.impl("nki", limits=_limits)
def _nki(bases: list[int], first: int, count: int, wide: bool, device: str) -> Tensor:
    if count == 0:
        return _fake(bases, first, count, wide, device)
    row = min(N_TILE, count)
    rows = -(-count // row)
    start = torch.full((P_MAX, 1), float(first))
    # digits up to the next power of two: one program serves many positions
    end = min(KERNEL_LIMIT, 1 << (first + rows * row - 1).bit_length())
    counts = [_digits(end, base) for base in bases]
    made: Tensor = launch(kernels.halton, start, bases=tuple(bases), digits=tuple(counts), rows=rows, row=row)
    made = made.reshape(rows * row, len(bases))[:count].contiguous()
    return made if made.is_meta else made.to(device)
