"""``trnsolver.lstsq`` beside torch and SciPy. On chip it runs the kernels of `qr` and `trnblas.trsm`."""

from __future__ import annotations

import functools

import scipy.linalg
import torch

from benchmarks.registry import Bench, Case, Peer
from trnsci.testing import gaussian
from trnsolver import lstsq


def _case(*shape: int) -> Case:
    m, n, batch = shape[-2], shape[-1], shape[0] if len(shape) == 3 else 1
    name = f"{f'{batch}x' if batch > 1 else ''}({m}x{n}), 8 columns, float32"

    def inputs() -> tuple[torch.Tensor, ...]:
        return gaussian(shape, 1) + 3 * n**0.5 * torch.eye(m, n), gaussian((*shape[:-1], 8), 2)

    flops = batch * (2 * n * n * (m - n // 3) + 32 * m * n)
    return Case(name=name, inputs=inputs, flops=flops, bytes=4 * batch * (m * n + 8 * (m + n)))


BENCH = Bench(
    op="trnsolver.lstsq",
    run=lstsq,
    comparable=lambda found: found[0],
    tests="tests/trnsolver/test_lstsq.py",
    slower="proves full rank by the norm of an inverse, checks that the result is finite, and waits for the answers",
    cases=(_case(256, 256), _case(1024, 512), _case(1000, 32, 32)),
    notes="SciPy's gelsy is called: torch's, which is faster, exchanges too few columns and finds too small a rank for "
    "some matrices, 3 for one of 6 columns of which two are equal.",
    peers=(
        Peer(name="torch.linalg.lstsq", run=torch.linalg.lstsq),
        Peer(
            name="scipy.linalg.lstsq, gelsy",
            run=functools.partial(scipy.linalg.lstsq, lapack_driver="gelsy"),
            prepare=lambda a, b: (a.numpy(), b.numpy()),
            requires="scipy",
            devices=("cpu",),
            called=True,
        ),
    ),
)
