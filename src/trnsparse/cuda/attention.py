"""Attention on a GPU: flash attention where everything or the causal half is kept, FlexAttention for other masks.

A mask becomes FlexAttention's block mask: its empty blocks are skipped, its full ones not masked, and inside partial
ones a ``mask_mod`` decides, arithmetic for rules that read no data, a table of the distinct insides for the others.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, flex_attention

if TYPE_CHECKING:
    from trnsparse.attention import Attention

Keeps = Callable[[Any, Any, Any, Any], Any]
FULL, CAUSAL = json.dumps(["_Full"]), json.dumps(["_Distance", 0, math.inf])


def attention(call: Attention) -> tuple[Tensor, Tensor]:
    """The output, and the logarithm of each query's sum of exponentials."""
    if flash(call):
        group = call.q.shape[1] // call.k.shape[1]
        k, v = (x if group == 1 else x.repeat_interleave(group, 1) for x in (call.k, call.v))
        return _whole(call.q, k, v, call.rule == CAUSAL, call.scale)
    lengths = call.q.shape[2], call.k.shape[2]
    mask = _block_mask(call, lengths)
    shapes = tuple((tuple(x.shape), tuple(x.stride()), x.requires_grad) for x in (call.q, call.k, call.v))
    compiled = _compiled((call.rule, shapes, call.q.dtype, call.q.device, call.scale, torch.is_grad_enabled()))
    out, lse = compiled(call.q, call.k, call.v, mask, call.scale, call.q.shape[1] != call.k.shape[1])
    return out, lse


def _whole(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """Everything, or the causal half, by what ``scaled_dot_product_attention`` would call, with the sums it keeps."""
    ops = torch.ops.aten
    if torch._fused_sdp_choice(q, k, v, None, 0.0, causal, scale=scale) == SDPBackend.CUDNN_ATTENTION.value:
        made = ops._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, causal, False, scale=scale)
    else:
        made = ops._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False, scale=scale)
    return made[0], made[1].reshape(q.shape[:3])


def flash(call: Attention) -> bool:
    """Whether torch's own attention computes this mask."""
    q, v = call.q, call.v
    whole = call.rule == FULL or (call.rule == CAUSAL and q.shape[2] == call.k.shape[2])
    half = q.dtype in (torch.bfloat16, torch.float16)
    return whole and half and q.shape[3] == v.shape[3] and q.shape[3] % 8 == 0 and q.shape[3] <= 256


@functools.lru_cache(maxsize=128)
def _compiled(key: Any) -> Callable[..., tuple[Tensor, Tensor]]:
    """FlexAttention compiled for one mask and shape, and kept.

    It has a code object of its own: torch counts compilations by those, and stops compiling after a few.
    """

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: BlockMask, scale: float, grouped: bool) -> tuple[Tensor, Tensor]:
        wanted = AuxRequest(lse=True)
        out, extra = flex_attention(q, k, v, None, mask, scale, grouped, return_aux=wanted)
        return out, extra.lse

    attend.__code__ = attend.__code__.replace()
    made: Callable[..., tuple[Tensor, Tensor]] = torch.compile(attend, dynamic=False, fullgraph=True)
    return made


# By the id of the index tensor, as long as that lives.
_MASKS: dict[int, tuple[Any, tuple[Any, ...], BlockMask]] = {}


def _block_mask(call: Attention, lengths: tuple[int, int]) -> BlockMask:
    """The block mask of a pattern, made once."""
    key, state = id(call.indices), (call.rule, lengths, call.indices._version)
    known = _MASKS.get(key)
    if known is None or known[0]() is not call.indices or known[1] != state:
        made = block_mask(call.indptr, call.indices, call.slots, call.insides, call.rule, lengths)
        known = _MASKS[key] = (ref(call.indices, lambda _: _MASKS.pop(key, None)), state, made)
    return known[2]


def block_mask(
    indptr: Tensor, indices: Tensor, slots: Tensor, insides: Tensor, rule: str, lengths: tuple[int, int]
) -> BlockMask:
    """FlexAttention's form of stored blocks; ``rule`` is the mask's key, or empty where it reads data."""
    rows, block = indptr.shape[0] - 1, insides.shape[1]
    columns = -(-lengths[1] // block)
    row = torch.repeat_interleave(torch.arange(rows, device=indices.device), indptr.diff())
    grid = torch.full((rows, columns), -2, dtype=torch.int64, device=indices.device)
    grid[row, indices] = slots
    partial, full = (_listed(kept) for kept in (grid >= 0, grid == -1))
    keeps = by_rule(json.loads(rule)) if rule else _by_table(grid, insides, block)
    return BlockMask.from_kv_blocks(*partial, *full, BLOCK_SIZE=block, mask_mod=keeps, seq_lengths=lengths)


def _listed(kept: Tensor) -> tuple[Tensor, Tensor]:
    """How many blocks each row keeps, and which come first: [1, 1, rows] and [1, 1, rows, columns]."""
    order = torch.argsort(kept.to(torch.int8), dim=1, descending=True, stable=True)
    return kept.sum(1).to(torch.int32)[None, None], order.to(torch.int32)[None, None].contiguous()


def by_rule(rule: Sequence[Any]) -> Keeps:
    """A ``mask_mod`` from a mask's key (`trnsparse.Mask.key`): one flat expression, cheap to guard."""
    made: Keeps = eval(f"lambda b, h, q, k: {_expression(rule)}", {})
    return made


def _expression(rule: Sequence[Any]) -> str:
    kind = rule[0]
    if kind == "_Full":
        return "(q >= 0)"
    if kind == "_Sink":
        return f"(k < {int(rule[1])})"
    if kind == "_Distance":
        ends = ((">=", rule[1]), ("<=", rule[2]))
        parts = [f"(q - k {sign} {int(end)})" for sign, end in ends if math.isfinite(end)]
        return f"({' & '.join(parts)})" if parts else "(q >= 0)"
    if kind == "_Not":
        return f"(~{_expression(rule[1])})"
    sign = {"_Both": "&", "_Either": "|"}[kind]
    return f"({_expression(rule[1])} {sign} {_expression(rule[2])})"


def _by_table(grid: Tensor, insides: Tensor, block: int) -> Keeps:
    """A ``mask_mod`` that looks pairs up: the number of a block's inside, then the pair in it."""
    shape = (1, block, block)
    whole = torch.cat([insides, insides.new_ones(shape), insides.new_zeros(shape)])
    # full blocks, then empty ones
    numbers = torch.where(grid < 0, len(insides) - 1 - grid, grid).to(torch.int32)

    def keeps(b: Any, h: Any, q: Any, k: Any) -> Any:
        return whole[numbers[q // block, k // block], q % block, k % block]

    return keeps


def limits(call: Attention) -> str | None:
    """Why neither takes a call."""
    q, k, v, block = call.q, call.k, call.v, call.insides.shape[1]
    if q.dtype not in (torch.bfloat16, torch.float16, torch.float32):
        return f"takes bfloat16, float16 and float32, not {str(q.dtype).removeprefix('torch.')}"
    if 0 in (*q.shape, *k.shape, *v.shape) or not call.indices.shape[0]:
        return "there is nothing to attend to"
    if flash(call):
        return None
    if block != 128:
        return f"FlexAttention takes blocks of 128 here, not {block}"
    if not all(16 <= x.shape[3] <= 256 for x in (q, v)):
        return f"FlexAttention takes heads of 16 to 256, not {q.shape[3]} and {v.shape[3]}"
    if q.shape[2] < 128:
        return f"FlexAttention pays from 128 queries on, not for {q.shape[2]}"
    return None
