"""Attention masks as small objects: combined with ``&``, ``|`` and ``~``, without a length until they are bound."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnsci import check
from trnsci.arrays import Numbers
from trnsci.errors import ArgumentError, DtypeError
from trnsparse.bsr import BSRMatrix
from trnsparse.mask_base import Mask, Rectangles, Verdicts

# what trnsparse exports
__all__ = ["blocks", "causal", "documents", "full", "function", "sink", "window"]


@dataclass(frozen=True)
class _Distance(Mask):
    """Pairs with ``low <= q - k <= high``."""

    low: float
    high: float
    name: str

    def keeps(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (q - k >= self.low) & (q - k <= self.high)

    def judge(self, at: Rectangles) -> Verdicts:
        least, most = at.q0 - at.k1, at.q1 - at.k0
        return Verdicts((least >= self.low) & (most <= self.high), (most < self.low) | (least > self.high))

    def key(self) -> tuple[Hashable, ...]:
        return ("_Distance", self.low, self.high)

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class _Sink(Mask):
    count: int

    def keeps(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (k < self.count) & (q >= 0)

    def judge(self, at: Rectangles) -> Verdicts:
        return Verdicts(at.k1 < self.count, at.k0 >= self.count)

    def key(self) -> tuple[Hashable, ...]:
        return ("_Sink", self.count)

    def __repr__(self) -> str:
        return f"sink({self.count})"


class Shifted(Mask):
    """Another mask, of positions that begin at ``q_start`` and ``k_start``."""

    def __init__(self, inner: Mask, q_start: int, k_start: int) -> None:
        self.inner, self.q_start, self.k_start = inner, q_start, k_start

    def keeps(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return self.inner.keeps(b, h, q + self.q_start, k + self.k_start)

    def judge(self, at: Rectangles) -> Verdicts:
        q, k = self.q_start, self.k_start
        return self.inner.judge(Rectangles(at.q0 + q, at.q1 + q, at.k0 + k, at.k1 + k))

    def key(self) -> tuple[Hashable, ...] | None:
        inner = self.inner.key()
        return None if inner is None else ("Shifted", inner, self.q_start, self.k_start)


class _Documents(Mask):
    def __init__(self, ids: Tensor) -> None:
        self.ids = ids

    def keeps(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return self.ids[q] == self.ids[k]

    def judge(self, at: Rectangles) -> Verdicts:
        (q_low, q_high), (k_low, k_high) = self._extremes(at.q0, at.q1), self._extremes(at.k0, at.k1)
        one = (q_low == q_high) & (k_low == k_high) & (q_low == k_low)
        return Verdicts(one, (q_high < k_low) | (k_high < q_low))

    def _extremes(self, first: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        spans, inverse = torch.unique(torch.stack([first, last]), dim=1, return_inverse=True)
        parts = [self.ids[lo : hi + 1] for lo, hi in spans.T.tolist()]
        low = torch.stack([part.min() for part in parts]) if parts else self.ids[:0]
        high = torch.stack([part.max() for part in parts]) if parts else self.ids[:0]
        return low[inverse], high[inverse]

    @property
    def lengths(self) -> tuple[int, int] | None:
        return (self.ids.numel(), self.ids.numel())

    def __repr__(self) -> str:
        return f"documents(<{self.ids.unique().numel()} documents, {self.ids.numel()} positions>)"


class _Blocks(Mask):
    def __init__(self, pattern: Tensor, size: int) -> None:
        self.pattern, self.size = pattern, size

    def keeps(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return self.pattern[q // self.size, k // self.size]

    def judge(self, at: Rectangles) -> Verdicts:
        one = (at.q0 // self.size == at.q1 // self.size) & (at.k0 // self.size == at.k1 // self.size)
        kept = self.pattern[at.q0 // self.size, at.k0 // self.size]
        return Verdicts(one & kept, one & ~kept)

    @property
    def lengths(self) -> tuple[int, int] | None:
        return (self.pattern.shape[0] * self.size, self.pattern.shape[1] * self.size)

    def fits(self, q_len: int, k_len: int) -> None:
        rows, columns = self.pattern.shape
        if (-(-q_len // self.size), -(-k_len // self.size)) != (rows, columns):
            own = f"{rows}x{columns} blocks of {self.size}"
            raise ArgumentError("bind", "lengths", (q_len, k_len), f"lengths that need {own}, the pattern of the mask")

    def __repr__(self) -> str:
        return f"blocks(<{self.pattern.shape[0]}x{self.pattern.shape[1]}>, size={self.size})"


class _Stored(Mask):
    """Pairs where a sparse matrix has an entry inside a stored block that is not zero."""

    def __init__(self, matrix: BSRMatrix) -> None:
        self.matrix = matrix.detach().cpu()
        across = self.matrix.grid[1]
        self.slot = torch.full((self.matrix.grid[0] * across,), -1, device="cpu")
        order = torch.arange(self.matrix.n_blocks, device="cpu")
        self.slot[self.matrix.block_rows * across + self.matrix.indices] = order
        self.slot = self.slot.reshape(self.matrix.grid)
        zero = self.matrix.values.new_zeros((1, *self.matrix.block))
        self.inside = torch.cat([self.matrix.values, zero]) != 0

    def keeps(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        bm, bn = self.matrix.block
        return self.inside[self.slot[q // bm, k // bn], q % bm, k % bn]

    def judge(self, at: Rectangles) -> Verdicts:
        bm, bn = self.matrix.block
        one = (at.q0 // bm == at.q1 // bm) & (at.k0 // bn == at.k1 // bn)
        slot = self.slot[at.q0 // bm, at.k0 // bn]
        return Verdicts(one & (slot >= 0) & self.inside.flatten(1).all(1)[slot], one & (slot < 0))

    @property
    def lengths(self) -> tuple[int, int] | None:
        return self.matrix.shape

    def __repr__(self) -> str:
        return f"from_bsr({self.matrix!r})"


class _Dense(Mask):
    def __init__(self, kept: Tensor) -> None:
        self.kept = kept

    def keeps(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return self.kept[q, k]

    @property
    def lengths(self) -> tuple[int, int] | None:
        return (self.kept.shape[0], self.kept.shape[1])

    def __repr__(self) -> str:
        return f"from_dense(<{self.kept.shape[0]}x{self.kept.shape[1]}>)"


class _Function(Mask):
    def __init__(self, rule: Callable[..., Any], arguments: int) -> None:
        self.rule, self.arguments = rule, arguments
        self.by_batch = self.by_head = arguments == 4

    def keeps(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        kept = self.rule(q, k) if self.arguments == 2 else self.rule(b, h, q, k)
        if not isinstance(kept, Tensor):
            kept = torch.as_tensor(kept, device=q.device)
        if kept.dtype != torch.bool:
            raise DtypeError("function", "result of the rule", kept.dtype, "bool")
        return kept.broadcast_to(torch.broadcast_shapes(q.shape, k.shape))

    def __repr__(self) -> str:
        return f"function({getattr(self.rule, '__name__', 'rule')})"


def _in_memory(op: str, argument: str, value: Numbers, expected: str) -> Tensor:
    """Check for numbers, and return them in host memory, in a view: their owner may resize them."""
    check.kind(op, argument, value, Tensor | np.ndarray | list | tuple, expected)
    try:
        return torch.as_tensor(value, device="cpu")[...]
    except (TypeError, ValueError, RuntimeError):
        raise DtypeError(op, argument, value, expected) from None


def _boolean(op: str, argument: str, value: Numbers, shape: str) -> Tensor:
    """Check for a boolean matrix, and return it in host memory."""
    matrix = _in_memory(op, argument, value, f"bool {shape}")
    if matrix.ndim != 2 or matrix.dtype != torch.bool:
        raise ArgumentError(op, argument, f"{matrix.dtype} of shape {tuple(matrix.shape)}", f"bool {shape}")
    return matrix


def full() -> Mask:
    """Keep every pair."""
    return _Distance(-math.inf, math.inf, "full()")


def causal(offset: int = 0) -> Mask:
    """Keep keys that are not after their query: ``k <= q + offset``."""
    check.integer("causal", "offset", offset)
    return _Distance(-offset, math.inf, "causal()" if offset == 0 else f"causal({offset})")


def window(width: int) -> Mask:
    """Keep keys near their query: ``|q - k| <= width``."""
    check.integer("window", "width", width, 0)
    return _Distance(-width, width, f"window({width})")


def sink(count: int) -> Mask:
    """Keep the first ``count`` keys for every query."""
    check.integer("sink", "count", count, 0)
    return _Sink(count)


def documents(ids: Numbers) -> Mask:
    """Keep pairs of one document; ``ids`` [S] holds the document of every position."""
    documents = _in_memory("documents", "ids", ids, "integers [S]")
    kind = documents.dtype
    if documents.ndim != 1 or kind.is_floating_point or kind.is_complex or kind == torch.bool:
        raise ArgumentError("documents", "ids", f"{documents.dtype} of shape {tuple(documents.shape)}", "integers [S]")
    return _Documents(documents.long())


def blocks(pattern: Numbers, size: int = 128) -> Mask:
    """Keep whole blocks: pair (q, k) where ``pattern[q // size, k // size]`` is true."""
    return _Blocks(_boolean("blocks", "pattern", pattern, "[rows, columns]"), size)


def from_dense(kept: Numbers) -> Mask:
    """Keep pairs where a boolean matrix [Q, K] is true."""
    return _Dense(_boolean("from_dense", "kept", kept, "[Q, K]"))


def from_bsr(matrix: BSRMatrix) -> Mask:
    """Keep pairs where a BSR matrix [Q, K] is not zero."""
    check.kind("from_bsr", "matrix", matrix, BSRMatrix, "a BSRMatrix")
    return _Stored(matrix)


def function(rule: Callable[..., Tensor]) -> Mask:
    """Keep pairs where ``rule(q, k)``, or FlexAttention's ``rule(b, h, q, k)``, is true.

    The rule gets integer tensors that broadcast against each other and returns a boolean tensor.
    """
    if not callable(rule):
        raise DtypeError("function", "rule", type(rule), "a function of (q, k) or (b, h, q, k)")
    count = len(inspect.signature(rule).parameters)
    check.refuse(count not in (2, 4), "function", "rule", f"{count} parameters", "(q, k) or (b, h, q, k)")
    return _Function(rule, count)


def as_mask(mask: Any) -> Mask:
    """Return a mask from a mask, a BSR matrix, a boolean matrix, a rule, or ``None`` (everything)."""
    if mask is None:
        return full()
    if isinstance(mask, Mask):
        return mask
    if isinstance(mask, BSRMatrix):
        return from_bsr(mask)
    if isinstance(mask, Tensor):
        return from_dense(mask)
    if callable(mask):
        return function(mask)
    raise DtypeError("attention", "mask", type(mask), "a mask, a BSRMatrix, a boolean matrix or a function")
