"""Gradients of block-sparse attention with respect to queries, keys and values, block by block."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from trnsci import op, programs, run
from trnsci.nki import P_MAX, launch
from trnsparse.arguments import evenly
from trnsparse.kernels import attention_backward as kernels

if TYPE_CHECKING:
    from trnsparse.attention import Attention

# fields that the call and its backward pass have in common
_SHARED = ("q", "k", "v", "indptr", "indices", "slots", "insides", "scale")


def backward(
    call: Attention, result: tuple[Tensor, Tensor], grad: Tensor, grad_lse: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return gradients of q, k and v from the call, its results, and the gradients of those."""
    out, lse = result
    delta = (grad.to(lse.dtype) * out.to(lse.dtype)).sum(-1)
    if grad_lse is not None:
        delta = delta - grad_lse
    pattern = {name: getattr(call, name) for name in _SHARED}
    return run(AttentionBackward(grad=grad, lse=lse, delta=delta, **pattern))


@op("trnsparse::attention_backward")
class AttentionBackward(NamedTuple):
    """Gradients of q, k and v from that of the output, with the logarithms of sums and what is taken off each row."""

    grad: Tensor  # [B, H, Q, E]
    q: Tensor  # [B, H, Q, D]
    k: Tensor  # [B, G, K, D]
    v: Tensor  # [B, G, K, E]
    lse: Tensor  # [B, H, Q]
    delta: Tensor  # [B, H, Q]
    indptr: Tensor  # [block rows + 1]
    indices: Tensor  # [blocks]
    slots: Tensor  # [blocks]
    insides: Tensor  # [distinct, block, block]
    scale: float

    def fake(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.q.new_empty(self.q.shape), self.k.new_empty(self.k.shape), self.v.new_empty(self.v.shape)

    def cost(self) -> int:
        pairs = self.indices.shape[0] * self.insides.shape[1] ** 2
        return 2 * self.q.shape[0] * self.q.shape[1] * pairs * (3 * self.q.shape[3] + 2 * self.v.shape[3])

    def limits(self, implementation: str) -> str | None:
        from trnsparse.attention import Attention

        return Attention(**{name: getattr(self, name) for name in _SHARED}).limits(implementation)

    def pytorch(self) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v, insides, scale = self.q, self.k, self.v, self.insides, self.scale
        block, group = insides.shape[1], q.shape[1] // max(k.shape[1], 1)
        exact = self.lse.dtype
        wide_q, wide_g = q.to(exact), self.grad.to(exact)
        wide_k, wide_v = (x.to(exact).repeat_interleave(group, 1) for x in (k, v))
        of_q, of_k, of_v = torch.zeros_like(wide_q), torch.zeros_like(wide_k), torch.zeros_like(wide_v)
        safe = torch.where(self.lse == -math.inf, 0.0, self.lse).unsqueeze(-1)
        starts, columns, kinds = self.indptr.tolist(), self.indices.tolist(), self.slots.tolist()
        for i in range(len(starts) - 1):
            at = slice(i * block, (i + 1) * block)
            for stored in runs(columns, starts[i], starts[i + 1]):
                to = slice(columns[stored.start] * block, (columns[stored.stop - 1] + 1) * block)
                scores = (scale * wide_q[:, :, at]) @ wide_k[:, :, to].mT - safe[:, :, at]
                recorded = torch.is_grad_enabled() and scores.requires_grad
                p = torch.exp(hide(scores, stored, kinds, insides, recorded=recorded))
                ds = p * (wide_g[:, :, at] @ wide_v[:, :, to].mT - self.delta[:, :, at].unsqueeze(-1))
                of_v[:, :, to] += p.mT @ wide_g[:, :, at]
                of_k[:, :, to] += scale * (ds.mT @ wide_q[:, :, at])
                of_q[:, :, at] += scale * (ds @ wide_k[:, :, to])
        of_k, of_v = (x.unflatten(1, (-1, group)).sum(2) if group else x for x in (of_k, of_v))
        return of_q.to(q.dtype), of_k.to(k.dtype), of_v.to(v.dtype)

    def nki(self) -> tuple[Tensor, Tensor, Tensor]:
        return self._launch(self.indptr.tolist(), self.indices.tolist(), self.slots.tolist())

    def prediction(self) -> tuple[Tensor, Tensor, Tensor]:
        pointers, columns = evenly(self.indices.shape[0], self.indptr.shape[0] - 1)
        return self._launch(pointers, columns, [-1] * len(columns))

    def _launch(self, pointers: list[int], columns: list[int], slots: list[int]) -> tuple[Tensor, Tensor, Tensor]:
        from trnsparse.attention import additive

        q, k, v = self.q, self.k, self.v
        if q.numel() == 0 or v.numel() == 0 or not columns:
            return torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        pattern = tuple(tuple(zip(columns[lo:hi], slots[lo:hi], strict=True)) for lo, hi in pairwise(pointers))
        scaled, grad = (q * self.scale).flatten(0, 1), self.grad.to(q.dtype).flatten(0, 1)
        keys, values = k.flatten(0, 1), v.flatten(0, 1)
        operands = (
            *(x.mT.contiguous() for x in (scaled, keys, values, grad)),
            *(x.contiguous() for x in (scaled, keys, grad)),
            _by_partition(torch.where(self.lse == -math.inf, 0.0, -self.lse)),
            _by_partition(self.delta),
            additive(self.insides, q.dtype),
        )
        of_q, of_k, of_v = _by_rows(operands, pattern, False)
        of_k, of_v = of_k.to(k.dtype).reshape(k.shape), of_v.to(v.dtype).reshape(v.shape)
        return (of_q * self.scale).reshape(q.shape), of_k, of_v

    def workspace(self, implementation: str) -> int:
        q, k, v = self.q, self.k, self.v
        if implementation == "pytorch":
            # All in float32 at least, keys and values for each query head, and scores, weights and their gradient of a
            # row.
            longest = -(-self.indices.shape[0] // max(1, self.indptr.shape[0] - 1))
            heads, block = q.shape[0] * q.shape[1], self.insides.shape[1]
            queries, keys = 2 * q.shape[2] * q.shape[3], 2 * k.shape[2] * (k.shape[3] + v.shape[3])
            return max(4, q.element_size()) * heads * (queries + keys + 3 * block * block * longest)
        hidden = self.insides.numel() * (4 + 2 * (2 if q.dtype == torch.bfloat16 else 4))
        return 2 * q.nbytes + k.nbytes + v.nbytes + self.grad.nbytes + hidden + 3 * self.lse.nbytes


# which dimension of the kernel's operands is that of the queries, or of their blocks
_QUERIES = {0: 2, 3: 2, 4: 1, 6: 1}
_BLOCKS = {7: 2, 8: 2}


def _by_rows(operands: tuple[Tensor, ...], pattern: tuple[Any, ...], wide: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Launch the kernel for all rows of blocks, or for either half where that is too long a program."""
    options: dict[str, Any] = {"pattern": pattern, "wide": wide}
    rows = len(pattern)
    # fewer blocks than this are never too long
    few = programs.limits().instructions // 32
    if rows == 1 or sum(map(len, pattern)) <= few or programs.fits(kernels.attention_backward, operands, options):
        of_q, of_k, of_v = launch(kernels.attention_backward, *operands, **options)
        return of_q, of_k, of_v
    halves = []
    for first, stop in ((0, rows // 2), (rows // 2, rows)):
        own = list(operands)
        for at, dim in _QUERIES.items():
            end = min(stop * P_MAX, own[at].shape[dim])
            own[at] = own[at].narrow(dim, first * P_MAX, end - first * P_MAX).contiguous()
        for at, dim in _BLOCKS.items():
            own[at] = own[at].narrow(dim, first, stop - first).contiguous()
        halves.append(_by_rows(tuple(own), pattern[first:stop], True))
    (q0, k0, v0), (q1, k1, v1) = halves
    return torch.cat([q0, q1], 1), k0 + k1, v0 + v1


def runs(columns: list[int], first: int, last: int) -> list[range]:
    """Return the stored blocks ``first .. last`` of a row, cut where a column is left out."""
    cuts = [p for p in range(first + 1, last) if columns[p] != columns[p - 1] + 1]
    return [range(lo, hi) for lo, hi in pairwise([first, *cuts, last]) if hi > lo]


def hide(scores: Tensor, stored: range, kinds: list[int], insides: Tensor, *, recorded: bool) -> Tensor:
    """Set scores [..., q, k] of blocks to minus infinity where nothing is kept; in place unless recorded."""
    block = insides.shape[1]
    for n, p in enumerate(stored):
        if kinds[p] >= 0:
            here = slice(n * block, (n + 1) * block)
            part = scores[..., here]
            hidden = ~insides[kinds[p], : part.shape[-2], : part.shape[-1]]
            if recorded:
                whole = torch.zeros(scores.shape[-2:], dtype=torch.bool, device=scores.device)
                whole[:, here] = hidden
                scores = scores.masked_fill(whole, -math.inf)
            else:
                part.masked_fill_(hidden, -math.inf)
    return scores


def _by_partition(x: Tensor) -> Tensor:
    """Return one number for each query, [heads, Q], as columns of blocks [heads, 128, blocks]."""
    flat = x.float().flatten(0, 1)
    return torch.nn.functional.pad(flat, (0, -flat.shape[1] % P_MAX)).unflatten(1, (-1, P_MAX)).mT.contiguous()
