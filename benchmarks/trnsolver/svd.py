"""``trnsolver.svd`` beside torch and SciPy. On chip it runs the kernels of `eigh` and `qr`."""

from __future__ import annotations

import scipy.linalg
import torch

from benchmarks.registry import Bench, Case, Peer
from trnsci.testing import gaussian
from trnsolver import svd


def _case(m: int, n: int) -> Case:
    return Case(
        name=f"({m}x{n}) float32",
        inputs=lambda: (gaussian((m, n), 1),),
        flops=20 * m * n * min(m, n),
        bytes=4 * (m * n + m * m + n * n),
    )


BENCH = Bench(
    op="trnsolver.svd",
    run=svd,
    tests="tests/trnsolver/test_svd.py",
    cases=(_case(256, 256), _case(512, 128)),
    peers=(
        Peer(name="torch.linalg.svd", run=torch.linalg.svd),
        Peer(
            name="scipy.linalg.svd",
            run=scipy.linalg.svd,
            prepare=lambda a: (a.numpy(),),
            requires="scipy",
            devices=("cpu",),
        ),
    ),
    comparable=lambda result: result[1],
)
