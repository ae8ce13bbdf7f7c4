"""What the engines' ops share: blocks of four words from counters and a key."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnrand.device import start_row, trust
from trnrand.engines import MASK, Engine
from trnsci import ArgumentError, DtypeError, check
from trnsci.nki import launch

_INTEGERS = (torch.uint8, torch.uint16, torch.uint32, torch.int32, torch.int64)


def checked(engine: Engine, counter: Any, key: Any) -> tuple[Tensor, Tensor]:
    """Check counters and keys, and return them as int64, counters of the broadcast shape."""
    words = _words(engine.name, "counter", counter, 4), _words(engine.name, "key", key, engine.key_words)
    check.same_device(engine.name, counter=counter, key=key)
    batch = check.broadcast(engine.name, counter=tuple(words[0].shape[:-1]), key=tuple(words[1].shape[:-1]))
    return words[0].expand(*batch, 4), words[1]


def _words(op: str, name: str, value: Any, length: int) -> Tensor:
    check.tensor(op, **{name: value})
    if value.dtype not in _INTEGERS:
        raise DtypeError(op=op, argument=name, got=value.dtype, expected="integers that hold uint32 words")
    if value.ndim < 1 or value.shape[-1] != length:
        raise ArgumentError(op=op, argument=f"shape of {name}", got=tuple(value.shape), expected=f"[..., {length}]")
    return value.to(torch.int64) & MASK


def fake(counter: Tensor) -> Tensor:
    """Return the result of either op, without its data."""
    return counter.new_empty(counter.shape, dtype=torch.uint32)


def launched(kernel: Any, engine: Engine, counter: Tensor, key: Tensor) -> Tensor:
    """Compute the words of counters with the kernel."""
    n = counter.numel() // 4
    if n == 0:
        return fake(counter)
    counters = counter.reshape(n, 4).T.contiguous().to(torch.uint32)  # [4, B]
    trust(engine.name)
    start = start_row(engine.name, key.reshape(-1), key.new_zeros(4))
    words: Tensor = launch(kernel, start, counters)
    return words.T.reshape(counter.shape).contiguous()


def limits(implementation: str, key: Any) -> str | None:
    """Return why the kernel refuses a key."""
    if implementation == "nki" and key.numel() > key.shape[-1]:
        return "the kernel takes one key for all counters"
    return None
