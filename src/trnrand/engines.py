"""Counter-based engines: Philox4x32-10 and Threefry4x32-20, words from a counter and a key and nothing else.

Both are functions of a 128-bit counter (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3",
2011). Word ``i`` of a stream is word ``i % 4`` of the block with counter ``base + i // 4``, so any part of a stream
can be had without the rest, on any backend, in any order. Words are uint32; torch computes them in int64.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

MASK = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine's name, its code in the compiled loops, the words of its key, and the operations of a block."""

    name: str
    code: int
    key_words: int
    operations: int


PHILOX = Engine("philox4x32", 0, 2, 10 * 8)
THREEFRY = Engine("threefry4x32", 1, 4, 20 * 6)
ENGINES = {engine.name: engine for engine in (PHILOX, THREEFRY)}

PHILOX_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
PHILOX_WEYL = (0x9E3779B9, 0xBB67AE85)
PHILOX_ROUNDS = 10
THREEFRY_PARITY = 0x1BD11BDA
THREEFRY_ROTATIONS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))
THREEFRY_ROUNDS = 20


def philox_words(counter: Sequence[Tensor], key: Sequence[Tensor | int]) -> tuple[Tensor, ...]:
    """Compute Philox4x32-10 on int64 tensors that hold uint32 words."""
    x0, x1, x2, x3 = counter
    k0, k1 = key
    for _ in range(PHILOX_ROUNDS):
        # the products wrap modulo 2**64, which leaves all 64 bits right
        p0, p1 = x0 * PHILOX_MULTIPLIERS[0], x2 * PHILOX_MULTIPLIERS[1]
        x0, x1, x2, x3 = (p1 >> 32 & MASK) ^ x1 ^ k0, p1 & MASK, (p0 >> 32 & MASK) ^ x3 ^ k1, p0 & MASK
        k0, k1 = k0 + PHILOX_WEYL[0] & MASK, k1 + PHILOX_WEYL[1] & MASK
    return x0, x1, x2, x3


def threefry_words(counter: Sequence[Tensor], key: Sequence[Tensor | int]) -> tuple[Tensor, ...]:
    """Compute Threefry4x32-20 on int64 tensors that hold uint32 words."""
    k = [*key, key[0] ^ key[1] ^ key[2] ^ key[3] ^ THREEFRY_PARITY]
    x = [c + k[i] & MASK for i, c in enumerate(counter)]
    for step in range(THREEFRY_ROUNDS):
        left, right = THREEFRY_ROTATIONS[step % 8]
        second, fourth = (3, 1) if step % 2 else (1, 3)
        x[0] = x[0] + x[second] & MASK
        x[second] = _rotate(x[second], left) ^ x[0]
        x[2] = x[2] + x[fourth] & MASK
        x[fourth] = _rotate(x[fourth], right) ^ x[2]
        if step % 4 == 3:
            injected = step // 4 + 1
            for i in range(4):
                x[i] = x[i] + k[(injected + i) % 5] & MASK
            x[3] = x[3] + injected & MASK
    return tuple(x)


def _rotate(x: Tensor, by: int) -> Tensor:
    return (x << by | x >> 32 - by) & MASK


WORDS = {PHILOX: philox_words, THREEFRY: threefry_words}


def counters(base: int, steps: Tensor) -> tuple[Tensor, ...]:
    """Return the words of counters ``base + steps`` as int64; 128-bit arithmetic."""
    words, carry = [], steps
    for i in range(4):
        total = carry + (base >> 32 * i & MASK)
        words.append(total & MASK)
        carry = total >> 32
    return tuple(words)
