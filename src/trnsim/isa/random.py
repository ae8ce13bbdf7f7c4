"""Random numbers: the generators of the Vector and GpSimd Engines, and dropout.

The reference names the algorithms and not their details, so bits differ from hardware's; what is documented holds
(state sizes, lanes, seeding, reproducibility). Here:

- GpSimd from trn2 on, and the Vector Engine of trn3: Marsaglia's XORWOW, per lane one state (GpSimd) or four used in
  turn (Vector), each six uint32 ``x y z w v d``.
- Vector Engine of trn1 and trn2: per lane a 32-bit linear feedback shift register, polynomial
  x³² + x²² + x² + x + 1, moved 32 steps for each number.
- `set_rng_seed` and the simulator's ``seed=`` spread one number over lanes with SplitMix64's finaliser.
"""

import functools
from typing import Any

import numpy as np

from trnsim.isa import operands as check
from trnsim.isa.enums import engine as eng
from trnsim.isa.operands import flat, pick, scalar
from trnsim.refusals import forbid, refuse
from trnsim.session import PSUM, SBUF, NkiInstruction, Session, instruction
from trnsim.tensors.dtypes import (
    FLOATS,
    INTEGERS,
    bool_,
    float8_e4m3fn,
    float32,
    uint32,
)
from trnsim.tensors.tensor import NkiTensor

# arithmetic on arrays is Any to a type checker
Array = Any
U32, U64 = np.uint32, np.uint64
_WORDS = {"gpsimd": 6, "vector": 24}
_WEYL = U32(362437)


def mix(seed: int, lanes: int, words: int) -> Array:
    """``[lanes, words]`` well-mixed uint32, the same for the same seed; no word is zero."""
    z = np.arange(1, lanes * words + 1, dtype=U64) * U64(0x9E3779B97F4A7C15) + U64(seed & (2**64 - 1)) * U64(
        0xD1342543DE82EF95
    )
    z = (z ^ (z >> U64(30))) * U64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> U64(27))) * U64(0x94D049BB133111EB)
    z ^= z >> U64(31)
    mixed = (z >> U64(32)).astype(U32)
    mixed[mixed == 0] = 1
    return mixed.reshape(lanes, words)


def xorwow(state: Array, n: int) -> Array:
    """``n`` numbers of each XORWOW state; ``state [..., 6]`` moves on. Gives ``[..., n]``."""
    x, y, z, w, v, d = (np.ascontiguousarray(state[..., i]) for i in range(6))
    out = np.empty((n, *v.shape), U32)
    four, two, one = U32(4), U32(2), U32(1)
    for i in range(n):
        t = x ^ (x >> two)
        x, y, z, w = y, z, w, v
        v = (v ^ (v << four)) ^ (t ^ (t << one))
        d = d + _WEYL
        np.add(d, v, out=out[i])
    for i, word in enumerate((x, y, z, w, v, d)):
        state[..., i] = word
    return np.moveaxis(out, 0, -1)


@functools.cache
def _jump(power: int) -> Array:
    """Return the shift register moved 32·2^power steps, as four tables of 256 words indexed by the state's bytes."""
    if power == 0:
        state = U32(1) << np.arange(32, dtype=U32)
        for _ in range(32):
            low = state & U32(1)
            state = (state >> U32(1)) ^ np.where(low == 1, U32(0x80200003), U32(0))
        columns = state
    else:
        columns = _advance(U32(1) << np.arange(32, dtype=U32), power - 1)
        columns = _advance(columns, power - 1)
    tables = np.zeros((4, 256), U32)
    for byte in range(4):
        for bit in range(8):
            tables[byte, (np.arange(256) >> bit) & 1 == 1] ^= columns[8 * byte + bit]
    return tables


def _advance(state: Array, power: int) -> Array:
    tables = _jump(power)
    moved = tables[0][state & U32(0xFF)]
    for byte in range(1, 4):
        moved ^= tables[byte][(state >> U32(8 * byte)) & U32(0xFF)]
    return moved


def shift_register(state: Array, n: int) -> Array:
    """``n`` numbers of each lane's register, doubling the known part until there are enough; ``state [P]`` moves on."""
    out = _advance(state, 0)[:, None]
    power = 0
    while out.shape[1] < n:
        out = np.concatenate([out, _advance(out, power)], axis=1)
        power += 1
    out = out[:, :n]
    state[...] = out[:, -1]
    return out


class Generators:
    """The generator states of a core: ``vector`` and ``gpsimd``, one row per lane."""

    __slots__ = ("gpsimd", "register", "vector")

    def __init__(self, seed: int, lanes: int) -> None:
        self.gpsimd = mix(seed ^ 0x6750, lanes, 6)
        self.seed_vector(seed, lanes)

    def seed_vector(self, seed: int, lanes: int) -> None:
        """Start the Vector Engine's generator of every lane from one number."""
        self.vector = mix(seed, lanes, 24)
        self.register = self.vector[:, 0].copy()


def generators(s: Session) -> Generators:
    """Yield the session's generator states, made from its seed at first use."""
    states = s.state.get("random.generators")
    if states is None:
        # cores of one launch draw different numbers
        states = s.state["random.generators"] = Generators(s.params.seed + (s.core << 32), s.target.partitions)
    return states


def random_words(s: Session, like: NkiTensor, engine: str) -> Array:
    """Fresh uint32 numbers ``[P, F]`` for the lanes and elements of ``like``; those lanes' states move on."""
    state = generators(s)
    lanes = slice(like.partition_start, like.partition_start + like.shape[0])
    n = like.free_size
    if engine == "gpsimd":
        return xorwow(state.gpsimd[lanes], n)
    if s.target.generation < 4:
        return shift_register(state.register[lanes], n)
    # four states a lane take turns, and move together
    states = state.vector[lanes].reshape(-1, 4, 6)
    words = xorwow(states, -(-n // 4))
    state.vector[lanes] = states.reshape(-1, 24)
    return words.transpose(0, 2, 1).reshape(states.shape[0], -1)[:, :n]


def unit(words: Array) -> Array:
    """uint32 numbers as fp32 in [0, 1), from their upper 24 bits."""
    return (words >> U32(8)).astype(np.float32) * np.float32(2.0**-24)


_BITS = INTEGERS - {bool_}


@instruction
def rng(s: Session, dst: Any, engine: Any = eng.vector) -> NkiInstruction:
    """32 random bits per element, cut to the low bits of ``dst``'s integer dtype.

    Runs on the Vector Engine (default), or from trn2 on on GpSimd, which cannot reach PSUM.
    """
    where = pick(s, engine, ("vector",) if s.target.generation < 3 else ("vector", "gpsimd"), "vector")
    s.operand(dst, "dst")
    if s.checks:
        check.no_psum(where, (dst, "dst"))
        check.reachable(s, dst, "dst", dst.free_size)
        check.direct((dst, "dst"))
        hint = "write uint32 and scale it to a float, or use rand2 on trn3"
        check.has_dtype(dst, "dst", _BITS, why=", and rng writes bits of an integer", hint=hint)
    words = np.zeros((1, 1), U32)
    if s.numerics:
        words = random_words(s, dst, where)
        words = words.astype(f"u{dst.itemsize}").view(dst.dtype)
    s.write(dst, words, "dst")
    return s.done(where, (dst,), (), op="rng")


@instruction
def set_rng_seed(s: Session, src_seeds: Any) -> NkiInstruction:
    """Seed the Vector Engine's generator of all lanes with one 32-bit value, a ``[1, 1]`` tile in SBUF or PSUM."""
    values = s.read(src_seeds, "src_seeds", exact=True)
    if s.checks:
        forbid(src_seeds.size != 1, "seed:set_rng_seed-shape", got=src_seeds.shape, limit=(1, 1))
        forbid(src_seeds.itemsize != 4, "seed:set_rng_seed-dtype", got=str(src_seeds.dtype), src_seeds=src_seeds)
    if s.numerics:
        generators(s).seed_vector(int(np.ascontiguousarray(values).view(U32).reshape(-1)[0]), s.target.partitions)
    return s.done("vector", (), (src_seeds,), op="seed")


def _state_engine(s: Session, engine: Any, t: Any, role: str, where: tuple[str, ...]) -> str:
    """Check a state tile and give the engine it belongs to."""
    runs_on = pick(s, engine, ("gpsimd",) if s.target.generation < 4 else ("gpsimd", "vector"), "gpsimd")
    s.operand(t, role, where)
    if s.checks:
        check.no_psum(runs_on, (t, role))
        check.direct((t, role))
        check.has_dtype(t, role, frozenset({uint32}), rule="rand-state", hint="generator states are uint32 words")
        if t.ndim != 2 or t.free_size != _WORDS[runs_on]:
            limit = (t.shape[0], _WORDS[runs_on])
            raise refuse("rand-state", got=t.shape, limit=limit, role=role, t=t, runs_on=runs_on)
    return runs_on


@instruction(since=3, hint="seed the Vector Engine with set_rng_seed")
def rand_set_state(s: Session, src_seeds: Any, engine: Any = eng.gpsimd) -> NkiInstruction:
    """Load generator states: ``src_seeds [P, 6]`` (GpSimd) or ``[P, 24]`` (Vector, trn3), uint32 in SBUF; trn2 on."""
    where = _state_engine(s, engine, src_seeds, "src_seeds", (SBUF,))
    values = s.read(src_seeds, "src_seeds", (SBUF,), exact=True)
    if s.numerics:
        start = src_seeds.partition_start
        getattr(generators(s), where)[start : start + src_seeds.shape[0]] = values
    return s.done(where, (), (src_seeds,), op="set_state")


@instruction(since=3, hint="the Vector Engine's state cannot be read; reseed it with set_rng_seed")
def rand_get_state(s: Session, dst: Any, engine: Any = eng.gpsimd) -> NkiInstruction:
    """Store generator states into ``dst [P, 6]`` (GpSimd) or ``[P, 24]`` (Vector, trn3), uint32; trn2 on."""
    where = _state_engine(s, engine, dst, "dst", (SBUF, PSUM) if s.target.generation >= 4 else (SBUF,))
    values = np.zeros((1, 1), U32)
    if s.numerics:
        start = dst.partition_start
        values = getattr(generators(s), where)[start : start + dst.shape[0]]
    s.write(dst, values, "dst")
    return s.done(where, (dst,), (), op="get_state")


_UNIFORM = (FLOATS | _BITS) - {float8_e4m3fn}


@instruction(since=4, hint="use rng on an integer tile and scale it, or nl.rand")
def rand2(s: Session, dst: Any, min: Any, max: Any) -> NkiInstruction:  # noqa: A002
    """Uniform fp32 numbers from ``min`` to ``max`` (numbers or fp32 ``[P, 1]`` tiles), converted to ``dst``; trn3."""
    s.operand(dst, "dst")
    if s.checks:
        check.direct((dst, "dst"))
        check.has_dtype(dst, "dst", _UNIFORM, hint="use nl.float32")
        check.reachable(s, dst, "dst", dst.free_size)
    low, high = scalar(s, min, "min", dst, "dst"), scalar(s, max, "max", dst, "dst")
    values = np.zeros((1, 1), np.float32)
    if s.numerics:
        if s.checks and not np.all(np.less(low, high)):
            row = int(np.argmin(np.broadcast_to(np.less(low, high), (dst.shape[0], 1))))
            pair = tuple(float(np.broadcast_to(v, (dst.shape[0], 1))[row, 0]) for v in (low, high))
            raise refuse("rand-range", got=pair, pair=pair)
        values = np.minimum(low + unit(random_words(s, dst, "vector")) * (high - low), high).astype(np.float32)
    s.write(dst, values, "dst")
    return s.done("vector", (dst,), (min, max), op="rand2")


@instruction
def dropout(s: Session, dst: Any, data: Any, prob: Any) -> NkiInstruction:
    """``dst = data`` with each element replaced by zero with probability ``prob``; kept elements are not scaled.

    ``prob`` is a number in [0, 1] or a ``[P, 1]`` tile: float32 when ``data`` is integer, any float otherwise. ``dst``
    has ``data``'s dtype and elements.
    """
    values = s.read(data, "data")
    if s.checks:
        check.alike(s, dst, "dst", (data, "data"))
        _check_dropout(dst, data, prob)
    drop = scalar(s, prob, "prob", data, "data", f32=False)
    if s.checks and type(prob) is not NkiTensor and not 0.0 <= drop <= 1.0:
        raise refuse("probability", got=prob, limit=(0.0, 1.0))
    if s.numerics:
        kept = unit(random_words(s, data, "vector")) >= drop
        values = np.where(kept, flat(values), np.zeros((), values.dtype))
    s.write(dst, values, "dst")
    return s.done("vector", (dst,), (data, prob), op="dropout")


def _check_dropout(dst: NkiTensor, data: NkiTensor, prob: Any) -> None:
    check.plain((dst, "dst"), (data, "data"))
    check.one_dtype(dst, "dst", data, "data", hint="drop into a tile of the same dtype, then convert it")
    if type(prob) is NkiTensor:
        allowed = FLOATS if data.dtype in FLOATS else frozenset({float32})
        hint = "integer data takes a float32 probability, float data any float"
        check.has_dtype(prob, "prob", allowed, why=f" and data is {data.dtype}", hint=hint)
