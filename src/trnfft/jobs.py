"""Jobs of the compiled loops (`loops.c`): what is done to a row, with all tables it needs, as C structures."""

from __future__ import annotations

import ctypes
import functools
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trnfft.tables import Array, roots
from trnsci import native

SOURCE = Path(__file__).with_name("loops.c")

KINDS = ("c2c", "r2c", "c2r", "r2cc", "type1", "type2", "type3", "type4")
# The same with an operand in two planes.
_OF_PLANES = {"p2c": "c2c", "p2r": "c2r"}

Ends = tuple[float, float, float, float]
# Radices with a pass of their own, and what a pass costs for each element in them; others cost about the radix.
_OWN = {2: 3.0, 3: 4.0, 4: 4.0, 5: 6.0, 8: 7.0}
RADIX_MOST = 127
# Points up to which many transforms share vectors, a point of each in a lane.
FEW = 2048
# What loading, turning, transposing and storing cost beside the passes; what a row costs beside its points; and what a
# point of a row costs that is gathered and scattered.
_AROUND = 14.0
_EACH = 2000.0
_GATHERED = 20.0

_I, _P, _D = ctypes.c_int64, ctypes.c_void_p, ctypes.c_double
_INVERSE, _CONJUGATE, _SINE, _BEFORE, _AFTER, _PAIRED, _PLANES = 1, 2, 4, 8, 16, 32, 64


class _Half(ctypes.Structure):
    _fields_ = (("n", _I), ("count", _I), ("radix", _I * 24), ("w", _P))


class _Plan(ctypes.Structure):
    _fields_ = (("one", _Half), ("two", _Half), ("lane", _P), ("block", _P))


class _Core(ctypes.Structure):
    _fields_ = (("n", _I), ("length", _I), ("plan", _Plan), ("chirp", _P), ("spectrum", _P))


class _Many(ctypes.Structure):
    _fields_ = (("n", _I), ("length", _I), ("half", _Half), ("chirp", _P), ("spectrum", _P))


class _Job(ctypes.Structure):
    _fields_ = (
        *((name, _I) for name in ("kind", "n", "period", "take", "give", "take_unit", "give_unit")),
        ("flags", ctypes.c_int),
        ("core", _Core),
        ("many", _Many),
        *((name, _P) for name in ("half", "turn", "turn_more", "from", "to")),
        ("ends", _D * 4),
    )


class Job:
    """What is done to a row: the C structure at ``address``, and what callers of the loops ask of it.

    ``give`` elements of ``give_unit`` numbers come of elements of ``take_unit``.
    """

    __slots__ = ("_block", "_block_cost", "_keep", "_n", "_row_cost", "address", "give", "give_unit", "take_unit")

    def __init__(self, made: _Job, dtype: torch.dtype, keep: list[Any]) -> None:
        self._keep = (made, keep)
        self.address = ctypes.addressof(made)
        self.take_unit, self.give_unit = int(made.take_unit), int(made.give_unit)
        self.give = int(made.give) // self.give_unit
        self._n = int(made.n)
        alone = made.kind == 0 or (KINDS[made.kind] == "type4" and made.n % 2 == 0)
        self._block = lanes(dtype) * (1 if alone else 2)
        self._row_cost = _row_cost(made, lanes(dtype))
        self._block_cost = _block_cost(made.many, lanes(dtype))

    def columns(self, outer: int, inner: int) -> bool:
        """Whether rows of [outer, n, inner] had better share vectors."""
        if not self._block_cost:
            return False
        if inner == 1:
            return -(-outer // self._block) * self._block_cost <= outer * self._row_cost
        return -(-inner // self._block) * self._block_cost <= inner * (self._row_cost + _GATHERED * self._n)


def suffix(dtype: torch.dtype) -> str:
    """How the functions for a dtype end."""
    return str(dtype).removeprefix("torch.")


def _row_cost(made: _Job, wide: int) -> float:
    """What one row costs by itself."""
    core, real = made.core, made.period % 2 == 1
    cost = _split(core.n, wide, real)[0] if not core.length else 2 * _split(core.length, wide)[0] + 12 * core.length
    if real and core.length:
        # two rows are one
        cost /= 2
    return _EACH + cost + (0 if made.kind == 0 or real else 5 * core.n)


def _block_cost(many: _Many, wide: int) -> float:
    """What as many transforms cost as share vectors; 0 where they cannot."""
    length = many.length or many.n
    if not length:
        return 0.0
    cost = length * (_AROUND + _passes(length)) if not many.length else length * (_AROUND + 12 + 2 * _passes(length))
    # two buffers of long ones leave the first cache
    return wide * cost * (1 + length / 16384)


class _Tables:
    """Arrays of one dtype that C reads; kept as long as what points to them."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.real: Any = np.float32 if dtype == torch.float32 else np.float64
        self.keep: list[Any] = []

    def add(self, array: Array) -> int:
        """The address of an array: complex numbers as pairs, integers as 32 bits."""
        if array.dtype.kind == "c":
            array = np.ascontiguousarray(array).view(np.float64)
        array = np.ascontiguousarray(array, dtype=np.int32 if array.dtype.kind == "i" else self.real)
        self.keep.append(array)
        return array.ctypes.data


@functools.cache
def lanes(dtype: torch.dtype) -> int:
    """Numbers of a vector."""
    library = native.load(SOURCE)
    assert library is not None
    return int(getattr(library, f"lanes_{suffix(dtype)}")())


@functools.lru_cache(maxsize=4096)
def _primes(n: int) -> tuple[int, ...]:
    found, prime = [], 2
    while n > 1:
        if prime * prime > n:
            prime = n
        while n % prime == 0:
            found.append(prime)
            n //= prime
        prime += 1
    return tuple(found)


def smooth(n: int) -> bool:
    """Whether passes alone transform n points."""
    return n == 1 or _primes(n)[-1] <= RADIX_MOST


@functools.lru_cache(maxsize=4096)
def _radices(n: int) -> tuple[int, ...]:
    """Radices of a half, larger ones last, where no twiddles follow."""
    primes = _primes(n)
    twos = primes.count(2)
    eights = max(e for e in range(twos // 3 + 1) if twos - 3 * e != 1 or e == twos // 3)
    rest = twos - 3 * eights
    found = [8] * eights + [4] * (rest // 2) + [2] * (rest % 2)
    return tuple(sorted(found + [p for p in primes if p > 2]))


def _passes(n: int) -> float:
    return sum(_OWN.get(r, 2.0 + r) for r in _radices(n))


@functools.lru_cache(maxsize=1024)
def _split(n: int, lanes: int, real: bool = False) -> tuple[float, int]:
    """The cost of a transform of n points, and n1 of its best n1 x n2; infinite where a factor is too large.

    Of real rows of odd length pairs of blocks are one, and half of the groups is left.
    """
    if not smooth(n):
        return math.inf, 1
    divisors = {1}
    for p in _primes(n):
        divisors |= {d * p for d in divisors}
    best = (math.inf, 1)
    for one in sorted(divisors):
        two = n // one
        blocks, groups = -(-two // lanes) * lanes, -(-one // lanes) * lanes
        if real:
            blocks, groups = -(-two // (2 * lanes)) * lanes, -(-(one // 2 + 1) // lanes) * lanes
        cost = blocks * one * (_AROUND / 2 + _passes(one)) + groups * two * (_AROUND / 2 + _passes(two))
        # long halves leave the cache
        cost *= 1 + max(one, two) / 65536
        best = min(best, (cost, one))
    return best


def _chirp_length(n: int, lanes: int) -> int:
    """The length of the convolution that a transform of n points with a large factor becomes: the cheapest one."""
    least = 2 * n - 1
    top = 1 << (least - 1).bit_length()
    odds = [3**a * 5**b for a in range(6) for b in range(4)]
    found = {odd << max(0, (-(-least // odd) - 1).bit_length()) for odd in odds if odd <= top}
    return min((_split(m, lanes)[0], m) for m in found if m >= least)[1]


@functools.lru_cache(maxsize=64)
def _core(n: int, dtype: torch.dtype, real: bool) -> tuple[_Core, list[Any]]:
    """A complex transform of n points, or a real one of an odd number."""
    tables, wide = _Tables(dtype), lanes(dtype)
    direct, one = _split(n, wide, real)
    length = n if n < 64 else _chirp_length(n, wide)
    if direct <= (2.2 * _split(length, wide)[0] if n >= 64 else math.inf):
        return _Core(n, 0, _plan(n, one, tables, wide), None, None), tables.keep
    plan = _plan(length, _split(length, wide)[1], tables, wide)
    return _Core(n, length, plan, *_chirp(n, length, tables)), tables.keep


def _chirp(n: int, length: int, tables: _Tables) -> tuple[int, int]:
    """``exp(-pi i j^2 / n)``, and the spectrum of its conjugate over its length."""
    j = np.arange(n, dtype=np.int64)
    chirp = roots(j * j % (2 * n), 2 * n, -1)
    around = np.zeros(length, dtype=complex)
    around[:n] = chirp.conj()
    around[length - n + 1 :] = chirp[:0:-1].conj()
    return tables.add(chirp), tables.add(np.fft.fft(around) / length)


def _many(n: int, tables: _Tables, lanes: int) -> _Many:
    """Many transforms of n points."""
    if smooth(n):
        return _Many(n, 0, _half(n, tables), None, None)
    length = _chirp_length(n, lanes)
    return _Many(n, length, _half(length, tables), *_chirp(n, length, tables))


def _plan(n: int, one: int, tables: _Tables, lanes: int) -> _Plan:
    two = n // one
    k = np.arange(one)
    lane = roots(np.outer(k, np.arange(lanes)), n, -1)
    block = roots(np.outer(np.arange(-(-two // lanes)) * lanes, k), n, -1)
    return _Plan(
        _half(one, tables), _half(two, tables), tables.add(np.stack((lane.real, lane.imag), 1)), tables.add(block)
    )


def _half(n: int, tables: _Tables) -> _Half:
    found, m = [np.zeros(0, dtype=complex)], n
    radices = _radices(n)
    for radix in radices:
        m //= radix
        if radix not in _OWN:
            found.append(roots(np.arange(radix), radix, 1))
        found.append(roots(np.outer(np.arange(m), np.arange(1, radix)), radix * m, -1).ravel())
    return _Half(n, len(radices), (_I * 24)(*radices), tables.add(np.concatenate(found)))


@functools.lru_cache(maxsize=64)
def job(
    kind: str,
    n: int,
    dtype: torch.dtype,
    *,
    inverse: bool = False,
    conjugate: bool = False,
    sine: bool = False,
    ends: Ends = (1, 1, 1, 1),
) -> Job:
    """What ``loops.c`` does to rows of n points.

    Args:
        kind: one of `KINDS`, or ``p2c`` and ``p2r`` of planes; ``r2cc`` gives all of the spectrum of real rows.
        n: points of a row, of the real one for real transforms.
        dtype: real.
        inverse: the other direction, for ``c2c`` and ``r2cc``; for ``r2c`` the conjugate, which is the half of one.
        conjugate: whether ``c2r`` takes the conjugate of its operand.
        sine: sine transforms, for types 1 to 4.
        ends: factors of first and last term before, and after, for types 1 to 4.
    """
    tables = _Tables(dtype)
    planes, kind = kind in _OF_PLANES, _OF_PLANES.get(kind, kind)
    made = _Job(kind=KINDS.index(kind), n=n, ends=(_D * 4)(*ends))
    half = n // 2 + 1
    units = {"c2c": (n, n, 2, 2), "r2c": (n, half, 1, 2), "c2r": (half, n, 2, 1), "r2cc": (n, n, 1, 2)}
    take, give, made.take_unit, made.give_unit = units.get(kind, (n, n, 1, 1))
    if planes:
        made.take_unit = 1
    made.take, made.give = take * made.take_unit, give * made.give_unit
    if kind == "c2c" or (kind == "type4" and n % 2 == 0):
        inside = n if kind == "c2c" else n // 2
    else:
        made.period = n if kind != "type1" else 2 * (n + 1) if sine else 2 * (n - 1)
        inside = made.period if made.period % 2 else made.period // 2
        made.half = tables.add(roots(np.arange(made.period // 4 + 1), made.period, -1))
    made.core, keep = _core(inside, dtype, made.period % 2 == 1)
    if n <= FEW:
        points = made.period if kind == "type1" else inside if kind == "type4" else n
        made.many = _many(points, tables, lanes(dtype))
    asked = {_INVERSE: inverse, _CONJUGATE: conjugate, _SINE: sine, _PLANES: planes}
    asked |= {_BEFORE: ends[:2] != (1, 1), _AFTER: ends[2:] != (1, 1), _PAIRED: made.period % 2 and made.core.length}
    made.flags = sum(flag for flag, on in asked.items() if on)
    if kind in ("type2", "type3"):
        made.turn = tables.add(roots(np.arange(half), 4 * n, -1))
    elif kind == "type4" and n % 2 == 0:
        k = np.arange(n // 2)
        made.turn, made.turn_more = tables.add(roots(4 * k + 1, 8 * n, -1)), tables.add(roots(k, 2 * n, -1))
    elif kind == "type4":
        _odd_type4(made, n, sine, tables)
    return Job(made, dtype, [tables.keep, keep])


def _odd_type4(made: _Job, n: int, sine: bool, tables: _Tables) -> None:
    """Permutations that make type 4 of odd length a real transform.

    Its terms are ``cos(2 pi a b / 8 n)`` with odd ``a = 2 j + 1`` and ``b = 2 k + 1``. Of a, -a, 4n + a and 4n - a,
    which give the same up to a sign, exactly one is 1 modulo 8; modulo n it is any number. So ``a b`` is 1 modulo 8 and
    a product modulo n, which is a Fourier transform, and the part modulo 8 turns it by a constant.
    """
    m = np.arange(n, dtype=np.int64)
    eighth, nth = pow(8, -1, n) if n > 1 else 0, pow(n, -1, 8)
    a = (m * (8 * eighth) + n * nth) % (8 * n)
    folded = np.minimum(a, 8 * n - a)
    minus = folded > 2 * n
    j = (np.where(minus, 4 * n - folded, folded) - 1) // 2
    sign = np.where(minus, -1.0, 1.0)
    at = n - 1 - j if sine else j
    setattr(made, "from", tables.add(2 * at + minus))
    q = m * eighth % n
    to, re, im = np.zeros(n, dtype=np.int64), np.zeros(n), np.zeros(n)
    constant = roots(np.array([nth]), 8, 1)[0] * math.sqrt(2)
    to[j] = np.minimum(q, n - q)
    re[j] = sign * np.round(constant.real)
    im[j] = sign * np.round(constant.imag) * np.where(q > n // 2, -1, 1)
    if sine:
        alternate = 1.0 - 2.0 * (m % 2)
        re, im = re * alternate, im * alternate
    made.to, made.turn = tables.add(to), tables.add(np.stack((re, im), 1))
