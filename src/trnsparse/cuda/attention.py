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

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from trnsci import cuda
from trnsci.torch_internals import fused_sdp_choice
from trnsparse.scipy_views import Beside

if TYPE_CHECKING:
    from trnsparse.attention import Attention

Keeps = Callable[[Any, Any, Any, Any], Any]
HALF = (torch.bfloat16, torch.float16)
FULL, CAUSAL = (json.dumps(["_Distance", low, math.inf]) for low in (-math.inf, 0))


@functools.cache
def _unread(device: torch.device) -> Tensor:
    return torch.empty(0, device=device, dtype=torch.float32)


def attention(call: Attention) -> tuple[Tensor, Tensor]:
    """Return the output, and the logarithm of each query's sum of exponentials, empty where it is not read."""
    out, *sums = _attend_to(call)
    return out, sums[0] if sums else _unread(out.device)


def _attend_to(call: Attention) -> Sequence[Tensor]:
    q, k, v = call.q, call.k, call.v
    if flash(call):
        group = q.shape[1] // k.shape[1]
        if group > 1:
            k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        return _whole(q, k, v, call.rule == CAUSAL, call.scale, call.sums)
    recorded = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    return _mask(call).attend(call, recorded)


def _whole(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float, sums: bool) -> Sequence[Tensor]:
    """Attend to everything, or the causal half; kernels that keep the sums take a tenth longer."""
    if not sums:
        return [scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)]
    ops = torch.ops.aten
    if fused_sdp_choice(q, k, v, None, 0.0, causal, scale=scale) == SDPBackend.CUDNN_ATTENTION.value:
        results = ops._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, causal, False, scale=scale)
    else:
        results = ops._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False, scale=scale)
    return results[0], results[1].reshape(q.shape[:3])


def flash(call: Attention) -> bool:
    """Return whether torch's own attention computes this mask."""
    q, v, rule = call.q, call.v, call.rule
    if rule != FULL and (rule != CAUSAL or q.shape[2] != call.k.shape[2]):
        return False
    return q.dtype in HALF and q.shape[3] == v.shape[3] and q.shape[3] % 8 == 0 and q.shape[3] <= 256


def _key(call: Attention) -> tuple[Any, ...]:
    """Return what a compiled function depends on beside its mask."""
    q, k, v = call.q, call.k, call.v
    return q.shape, k.shape, v.shape, q.stride(), k.stride(), v.stride(), q.dtype, q.device, call.scale, call.sums


class _Mask:
    """The block mask of a pattern, and what was compiled for it."""

    def __init__(self, call: Attention) -> None:
        lengths = call.q.shape[2], call.k.shape[2]
        self.blocks = block_mask(call.indptr, call.indices, call.slots, call.insides, call.rule, lengths)
        self._kept: dict[Any, Callable[..., Sequence[Tensor]]] = {}

    def attend(self, call: Attention, recorded: bool) -> Sequence[Tensor]:
        """Return the results of a call; if ``recorded``, by torch's own function, which has a gradient."""
        key = (_key(call), recorded)
        known = self._kept.get(key)
        if known is None:
            function = self._function(call)
            known = self._kept[key] = (
                torch.compile(cuda.own(function), dynamic=False, fullgraph=True)
                if recorded
                else functools.partial(cuda.Compiled(function, dynamic=False), None)
            )
        return known(call.q, call.k, call.v)

    def _function(self, call: Attention) -> Callable[..., list[Tensor]]:
        blocks, scale, grouped, sums = self.blocks, call.scale, call.q.shape[1] != call.k.shape[1], call.sums

        def attend(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
            if not sums:
                return [flex_attention(q, k, v, None, blocks, scale, grouped)]
            out, extra = flex_attention(q, k, v, None, blocks, scale, grouped, return_aux=AuxRequest(lse=True))
            return [out, extra.lse]

        return attend


_MASKS: Beside[_Mask] = Beside()


def _mask(call: Attention) -> _Mask:
    """Return the mask of a call, built once."""
    state = call.rule, call.q.shape[2], call.k.shape[2]
    return _MASKS.get(call.indptr, call.indices, state, lambda: _Mask(call))


def block_mask(
    indptr: Tensor, indices: Tensor, slots: Tensor, insides: Tensor, rule: str, lengths: tuple[int, int]
) -> BlockMask:
    """Return FlexAttention's form of stored blocks; ``rule`` is the mask's key, or empty where it reads data."""
    rows, block = indptr.shape[0] - 1, insides.shape[1]
    columns = -(-lengths[1] // block)
    row = torch.repeat_interleave(torch.arange(rows, device=indices.device), indptr.diff())
    grid = torch.full((rows, columns), -2, dtype=torch.int64, device=indices.device)
    grid[row, indices] = slots
    partial, full = (_list_blocks(kept) for kept in (grid >= 0, grid == -1))
    keeps = by_rule(json.loads(rule)) if rule else _by_table(grid, insides, block)
    return BlockMask.from_kv_blocks(*partial, *full, BLOCK_SIZE=block, mask_mod=keeps, seq_lengths=lengths)


def _list_blocks(kept: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many blocks each row keeps, and which come first: [1, 1, rows] and [1, 1, rows, columns]."""
    order = torch.argsort(kept.to(torch.int8), dim=1, descending=True, stable=True)
    return kept.sum(1).to(torch.int32)[None, None], order.to(torch.int32)[None, None].contiguous()


def by_rule(rule: Sequence[Any]) -> Keeps:
    """Return a ``mask_mod`` from a mask's key (`trnsparse.Mask.key`): one flat expression, cheap to guard."""
    return eval(f"lambda b, h, q, k: {_expression(rule)}", {})  # type: ignore[no-any-return]


def _expression(rule: Sequence[Any]) -> str:
    kind = rule[0]
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
    """Return a ``mask_mod`` that looks pairs up: the index of a block's inside, then the pair in it."""
    shape = (1, block, block)
    whole = torch.cat([insides, insides.new_ones(shape), insides.new_zeros(shape)])
    # full blocks, then empty ones
    inside_of = torch.where(grid < 0, len(insides) - 1 - grid, grid).to(torch.int32)

    def keeps(b: Any, h: Any, q: Any, k: Any) -> Any:
        return whole[inside_of[q // block, k // block], q % block, k % block]

    return keeps


def limits(call: Attention) -> str | None:
    """Return why neither can run a call."""
    q, k, v, block = call.q, call.k, call.v, call.insides.shape[1]
    if q.dtype not in (torch.bfloat16, torch.float16, torch.float32):
        return f"takes bfloat16, float16 and float32, not {str(q.dtype).removeprefix('torch.')}"
    if not (q.numel() and k.numel() and v.numel() and call.indices.shape[0]):
        return "there is nothing to attend to"
    if flash(call):
        return None
    if block != 128:
        return f"FlexAttention takes blocks of 128 here, not {block}"
    if min(q.shape[3], v.shape[3]) < 16 or max(q.shape[3], v.shape[3]) > 256:
        return f"FlexAttention takes heads of 16 to 256, not {q.shape[3]} and {v.shape[3]}"
    if q.shape[2] < 128:
        return f"FlexAttention pays from 128 queries on, not for {q.shape[2]}"
    return None
