"""Conjugate gradients beside SciPy."""

import numpy as np
import torch

import trnsparse
from benchmarks.registry import Bench, Case, Kernel, Peer
from trnsparse.kernels import iterate as kernels


def _inputs():
    n = 4096
    index = torch.arange(n)
    row = torch.cat([index, index[1:], index[:-1]])
    col = torch.cat([index, index[:-1], index[1:]])
    values = torch.cat([torch.full((n,), 2.1), torch.full((2 * n - 2,), -1.0)])
    a = trnsparse.COOMatrix(row, col, values, (n, n)).to_csr()
    return a, torch.randn(n, generator=torch.Generator().manual_seed(0))


def _scipy(a, b):
    from scipy.sparse.linalg import cg

    return torch.from_numpy(cg(a, b, rtol=1e-5)[0])


def _diagonals(*sizes: int) -> Kernel:
    """Four steps with the stencil of a grid."""
    rows, run = int(np.prod(sizes)), -(-int(np.prod(sizes)) // 128)
    steps = [int(np.prod(sizes[:axis])) for axis in range(len(sizes))]
    offsets = tuple(sorted({0, *steps, *(-step for step in steps)}))

    def zeros(*shape):
        return np.broadcast_to(np.float32(0), shape)

    return Kernel(
        name=f"cg, 4 steps, stencil of {'x'.join(map(str, sizes))}, {rows} rows float32",
        kernel=kernels.iterate,
        inputs=lambda: (
            zeros(len(offsets), 128 * run),
            *(zeros(128, run) for _ in range(3)),
            zeros(128, 8),
        ),
        options={"steps": 4, "method": "cg", "offsets": offsets},
        targets=("trn2", "trn3"),
    )


BENCH = Bench(
    op="trnsparse.iterate",
    run=lambda a, b: trnsparse.cg(a, b, tol=1e-5).x,
    tests="tests/trnsparse/test_iterate.py",
    cases=(Case(name="cg, tridiagonal 4096 float32", inputs=_inputs, flops=64 * 6 * 4096, bytes=64 * 12 * 3 * 4096),),
    peers=(
        Peer(
            name="scipy cg",
            requires="scipy",
            devices=("cpu",),
            prepare=lambda a, b: (a.to_scipy(), b.numpy()),
            run=_scipy,
        ),
    ),
    kernels=(
        *tuple(
            Kernel(
                name=f"{method}, 16 steps, 2048 with 46 blocks float32",
                kernel=kernels.iterate,
                inputs=lambda: (
                    np.zeros((128, 46 * 128), np.float32),
                    *(np.zeros((128, 16), np.float32) for _ in range(3)),
                    np.zeros((128, 32), np.float32),
                ),
                options={
                    "steps": 16,
                    "method": method,
                    "pointers": (0, *range(2, 45, 3), 46),
                    "columns": tuple(j for i in range(16) for j in (i - 1, i, i + 1) if 0 <= j < 16),
                },
            )
            for method in ("cg", "fixed", "power")
        ),
        _diagonals(100, 100),
        _diagonals(1000, 1000),
        _diagonals(100, 100, 100),
    ),
    tolerance=1e-3,
    notes="On the host a step is a product by SciPy and vector operations, until the tolerance is reached. Ours also "
    "refuses numbers that are not finite, scales so that squares stay in range, and computes the last residual itself.",
)
