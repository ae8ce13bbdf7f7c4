"""Block-sparse attention: a causal window and a few sink tokens, without ever making the score matrix.

The answer is compared with PyTorch's dense scaled_dot_product_attention in float64 under the same mask.

    python examples/science/sparse_attention.py --tokens 512
"""

import argparse
import sys

import numpy as np
import torch
import torch.nn.functional as F

import trnsci
import trnsparse


def attended(q, k, v, width, sinks):
    """Let every query see ``width`` keys behind it and the first ``sinks``; key heads may be fewer than query heads."""
    mask = trnsparse.causal() & (trnsparse.window(width) | trnsparse.sink(sinks))
    bound = mask.bind(q.shape[-2])
    return trnsparse.attention(q, k, v, bound), bound


def dense(q, k, v, width, sinks):
    """Return the same from all the scores, in float64, and the largest of them."""
    q, k, v = q.double(), k.double(), v.double()
    tokens, group = q.shape[-2], q.shape[1] // k.shape[1]
    here, there = torch.arange(tokens)[:, None], torch.arange(tokens)[None, :]
    keep = (there <= here) & ((here - there <= width) | (there < sinks))
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    largest = float((q @ k.mT).abs().max()) / q.shape[-1] ** 0.5
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep), largest


def main(argv=None):
    """Attend, compare, and return 0 when the error is within its bound."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=("auto", "nki", "simulator", "pytorch"), default="auto")
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--width", type=int, default=100, help="keys behind each query that it sees")
    parser.add_argument("--sinks", type=int, default=4, help="first keys that every query sees")
    args = parser.parse_args(argv)

    heads, key_heads, depth = 4, 2, 64
    rng = np.random.default_rng(2027)
    q, k, v = (
        torch.from_numpy(rng.standard_normal((1, h, args.tokens, depth))).float() for h in (heads, key_heads, key_heads)
    )
    with trnsci.backend(args.backend):
        result, mask = attended(q, k, v, args.width, args.sinks)
    oracle, largest = dense(q, k, v, args.width, args.sinks)
    error = float((result.double() - oracle).abs().max())
    # the bound trnsparse.attention states: g(2 D + 2 K + 8) (1 + 2 s) max|v|
    terms = (2 * depth + 2 * args.tokens + 8) * 2.0**-24
    bound = terms / (1 - terms) * (1 + 2 * largest) * float(v.abs().max())
    passed = error <= bound
    print(f"{heads} heads, {key_heads} key heads, {args.tokens} tokens")
    print(mask)
    print(f"error {error:.1e}, bound {bound:.1e}")
    print("passed" if passed else "FAILED")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
