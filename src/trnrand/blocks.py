"""Ops of the engines: blocks of four words from counters and a key."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnrand import host_loops
from trnrand.device import start_row, trust
from trnrand.engines import MASK, WORDS, Engine
from trnsci import ArgumentError, DtypeError, check
from trnsci.nki import launch

_INTEGERS = (torch.uint8, torch.uint16, torch.uint32, torch.int32, torch.int64)


def check_words(engine: Engine, counter: Any, key: Any) -> tuple[Tensor, Tensor]:
    """Check counters and keys; return keys, and in the lower halves counters of the broadcast shape, as int64."""
    words = _words(engine.name, "counter", counter, 4), _words(engine.name, "key", key, engine.key_words)
    check.same_device(engine.name, counter=counter, key=key)
    batch = check.broadcast(engine.name, counter=tuple(words[0].shape[:-1]), key=tuple(words[1].shape[:-1]))
    return words[0].expand(*batch, 4), words[1] & MASK


def _words(op: str, name: str, value: Any, length: int) -> Tensor:
    check.tensor(op, **{name: value})
    if value.dtype not in _INTEGERS:
        raise DtypeError(op, name, value.dtype, "integers that hold uint32 words")
    if value.ndim < 1 or value.shape[-1] != length:
        raise ArgumentError(op, f"shape of {name}", tuple(value.shape), f"[..., {length}]")
    return value.to(torch.int64)


class Blocks(NamedTuple):
    """The words of counters, int64 that holds uint32: what the ops of both engines have in common."""

    counter: Tensor  # [..., 4], of which the lower halves count
    key: Tensor  # [..., 2 or 4]

    def parts(self) -> tuple[Engine, Any]:
        """Return the engine and its kernel."""
        raise NotImplementedError

    def fake(self) -> Tensor:
        return self.counter.new_empty(self.counter.shape, dtype=torch.uint32)

    def cost(self) -> int:
        return self.counter.numel() // 4 * self.parts()[0].operations

    def pytorch(self) -> Tensor:
        words = WORDS[self.parts()[0]]((self.counter & MASK).unbind(-1), self.key.unbind(-1))
        return torch.stack(torch.broadcast_tensors(*words), dim=-1).to(torch.uint32)

    def host(self) -> Tensor:
        return host_loops.blocks(self.parts()[0], self.counter, self.key)

    def nki(self) -> Tensor:
        n = self.counter.numel() // 4
        if n == 0:
            return self.fake()
        engine, kernel = self.parts()
        counters = self.counter.reshape(n, 4).T.contiguous().to(torch.uint32)  # [4, B]
        trust(engine.name)
        start = start_row(engine.name, self.key.reshape(-1), self.key.new_zeros(4))
        words: Tensor = launch(kernel, start, counters)
        return words.T.reshape(self.counter.shape).contiguous()

    def limits(self, implementation: str) -> str | None:
        if implementation != "pytorch" and self.key.numel() > self.key.shape[-1]:
            return f"{implementation} takes one key for all counters"
        return host_loops.limits(implementation, self.counter.device)
