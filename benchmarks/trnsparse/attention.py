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
        return (*(torch.randn(1, heads, length, depth, generator=generator) for _ in range(3)), trnsparse.window(width))

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
            np.zeros((heads, depth, length), kind),
            np.zeros((heads, depth, length), kind),
            np.zeros((heads, length, depth), kind),
            np.zeros((128, hidden), kind),
        ),
        options={
            "pointers": tuple(pattern.indptr.tolist()),
            "columns": tuple(pattern.indices.tolist()),
            "slots": tuple(pattern.slots.tolist()),
            "lonely": False,
        },
    )


def _half(name: str, mask: trnsparse.Mask) -> Case:
    shape, pairs = (1, 8, 8192, 64), mask.bind(8192).patterns[0].indices.numel() * 128 * 128

    def inputs():
        generator = torch.Generator().manual_seed(0)
        return (*(torch.randn(shape, generator=generator).bfloat16() for _ in range(3)), mask)

    return Case(
        name=f"8 heads, 8192x64, {name} bfloat16",
        inputs=inputs,
        flops=4 * 8 * pairs * 64,
        bytes=8 * 8 * 8192 * 64,
        devices=("cuda",),
    )


def _by_torch(q, k, v, mask):
    """SDPA where it has the mask, else FlexAttention compiled for it."""
    if repr(mask) in ("full()", "causal()"):
        causal = repr(mask) == "causal()"
        return lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def near(b, h, i, j):
        return (i >= j) & (i - j <= 512) if "causal" in repr(mask) else (i - j).abs() <= 512

    blocks = create_block_mask(near, None, None, q.shape[2], k.shape[2], device=q.device)
    compiled = torch.compile(flex_attention)
    return lambda q, k, v: compiled(q, k, v, block_mask=blocks)


BENCH = Bench(
    op="trnsparse.attention",
    run=lambda q, k, v, mask: trnsparse.attention(q, k, v, mask),
    tests="tests/trnsparse/test_attention.py",
    slower="checks the operands and looks the mask up on the host",
    cases=(
        _case(2, 8192, 64, 512),
        _half("full", trnsparse.full()),
        _half("causal", trnsparse.causal()),
        _half("causal, window 512", trnsparse.causal() & trnsparse.window(512)),
    ),
    peers=(
        Peer(
            name="dense SDPA with the mask",
            prepare=lambda q, k, v, mask: (q, k, v, mask.dense(q.shape[2])),
            run=_dense,
            devices=("cpu",),
        ),
        Peer(
            name="SDPA or compiled FlexAttention",
            prepare=lambda q, k, v, mask: (q, k, v, _by_torch(q, k, v, mask)),
            run=lambda q, k, v, attend: attend(q, k, v),
            devices=("cuda",),
        ),
    ),
    tolerance=1e-2,
    kernels=(
        _kernel("everything", trnsparse.full(), 1),
        _kernel("window 512", trnsparse.window(512), 1),
        _kernel("causal window 512", trnsparse.causal() & trnsparse.window(512), 1),
    ),
    notes="The two triangles at the ends of a window cost whole blocks: 9 blocks per row for 1025 keys.",
)
