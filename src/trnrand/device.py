"""Arguments of the kernels of streams, and the proof that a device's integers are exact."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnrand.engines import (
    ENGINES,
    MASK,
    PHILOX,
    PHILOX_MULTIPLIERS,
    PHILOX_ROUNDS,
    PHILOX_WEYL,
    THREEFRY_PARITY,
    THREEFRY_ROUNDS,
)
from trnrand.kernels import bits as kernels
from trnrand.kernels._engines import BLOCKS
from trnrand.segment import Segment
from trnrand.stream import Stream
from trnsci import ArgumentError, programs
from trnsci.kernel_launcher import current
from trnsci.nki import P_MAX, launch


def launch_stream(kernel: Any, segment: Segment, device: torch.device) -> Tensor:
    """Compute elements of a segment with a kernel that yields four from a block."""
    engine, skip, count = segment.engine.name, segment.skip, segment.elements
    trust(engine)
    total = (skip + count + 3) // 4
    width = blocks_of_a_program(kernel, engine, total, start(segment))
    parts: list[Tensor] = []
    for first in range(0, total, width):
        parts.append(launch(kernel, start(segment, first), blocks=min(width, total - first), engine=engine))
    elements = (parts[0] if len(parts) == 1 else torch.cat(parts))[skip : skip + count]
    return elements if elements.is_meta else elements.to(device)


def blocks_of_a_program(kernel: Any, engine: str, total: int, row: Tensor) -> int:
    """Return how many of ``total`` blocks a launch computes: whole tiles that compile and that fp32 counts."""
    tile = P_MAX * BLOCKS
    if total <= tile:
        return max(1, total)
    one = programs.size_of(kernel, (row,), {"blocks": tile, "engine": engine})
    return tile * min(2**24 // tile, programs.limits().holds(one))


def start(segment: Segment, first: int = 0) -> Tensor:
    """Return a segment's start row from its block ``first`` on, on every partition."""
    base = sum(word << 32 * i for i, word in enumerate(segment.counter)) + first
    counter = torch.tensor([base >> 32 * i & MASK for i in range(4)], device="cpu")
    return start_row(segment.engine.name, torch.tensor(segment.key, device="cpu"), counter)


def start_row(engine: str, key: Tensor, counter: Tensor) -> Tensor:
    """Return a stream's start row on every partition: counter, keys of all rounds, constants of the engine."""
    halves = [half for m in PHILOX_MULTIPLIERS for half in (m & 0xFFFF, m >> 16)] if engine == PHILOX.name else []
    constants = torch.tensor([MASK >> 1, (MASK >> 1) + 1, *halves], device=key.device)
    row = torch.cat([counter, rounds(engine, key), constants]).to(torch.uint32)
    return row.expand(P_MAX, -1).contiguous()  # [P, 4 + keys + constants]


# where a stream shows how a device adds and multiplies: three words of carries, and keys with their upper bits set
_PROBE_BASE, _PROBE_KEY, _PROBE_BLOCKS = (1 << 96) - 77, (1 << 128) - 12345, 300
_trusted: set[tuple[str, str, str]] = set()


def trust(engine: str) -> None:
    """Check, before a device's first stream, that its words are those of the definition."""
    launcher = current()
    where = launcher.backend, launcher.target, engine
    if launcher.backend == "nki" and where not in _trusted:
        _check_words(engine)
        _trusted.add(where)


def _check_words(engine: str) -> None:
    stream = Stream(_PROBE_KEY % (1 << 32 * ENGINES[engine].key_words), engine, base=_PROBE_BASE)
    probed = Segment.of(stream, 0, 4 * _PROBE_BLOCKS)
    words = launch(kernels.bits, start(probed), blocks=_PROBE_BLOCKS, engine=engine).cpu()
    expected = probed.words(0, probed.elements, torch.device("cpu"))
    wrong = int((words.to(torch.int64) != expected).sum())
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
    """Return the keys of all rounds: 20 words of Philox, 24 of Threefry (four for each of six injections)."""
    if engine == PHILOX.name:
        steps = torch.arange(PHILOX_ROUNDS, device=key.device)[:, None] * torch.tensor(PHILOX_WEYL, device=key.device)
        return (key + steps & MASK).reshape(-1)
    k = [*key.unbind(), key[0] ^ key[1] ^ key[2] ^ key[3] ^ THREEFRY_PARITY]
    injections = range(THREEFRY_ROUNDS // 4 + 1)
    return torch.stack([k[(s + i) % 5] + (s if i == 3 else 0) & MASK for s in injections for i in range(4)])
