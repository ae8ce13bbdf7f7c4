"""Halton points: digits of the point's index, reversed, in a prime base for each dimension."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnrand.bits import stream_words
from trnrand.kernels import halton as kernels
from trnrand.quasi import Sequence
from trnrand.source import Source
from trnrand.uniform import cut
from trnsci import Cost, op, programs, run
from trnsci.nki import N_TILE, P_MAX, launch

MAX_DIMENSIONS = 10000
# mirrored digits of numbers below it fit int64 in every base
MAX_POINTS = 1 << 45
# numbers whose digits the kernel finds exactly in fp32
KERNEL_LIMIT = 1 << 22


@functools.lru_cache(maxsize=8)
def primes(d: int) -> list[int]:
    """Return the first ``d`` primes."""
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
        scramble: ``True`` for a random permutation of the digits at every position of every dimension (Owen 2017).
            With ``seed`` it is ``True`` unless given.
        generator: where the permutations come from.
        seed: the same as a number: ``Generator(seed)``.

    Example:
        >>> trnrand.Halton(2).at(1).random(2)
        tensor([[0.5000, 0.3333],
                [0.2500, 0.6667]])
    """

    end = MAX_POINTS

    def __init__(
        self, d: int, *, scramble: bool | None = None, generator: Source | None = None, seed: int | None = None
    ) -> None:
        super().__init__("Halton", d, MAX_DIMENSIONS, scramble, ("digits",), generator, seed)
        self._orders = None if self.stream is None else self._permutations()

    def _permutations(self) -> list[Tensor]:
        """Return, per dimension, the orders of its digits at every position float64 sees: int64 [digits, base]."""
        assert self.stream is not None
        orders, first = [], 0
        for base in primes(self.d):
            digits = math.ceil(54 / math.log2(base))
            words = stream_words(self.stream, first, 2 * digits * base, torch.device("cpu")).view(digits, base, 2)
            orders.append(torch.argsort(words[..., 1] << 32 | words[..., 0], dim=-1, stable=True))
            first += 2 * digits * base
        return orders

    def _points(self, n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        if self._orders is None:
            wide = torch.float64 if dtype == torch.float64 else torch.float32
            return cut(run(HaltonPoints(tuple(primes(self.d)), self.position, n, wide, device)), dtype)
        index = torch.arange(self.position, self.position + n, device=device)
        columns = []
        for base, orders in zip(primes(self.d), self._orders, strict=True):
            rest, x, scale = index, torch.zeros(n, dtype=torch.float64, device=device), 1.0
            for order in orders.to(device):
                scale /= base
                x += order[rest % base] * scale
                rest = rest // base
            columns.append(x.clamp(max=1.0 - 2.0**-53))
        return cut(torch.stack(columns, 1), dtype)


@op("trnrand::halton")
class HaltonPoints(NamedTuple):
    """Points ``first .. first + points``, [points, D], of these bases."""

    bases: tuple[int, ...]
    first: int
    points: int
    dtype: torch.dtype
    device: torch.device

    def fake(self) -> Tensor:
        return torch.empty((self.points, len(self.bases)), dtype=self.dtype, device=self.device)

    def cost(self) -> Cost:
        digits = sum(_digits(self.first + self.points, base) for base in self.bases)
        written = self.dtype.itemsize * self.points * len(self.bases)
        return Cost(flops=4 * digits * self.points, read=0, written=written)

    def pytorch(self) -> Tensor:
        out = self.fake()
        for column, base in enumerate(self.bases):
            x = _column(base, self.first, self.points, self.device)
            out[:, column] = cut(x, self.dtype)
        return out

    def nki(self) -> Tensor:
        if self.points == 0:
            return self.fake()
        row = min(N_TILE, self.points)
        rows = -(-self.points // row)
        # digits up to the next power of two: one program serves many positions
        end = min(KERNEL_LIMIT, 1 << (self.first + rows * row - 1).bit_length())
        counts = [_digits(end, base) for base in self.bases]
        tile = min(rows, P_MAX)

        def size(digits: int) -> programs.Size:
            return programs.size_of(kernels.halton, (_start(0),), _options([2], [digits], tile, row))

        columns = []
        for some in programs.runs(size, counts):
            options = _options(self.bases[some], counts[some], tile, row)
            high = tile * programs.limits().holds(programs.size_of(kernels.halton, (_start(0),), options))
            pieces = [
                launch(kernels.halton, _start(self.first + at * row), **{**options, "rows": min(high, rows - at)})
                for at in range(0, rows, high)
            ]
            columns.append(torch.cat(pieces))
        points = torch.cat(columns, 2).reshape(rows * row, len(self.bases))[: self.points].contiguous()
        return points if points.is_meta else points.to(self.device)

    def limits(self, implementation: str) -> str | None:
        if implementation != "nki":
            return None
        if self.dtype == torch.float64:
            return "the kernel makes float32 points"
        end = self.first + self.points
        if end > KERNEL_LIMIT:
            return f"the kernel finds the digits of numbers below {KERNEL_LIMIT}, and the last is {end - 1}"
        return None


def _digits(end: int, base: int) -> int:
    """Return how many digits the indices below ``end`` have."""
    digits, reach = 1, base
    while reach < end:
        digits, reach = digits + 1, reach * base
    return digits


def _column(base: int, first: int, count: int, device: torch.device) -> Tensor:
    """Return one dimension of the points, float64: indices in blocks that share their upper digits."""
    digits = _digits(first + count, base)
    low = min(digits, max(1, int(math.log(max(count, 2), base) / 2)))
    block = base**low
    blocks = torch.arange(first // block, (first + max(count, 1) - 1) // block + 1, device=device)
    upper = _mirror_digits(blocks, base, digits - low)
    lower = _mirror_digits(torch.arange(block, device=device), base, low) * base ** (digits - low)
    return (upper[:, None] + lower).view(-1)[first % block :][:count].double() / float(base**digits)


def _mirror_digits(numbers: Tensor, base: int, digits: int) -> Tensor:
    """Return integers whose digits are those of the indices in reverse."""
    mirrored = torch.zeros_like(numbers)
    for _ in range(digits):
        above = torch.div(numbers, base, rounding_mode="floor")
        mirrored = mirrored * base + (numbers - above * base)
        numbers = above
    return mirrored


def _start(first: int) -> Tensor:
    return torch.full((P_MAX, 1), float(first), dtype=torch.float32, device="cpu")


def _options(bases: Iterable[int], digits: Iterable[int], rows: int, row: int) -> dict[str, Any]:
    return {"bases": tuple(bases), "digits": tuple(digits), "rows": rows, "row": row}
