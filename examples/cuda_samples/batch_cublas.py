"""Many small matrix products: one call each, one batched call, and one grouped call for mixed shapes.

The counterpart of CUDA's batchCUBLAS sample. Answers are compared with NumPy in float64, within the bound gemm states.

    python examples/cuda_samples/batch_cublas.py --count 16 --size 64
"""

import argparse
import sys

import numpy as np
import torch

import trnblas
import trnsci

ALPHA, BETA = 1.25, -0.5


def one_by_one(a, b, c):
    """Make a call for each product."""
    return torch.stack([trnblas.gemm(ALPHA, a[i], b[i], BETA, c[i]) for i in range(len(a))])


def batched(a, b, c):
    """Make one call for all: leading axes are a batch."""
    return trnblas.gemm(ALPHA, a, b, BETA, c)


def grouped(a, b, c):
    """Make one call for products of different shapes: here product i keeps only its first n - i rows."""
    rows = [len(one) - i % len(one) for i, one in enumerate(a)]
    return trnblas.grouped_gemm(
        ALPHA,
        [x[:m] for x, m in zip(a, rows, strict=True)],
        list(b),
        BETA,
        [x[:m] for x, m in zip(c, rows, strict=True)],
    )


def worst(results, a, b, c):
    """Return the largest error of any element, as a multiple of the bound gemm states for it."""
    largest = 0.0
    for result, x, y, z in zip(results, a, b, c, strict=True):
        x, y, z = (each.double().numpy() for each in (x, y, z))
        rows = len(result)
        error = np.abs(result.double().numpy() - (ALPHA * (x @ y) + BETA * z)[:rows])
        scale = (abs(ALPHA) * (np.abs(x) @ np.abs(y)) + abs(BETA) * np.abs(z))[:rows]
        # alpha, beta and the addition round too: two terms more than the K of the product
        bound = trnblas.error_bound(x.shape[1] + 2, result.dtype) * scale
        largest = max(largest, float((error / bound).max()))
    return largest


def main(argv=None):
    """Multiply, compare, and return 0 when every error is within its bound."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=("auto", "nki", "simulator", "pytorch"), default="auto")
    parser.add_argument("--count", type=int, default=16, help="products")
    parser.add_argument("--size", type=int, default=64, help="rows and columns of each matrix")
    args = parser.parse_args(argv)

    passed = True
    for dtype in (torch.float32, torch.float64):
        rng = np.random.default_rng(2027)
        a, b, c = torch.from_numpy(rng.standard_normal((3, args.count, args.size, args.size))).to(dtype)
        print(f"{args.count} products of {args.size}x{args.size}, {str(dtype).removeprefix('torch.')}")
        for run in (one_by_one, batched, grouped):
            with trnsci.backend(args.backend), trnsci.ledger() as book:
                results = run(a, b, c)
            calls = sum(entry.depth == 0 for entry in book)
            ratio = worst(results, a, b, c)
            passed &= ratio <= 1
            plural = "s" if calls > 1 else " "
            print(f"  {run.__name__:<10} {calls:>2} call{plural}  largest error / bound {ratio:.1e} (at most 1)")
    print("passed" if passed else "FAILED")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
