"""Block-sparse attention: only blocks the mask keeps are computed, and scores never leave the chip."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.compiler import is_compiling

from trnsci import array_function, check, cuda, op, programs, run
from trnsci.analogs import Different, Given, given, replaces, resembles
from trnsci.errors import ArgumentError, DtypeError
from trnsci.gradient import saves
from trnsci.host import is_transformed
from trnsci.nki import N_TILE, P_MAX, launch
from trnsparse.arguments import HALF, KERNEL_DTYPES, evenly, only
from trnsparse.attention_backward import backward, hide
from trnsparse.bound_mask import BoundMask, Pattern
from trnsparse.bsr import BSRMatrix
from trnsparse.kernels import attention as kernels
from trnsparse.mask_base import Mask
from trnsparse.masks import as_mask, causal
from trnsparse.torch_operands import read_mask


@array_function
@check.hands_on("from_dense", "bind")
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask | BoundMask | BSRMatrix | Tensor | Callable[..., Tensor] | None = None,
    scale: float | None = None,
    *,
    block: int = 128,
) -> Tensor:
    """Return ``softmax(scale * q @ k.mT, over kept pairs) @ v``; queries that keep no key give zeros.

    Args:
        q: [B, H, Q, D], [H, Q, D] or [Q, D]
        k: [B, G, K, D] with G dividing H: H / G consecutive query heads share a key head.
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
    dtype = check.floating("attention", q=q, k=k, v=v)
    if dtype.is_complex:
        raise DtypeError("attention", "dtype", dtype, "a real floating-point dtype")
    check.same_device("attention", q=q, k=k, v=v)
    if not q.ndim == k.ndim == v.ndim:
        check.equal("attention", "number of dimensions", q=q.ndim, k=k.ndim, v=v.ndim)
    if q.ndim not in (2, 3, 4):
        raise ArgumentError("attention", "shape of q", tuple(q.shape), "[B, H, Q, D], [H, Q, D] or [Q, D]")
    shape = q.shape
    if len(shape) < 4:
        q, k, v = (x.reshape((1,) * (4 - x.ndim) + tuple(x.shape)) for x in (q, k, v))
    _agree(q.shape, k.shape, v.shape)
    check.integer("attention", "block", block, 1)
    scale = 1 / math.sqrt(max(q.shape[3], 1)) if scale is None else scale
    factor = float(check.real("attention", "scale", scale))
    result = _heads(q, k, v, _bound(mask, q, k, block), factor)
    return result if len(shape) == 4 else result.reshape(*shape[:-1], v.shape[3])


@replaces("aten::scaled_dot_product_attention", by=attention)
def _read_torch(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Given:
    if dropout_p:
        raise Different("dropout draws torch's random numbers")
    if enable_gqa and k.shape[-3] != q.shape[-3]:
        raise Different("groups of queries share keys")
    return given(attention, q, k, v, read_mask(q, k, attn_mask, is_causal), scale)


# what torch makes of it, where a program is watched
resembles(
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_flash_attention",
    planned=lambda q, k, v, dropout_p=0.0, is_causal=False, **_: given(
        attention, q, k, v, causal() if is_causal else None
    ),
)(attention)


def _agree(q: torch.Size, k: torch.Size, v: torch.Size) -> None:
    """Check that queries, keys and values fit together."""
    if (k != v and k[:3] != v[:3]) or q[0] != k[0] or q[3] != k[3]:
        check.equal("attention", "B", q=q[0], k=k[0], v=v[0])
        check.equal("attention", "D", q=q[3], k=k[3])
        check.equal("attention", "K", k=k[2], v=v[2])
        check.equal("attention", "heads", k=k[1], v=v[1])
    check.refuse(q[1] % max(k[1], 1), "attention", "heads", {"q": q[1], "k": k[1]}, "a multiple in q")


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
            raise ArgumentError("attention", f"{name} of the mask", mask.which.shape[axis], f"1 or {size}")
    return mask


def _heads(q: Tensor, k: Tensor, v: Tensor, bound: BoundMask, scale: float) -> Tensor:
    """Run one call where all heads share a pattern, else one for each pattern."""
    if len(bound.patterns) == 1:
        return _one(q, k, v, pattern=bound.patterns[0], scale=scale, rule=bound.rule)
    batch, heads = q.shape[:2]
    group = heads // k.shape[1]
    which = bound.which.expand(batch, heads).flatten()
    flat_q = q.flatten(0, 1)
    flat_k, flat_v = (x.repeat_interleave(group, 1).flatten(0, 1) for x in (k, v))
    parts, order = [], []
    for index, pattern in enumerate(bound.patterns):
        mine = (which == index).nonzero().flatten().to(q.device)
        parts.append(
            _one(flat_q[mine][None], flat_k[mine][None], flat_v[mine][None], pattern=pattern, scale=scale, rule="")[0]
        )
        order.append(mine)
    back = torch.cat(order).argsort()
    return torch.cat(parts)[back].reshape(batch, heads, q.shape[2], v.shape[3])


def _one(q: Tensor, k: Tensor, v: Tensor, *, pattern: Pattern, scale: float, rule: str) -> Tensor:
    at, columns, slots, insides = pattern.on(torch.device("cpu") if q.is_meta else q.device)
    # only gradients read the sums, and kernels of a GPU that keep them take longer
    recorded = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    sums = not q.is_cuda or recorded or is_compiling()
    return run(Attention(q, k, v, at, columns, slots, insides, scale, rule, sums))[0]


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask, *, scale: float | None, block: int) -> tuple[Tensor, Tensor]:
    """Return the attention of checked operands, and [..., Q, 1] the logarithm of each query's sum of exponentials."""
    shape, scale = q.shape[:-1], 1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else scale
    q, k, v = (x.reshape((1,) * (4 - x.ndim) + tuple(x.shape)) for x in (q, k, v))
    (pattern,) = _bound(mask, q, k, block).patterns
    at, columns, slots, insides = pattern.on(torch.device("cpu") if q.is_meta else q.device)
    output, logarithm = run(Attention(q, k, v, at, columns, slots, insides, scale))
    return output.reshape(*shape, -1), logarithm.reshape(*shape, 1)


@functools.cache
def _gpu() -> Any:
    """Return the module of what runs on a GPU."""
    from trnsparse.cuda import attention

    return attention


@op("trnsparse::attention")
class Attention(NamedTuple):
    """Attention over stored blocks; beside the output, the logarithm of each query's sum of exponentials."""

    q: Tensor  # [B, H, Q, D]
    k: Tensor  # [B, G, K, D]
    v: Tensor  # [B, G, K, E]
    indptr: Tensor  # [block rows + 1]
    indices: Tensor  # [blocks]
    slots: Tensor  # [blocks] index into insides, or -1
    insides: Tensor  # [distinct, block, block]
    scale: float
    rule: str = ""  # the mask's key as JSON; empty where it reads data
    sums: bool = True  # whether the logarithms are read; else they are empty

    @property
    def exact(self) -> torch.dtype:
        """The dtype of the sums."""
        return torch.float64 if self.q.dtype == torch.float64 else torch.float32

    def fake(self) -> tuple[Tensor, Tensor]:
        q = self.q
        sums = q.shape[:3] if self.sums else (0,)
        return q.new_empty((*q.shape[:3], self.v.shape[3])), q.new_empty(sums, dtype=self.exact)

    def cost(self) -> int:
        pairs = self.indices.shape[0] * self.insides.shape[1] ** 2
        return 2 * self.q.shape[0] * self.q.shape[1] * pairs * (self.q.shape[3] + self.v.shape[3])

    def limits(self, implementation: str) -> str | None:
        if implementation == "cuda":
            return self._cuda_limits()
        if implementation != "nki":
            return None
        if self.insides.shape[1] != P_MAX:
            return f"takes blocks of {P_MAX}, not {self.insides.shape[1]}"
        widest = max(self.q.shape[3], self.v.shape[3])
        if widest > 4 * P_MAX:
            return f"takes heads of up to {4 * P_MAX}, not {widest}"
        return only(self.q.dtype, KERNEL_DTYPES)

    def _cuda_limits(self) -> str | None:
        return cuda.why_no_triton(self.q.device) or _gpu().limits(self)

    def calls(self, implementation: str) -> str:
        return "torch scaled_dot_product_attention" if _gpu().flash(self) else "torch.nn.attention.flex_attention"

    def compiles(self) -> tuple[Hashable, float]:
        key = ("trnsparse.cuda.attention", self.rule, self.q.shape, self.k.shape, self.v.shape, self.q.dtype)
        return key, 0.0 if _gpu().flash(self) else 10.0

    def cuda(self) -> tuple[Tensor, Tensor]:
        result: tuple[Tensor, Tensor] = _gpu().attention(self)
        return result

    def pytorch(self) -> tuple[Tensor, Tensor]:
        out, lse = _forward(self, is_transformed())
        return out, self._read(lse)

    def _read(self, lse: Tensor) -> Tensor:
        return lse if self.sums else lse.new_empty(0)

    def nki(self) -> tuple[Tensor, Tensor]:
        return self._launch_kernel(*(tuple(x.tolist()) for x in (self.indptr, self.indices, self.slots)))

    def prediction(self) -> tuple[Tensor, Tensor]:
        pointers, columns = evenly(self.indices.shape[0], self.indptr.shape[0] - 1)
        return self._launch_kernel(tuple(pointers), tuple(columns), (-1,) * len(columns))

    def _launch_kernel(
        self, pointers: tuple[int, ...], columns: tuple[int, ...], slots: tuple[int, ...]
    ) -> tuple[Tensor, Tensor]:
        q, v = self.q, self.v
        if q.numel() == 0 or v.numel() == 0 or not columns:
            out, lse = self.fake()
            return out.zero_(), lse.fill_(-math.inf)
        if v.shape[3] == N_TILE:
            # the kernel sums weights in one more column of a bank of PSUM
            halves = [self._replace(v=part)._launch_kernel(pointers, columns, slots) for part in v.chunk(2, 3)]
            return torch.cat([out for out, _ in halves], 3), halves[0][1]
        # Torch multiplies 16-bit numbers in float32 and rounds once.
        qT, kT = (q * self.scale).flatten(0, 1).mT.contiguous(), self.k.flatten(0, 1).mT.contiguous()
        others = kT, v.flatten(0, 1).contiguous(), additive(self.insides, q.dtype)
        alone = lonely(pointers, slots, self.insides, q.shape[2])
        out, sums = _by_rows(qT, others, pointers=pointers, columns=columns, slots=slots, alone=alone)
        by_query = sums.mT.flatten(1)[:, : q.shape[2]].reshape(q.shape[:3])
        lse = torch.where(by_query < -FLOOR / 2, -math.inf, by_query)
        return out.reshape(*q.shape[:3], v.shape[3]), self._read(lse)

    def workspace(self, implementation: str) -> int:
        q, k, v = self.q, self.k, self.v
        size, block = q.element_size(), self.insides.shape[1]
        if implementation == "pytorch":
            # Rows of blocks before they are joined, the scores of one of them, and wider operands of half precision.
            longest = -(-self.indices.shape[0] // max(1, self.indptr.shape[0] - 1)) * block
            queries, wide = q.shape[0] * q.shape[1] * q.shape[2], max(size, 4 if q.is_cpu or q.is_meta else size)
            scores = queries // max(1, q.shape[2]) * min(block, q.shape[2]) * longest
            return wide * (queries * v.shape[3] + scores + (q.numel() + k.numel() + v.numel() if wide > size else 0))
        # Queries are scaled, then transposed; insides become numbers, are rounded and laid out.
        hidden = self.insides.numel() * (4 + 2 * (2 if q.dtype == torch.bfloat16 else 4))
        return max(2 * q.nbytes, q.nbytes + k.nbytes + hidden)

    # torch has the gradients of what `cuda` calls; of the definition they would fill whole heads per row of blocks
    @saves("q", "k", "v", "indptr", "indices", "slots", "insides", "scale", "rule", cuda=False, pytorch=True)
    def vjp(
        self, grad: tuple[Tensor, Tensor | None], needs: frozenset[str], result: tuple[Tensor, Tensor]
    ) -> dict[str, Tensor]:
        return dict(zip("qkv", backward(self, result, *grad), strict=True))


def _by_rows(
    qT: Tensor,
    others: tuple[Tensor, ...],
    *,
    pointers: tuple[int, ...],
    columns: tuple[int, ...],
    slots: tuple[int, ...],
    alone: bool,
) -> tuple[Tensor, Tensor]:
    """Launch the kernel for all rows of blocks, or for either half where that is too long a program."""
    options: dict[str, Any] = {"pointers": pointers, "columns": columns, "slots": slots, "lonely": alone}
    rows = len(pointers) - 1
    # fewer blocks than this are never too long
    few = programs.limits().instructions // 32
    if rows == 1 or len(columns) <= few or programs.fits(kernels.attention, (qT, *others), options):
        out, sums = launch(kernels.attention, qT, *others, **options)
        return out, sums
    halves = []
    for some in (slice(0, rows // 2), slice(rows // 2, rows)):
        starts = pointers[some.start : some.stop + 1]
        here = slice(starts[0], starts[-1])
        own = tuple(start - starts[0] for start in starts)
        queries = qT[..., some.start * P_MAX : some.stop * P_MAX].contiguous()
        halves.append(_by_rows(queries, others, pointers=own, columns=columns[here], slots=slots[here], alone=alone))
    return torch.cat([out for out, _ in halves], 1), torch.cat([sums for _, sums in halves], 2)


HIDDEN = -1e30
# Below this no score was kept: the kernel's own limit.
FLOOR = 1e25


def _forward(call: Attention, recorded: bool) -> tuple[Tensor, Tensor]:
    """Compute row by row of blocks; if ``recorded`` for gradients, scores may not become weights in place."""
    batch, heads, q_len, depth = call.q.shape
    insides, dtype, width = call.insides, call.q.dtype, call.v.shape[3]
    group, block = heads // max(call.k.shape[1], 1), insides.shape[1]
    work = torch.float32 if dtype in HALF and call.q.is_cpu else dtype
    q, k, v = call.q.to(work), call.k.to(work), call.v.to(work)
    grouped = q.reshape(batch, k.shape[1], group, q_len, depth)
    starts, columns, kinds = call.indptr.tolist(), call.indices.tolist(), call.slots.tolist()
    outs, sums = [], []
    for i in range(len(starts) - 1):
        span = range(starts[i], starts[i + 1])
        rows = grouped[:, :, :, i * block : (i + 1) * block]
        size = rows.shape[3]
        taken = [columns[p] for p in span]
        if not taken:
            outs.append(rows.new_zeros((*rows.shape[:4], width)))
            sums.append(rows.new_full(rows.shape[:4], -math.inf))
            continue
        keys, values = _columns(k, taken, block), _columns(v, taken, block)
        scores = (rows.flatten(2, 3) * call.scale) @ keys.mT
        scores = hide(scores.unflatten(2, (group, size)), span, kinds, insides, recorded=recorded).flatten(2, 3)
        weights, top, total = _exponentials(scores, recorded)
        result = (weights @ values) / torch.where(total == 0, 1.0, total)
        outs.append(result.reshape(batch, k.shape[1], group, size, width))
        sums.append((top + total.detach().log()).reshape(batch, k.shape[1], group, size))
    if not outs:
        nothing = q.sum() * 0 + k.sum() * 0 + v.sum() * 0
        out = (q.new_zeros((batch, heads, q_len, width)) + nothing).to(dtype)
        return out, q.new_zeros((batch, heads, q_len), dtype=call.exact)
    out = torch.cat(outs, 3).reshape(batch, heads, q_len, width)
    return out.to(dtype), torch.cat(sums, 3).reshape(batch, heads, q_len).to(call.exact)


def _exponentials(scores: Tensor, recorded: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return exponentials of scores less their query's largest, in place unless recorded; that largest, their sum."""
    top = scores.detach().amax(-1, keepdim=True)
    # A query that keeps nothing has no largest score; its sum is 0, and so is its result.
    top = torch.where(top == -math.inf, 0.0, top)
    weights = torch.exp(scores - top) if recorded else scores.sub_(top).exp_()
    return weights, top, weights.sum(-1, keepdim=True)


def _columns(x: Tensor, taken: list[int], block: int) -> Tensor:
    """Return blocks of keys or values side by side: a view where they follow each other."""
    if taken[-1] - taken[0] == len(taken) - 1:
        return x[:, :, taken[0] * block : (taken[-1] + 1) * block]
    return torch.cat([x[:, :, j * block : (j + 1) * block] for j in taken], 2)


def lonely(pointers: tuple[int, ...], slots: tuple[int, ...], insides: Tensor, q_len: int) -> bool:
    """Return whether some query keeps no key."""
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
    """Return insides of partial blocks as the kernel adds them to scores, [128, distinct * 128]; at least one."""
    kind = torch.bfloat16 if dtype == torch.bfloat16 else torch.float32
    if insides.shape[0] == 0:
        insides = insides.new_zeros((1, *insides.shape[1:]))
    hidden = torch.where(insides, 0.0, HIDDEN).to(kind)  # [distinct, q, k]
    return hidden.permute(1, 0, 2).reshape(insides.shape[1], -1).contiguous()
