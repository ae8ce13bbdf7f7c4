"""Block-sparse attention beside dense attention of torch."""

import ml_dtypes
import numpy as np
import torch

import trnsparse
from benchmarks.registry import Bench, Case, Kernel, Peer
from trnsparse.kernels import attention as kernels


def _case(heads: int, length: int, depth: int, width: int) -> Case:
    bound = trnsparse.window(width).bind(length)
    pairs = bound.patterns[0].indices.numel() * 128 * 128

    def inputs():
        generator = torch.Generator().manual_seed(0)
        return (*(torch.randn(1, heads, length, depth, generator=generator) for _ in range(3)), width)

    return Case(
        name=f"{heads} heads, {length}x{depth}, window {width} float32",
        inputs=inputs,
        flops=4 * heads * pairs * depth,
        bytes=16 * heads * length * depth,
    )


def _dense(q, k, v, kept):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=kept)


def _kernel(name: str, mask: trnsparse.Mask, heads: int, length: int = 4096, depth: int = 128) -> Kernel:
    pattern = mask.bind(length).patterns[0]
    kind = ml_dtypes.bfloat16
    hidden = max(1, pattern.insides.shape[0]) * 128
    return Kernel(
        name=f"{heads} heads, {length}x{depth}, {name} bfloat16",
        kernel=kernels.attention,
        inputs=lambda: (
            np.empty((heads, depth, length), kind),
            np.empty((heads, depth, length), kind),
            np.empty((heads, length, depth), kind),
            np.empty((128, hidden), kind),
        ),
        options={
            "pointers": tuple(pattern.indptr.tolist()),
            "columns": tuple(pattern.indices.tolist()),
            "slots": tuple(pattern.slots.tolist()),
            "lonely": False,
        },
    )


BENCH = Bench(
    op="trnsparse.attention",
    run=lambda q, k, v, width: trnsparse.attention(q, k, v, trnsparse.window(width)),
    tests="tests/trnsparse/test_attention.py",
    cases=(_case(2, 8192, 64, 512),),
    peers=(
        Peer(
            name="dense SDPA with the mask",
            prepare=lambda q, k, v, width: (q, k, v, trnsparse.window(width).dense(q.shape[2])),
            run=_dense,
        ),
    ),
    kernels=(
        _kernel("everything", trnsparse.full(), 1),
        _kernel("window 512", trnsparse.window(512), 1),
        _kernel("causal window 512", trnsparse.causal() & trnsparse.window(512), 1),
    ),
    notes="The two triangles at the ends of a window cost whole blocks: 9 blocks a row for 1025 keys.",
)
