"""Base of attention masks, and how masks combine.

A mask answers two questions: which pairs (q, k) it keeps, and, for rectangles of pairs, whether all or none are kept.
The second decides most blocks without looking inside.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from operator import and_, or_
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from trnsci.arrays import pass_through
from trnsci.errors import ArgumentError
from trnsim import notebook
from trnsparse.bound_mask import BoundMask, bind

# a rule has no length: notebooks show it for these many positions, in blocks small enough to see its shape
SHOWN, SHOWN_BLOCK = 1024, 32


class Rectangles(NamedTuple):
    """Rectangles of pairs: queries ``q0`` to ``q1`` and keys ``k0`` to ``k1``, both inclusive, as integer tensors."""

    q0: Tensor
    q1: Tensor
    k0: Tensor
    k1: Tensor


class Verdicts(NamedTuple):
    """For each rectangle: surely keeps every pair, surely keeps none. Both false: look inside."""

    every: Tensor
    none: Tensor


class Mask(ABC):
    """A rule that keeps some pairs of query and key positions."""

    # Whether the rule reads the index of the batch or head.
    by_batch = False
    by_head = False

    def __init_subclass__(cls) -> None:
        pass_through(cls)

    @abstractmethod
    def keeps(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        """Return which pairs are kept; the arguments are integer tensors that broadcast."""

    def judge(self, at: Rectangles) -> Verdicts:
        """Return what is known of whole rectangles; by default nothing."""
        unknown = torch.zeros_like(at.q0, dtype=torch.bool)
        return Verdicts(unknown, unknown)

    def key(self) -> tuple[Hashable, ...] | None:
        """Return what equal rules have in common, so that one is bound once; ``None`` for rules that read data."""
        return None

    def fits(self, q_len: int, k_len: int) -> None:
        """Raise where the mask has lengths of its own and they are others; most masks fit every length."""
        if self.lengths is not None and self.lengths != (q_len, k_len):
            expected = f"{self.lengths}, those of the mask of {repr(self).partition('(')[0]}"
            raise ArgumentError("bind", "lengths", (q_len, k_len), expected)

    def bind(
        self, q_len: int, k_len: int | None = None, *, batch: int = 1, heads: int = 1, block: int = 128
    ) -> BoundMask:
        """Return the mask for these lengths: its blocks, sorted into empty, full and partial ones.

        Args:
            q_len: number of queries.
            k_len: number of keys; that of queries when left out.
            batch: number of batches, for masks that read the index of the batch.
            heads: number of query heads, for masks that read the index of the head.
            block: edge of the blocks.
        """
        return bind(self, q_len, q_len if k_len is None else k_len, batch=batch, heads=heads, block=block)

    def dense(self, q_len: int, k_len: int | None = None, *, b: int = 0, h: int = 0) -> Tensor:
        """Return the mask as a boolean tensor [q_len, k_len], for looking at; attention never makes one."""
        k_len = q_len if k_len is None else k_len
        self.fits(q_len, k_len)
        q, k = torch.arange(q_len, device="cpu")[:, None], torch.arange(k_len, device="cpu")[None, :]
        return self.keeps(q.new_tensor(b), q.new_tensor(h), q, k).broadcast_to(q_len, k_len).clone()

    @property
    def lengths(self) -> tuple[int, int] | None:
        """Return the lengths of queries and keys of a mask of data; ``None`` for rules, which fit every length."""
        return None

    def _repr_html_(self) -> str:
        bound = self.bind(*(self.lengths or (SHOWN, SHOWN)), block=SHOWN_BLOCK)
        return notebook.fragment(repr(self), bound._repr_html_())

    def __and__(self, other: Mask) -> Mask:
        return _Pair("_Both", self, other) if isinstance(other, Mask) else NotImplemented

    def __or__(self, other: Mask) -> Mask:
        return _Pair("_Either", self, other) if isinstance(other, Mask) else NotImplemented

    def __invert__(self) -> Mask:
        return _Not(self)


class _Pair(Mask):
    """Both masks, or either: ``every`` of a rectangle combines as its pairs do, ``none`` the other way round."""

    def __init__(self, kind: Literal["_Both", "_Either"], left: Mask, right: Mask) -> None:
        self.kind, self.left, self.right = kind, left, right
        self.by_batch, self.by_head = left.by_batch or right.by_batch, left.by_head or right.by_head
        self.pairs, self.others = (and_, or_) if kind == "_Both" else (or_, and_)

    def keeps(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        kept: Tensor = self.pairs(self.left.keeps(b, h, q, k), self.right.keeps(b, h, q, k))
        return kept

    def judge(self, at: Rectangles) -> Verdicts:
        x, y = self.left.judge(at), self.right.judge(at)
        return Verdicts(self.pairs(x.every, y.every), self.others(x.none, y.none))

    def key(self) -> tuple[Hashable, ...] | None:
        left, right = self.left.key(), self.right.key()
        return None if left is None or right is None else (self.kind, left, right)

    @property
    def lengths(self) -> tuple[int, int] | None:
        return self.left.lengths or self.right.lengths

    def fits(self, q_len: int, k_len: int) -> None:
        self.left.fits(q_len, k_len)
        self.right.fits(q_len, k_len)

    def __repr__(self) -> str:
        return f"({self.left!r} {'&' if self.kind == '_Both' else '|'} {self.right!r})"


class _Not(Mask):
    def __init__(self, inner: Mask) -> None:
        self.inner = inner
        self.by_batch, self.by_head = inner.by_batch, inner.by_head

    def keeps(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return ~self.inner.keeps(b, h, q, k)

    def judge(self, at: Rectangles) -> Verdicts:
        inner = self.inner.judge(at)
        return Verdicts(inner.none, inner.every)

    def key(self) -> tuple[Hashable, ...] | None:
        inner = self.inner.key()
        return None if inner is None else ("_Not", inner)

    @property
    def lengths(self) -> tuple[int, int] | None:
        return self.inner.lengths

    def fits(self, q_len: int, k_len: int) -> None:
        self.inner.fits(q_len, k_len)

    def __repr__(self) -> str:
        return f"~{self.inner!r}"
