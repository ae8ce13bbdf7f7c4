"""Gradients of block-sparse attention with respect to queries, keys and values, block by block."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from trnsci import Op
from trnsci.nki import P_MAX, launch
from trnsparse.arguments import evenly
from trnsparse.kernels import attention_backward as kernels


def backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    indptr: Tensor,
    indices: Tensor,
    slots: Tensor,
    insides: Tensor,
    scale: float,
    grad_lse: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return gradients of q, k and v from that of the output, the output and the logarithms of its sums."""
    exact = lse.dtype
    delta = (grad.to(exact) * out.to(exact)).sum(-1)
    if grad_lse is not None:
        delta = delta - grad_lse
    return _backward(grad, q, k, v, lse, delta, indptr, indices, slots, insides, scale)


def _fake(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lse: Tensor,
    delta: Tensor,
    indptr: Tensor,
    indices: Tensor,
    slots: Tensor,
    insides: Tensor,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _cost(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lse: Tensor,
    delta: Tensor,
    indptr: Tensor,
    indices: Tensor,
    slots: Tensor,
    insides: Tensor,
    scale: float,
) -> int:
    pairs = indices.shape[0] * insides.shape[1] ** 2
    return 2 * q.shape[0] * q.shape[1] * pairs * (3 * q.shape[3] + 2 * v.shape[3])


_backward = Op("trnsparse::attention_backward", fake=_fake, cost=_cost)


@_backward.impl("pytorch")
def _pytorch(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lse: Tensor,
    delta: Tensor,
    indptr: Tensor,
    indices: Tensor,
    slots: Tensor,
    insides: Tensor,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    block, group = insides.shape[1], q.shape[1] // max(k.shape[1], 1)
    exact = lse.dtype
    wide_q, wide_g = q.to(exact), grad.to(exact)
    wide_k, wide_v = (x.to(exact).repeat_interleave(group, 1) for x in (k, v))
    of_q, of_k, of_v = torch.zeros_like(wide_q), torch.zeros_like(wide_k), torch.zeros_like(wide_v)
    safe = torch.where(lse == -math.inf, 0.0, lse).unsqueeze(-1)
    starts, columns, kinds = indptr.tolist(), indices.tolist(), slots.tolist()
    for i in range(len(starts) - 1):
        at = slice(i * block, (i + 1) * block)
        for run in runs(columns, starts[i], starts[i + 1]):
            to = slice(columns[run.start] * block, (columns[run.stop - 1] + 1) * block)
            scores = (scale * wide_q[:, :, at]) @ wide_k[:, :, to].mT - safe[:, :, at]
            p = torch.exp(hide(scores, run, kinds, insides, block))
            ds = p * (wide_g[:, :, at] @ wide_v[:, :, to].mT - delta[:, :, at].unsqueeze(-1))
            of_v[:, :, to] += p.mT @ wide_g[:, :, at]
            of_k[:, :, to] += scale * (ds.mT @ wide_q[:, :, at])
            of_q[:, :, at] += scale * (ds @ wide_k[:, :, to])
    of_k, of_v = (x.unflatten(1, (-1, group)).sum(2) if group else x for x in (of_k, of_v))
    return of_q.to(q.dtype), of_k.to(k.dtype), of_v.to(v.dtype)


def runs(columns: list[int], first: int, last: int) -> list[range]:
    """The stored blocks ``first .. last`` of a row, cut where a column is left out."""
    cuts = [p for p in range(first + 1, last) if columns[p] != columns[p - 1] + 1]
    return [range(lo, hi) for lo, hi in pairwise([first, *cuts, last]) if hi > lo]


def hide(scores: Tensor, run: range, kinds: list[int], insides: Tensor, block: int) -> Tensor:
    """Scores [..., q, k] of neighbouring blocks, minus infinity where nothing is kept; in place unless recorded."""
    for n, p in enumerate(run):
        if kinds[p] >= 0:
            here = slice(n * block, (n + 1) * block)
            part = scores[..., here]
            hidden = ~insides[kinds[p], : part.shape[-2], : part.shape[-1]]
            if torch.is_grad_enabled() and scores.requires_grad:
                whole = torch.zeros(scores.shape[-2:], dtype=torch.bool, device=scores.device)
                whole[:, here] = hidden
                scores = scores.masked_fill(whole, -math.inf)
            else:
                part.masked_fill_(hidden, -math.inf)
    return scores


def _limits(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lse: Tensor,
    delta: Tensor,
    indptr: Tensor,
    indices: Tensor,
    slots: Tensor,
    insides: Tensor,
    scale: float,
) -> str | None:
    from trnsparse.attention import _limits as forward

    return forward(q, k, v, indptr, indices, slots, insides, scale)


@_backward.impl("nki", limits=_limits)
def _nki(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lse: Tensor,
    delta: Tensor,
    indptr: Tensor,
    indices: Tensor,
    slots: Tensor,
    insides: Tensor,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    pattern = (indptr.tolist(), indices.tolist(), slots.tolist())
    return _launched(grad, q, k, v, lse, delta, pattern, insides, scale)


@_backward.prediction
def _predicted(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lse: Tensor,
    delta: Tensor,
    indptr: Tensor,
    indices: Tensor,
    slots: Tensor,
    insides: Tensor,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    pointers, columns = evenly(indices.shape[0], indptr.shape[0] - 1)
    return _launched(grad, q, k, v, lse, delta, (pointers, columns, [-1] * len(columns)), insides, scale)


def _launched(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lse: Tensor,
    delta: Tensor,
    pattern: tuple[list[int], list[int], list[int]],
    insides: Tensor,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    from trnsparse.attention import additive

    if q.numel() == 0 or v.numel() == 0 or not pattern[1]:
        return torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    pointers, columns, slots = pattern
    by_row: list[list[tuple[int, int]]] = [[] for _ in pointers[1:]]
    for i in range(len(pointers) - 1):
        for p in range(pointers[i], pointers[i + 1]):
            by_row[i].append((columns[p], slots[p]))
    scaled = (q * scale).flatten(0, 1)
    k, v, grad, shapes = k.flatten(0, 1), v.flatten(0, 1), grad.to(q.dtype).flatten(0, 1), (q.shape, k.shape, v.shape)
    of_q, of_k, of_v = launch(
        kernels.attention_backward,
        *(x.mT.contiguous() for x in (scaled, k, v, grad)),
        *(x.contiguous() for x in (scaled, k, grad)),
        _by_partition(torch.where(lse == -math.inf, 0.0, -lse)),
        _by_partition(delta),
        additive(insides, q.dtype),
        pattern=_frozen(by_row),
    )
    return (of_q * scale).reshape(shapes[0]), of_k.reshape(shapes[1]), of_v.reshape(shapes[2])


@_backward.workspace
def _workspace(
    backend: str,
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lse: Tensor,
    delta: Tensor,
    indptr: Tensor,
    indices: Tensor,
    slots: Tensor,
    insides: Tensor,
    scale: float,
) -> int:
    if backend == "pytorch":
        # All in float32 at least, keys and values for each query head, and scores, weights and their gradient of a row.
        longest, wide = -(-indices.shape[0] // max(1, indptr.shape[0] - 1)), max(4, q.element_size())
        heads, block = q.shape[0] * q.shape[1], insides.shape[1]
        return (
            wide
            * heads
            * (2 * q.shape[2] * q.shape[3] + 2 * k.shape[2] * (k.shape[3] + v.shape[3]) + 3 * block * block * longest)
        )
    hidden = insides.numel() * (4 + 2 * (2 if q.dtype == torch.bfloat16 else 4))
    sums = 3 * lse.nbytes
    return 2 * q.nbytes + k.nbytes + v.nbytes + grad.nbytes + hidden + sums


def _frozen(lists: list[list[tuple[int, int]]]) -> Any:
    return tuple(tuple(items) for items in lists)


def _by_partition(x: Tensor) -> Tensor:
    """One number for each query, [heads, Q], as columns of blocks [heads, 128, blocks]."""
    flat = x.float().flatten(0, 1)
    return torch.nn.functional.pad(flat, (0, -flat.shape[1] % P_MAX)).unflatten(1, (-1, P_MAX)).mT.contiguous()
