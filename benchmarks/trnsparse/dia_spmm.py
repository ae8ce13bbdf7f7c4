"""Products along diagonals beside SciPy's compressed rows and diagonals."""

import numpy as np
import scipy.sparse
import torch

import trnsparse
from benchmarks.registry import Bench, Case, Kernel, Peer
from trnsparse.kernels import dia_spmm as kernels


def _offsets(*sizes: int) -> tuple[int, ...]:
    """Diagonals of the stencil of a grid."""
    steps = [int(np.prod(sizes[:axis])) for axis in range(len(sizes))]
    return tuple(sorted({0, *steps, *(-step for step in steps)}))


def _case(*sizes: int) -> Case:
    rows, offsets = int(np.prod(sizes)), _offsets(*sizes)

    def inputs():
        diagonals = [np.full(rows, 1.0 + abs(offset), np.float32) for offset in offsets]
        matrix = scipy.sparse.dia_array((np.array(diagonals), offsets), shape=(rows, rows))
        return trnsparse.CSRMatrix.from_scipy(matrix.tocsr()), torch.ones(rows)

    name = f"stencil of {'x'.join(map(str, sizes))} float32"
    return Case(name=name, inputs=inputs, flops=2 * rows * len(offsets), bytes=4 * rows * (len(offsets) + 2))


def _kernel(n: int, *sizes: int) -> Kernel:
    rows, offsets = int(np.prod(sizes)), _offsets(*sizes)
    return Kernel(
        name=f"stencil of {'x'.join(map(str, sizes))} x {n} float32",
        kernel=kernels.dia_spmm,
        inputs=lambda: (
            np.broadcast_to(np.float32(0), (len(offsets), rows)),
            np.broadcast_to(np.float32(0), (rows, n)),
        ),
        options={"rows": rows, "offsets": offsets},
    )


BENCH = Bench(
    op="trnsparse.dia_spmm",
    run=lambda a, x: a @ x,
    tests="tests/trnsparse/test_routes.py",
    cases=(_case(300, 300), _case(50, 50, 50)),
    peers=(
        Peer(
            name="scipy",
            requires="scipy",
            devices=("cpu",),
            prepare=lambda a, x: (a.to_scipy(), x.numpy()),
            run=lambda a, x: torch.from_numpy(a @ x),
        ),
    ),
    kernels=(
        _kernel(1, 1000, 1000),
        _kernel(1, 100, 100, 100),
        _kernel(8, 316, 316),
        _kernel(64, 316, 316),
    ),
)
