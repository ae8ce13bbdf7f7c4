"""Random words: the engines as functions of counters and keys, and any part of a stream."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnrand import host
from trnrand.engines import (
    ENGINES,
    MASK,
    PHILOX,
    PHILOX_MULTIPLIERS,
    PHILOX_ROUNDS,
    PHILOX_WEYL,
    THREEFRY,
    THREEFRY_PARITY,
    THREEFRY_ROUNDS,
    WORDS,
    Engine,
    pure_words,
)
from trnrand.kernels import bits as kernels
from trnrand.stream import Stream
from trnsci import ArgumentError, Cost, DtypeError, Op, array_function
from trnsci.launcher import current
from trnsci.nki import P_MAX, launch

_INTEGERS = (torch.uint8, torch.uint16, torch.uint32, torch.int32, torch.int64)
# 32-bit operations of one block of four words
_FLOPS = {PHILOX.name: 10 * 8, THREEFRY.name: 20 * 6}


@array_function
def philox4x32(counter: Tensor, key: Tensor) -> Tensor:
    """Philox4x32-10 of counters [..., 4] and keys [..., 2], lowest word first; leading axes broadcast.

    Args:
        counter: integers that hold uint32 words (uint32, int32 by its bits, or int64).
        key: the same.

    Returns:
        uint32 [..., 4].

    Example:
        >>> trnrand.philox4x32(torch.zeros(4, dtype=torch.int64), torch.zeros(2, dtype=torch.int64))
        tensor([1713891541, 3781805453, 3159862348, 2600524760], dtype=torch.uint32)
    """
    return _engine(PHILOX, counter, key)


@array_function
def threefry4x32(counter: Tensor, key: Tensor) -> Tensor:
    """Threefry4x32-20 of counters [..., 4] and keys [..., 4], lowest word first; leading axes broadcast.

    Args:
        counter: integers that hold uint32 words (uint32, int32 by its bits, or int64).
        key: the same.

    Returns:
        uint32 [..., 4].
    """
    return _engine(THREEFRY, counter, key)


def bits(
    key: int | Stream, offset: int, n: int, *, engine: str = PHILOX.name, device: torch.device | str = "cpu"
) -> Tensor:
    """Words ``offset .. offset + n`` of a stream: uint32 [n].

    Args:
        key: an integer of up to 64 bits (Philox) or 128 bits (Threefry), or a `Stream`, whose position is added.
        offset: the first word, up to 2**66 and more.
        n: how many words.
        engine: ``philox4x32`` or ``threefry4x32``, for integer keys.
        device: where the result goes.
    """
    stream = key if isinstance(key, Stream) else Stream(key, engine)
    for name, value in (("offset", offset), ("n", n)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise DtypeError(op="bits", argument=name, got=type(value), expected="an integer")
        if value < 0:
            raise ArgumentError(op="bits", argument=name, got=value, expected="a non-negative integer")
    return _words(*placed(stream, stream.position + offset), n, str(torch.device(device)))


def placed(stream: Stream, first: int, per_block: int = 4) -> tuple[str, list[int], list[int], int]:
    """Engine, key, counter and elements to skip, for element ``first`` when a block holds ``per_block`` of them."""
    block, skip = divmod(first, per_block)
    counter = (stream.base + block) % (1 << 128)
    return stream.engine, stream.key_words, [counter >> 32 * i & MASK for i in range(4)], skip


def stream_words(stream: Stream, first: int, count: int, device: torch.device) -> Tensor:
    """Words of a stream as int64."""
    return _words(*placed(stream, first), count, str(device)).to(torch.int64)


def block_words(stream: Stream, first: int, chosen: Tensor) -> Tensor:
    """The blocks ``first + chosen[i]`` of a stream as int64 [n, 4]."""
    start = (stream.base + first) % (1 << 128)
    words, carry = [], chosen
    for i in range(4):
        total = carry + (start >> 32 * i & MASK)
        words.append(total & MASK)
        carry = total >> 32
    key = torch.tensor(stream.key_words, device=chosen.device)
    return _blocks(torch.stack(words, -1), key, stream.engine).to(torch.int64)


def _as_words(op: str, name: str, value: Any, length: int) -> Tensor:
    if not isinstance(value, Tensor) or value.dtype not in _INTEGERS:
        got = value.dtype if isinstance(value, Tensor) else type(value)
        raise DtypeError(op=op, argument=name, got=got, expected="integers that hold uint32 words")
    if value.ndim < 1 or value.shape[-1] != length:
        raise ArgumentError(op=op, argument=f"shape of {name}", got=tuple(value.shape), expected=f"[..., {length}]")
    return value.to(torch.int64) & MASK


def _engine(engine: Engine, counter: Tensor, key: Tensor) -> Tensor:
    made = _as_words(engine.name, "counter", counter, 4), _as_words(engine.name, "key", key, engine.key_words)
    if torch.broadcast_shapes(made[0].shape[:-1], made[1].shape[:-1]) != made[0].shape[:-1]:
        made = made[0].expand(*torch.broadcast_shapes(made[0].shape[:-1], made[1].shape[:-1]), 4), made[1]
    return _blocks(*made, engine.name)


def _blocks_fake(counter: Tensor, key: Tensor, engine: str) -> Tensor:
    return counter.new_empty(counter.shape, dtype=torch.uint32)


def _blocks_cost(counter: Tensor, key: Tensor, engine: str) -> int:
    return counter.numel() // 4 * _FLOPS[engine]


_blocks = Op("trnrand::blocks", fake=_blocks_fake, cost=_blocks_cost)


@_blocks.impl("pytorch")
def _blocks_pytorch(counter: Tensor, key: Tensor, engine: str) -> Tensor:
    made = WORDS[ENGINES[engine]](counter.unbind(-1), key.unbind(-1))
    return torch.stack(torch.broadcast_tensors(*made), dim=-1).to(torch.uint32)


def _blocks_limits(counter: Tensor, key: Tensor, engine: str) -> str | None:
    return "the kernel takes one key for all counters" if key.numel() > key.shape[-1] else None


@_blocks.impl("nki", limits=_blocks_limits)
def _blocks_nki(counter: Tensor, key: Tensor, engine: str) -> Tensor:
    n = counter.numel() // 4
    if n == 0:
        return _blocks_fake(counter, key, engine)
    words = counter.reshape(n, 4).T.contiguous().to(torch.uint32)  # [4, B]
    trust(engine)
    start = start_row(engine, key.reshape(-1), key.new_zeros(4))
    made: Tensor = launch(kernels.bits, start, words, blocks=n, engine=engine)
    return made.T.reshape(counter.shape).contiguous()


def _words_fake(engine: str, key: list[int], counter: list[int], skip: int, count: int, device: str) -> Tensor:
    return torch.empty(count, dtype=torch.uint32, device=device)


def words_cost(engine: str, key: list[int], counter: list[int], skip: int, count: int, device: str) -> Cost:
    """Operations and bytes of a part of a stream with 4-byte elements."""
    return Cost(flops=count // 4 * _FLOPS[engine], read=0, written=4 * count)


_words = Op("trnrand::words", fake=_words_fake, cost=words_cost)


@_words.impl("pytorch")
def _words_pytorch(engine: str, key: list[int], counter: list[int], skip: int, count: int, device: str) -> Tensor:
    where = torch.device(device)
    library = host.helper(where)
    if library is None:
        base = sum(word << 32 * i for i, word in enumerate(counter))
        return pure_words(ENGINES[engine], key, base, skip, count, where).to(torch.uint32)
    out = host.empty((count,), torch.uint32)
    host.fill(library, host.WORDS, ENGINES[engine], key, counter, skip, out)
    return out


@_words.impl("nki")
def _words_nki(engine: str, key: list[int], counter: list[int], skip: int, count: int, device: str) -> Tensor:
    if count == 0:
        return _words_fake(engine, key, counter, skip, count, device)
    return launched(kernels.bits, engine, key, counter, skip, count, device)


def launched(
    kernel: Any, engine: str, key: list[int], counter: list[int], skip: int, count: int, device: str
) -> Tensor:
    """Elements of a stream by a kernel that makes four of a block."""
    trust(engine)
    start = start_row(engine, torch.tensor(key), torch.tensor(counter))
    made: Tensor = launch(kernel, start, blocks=(skip + count + 3) // 4, engine=engine)
    made = made[skip : skip + count]
    return made if made.is_meta else made.to(device)


def start_row(engine: str, key: Tensor, counter: Tensor) -> Tensor:
    """What a kernel needs of a stream, on every partition: counter, keys of all rounds, constants of the engine."""
    halves = [half for m in PHILOX_MULTIPLIERS for half in (m & 0xFFFF, m >> 16)] if engine == PHILOX.name else []
    constants = torch.tensor([MASK >> 1, (MASK >> 1) + 1, *halves], device=key.device)
    row = torch.cat([counter, rounds(engine, key), constants]).to(torch.uint32)
    return row.expand(P_MAX, -1).contiguous()  # [P, 4 + keys + constants]


# where a stream shows how a device adds and multiplies: three words of carries, and keys with their upper bits set
_PROBE_BASE, _PROBE_KEY, _PROBE_BLOCKS = (1 << 96) - 77, (1 << 128) - 12345, 300
_trusted: set[tuple[str, str, str]] = set()


def trust(engine: str) -> None:
    """Before the first stream of a device: its words are those of the definition, or raise."""
    launcher = current()
    where = launcher.backend, launcher.target, engine
    if launcher.backend == "nki" and where not in _trusted:
        _check_words(engine)
        _trusted.add(where)


def _check_words(engine: str) -> None:
    stream = Stream(_PROBE_KEY % (1 << 32 * ENGINES[engine].key_words), engine, base=_PROBE_BASE)
    _, key, counter, _ = placed(stream, 0)
    start = start_row(engine, torch.tensor(key), torch.tensor(counter))
    made = launch(kernels.bits, start, blocks=_PROBE_BLOCKS, engine=engine).cpu()
    expected = pure_words(ENGINES[engine], key, _PROBE_BASE, 0, 4 * _PROBE_BLOCKS, torch.device("cpu"))
    wrong = int((made.to(torch.int64) != expected).sum())
    if wrong:
        raise ArgumentError(
            op="bits",
            argument="device",
            got=f"{wrong} of {expected.numel()} words of {engine} that differ from its definition",
            expected="32-bit sums and products that are exact",
            hint="Use backend 'pytorch' for random numbers, and report this device",
        )


def probe() -> dict[str, str]:
    """Run the self-test of the kernels' integers, for ``trnsci info --probe``."""
    launcher = current()
    for engine in ENGINES:
        _check_words(engine)
    return {"bits": f"words of {' and '.join(ENGINES)} are exact on {launcher.backend} ({launcher.target})"}


def rounds(engine: str, key: Tensor) -> Tensor:
    """The keys of all rounds: 20 words of Philox, 24 of Threefry (four for each of six injections)."""
    if engine == PHILOX.name:
        steps = torch.arange(PHILOX_ROUNDS, device=key.device)[:, None] * torch.tensor(PHILOX_WEYL, device=key.device)
        return (key + steps & MASK).reshape(-1)
    k = [*key.unbind(), key[0] ^ key[1] ^ key[2] ^ key[3] ^ THREEFRY_PARITY]
    injections = range(THREEFRY_ROUNDS // 4 + 1)
    return torch.stack([k[(s + i) % 5] + (s if i == 3 else 0) & MASK for s in injections for i in range(4)])
