"""``trnsolver.expm`` beside torch and SciPy. On chip it runs the kernels of `trnblas.gemm` and `lu`."""

from __future__ import annotations

import scipy.linalg
import torch

from benchmarks.registry import Bench, Case, Peer
from trnsci.testing import gaussian
from trnsolver import expm


def _case(n: int, dtype: torch.dtype = torch.float64) -> Case:
    def inputs() -> tuple[torch.Tensor, ...]:
        return (gaussian((n, n), 1, dtype=dtype) / n**0.5,)

    size = dtype.itemsize
    name = f"{n}x{n} {str(dtype).removeprefix('torch.')}"
    return Case(name=name, inputs=inputs, flops=20 * n**3, bytes=2 * size * n * n)


BENCH = Bench(
    op="trnsolver.expm",
    run=expm,
    tests="tests/trnsolver/test_expm.py",
    slower="halves as often as the powers of the matrix require, which the host decides; the peer uses the norm",
    cases=(_case(64), _case(256)),
    peers=(
        Peer(name="torch.linalg.matrix_exp", run=torch.linalg.matrix_exp),
        Peer(
            name="scipy.linalg.expm",
            run=scipy.linalg.expm,
            prepare=lambda a: (a.numpy(),),
            requires="scipy",
            devices=("cpu",),
        ),
    ),
)
