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


def _pairs(pattern):
    rows: list[list[tuple[int, int]]] = [[] for _ in range(pattern.indptr.numel() - 1)]
    columns: list[list[tuple[int, int]]] = [[] for _ in rows]
    for i in range(len(rows)):
        for p in range(int(pattern.indptr[i]), int(pattern.indptr[i + 1])):
            j, slot = int(pattern.indices[p]), int(pattern.slots[p])
            rows[i].append((j, slot))
            columns[j].append((i, slot))
    return {"pattern": tuple(map(tuple, rows)), "turned": tuple(map(tuple, columns))}


_WINDOW = trnsparse.window(512).bind(2048).patterns[0]


def _arrays():
    kind, n, d = ml_dtypes.bfloat16, 2048, 128
    turned, rows, sums = (1, d, n), (1, n, d), (1, 128, n // 128)
    return (
        *(np.empty(turned, kind) for _ in range(4)),
        *(np.empty(rows, kind) for _ in range(3)),
        *(np.empty(sums, np.float32) for _ in range(2)),
        np.empty((128, 128 * _WINDOW.insides.shape[0]), kind),
    )


BENCH = Bench(
    op="trnsparse.attention_backward",
    run=lambda q, k, v: _gradient(trnsparse.attention, q, k, v, trnsparse.window(512)),
    tests="tests/trnsparse/test_attention_backward.py",
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
            prepare=lambda q, k, v: (q, k, v, trnsparse.window(512).dense(4096)),
            run=lambda q, k, v, kept: _gradient(
                lambda *x: torch.nn.functional.scaled_dot_product_attention(*x, attn_mask=kept), q, k, v
            ),
        ),
    ),
    kernels=(
        Kernel(
            name="1 head, 2048x128, window 512 bfloat16",
            kernel=kernels.attention_backward,
            inputs=_arrays,
            options=_pairs(_WINDOW),
        ),
    ),
)
