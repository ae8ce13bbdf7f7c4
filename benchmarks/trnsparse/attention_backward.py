"""Gradients of block-sparse attention beside those of dense attention."""

import ml_dtypes
import numpy as np
import torch

import trnsparse
from benchmarks.registry import Bench, Case, Kernel, Peer
from trnsparse.kernels import attention_backward as kernels


def _gradient(attend, q, k, v, *more):
    operands = [x.detach().requires_grad_() for x in (q, k, v)]
    return torch.cat([g.flatten() for g in torch.autograd.grad(attend(*operands, *more).sum(), operands)])


def _inputs():
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(1, 2, 4096, 64, generator=generator) for _ in range(3))


def _rows(pattern):
    rows: list[list[tuple[int, int]]] = [[] for _ in range(pattern.indptr.numel() - 1)]
    for i in range(len(rows)):
        for p in range(int(pattern.indptr[i]), int(pattern.indptr[i + 1])):
            rows[i].append((int(pattern.indices[p]), int(pattern.slots[p])))
    return {"pattern": tuple(map(tuple, rows))}


def _kernel(name: str, mask: trnsparse.Mask, n: int, d: int = 128) -> Kernel:
    pattern = mask.bind(n).patterns[0]
    kind = ml_dtypes.bfloat16
    turned, rows, sums = (1, d, n), (1, n, d), (1, 128, n // 128)
    return Kernel(
        name=f"1 head, {n}x{d}, {name} bfloat16",
        kernel=kernels.attention_backward,
        inputs=lambda: (
            *(np.zeros(turned, kind) for _ in range(4)),
            *(np.zeros(rows, kind) for _ in range(3)),
            *(np.zeros(sums, np.float32) for _ in range(2)),
            np.zeros((128, 128 * max(1, pattern.insides.shape[0])), kind),
        ),
        options=_rows(pattern),
    )


BENCH = Bench(
    op="trnsparse.attention_backward",
    run=lambda q, k, v: _gradient(trnsparse.attention, q, k, v, trnsparse.window(512)),
    tests="tests/trnsparse/test_attention_backward.py",
    slower="uses FlexAttention's gradient in float32; SDPA's kernel multiplies every block and still takes less time",
    cases=(
        Case(
            name="2 heads, 4096x64, window 512 float32",
            inputs=_inputs,
            flops=14 * 2 * 268 * 128 * 128 * 64,
            bytes=28 * 2 * 4096 * 64,
        ),
    ),
    peers=(
        Peer(
            name="dense SDPA with the mask",
            prepare=lambda q, k, v: (q, k, v, trnsparse.window(512).dense(4096).to(q.device)),
            run=lambda q, k, v, kept: _gradient(
                lambda *x: torch.nn.functional.scaled_dot_product_attention(*x, attn_mask=kept), q, k, v
            ),
        ),
    ),
    kernels=(
        _kernel("window 512", trnsparse.window(512), 2048),
        _kernel("window 512", trnsparse.window(512), 4096),
        _kernel("everything", trnsparse.full(), 4096),
    ),
)
