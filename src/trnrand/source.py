"""The state behind a `Generator`: a stream, its position, and the share of every draw that this process takes."""

import functools
import math
import operator
import os
import secrets
import threading
from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor

from trnrand.engines import ENGINES, PHILOX
from trnrand.stream import MOST, Stream
from trnsci import ArgumentError, CapacityError, DtypeError, check

Size = int | Sequence[int]
_FIELDS = (("engine", 1), ("key", 16), ("base", 16), ("position", 17), ("rank", 4), ("size", 4))
STATE_BYTES = sum(width for _, width in _FIELDS)


class Source(torch.Generator):
    """A stream from a seed, with a position that draws move.

    It is a ``torch.Generator``, so ``DataLoader``, ``torch.randperm`` and the like take it; those draw from torch's own
    engine, which is seeded from the same number. Everything in trnrand reads the stream.

    Threads may share one: a draw holds ``lock`` from the position it reads to the position it leaves, so every word is
    drawn once. Which thread gets which words is a matter of their order.
    """

    stream: Stream
    rank: int
    size: int
    lock: threading.RLock
    # whether its methods answer in NumPy's arrays
    gives_arrays = False

    def __new__(cls, seed: int | Stream | None = None, *, engine: str = PHILOX.name) -> Self:
        return super().__new__(cls)

    def __init__(self, seed: int | Stream | None = None, *, engine: str = PHILOX.name) -> None:
        stream = seed if isinstance(seed, Stream) else Stream(key=_key(seed, engine), engine=engine)
        self.rank, self.size, self.lock = 0, 1, threading.RLock()
        self._adopt(stream)

    def _adopt(self, stream: Stream) -> None:
        self.stream = stream
        super().manual_seed(stream.key % (1 << 63))

    def manual_seed(self, seed: int) -> Self:
        """Begin again from a seed, at position 0, with the same engine."""
        with self.lock:
            self._adopt(Stream(key=_key(seed, self.stream.engine), engine=self.stream.engine))
        return self

    def seed(self) -> int:
        """Begin again from a seed of the operating system, and return it."""
        fresh = secrets.randbits(63)
        self.manual_seed(fresh)
        return fresh

    def initial_seed(self) -> int:
        """Return the seed this generator began from."""
        return self.stream.key

    @property
    def position(self) -> int:
        """The word of the stream at which the next draw begins."""
        return self.stream.position

    def advance(self, words: int) -> Self:
        """Move by a number of words, back for a negative one. An element of up to 32 bits is one word, float64 two."""
        check.integer("advance", "words", words)
        with self.lock:
            if self.position + words < 0:
                expected = f"at least {-self.position}, the distance back to the beginning"
                raise ArgumentError("advance", "words", words, expected)
            self.stream = self.stream.at(self.position + words)
        return self

    def spawn(self, count: int) -> list[Self]:
        """Return ``count`` independent generators. A later call gives others: a word of the stream tells them apart."""
        check.integer("spawn", "count", count, 0, MOST)
        return [type(self)(stream) for stream in self.fold().split(count)]

    def fold(self) -> Stream:
        """Return a stream independent of this one and of every later one; it costs one word."""
        with self.lock:
            child = self.stream.fold_in(self.position % (1 << 64))
            self.advance(1)
        return child

    def partition(self, rank: int, size: int) -> Self:
        """Return a generator that draws share ``rank`` of ``size`` of every draw.

        Callers ask for the global shape and get the rows of their share (`torch.tensor_split` along the first axis).
        Shares put together are the draw of an unpartitioned generator, bit for bit, and positions stay together.
        """
        check.integer("partition", "rank", rank)
        check.integer("partition", "size", size)
        if size < 1 or not 0 <= rank < size:
            raise ArgumentError("partition", "rank", {"rank": rank, "size": size}, "size >= 1 and 0 <= rank < size")
        if self.size > 1:
            got = f"share {self.rank} of {self.size}"
            raise ArgumentError("partition", "generator", got, "a generator that is not partitioned")
        part = type(self)(self.stream)
        part.rank, part.size = rank, size
        return part

    def get_state(self) -> Tensor:
        """Return everything that decides future draws, as uint8."""
        with self.lock:
            stream, rank, size = self.stream, self.rank, self.size
        values = {
            "engine": stream.kind.code,
            "key": stream.key,
            "base": stream.base,
            "position": stream.position,
            "rank": rank,
            "size": size,
        }
        raw = b"".join(values[name].to_bytes(width, "little") for name, width in _FIELDS)
        return torch.frombuffer(bytearray(raw), dtype=torch.uint8)

    def set_state(self, state: Tensor) -> Self:
        """Return to what `get_state` gave."""
        if isinstance(state, Tensor):
            check.dense("set_state", state=state)
        if not isinstance(state, Tensor) or state.dtype != torch.uint8 or state.numel() != STATE_BYTES:
            got = f"{tuple(state.shape)} {state.dtype}" if isinstance(state, Tensor) else type(state)
            raise ArgumentError("set_state", "state", got, f"{STATE_BYTES} uint8, from get_state")
        raw, fields = bytes(state.cpu().tolist()), {}
        for name, width in _FIELDS:
            fields[name], raw = int.from_bytes(raw[:width], "little"), raw[width:]
        engines = {engine.code: engine.name for engine in ENGINES.values()}
        if fields["engine"] not in engines or not fields["rank"] < fields["size"]:
            raise ArgumentError("set_state", "state", fields, "a state from get_state")
        stream = Stream(fields["key"], engines[fields["engine"]], fields["base"], fields["position"])
        with self.lock:
            self._adopt(stream)
            self.rank, self.size = fields["rank"], fields["size"]
        return self

    def clone_state(self) -> Self:
        """Return a second generator in the same state."""
        return type(self)().set_state(self.get_state())

    def __reduce__(self) -> Any:
        return _restore, (type(self), self.get_state())

    def __deepcopy__(self, memo: Any) -> Self:
        return self.clone_state()

    def __repr__(self) -> str:
        share = f", share {self.rank} of {self.size}" if self.size > 1 else ""
        where = f"seed={self.stream.key}, engine={self.stream.engine!r}, position={self.position}"
        return f"{type(self).__name__}({where}{share})"


def _restore(kind: type[Source], state: Tensor) -> Source:
    return kind().set_state(state)


def _key(seed: Any, engine: str) -> int:
    if not isinstance(engine, str) or engine not in ENGINES:
        raise ArgumentError("Generator", "engine", engine, "one of " + ", ".join(map(repr, ENGINES)))
    if seed is None:
        return secrets.randbits(63)
    try:
        if isinstance(seed, (bool, Tensor)):
            raise TypeError
        # NumPy's integers are integers too
        seed = operator.index(seed)
    except TypeError:
        raise DtypeError("Generator", "seed", type(seed), "an integer, a Stream or None") from None
    bits = 32 * ENGINES[engine].key_words
    if not 0 <= seed < 1 << bits:
        raise ArgumentError("Generator", "seed", seed, f"0 <= seed < 2**{bits} for {engine}")
    return seed


_DEFAULT: list[Source] = []


def default() -> Source:
    """Return the generator of module-level functions."""
    if not _DEFAULT:
        raise RuntimeError("trnrand is not imported")
    return _DEFAULT[0]


def set_default(source: Source) -> None:
    """Make ``source`` the generator of module-level functions."""
    _DEFAULT[:] = [source]


def shape_of(op: str, size: Sequence[Any]) -> tuple[int, ...]:
    """Return ``(3, 4)``, ``((3, 4),)`` or ``()`` as a shape."""
    positional = not (len(size) == 1 and isinstance(size[0], (tuple, list, torch.Size)))
    if not positional:
        size = tuple(size[0])
    for extent in size:
        if not isinstance(extent, int) or isinstance(extent, bool):
            raise DtypeError(op, "size", type(extent), "integers")
        check.refuse(extent < 0, op, "size", tuple(size), "non-negative integers")
    if positional and len(size) > 1 and not all(size):
        hint = f"As NumPy reads {op}{tuple(size)}: trnrand.default_rng().{op}{tuple(size)}, or parameters by name"
        raise ArgumentError(op, "size", tuple(size), f"size={tuple(size)} for an empty draw", hint=hint)
    return tuple(size)


@functools.cache
def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@functools.cache
def _gpu_memory(device: torch.device) -> int:
    # the driver takes longer to say what is there than a million numbers take
    return torch.cuda.get_device_properties(device).total_memory


def fits(op: str, shape: tuple[int, ...], itemsize: int, device: torch.device) -> None:
    """Refuse what memory could never hold, before anything is drawn."""
    needed = math.prod(shape) * itemsize
    if device.type == "cpu":
        there = _memory()
    elif device.type == "cuda":
        there = _gpu_memory(device)
    else:
        return
    if needed > there:
        where = "host" if device.type == "cpu" else "GPU"
        hint = "Draw in parts: call splitting does not change the numbers"
        raise CapacityError(where=where, required=needed, available=there, hint=hint)


def rows(source: Source, op: str, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the rows of the first axis that belong to this process."""
    if source.size == 1:
        return 0, shape[0] if shape else 1
    check.refuse(len(shape) == 0, op, "size", (), "at least one axis, because the generator is partitioned")
    each, more = divmod(shape[0], source.size)
    start = source.rank * each + min(source.rank, more)
    return start, start + each + (source.rank < more)
