"""Sobol points: digital nets in base 2 with Joe and Kuo's direction numbers, in up to 21 201 dimensions."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnrand import host_loops
from trnrand.bits import stream_words
from trnrand.engines import MASK
from trnrand.kernels import sobol as kernels
from trnrand.quasi import Sequence
from trnrand.source import Source, fits
from trnrand.stream import Stream
from trnrand.uniform import cut
from trnsci import Cost, check, host, op, run
from trnsci.caches import kept
from trnsci.nki import N_TILE, P_MAX, launch

Array = np.ndarray[Any, Any]
MAX_DIMENSIONS = 21201
BITS = 64
_DTYPES = {"float32": torch.float32, "float64": torch.float64, "bits": torch.int64}
# Bits dropped from a word, and a mask of those kept, which make a number in [0, 1).
_KEPT = {"float32": (40, (1 << 24) - 1), "float64": (11, (1 << 53) - 1), "bits": (0, -1)}
# Elements of an innermost loop, and of what stays in the cache.
_LONG = 512
_CACHED = 1 << 15


class Sobol(Sequence):
    """Points of the Sobol sequence, in the order of scipy's.

    Args:
        d: dimensions, 1 to 21 201.
        scramble: ``False``; ``True`` or ``"owen"`` for nested uniform scrambling by hashing; ``"lms"`` for a random
            linear matrix and a digital shift. With ``seed`` it is ``True`` unless given.
        generator: where the scrambling comes from.
        seed: the same as a number: ``Generator(seed)``.

    Example:
        >>> trnrand.Sobol(2).random(4)
        tensor([[0.0000, 0.0000],
                [0.5000, 0.5000],
                [0.7500, 0.2500],
                [0.2500, 0.7500]])
    """

    def __init__(
        self,
        d: int,
        *,
        scramble: bool | str | None = None,
        generator: Source | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__("Sobol", d, MAX_DIMENSIONS, scramble, ("owen", "lms"), generator, seed)
        self._table = table(d) if self.stream is None or self.scramble == "owen" else _mix_table(table(d), self.stream)
        self._seeds: Tensor | None = None  # two words for each dimension, int64 [2, d]
        if self.stream is not None and self.scramble == "owen":
            self._seeds = stream_words(self.stream, 0, 2 * d, torch.device("cpu")).view(d, 2).T.contiguous()

    def bits(self, n: int, device: torch.device | str = "cpu") -> Tensor:
        """Return the next ``n`` points as 64-bit integers (int64 that holds uint64), highest bit first: [n, d]."""
        n = check.integer("Sobol", "n", n, 0)
        where = check.device("Sobol", device)
        fits("Sobol", (n, self.d), 8, where)
        return self._claim(n)._raw(n, where)

    def _raw(self, n: int, device: torch.device) -> Tensor:
        words = run(SobolPoints(self._table.to(device), self.position, n, "bits"))
        return words if self._seeds is None else owen(words, self._seeds.to(device))

    def _points(self, n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        if self._seeds is None:
            kind: Literal["float32", "float64"] = "float64" if dtype == torch.float64 else "float32"
            return cut(run(SobolPoints(self._table.to(device), self.position, n, kind)), dtype)
        return cut((self._raw(n, device) >> 11 & (1 << 53) - 1).double() * 2.0**-53, dtype)


@functools.cache
def _numbers() -> tuple[Array, Array]:
    with np.load(Path(__file__).parent / "data" / "joe_kuo.npz") as stored:
        return stored["poly"].astype(np.int64), stored["initial"].astype(np.uint64)


@kept
def table(d: int) -> Tensor:
    """Return direction numbers of ``d`` dimensions, and a shift of 0: int64 [65, d]."""
    polynomials, initial = (x[:d] for x in _numbers())
    v = np.zeros((BITS + 1, d), np.uint64)
    v[:BITS, 0] = np.uint64(1) << np.arange(BITS - 1, -1, -1, dtype=np.uint64)
    degrees = np.array([int(p).bit_length() - 1 for p in polynomials])
    degrees[0] = 0
    for s in range(1, int(degrees.max()) + 1 if d > 1 else 1):
        mine = np.flatnonzero(degrees == s)
        for k in range(s):
            v[k, mine] = initial[mine, k] << np.uint64(BITS - 1 - k)
        inner = polynomials[mine]
        for k in range(s, BITS):
            row = v[k - s, mine] ^ (v[k - s, mine] >> np.uint64(s))
            for j in range(1, s):
                row ^= np.where(inner >> (s - j) & 1, v[k - j, mine], np.uint64(0))
            v[k, mine] = row
    return torch.from_numpy(v.view(np.int64))


def _mix_table(plain: Tensor, stream: Stream) -> Tensor:
    """Multiply direction numbers by a random lower triangular bit matrix per dimension, and draw a shift."""
    d = plain.shape[1]
    v = plain.numpy().view(np.uint64)
    words = (
        stream_words(stream, 0, 2 * d * (BITS + 1), torch.device("cpu"))
        .numpy()
        .astype(np.uint64)
        .reshape(d, BITS + 1, 2)
    )
    random = words[..., 1] << np.uint64(32) | words[..., 0]
    mixed = np.zeros_like(v)
    for i in range(BITS):
        shift = np.uint64(BITS - 1 - i)
        # row i sees the bits above bit i, and its own
        row = (random[:, i] >> shift | np.uint64(1)) << shift
        parity = np.bitwise_count(v[:BITS] & row) & np.uint8(1)
        mixed[:BITS] |= parity.astype(np.uint64) << shift
    mixed[BITS] = random[:, BITS]
    return torch.from_numpy(mixed.view(np.int64))


def owen(words: Tensor, seeds: Tensor) -> Tensor:
    """Scramble nested and uniformly: whether a bit flips is a hash of the bits above it.

    Laine and Karras' construction with Vegdahl's constants, on the upper half and then, seeded with it, on the lower.
    """
    if host.refusal((words, seeds)) is None:
        return _owen_in_host_memory(words.numpy(), seeds.numpy().astype(np.uint32))
    high = _hash_words(words >> 32 & MASK, seeds[0])
    low = _hash_words(words & MASK, seeds[1] ^ high)
    return high << 32 | low


def _owen_in_host_memory(words: Array, seeds: Array) -> Tensor:
    """Scramble by NumPy, whose words of 32 bits wrap by themselves; some rows at a time, which stay in the cache."""
    scrambled = np.empty(words.shape, np.int64)
    rows = max(1, _CACHED // max(words.shape[1], 1))
    for at in range(0, len(words), rows):
        high = _hash_words((words[at : at + rows] >> 32).astype(np.uint32), seeds[0])
        low = _hash_words(words[at : at + rows].astype(np.uint32), seeds[1] ^ high)
        scrambled[at : at + rows] = high.astype(np.int64) << 32 | low
    return torch.from_numpy(scrambled)


def _hash_words(x: Any, seed: Any) -> Any:
    """Hash words of 32 bits: int64 tensors, or uint32 arrays."""
    x = _reverse_bits(x)
    x = x ^ (x * 0x3D20ADEA & MASK)
    x = x + seed & MASK
    x = x * (seed >> 16 | 1) & MASK
    x = x ^ (x * 0x05526C56 & MASK)
    x = x ^ (x * 0x53A22864 & MASK)
    return _reverse_bits(x)


def _reverse_bits(x: Any) -> Any:
    for by, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        x = (x >> by & mask) | (x & mask) << by
    return (x >> 16 | x << 16) & MASK


@op("trnrand::sobol")
class SobolPoints(NamedTuple):
    """Points ``first .. first + points``, [points, D], of a table of direction numbers and a shift, int64 [65, D]."""

    table: Tensor
    first: int
    points: int
    kind: Literal["float32", "float64", "bits"]

    def fake(self) -> Tensor:
        return self.table.new_empty((self.points, self.table.shape[1]), dtype=_DTYPES[self.kind])

    def cost(self) -> Cost:
        points = self.points * self.table.shape[1]
        return Cost(flops=2 * points, read=self.table.nbytes, written=points * _DTYPES[self.kind].itemsize)

    def pytorch(self) -> Tensor:
        table, first, count, d = self.table, self.first, self.points, self.table.shape[1]
        # Indices in blocks that share their upper bits: the Gray code of a sum without carry is the XOR of both codes.
        block = 1 << count.bit_length() // 2
        blocks = torch.arange(first // block, (first + max(count, 1) - 1) // block + 1, device=table.device) * block
        drop, keep = _KEPT[self.kind]
        upper = _by_bits(table, blocks) >> drop & keep  # [blocks, D]
        lower = _first(_linear(table), block) >> drop & keep  # [block, D]
        # Rows repeated, so that the innermost loop of the XOR is long whatever D is.
        rows = min(block, 1 << (_LONG // max(d, 1)).bit_length())
        upper = upper.unsqueeze(1).expand(-1, rows, -1).reshape(-1, 1, rows * d)
        lower = lower.reshape(1, -1, rows * d)
        shape, dtype = (len(blocks), *lower.shape[1:]), _DTYPES[self.kind]
        out = host_loops.empty(shape, dtype) if table.is_cpu else table.new_empty(shape, dtype=dtype)
        # A few blocks at a time, which stay in the cache.
        some = max(1, _CACHED // max(block * d, 1))
        scratch = table.new_empty((min(some, len(blocks)), *lower.shape[1:]))
        for target, words in zip(out.split(some), upper.split(some), strict=True):
            if self.kind == "bits":
                torch.bitwise_xor(words, lower, out=target)
            else:
                target.copy_(torch.bitwise_xor(words, lower, out=scratch[: len(words)])).mul_(1.0 / (keep + 1))
        return out.reshape(-1, d)[first % block :][:count]

    def nki(self) -> Tensor:
        table, d = self.table, self.table.shape[1]
        if self.points == 0 or d == 0:
            return self.fake()
        row = min(N_TILE, 1 << (self.points - 1).bit_length())
        steps = row.bit_length() - 1
        start = self.first // row
        rows = (self.first + self.points - 1) // row - start + 1
        columns, heads = _for_kernel(table, steps, start, rows, row)
        points: Tensor = launch(kernels.sobol, columns, heads, row=row)  # [rows, row, D]
        skip = self.first - start * row
        return points.reshape(rows * row, d)[skip : skip + self.points].contiguous()

    def limits(self, implementation: str) -> str | None:
        if implementation != "nki" or self.kind == "float32":
            return None
        return "the kernel makes float32 points without scrambling or with a linear one"


def _by_bits(table: Tensor, index: Tensor) -> Tensor:
    """Return points by their indices: XOR the direction numbers that an index's Gray code selects. int64 [n, d]."""
    gray = (index ^ index >> 1).unsqueeze(1)
    x = table[BITS].repeat(len(index), 1)
    top = int(index.max()).bit_length() if len(index) else 0
    for bit in range(top):
        x ^= table[bit] * (gray >> bit & 1)
    return x


def _linear(table: Tensor) -> Tensor:
    """Return what each bit of an index adds to a point: the bit and its neighbour below are bits of the Gray code."""
    return table[:BITS] ^ torch.cat([torch.zeros_like(table[:1]), table[: BITS - 1]])


def _first(linear: Tensor, count: int) -> Tensor:
    """Return the first points without a shift, a power of two of them, by doubling. int64 [count, d]."""
    x = linear.new_zeros((count, linear.shape[1]))
    for bit in range(count.bit_length() - 1):
        done = 1 << bit
        torch.bitwise_xor(x[:done], linear[bit], out=x[done : 2 * done])
    return x


def _for_kernel(table: Tensor, steps: int, start: int, rows: int, row: int) -> tuple[Tensor, Tensor]:
    """Return columns of the linear map within a row of points, on every partition, and each row's first point."""
    d = table.shape[1]
    if table.is_meta:
        heads = torch.empty((rows, d), dtype=torch.uint32, device="meta")
        return torch.empty((P_MAX, d * max(steps, 1)), dtype=torch.uint32, device="meta"), heads
    heads = (_by_bits(table, (start + torch.arange(rows, device=table.device)) * row) >> 32 & MASK).to(torch.uint32)
    columns = (_linear(table)[: max(steps, 1)].T.reshape(1, -1) >> 32 & MASK).to(torch.uint32)
    return columns.expand(P_MAX, -1).contiguous(), heads.contiguous()
