"""cuRAND's own streams, on the host: XORWOW and MRG32k3a word for word, to compare while a program is ported.

Everything else in trnrand is counter-based, because such streams are the same on every backend. These are chains: each
word needs the one before. A subsequence is a jump by ``2**67`` (XORWOW) or ``2**76`` (MRG32k3a) words, a power of the
step's matrix. The library's own order deals words to some thousand subsequences in turn.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trnsci import ArgumentError, DtypeError, check
from trnsci.graph.draws import refuse_draw

Words = NDArray[np.uint64]
Bits = NDArray[np.uint8]
Order = Literal["sequence", "default", "legacy"]
MASK = 0xFFFFFFFF
# pieces in which a long draw of one subsequence runs
LANES = 1024


class _Chain:
    """States [S, streams] of subsequences that draw in turn."""

    name: ClassVar[str]
    streams: ClassVar[dict[str, int]]
    # words from the start of a subsequence to that of the next
    distance: ClassVar[int]
    # what each chain defines: its state from a seed, states after any number of steps, one step of a state (its words
    # are integers or arrays), and numbers from outputs
    _seed_state: Callable[[int], Words]
    _advance_states: Callable[[Words, int], Words]
    _step: Callable[[Any], tuple[Any, Any]]
    _floats: Callable[[Words], NDArray[np.float32]]
    _doubles: Callable[[int], NDArray[np.float64]]

    def __init__(self, seed: int = 0, *, subsequence: int = 0, offset: int = 0, order: Order = "sequence") -> None:
        for argument, value in (("seed", seed), ("subsequence", subsequence), ("offset", offset)):
            check.integer(self.name, argument, value, 0, (1 << 64) - 1)
        check.option(self.name, "order", order, tuple(self.streams))
        if order != "sequence" and subsequence:
            expected = "0, because the library's order takes many of them"
            raise ArgumentError(self.name, "subsequence", subsequence, expected)
        self._width = self.streams[order]
        first = self._advance_states(self._seed_state(seed), subsequence * self.distance)
        self._states = self._space_states(first, self.distance, self._width)
        self._rest = np.empty(0, np.uint64)
        whole, part = divmod(offset, self._width)
        self._states = self._advance_states(self._states, whole)
        self._take(part)

    def words(self, n: int) -> Tensor:
        """Return the next ``n`` words, uint32 [n]: what ``curandGenerate`` or ``curand()`` gives."""
        check.integer(f"{self.name}.words", "n", n, 0)
        return torch.from_numpy(self._as_words(self._take(n)).astype(np.uint32))

    def uniform(self, n: int, *, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the next ``n`` numbers in (0, 1] [n]: ``curandGenerateUniform`` and ``UniformDouble``."""
        check.integer(f"{self.name}.uniform", "n", n, 0)
        if dtype not in (torch.float32, torch.float64):
            raise DtypeError(f"{self.name}.uniform", "dtype", dtype, "float32 or float64")
        if dtype == torch.float32:
            return torch.from_numpy(self._floats(self._take(n)))
        return torch.from_numpy(self._doubles(n))

    def _take(self, n: int) -> Words:
        """Return the next raw outputs, one round of all streams after another."""
        refuse_draw(self.name)
        rounds, outputs = -(-max(0, n - len(self._rest)) // self._width), [self._rest]
        if self._width == 1 and rounds >= LANES:
            # pieces of the chain side by side; each begins where the one before it ends
            length = rounds // LANES
            words, states = self._walk(self._space_states(self._states, length, LANES), length)
            outputs.append(words.T.reshape(-1))
            self._states, rounds = states[:, -1:], rounds - length * LANES
        # Python's integers take less time than arrays of one element
        words, state = self._walk(self._states[:, 0].tolist() if self._width == 1 else self._states, rounds)
        self._states = state.reshape(len(state), -1)
        drawn = np.concatenate([*outputs, words.reshape(-1)])
        self._rest = drawn[n:]
        return drawn[:n]

    def _walk(self, state: Any, rounds: int) -> tuple[Words, Words]:
        """Return the words of some rounds, and the state after them."""
        words = []
        for _ in range(rounds):
            word, state = self._step(state)
            words.append(word)
        return np.array(words, np.uint64), np.array(state, np.uint64)

    def _space_states(self, states: Words, distance: int, count: int) -> Words:
        """Return the states after 0, 1, 2, ... times ``distance`` steps."""
        while (width := states.shape[1]) < count:
            states = np.concatenate([states, self._advance_states(states, width * distance)], 1)
        return states[:, :count]

    def _as_words(self, raw: Words) -> Words:
        return raw


class XORWOW(_Chain):
    """Marsaglia's xorwow as cuRAND seeds and orders it: its default engine.

    Args:
        seed: 64 bits.
        subsequence: of ``2**67`` words each, as ``curand_init`` counts them.
        offset: words to skip.
        order: ``sequence``, one after another, as a kernel's state draws; ``default`` or ``legacy``, as the host
            library deals words to 4096 subsequences in turn.

    Example:
        >>> XORWOW(0, order="default").words(2).tolist()
        [3179217846, 3955638199]
    """

    name = "XORWOW"
    streams: ClassVar[dict[str, int]] = {"sequence": 1, "default": 4096, "legacy": 4096}
    distance = 1 << 67

    def _seed_state(self, seed: int) -> Words:
        t0 = 1099087573 * ((seed & MASK) ^ 0xAAD26B49) & MASK
        t1 = 2591861531 * ((seed >> 32) ^ 0xF7DCEFDD) & MASK
        state = [123456789 + t0, 362436069 ^ t0, 521288629 + t1, 88675123 ^ t1, 5783321 + t0, 6615241 + t1 + t0]
        return np.array([[word & MASK] for word in state], np.uint64)

    def _advance_states(self, states: Words, steps: int) -> Words:
        bits = np.unpackbits(np.ascontiguousarray(states[:5].T, "<u4").view(np.uint8), axis=1, bitorder="little")
        moved = np.packbits(_multiply_bits(bits, _shift_power(steps)), axis=1, bitorder="little").view("<u4")
        # the counter is back after 2**32 words
        return np.concatenate([moved.T, states[5:] + np.uint64(362437 * steps & MASK) & np.uint64(MASK)])

    @staticmethod
    def _step(state: Any) -> tuple[Any, Any]:
        x, y, z, w, v, d = state
        t = x ^ x >> 2
        last = (v ^ v << 4 ^ t ^ t << 1) & MASK
        d = d + 362437 & MASK
        return last + d & MASK, (y, z, w, v, last, d)

    def _floats(self, raw: Words) -> NDArray[np.float32]:
        scale = np.float32(2.3283064e-10)
        return raw.astype(np.float32) * scale + scale / np.float32(2)

    def _doubles(self, n: int) -> NDArray[np.float64]:
        if len(self._rest):
            got = f"{n} after a draw that ended inside a round"
            expected = f"draws of multiples of {self._width} before numbers of two words"
            raise ArgumentError("XORWOW.uniform", "n", got, expected)
        # a stream's two next words make one number, so the words of a number are a whole round apart
        rounds = -(-n // self._width)
        words = self._take(2 * rounds * self._width).reshape(rounds, 2, self._width)
        x, y = words[:, 0].reshape(-1), words[:, 1].reshape(-1)
        return ((x ^ y << np.uint64(21)).astype(np.float64) * 2.0**-53 + 2.0**-54)[:n]


class MRG32k3a(_Chain):
    """L'Ecuyer's combined multiple recursive generator as cuRAND seeds and orders it.

    Args:
        seed: 64 bits; 0 is L'Ecuyer's own, 12345 in every word.
        subsequence: of ``2**76`` words each.
        offset: words to skip.
        order: ``sequence``, as a kernel's state draws; ``default``, as the host library deals words to 81920
            subsequences; ``legacy``, to 4096.

    Example:
        >>> MRG32k3a(0).uniform(1, dtype=torch.float64)
        tensor([0.1270], dtype=torch.float64)
    """

    name = "MRG32k3a"
    streams: ClassVar[dict[str, int]] = {"sequence": 1, "default": 81920, "legacy": 4096}
    distance = 1 << 76
    _M = (4294967087, 4294944443)
    _FACTORS = (4294967087 - 810728, 1403580, 4294944443 - 1370589, 527612)
    _A = (
        ((0, 1, 0), (0, 0, 1), (_FACTORS[0], _FACTORS[1], 0)),
        ((0, 1, 0), (0, 0, 1), (_FACTORS[2], 0, _FACTORS[3])),
    )
    _NORM = 2.3283065498378288e-10

    def _seed_state(self, seed: int) -> Words:
        if seed == 0:
            return np.full((6, 1), 12345, np.uint64)
        x1, x2 = (seed & MASK) ^ 0x55555555, (seed >> 32) ^ 0xAAAAAAAA
        first = [x * 12345 % self._M[0] for x in (x1, x2, x1)]
        second = [x * 12345 % self._M[1] for x in (x2, x1, x2)]
        return np.array([[word] for word in (*first, *second)], np.uint64)

    def _advance_states(self, states: Words, steps: int) -> Words:
        halves = []
        for factors, m, part in zip(self._A, self._M, (states[:3], states[3:]), strict=True):
            # a sum of three terms is below 2**34
            power = _modular_power(factors, steps, m)
            halves += [sum(a * x % m for a, x in zip(row, part, strict=True)) % m for row in power]
        return np.stack(halves)

    def _step(self, state: Any) -> tuple[Any, Any]:
        a, b, c, x, y, z = state
        m, m2, a0, a1, x0, x2 = *self._M, *self._FACTORS
        # a product of two words fits 64 bits, the sum of two products does not
        first, second = (a0 * a % m + a1 * b % m) % m, (x0 * x % m2 + x2 * z % m2) % m2
        # their difference modulo m, from 1 to m
        return (first + (m - 1) - second) % m + 1, (b, c, first, y, z, second)

    def _as_words(self, raw: Words) -> Words:
        # the largest output is one word too many; a GPU converts it to the last one
        return np.minimum((raw.astype(np.float64) * 1.000000048662).astype(np.uint64), np.uint64(MASK))

    def _floats(self, raw: Words) -> NDArray[np.float32]:
        return (raw.astype(np.float64) * self._NORM).astype(np.float32)

    def _doubles(self, n: int) -> NDArray[np.float64]:
        return self._take(n).astype(np.float64) * self._NORM


class MT19937:
    """The Mersenne Twister by its reference seeding, one word after another: NumPy's.

    cuRAND's host library deals the words of its MT19937 to thousands of streams in an order of its own, of which only
    the first word is the same; that order is not here.

    Args:
        seed: 32 bits.

    Example:
        >>> MT19937(5489).words(1).tolist()
        [3499211612]
    """

    def __init__(self, seed: int = 5489) -> None:
        check.integer("MT19937", "seed", seed, 0, MASK)
        self._source = np.random.RandomState(seed)

    def words(self, n: int) -> Tensor:
        """Return the next ``n`` words, uint32 [n]."""
        check.integer("MT19937.words", "n", n, 0)
        refuse_draw("MT19937.words")
        return torch.from_numpy(self._source.randint(0, 1 << 32, size=n, dtype=np.uint32))


@functools.lru_cache(maxsize=256)
def _shift_power(steps: int) -> Bits:
    """Return that many steps of xorwow as a matrix of bits, by which rows of states are multiplied."""
    if steps == 0:
        return np.eye(160, dtype=np.uint8)
    if steps > 1:
        half = _shift_power(steps // 2)
        square = _multiply_bits(half, half)
        return _multiply_bits(square, _shift_power(1)) if steps % 2 else square
    rows = []
    for k in range(160):
        unit = [1 << k % 32 if word == k // 32 else 0 for word in range(5)]
        rows.append(np.array(XORWOW._step([*unit, 0])[1][:5], "<u4"))
    return np.unpackbits(np.stack(rows).view(np.uint8), axis=1, bitorder="little")


def _multiply_bits(a: Bits, b: Bits) -> Bits:
    # sums of at most 160 ones are exact in float32
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(np.uint8) & np.uint8(1)


def _modular_product(a: Any, b: Any, m: int) -> Any:
    return tuple(tuple(sum(a[i][k] * b[k][j] for k in range(3)) % m for j in range(3)) for i in range(3))


@functools.lru_cache(maxsize=256)
def _modular_power(a: Any, exponent: int, m: int) -> Any:
    if exponent == 0:
        return ((1, 0, 0), (0, 1, 0), (0, 0, 1))
    half = _modular_power(a, exponent // 2, m)
    square = _modular_product(half, half, m)
    return _modular_product(square, a, m) if exponent % 2 else square
