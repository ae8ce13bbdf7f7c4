"""A mask bound to lengths: which blocks are empty, full or partial, and the distinct insides of the partial ones."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trnsci import check
from trnsci.torch_internals import disable_functorch
from trnsim import notebook
from trnsparse.indices import compress
from trnsparse.picture import drawn, picture

if TYPE_CHECKING:
    from trnsparse.mask_base import Mask

# Pairs looked at in one go while partial blocks are evaluated.
CHUNK = 1 << 24
# Bound masks of rules that read no data, kept for the next call.
_KNOWN: dict[tuple[Any, ...], BoundMask] = {}
_MOST = 64


@dataclass(frozen=True, eq=False)
class Pattern:
    """The blocks of one mask.

    Attributes:
        indptr: [block rows + 1]
        indices: [blocks] block columns of blocks that keep something.
        slots: [blocks] for a partial block the index of its inside in ``insides``, for a full one -1.
        insides: [distinct, block, block] the distinct insides, true where a pair is kept.
    """

    indptr: Tensor
    indices: Tensor
    slots: Tensor
    insides: Tensor
    _copies: dict[torch.device, tuple[Tensor, ...]] = field(default_factory=dict, repr=False)

    def on(self, device: torch.device) -> tuple[Tensor, ...]:
        """Return the four tensors on a device; copies are kept."""
        own = (self.indptr, self.indices, self.slots, self.insides)
        if device.type == "cpu":
            return own
        if device not in self._copies:
            self._copies[device] = tuple(x.to(device) for x in own)
        return self._copies[device]

    def key(self) -> tuple[bytes, ...]:
        """Return what two equal patterns have in common."""
        return tuple(t.numpy().tobytes() for t in (self.indptr, self.indices, self.slots, self.insides))


@dataclass(frozen=True, eq=False)
class BoundMask:
    """A mask for given lengths: print it to see its blocks.

    Attributes:
        q_len: number of queries.
        k_len: number of keys.
        block: edge of the blocks.
        patterns: the distinct patterns.
        which: [batch or 1, heads or 1] the pattern of each batch and head.
        rule: the key of the mask as JSON; empty where it reads data.
    """

    q_len: int
    k_len: int
    block: int
    patterns: tuple[Pattern, ...]
    which: Tensor
    rule: str = ""

    @property
    def density(self) -> float:
        """Blocks that are computed over all blocks, in the mean over patterns."""
        grid = -(-self.q_len // self.block) * -(-self.k_len // self.block)
        stored = sum(p.indices.numel() for p in self.patterns)
        return stored / max(grid * len(self.patterns), 1)

    def __repr__(self) -> str:
        partial = sum(int((p.slots >= 0).sum()) for p in self.patterns)
        stored = sum(p.indices.numel() for p in self.patterns)
        return (
            f"BoundMask({self.q_len}x{self.k_len}, blocks of {self.block}: {stored - partial} full, {partial} partial, "
            f"density {self.density:.2%})"
        )

    def __str__(self) -> str:
        return f"{self!r}\n{picture(*self._blocks())}"

    def _repr_html_(self) -> str:
        return notebook.fragment(repr(self), drawn(*self._blocks(), f"blocks that {self!r} keeps"))

    def _blocks(self) -> tuple[Tensor, Tensor, tuple[int, int]]:
        """Return rows and columns of the first pattern's blocks, and how many there could be."""
        first = self.patterns[0]
        rows = torch.repeat_interleave(torch.arange(first.indptr.numel() - 1, device="cpu"), first.indptr.diff())
        return rows, first.indices, (-(-self.q_len // self.block), -(-self.k_len // self.block))


def bind(mask: Mask, q_len: int, k_len: int, *, batch: int, heads: int, block: int) -> BoundMask:
    """Return the mask's blocks; work is by block, and nothing of size q_len × k_len is allocated."""
    check.refuse(min(q_len, k_len) < 0 or block < 1, "bind", "lengths", (q_len, k_len, block), "sizes above 0")
    mask.fits(q_len, k_len)
    key = mask.key()
    if key is None:
        return _bound(mask, q_len, k_len, batch=batch, heads=heads, block=block)
    whole = (key, q_len, k_len, block)
    if whole not in _KNOWN:
        if len(_KNOWN) >= _MOST:
            _KNOWN.clear()
        # other calls see it, with gradients or without a transform of torch.func
        with torch.inference_mode(False), disable_functorch():
            _KNOWN[whole] = _bound(mask, q_len, k_len, batch=batch, heads=heads, block=block)
    return _KNOWN[whole]


def _bound(mask: Mask, q_len: int, k_len: int, *, batch: int, heads: int, block: int) -> BoundMask:
    counts = (batch if mask.by_batch else 1, heads if mask.by_head else 1)
    indices: dict[tuple[bytes, ...], int] = {}
    patterns: list[Pattern] = []
    which = torch.zeros(counts, dtype=torch.int64, device="cpu")
    for b in range(counts[0]):
        for h in range(counts[1]):
            pattern = _pattern(mask, q_len, k_len, block=block, b=b, h=h)
            which[b, h] = indices.setdefault(pattern.key(), len(patterns))
            if which[b, h] == len(patterns):
                patterns.append(pattern)
    key = mask.key()
    return BoundMask(q_len, k_len, block, tuple(patterns), which, "" if key is None else json.dumps(key))


def _pattern(mask: Mask, q_len: int, k_len: int, *, block: int, b: int, h: int) -> Pattern:
    from trnsparse.mask_base import Rectangles

    rows, columns = -(-q_len // block), -(-k_len // block)
    q0 = (torch.arange(rows, device="cpu") * block).repeat_interleave(columns)
    k0 = (torch.arange(columns, device="cpu") * block).repeat(rows)
    at = Rectangles(q0, (q0 + block).clamp(max=q_len) - 1, k0, (k0 + block).clamp(max=k_len) - 1)
    judged = mask.judge(at)
    stored = ~judged.none
    # Blocks over the edge are partial: what lies outside is not kept.
    whole = judged.every & (q0 + block <= q_len) & (k0 + block <= k_len)
    slots = torch.full((rows * columns,), -1, device="cpu")
    partial = (stored & ~whole).nonzero().flatten()
    insides: list[Tensor] = []
    indices: dict[bytes, int] = {}
    step = max(1, CHUNK // (block * block))
    index_b, index_h = torch.tensor(b, device="cpu"), torch.tensor(h, device="cpu")
    edge = torch.arange(block, device="cpu")
    for first in range(0, partial.numel(), step):
        some = partial[first : first + step]
        q, k = q0[some, None, None] + edge[:, None], k0[some, None, None] + edge
        inside = (q < q_len) & (k < k_len)
        kept = mask.keeps(index_b, index_h, q.clamp(max=q_len - 1), k.clamp(max=k_len - 1)) & inside
        flat = kept.flatten(1)
        full, empty = flat.all(1).tolist(), (~flat.any(1)).tolist()
        for i, position in enumerate(some.tolist()):
            if empty[i]:
                stored[position] = False
            elif not full[i]:
                text = kept[i].numpy().tobytes()
                if text not in indices:
                    indices[text] = len(insides)
                    insides.append(kept[i])
                slots[position] = indices[text]
    positions = stored.nonzero().flatten()
    return Pattern(
        compress(positions // max(columns, 1), rows),
        positions % max(columns, 1),
        slots[positions],
        torch.stack(insides) if insides else q0.new_zeros((0, block, block), dtype=torch.bool),
    )
