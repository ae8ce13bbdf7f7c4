"""Block-sparse attention: only blocks the mask keeps are computed, and scores never leave the chip."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trnsci import Op, array_function, check
from trnsci.errors import ArgumentError, DtypeError
from trnsci.gradient import Saved
from trnsci.nki import P_MAX, launch
from trnsparse.arguments import dense, evenly
from trnsparse.attention_backward import backward
from trnsparse.bound_mask import BoundMask, Pattern
from trnsparse.kernels import attention as kernels
from trnsparse.mask_base import Mask
from trnsparse.masks import as_mask

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@array_function
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask | BoundMask | Any = None,
    scale: float | None = None,
    *,
    block: int = 128,
) -> Tensor:
    """Return ``softmax(scale * q @ k.mT, over kept pairs) @ v``; queries that keep no key give zeros.

    Args:
        q: [B, H, Q, D], [H, Q, D] or [Q, D]
        k: [B, G, K, D] with G dividing H: each key head serves H / G query heads in a row.
        v: [B, G, K, E]
        mask: a `Mask`, a `BoundMask`, a BSRMatrix or boolean matrix [Q, K], a function of (q, k) or (b, h, q, k), or
            ``None``, which keeps everything.
        scale: factor of the scores; ``1 / sqrt(D)`` when left out.
        block: edge of the blocks; a mask bound beforehand has its own.

    Error bound:
        ``g(2 D + 2 K + 8) (1 + 2 s) max|v|`` with s the largest magnitude of a scaled score; half-precision kernels
        round the weights to the operands' dtype too.

    Cost:
        ``2 (D + E)`` flops for each pair in a stored block; memory beyond the result is one row of blocks a head.

    Example:
        >>> q = k = v = torch.ones(1, 2, 4, 8)
        >>> attention(q, k, v, causal()).shape
        torch.Size([1, 2, 4, 8])
    """
    dense("attention", q=q, k=k, v=v)
    dtype = check.floating("attention", q=q, k=k, v=v)
    if dtype.is_complex:
        raise DtypeError(op="attention", argument="dtype", got=dtype, expected="a real floating-point dtype")
    check.same_device("attention", q=q, k=k, v=v)
    check.equal("attention", "number of dimensions", q=q.ndim, k=k.ndim, v=v.ndim)
    if q.ndim not in (2, 3, 4):
        raise ArgumentError(
            op="attention", argument="shape of q", got=tuple(q.shape), expected="[B, H, Q, D], [H, Q, D] or [Q, D]"
        )
    shape = q.shape
    q, k, v = (x.reshape((1,) * (4 - x.ndim) + tuple(x.shape)) for x in (q, k, v))
    check.equal("attention", "B", q=q.shape[0], k=k.shape[0], v=v.shape[0])
    check.equal("attention", "D", q=q.shape[3], k=k.shape[3])
    check.equal("attention", "K", k=k.shape[2], v=v.shape[2])
    check.equal("attention", "heads", k=k.shape[1], v=v.shape[1])
    if q.shape[1] % max(k.shape[1], 1):
        raise ArgumentError(
            op="attention", argument="heads", got={"q": q.shape[1], "k": k.shape[1]}, expected="a multiple in q"
        )
    factor = (
        1 / math.sqrt(max(q.shape[3], 1)) if scale is None else check.coefficient("attention", "scale", scale, dtype)
    )
    bound = _bound(mask, q, k, block)
    made = _heads(q, k, v, bound, factor)
    return made.reshape(*shape[:-1], v.shape[3])


def _bound(mask: Any, q: Tensor, k: Tensor, block: int) -> BoundMask:
    batch, heads, q_len, _ = q.shape
    k_len = k.shape[2]
    if not isinstance(mask, BoundMask):
        return as_mask(mask).bind(q_len, k_len, batch=batch, heads=heads, block=block)
    if (mask.q_len, mask.k_len) != (q_len, k_len):
        raise ArgumentError(
            op="attention",
            argument="lengths of the mask",
            got=(mask.q_len, mask.k_len),
            expected=f"{(q_len, k_len)}, those of q and k",
            hint="Bind the mask again, or pass it unbound",
        )
    for axis, (name, size) in enumerate((("batch", batch), ("heads", heads))):
        if mask.which.shape[axis] not in (1, size):
            raise ArgumentError(
                op="attention", argument=f"{name} of the mask", got=mask.which.shape[axis], expected=f"1 or {size}"
            )
    return mask


def _heads(q: Tensor, k: Tensor, v: Tensor, bound: BoundMask, scale: float) -> Tensor:
    """One call where all heads share a pattern, else one for each pattern."""
    if len(bound.patterns) == 1:
        return _one(q, k, v, bound.patterns[0], scale)
    batch, heads = q.shape[:2]
    group = heads // k.shape[1]
    which = bound.which.expand(batch, heads).flatten()
    flat_q = q.flatten(0, 1)
    flat_k, flat_v = (x.repeat_interleave(group, 1).flatten(0, 1) for x in (k, v))
    parts, order = [], []
    for number, pattern in enumerate(bound.patterns):
        mine = (which == number).nonzero().flatten().to(q.device)
        parts.append(_one(flat_q[mine][None], flat_k[mine][None], flat_v[mine][None], pattern, scale)[0])
        order.append(mine)
    back = torch.cat(order).argsort()
    return torch.cat(parts)[back].reshape(batch, heads, q.shape[2], v.shape[3])


def _one(q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, scale: float) -> Tensor:
    device = torch.device("cpu") if q.is_meta else q.device
    at, columns, slots = (x.to(device) for x in (pattern.indptr, pattern.indices, pattern.slots))
    return _attention(q, k, v, at, columns, slots, pattern.insides.to(device), scale)[0]


def _fake(
    q: Tensor, k: Tensor, v: Tensor, indptr: Tensor, indices: Tensor, slots: Tensor, insides: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    exact = torch.float64 if q.dtype == torch.float64 else torch.float32
    return q.new_empty((*q.shape[:3], v.shape[3])), q.new_empty(q.shape[:3], dtype=exact)


def _cost(
    q: Tensor, k: Tensor, v: Tensor, indptr: Tensor, indices: Tensor, slots: Tensor, insides: Tensor, scale: float
) -> int:
    pairs = indices.shape[0] * insides.shape[1] ** 2
    return 2 * q.shape[0] * q.shape[1] * pairs * (q.shape[3] + v.shape[3])


# The results are the output and, for the gradient, the logarithm of each query's sum of exponentials.
_attention = Op("trnsparse::attention", fake=_fake, cost=_cost)


@_attention.impl("pytorch")
def _pytorch(
    q: Tensor, k: Tensor, v: Tensor, indptr: Tensor, indices: Tensor, slots: Tensor, insides: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    transformed = torch._C._functorch.peek_interpreter_stack() is not None
    recorded = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    if recorded and not transformed:
        made: tuple[Tensor, Tensor] = _Recorded.apply(  # type: ignore[no-untyped-call]
            q, k, v, indptr, indices, slots, insides, scale
        )
        return made
    return _forward(q, k, v, indptr, indices, slots, insides, scale, transformed)


class _Recorded(torch.autograd.Function):
    """The forward pass with a gradient that touches stored blocks only; torch's own would fill whole heads per row."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        indptr: Tensor,
        indices: Tensor,
        slots: Tensor,
        insides: Tensor,
        scale: float,
    ) -> tuple[Tensor, Tensor]:
        out, lse = _forward(q, k, v, indptr, indices, slots, insides, scale, False)
        ctx.save_for_backward(q, k, v, out, lse, indptr, indices, slots, insides)
        ctx.scale = scale
        return out, lse

    @staticmethod
    def backward(ctx: Any, grad: Tensor, grad_lse: Tensor) -> tuple[Any, ...]:
        q, k, v, out, lse, indptr, indices, slots, insides = ctx.saved_tensors
        made = backward(grad, q, k, v, out, lse, indptr, indices, slots, insides, ctx.scale, grad_lse)
        return (*made, None, None, None, None, None)


def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    indptr: Tensor,
    indices: Tensor,
    slots: Tensor,
    insides: Tensor,
    scale: float,
    recorded: bool,
) -> tuple[Tensor, Tensor]:
    """Row by row of blocks; ``recorded`` says that torch looks on, and scores may not become weights in place."""
    batch, heads, q_len, depth = q.shape
    group, block = heads // max(k.shape[1], 1), insides.shape[1]
    work = torch.float32 if q.dtype in (torch.float16, torch.bfloat16) and q.device.type == "cpu" else q.dtype
    q, k, v, dtype = q.to(work), k.to(work), v.to(work), q.dtype
    grouped = q.reshape(batch, k.shape[1], group, q_len, depth)
    starts, columns, kinds = indptr.tolist(), indices.tolist(), slots.tolist()
    outside = ~insides
    outs, sums = [], []
    for i in range(len(starts) - 1):
        span = range(starts[i], starts[i + 1])
        rows = grouped[:, :, :, i * block : (i + 1) * block]
        size = rows.shape[3]
        taken = [columns[p] for p in span]
        if not taken:
            outs.append(rows.new_zeros((*rows.shape[:4], v.shape[3])))
            sums.append(rows.new_full(rows.shape[:4], -math.inf))
            continue
        keys, values = _columns(k, taken, block), _columns(v, taken, block)
        scores = (rows.flatten(2, 3) * scale) @ keys.mT
        hidden = [(n * block, kinds[p]) for n, p in enumerate(span) if kinds[p] >= 0]
        if recorded and hidden:
            scores = scores.unflatten(2, (group, size))
            scores = scores.masked_fill(_hidden(span, taken, kinds, insides, size, k.shape[2], block), -math.inf)
            scores = scores.flatten(2, 3)
        for first, slot in [] if recorded else hidden:
            part = scores.unflatten(2, (group, size))[..., first : first + block]
            part.masked_fill_(outside[slot, :size, : part.shape[-1]], -math.inf)
        weights, top, total = _exponentials(scores, recorded)
        made = (weights @ values) / torch.where(total == 0, 1.0, total)
        outs.append(made.reshape(batch, k.shape[1], group, size, v.shape[3]))
        sums.append((top + total.detach().log()).reshape(batch, k.shape[1], group, size))
    if not outs:
        empty = q.sum() * 0 + k.sum() * 0 + v.sum() * 0
        made = (q.new_zeros((batch, heads, q_len, v.shape[3])) + empty).to(dtype)
        return made, q.new_zeros(
            (batch, heads, q_len), dtype=torch.float64 if dtype == torch.float64 else torch.float32
        )
    exact = torch.float64 if dtype == torch.float64 else torch.float32
    out = torch.cat(outs, 3).reshape(batch, heads, q_len, v.shape[3])
    return out.to(dtype), torch.cat(sums, 3).reshape(batch, heads, q_len).to(exact)


def _exponentials(scores: Tensor, recorded: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Exponentials of scores less the largest of their query, in place unless recorded; that largest, and their sum."""
    top = scores.detach().amax(-1, keepdim=True)
    # A query that keeps nothing has no largest score; its sum is 0, and so is its result.
    top = torch.where(top == -math.inf, 0.0, top)
    weights = torch.exp(scores - top) if recorded else scores.sub_(top).exp_()
    return weights, top, weights.sum(-1, keepdim=True)


def _columns(x: Tensor, taken: list[int], block: int) -> Tensor:
    """Blocks of keys or values side by side: a view where they follow each other."""
    if taken[-1] - taken[0] == len(taken) - 1:
        return x[:, :, taken[0] * block : (taken[-1] + 1) * block]
    return torch.cat([x[:, :, j * block : (j + 1) * block] for j in taken], 2)


def _hidden(
    span: range, taken: list[int], kinds: list[int], insides: Tensor, size: int, k_len: int, block: int
) -> Tensor:
    """Pairs of one row of blocks that are not kept."""
    whole = torch.ones((size, block), dtype=torch.bool, device=insides.device)
    parts = [insides[kinds[p], :size] if kinds[p] >= 0 else whole for p in span]
    parts[-1] = parts[-1][:, : min(block, k_len - taken[-1] * block)]
    return ~torch.cat(parts, 1)


def _limits(
    q: Tensor, k: Tensor, v: Tensor, indptr: Tensor, indices: Tensor, slots: Tensor, insides: Tensor, scale: float
) -> str | None:
    if q.dtype not in DTYPES:
        return f"takes float32, bfloat16 and float16, not {str(q.dtype).removeprefix('torch.')}"
    if insides.shape[1] != P_MAX:
        return f"takes blocks of {P_MAX}, not {insides.shape[1]}"
    if max(q.shape[3], v.shape[3]) > 4 * P_MAX:
        return f"takes heads of up to {4 * P_MAX}, not {max(q.shape[3], v.shape[3])}"
    return None


@_attention.impl("nki", limits=_limits)
def _nki(
    q: Tensor, k: Tensor, v: Tensor, indptr: Tensor, indices: Tensor, slots: Tensor, insides: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    pattern = (tuple(indptr.tolist()), tuple(indices.tolist()), tuple(slots.tolist()))
    return _launched(q, k, v, pattern, insides, scale)


@_attention.prediction
def _predicted(
    q: Tensor, k: Tensor, v: Tensor, indptr: Tensor, indices: Tensor, slots: Tensor, insides: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    pointers, columns = evenly(indices.shape[0], indptr.shape[0] - 1)
    return _launched(q, k, v, (tuple(pointers), tuple(columns), (-1,) * len(columns)), insides, scale)


HIDDEN = -1e30
# Below this no score was kept: the kernel's own limit.
FLOOR = 1e25


def _launched(q: Tensor, k: Tensor, v: Tensor, pattern: Any, insides: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    if q.numel() == 0 or v.numel() == 0 or not pattern[1]:
        out, lse = _fake(q, k, v, insides, insides, insides, insides, scale)
        return out.zero_(), lse.fill_(-math.inf)
    # Torch multiplies 16-bit numbers in float32 and rounds once.
    qT, kT = (q * scale).flatten(0, 1).mT.contiguous(), k.flatten(0, 1).mT.contiguous()
    made, sums = launch(
        kernels.attention,
        qT,
        kT,
        v.flatten(0, 1).contiguous(),
        additive(insides, q.dtype),
        pointers=pattern[0],
        columns=pattern[1],
        slots=pattern[2],
        lonely=lonely(pattern, insides, q.shape[2]),
    )
    by_query = sums.mT.flatten(1)[:, : q.shape[2]].reshape(q.shape[:3])
    return made.reshape(*q.shape[:3], v.shape[3]), torch.where(by_query < -FLOOR / 2, -math.inf, by_query)


@_attention.workspace
def _workspace(
    backend: str,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    indptr: Tensor,
    indices: Tensor,
    slots: Tensor,
    insides: Tensor,
    scale: float,
) -> int:
    size, block = q.element_size(), insides.shape[1]
    if backend == "pytorch":
        # Rows of blocks before they are joined, the scores of one of them, and wider operands of half precision.
        longest = -(-indices.shape[0] // max(1, indptr.shape[0] - 1)) * block
        queries, wide = q.shape[0] * q.shape[1] * q.shape[2], max(size, 4 if q.device.type in ("cpu", "meta") else size)
        scores = queries // max(1, q.shape[2]) * min(block, q.shape[2]) * longest
        return wide * (queries * v.shape[3] + scores + (q.numel() + k.numel() + v.numel() if wide > size else 0))
    # Queries are scaled, then turned; insides become numbers, are rounded and laid out.
    hidden = insides.numel() * (4 + 2 * (2 if q.dtype == torch.bfloat16 else 4))
    return max(2 * q.nbytes, q.nbytes + k.nbytes + hidden)


def lonely(pattern: Any, insides: Tensor, q_len: int) -> bool:
    """Whether some query keeps no key."""
    pointers, _, slots = pattern
    if insides.is_meta:
        return True
    for i in range(len(pointers) - 1):
        mine = slots[pointers[i] : pointers[i + 1]]
        if not mine:
            return True
        if -1 not in mine:
            size = min(insides.shape[1], q_len - i * insides.shape[1])
            if not bool(insides[list(set(mine)), :size].any(2).any(0).all()):
                return True
    return False


def additive(insides: Tensor, dtype: torch.dtype) -> Tensor:
    """Insides of partial blocks as what the kernel adds to scores, [128, distinct * 128]; at least one."""
    kind = torch.bfloat16 if dtype == torch.bfloat16 else torch.float32
    if insides.shape[0] == 0:
        insides = insides.new_zeros((1, *insides.shape[1:]))
    hidden = torch.where(insides, 0.0, HIDDEN).to(kind)  # [distinct, q, k]
    return hidden.permute(1, 0, 2).reshape(insides.shape[1], -1).contiguous()


@_attention.vjp(saves=("q", "k", "v", "indptr", "indices", "slots", "insides", "result"))
def _gradient(saved: Saved, grad: Tensor, unused: Tensor | None) -> Mapping[str, Any]:
    out, lse = saved.result
    pattern = (saved.indptr, saved.indices, saved.slots, saved.insides)
    of_q, of_k, of_v = backward(grad, saved.q, saved.k, saved.v, out, lse, *pattern, saved.scale)
    return {"q": of_q, "k": of_k, "v": of_v}
