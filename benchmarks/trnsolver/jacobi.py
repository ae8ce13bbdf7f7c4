"""The two-sided Jacobi method, to which ``trnsolver.eigh`` hands what divide and conquer could not solve."""

from __future__ import annotations

import torch

from benchmarks.registry import TARGETS, Bench, Kernel
from benchmarks.trnsolver._common import kernel
from trnsolver import eigh
from trnsolver.jacobi import masks, sweeps
from trnsolver.kernels import jacobi as kernels


def _kernel(*shape: int, targets: tuple[str, ...] = TARGETS, slow: bool = False) -> Kernel:
    n = shape[-1]
    options = {"sweeps": sweeps(n)}
    return kernel(
        kernels.jacobi, shape, lambda: masks(n, torch.device("cpu")), options=options, targets=targets, slow=slow
    )


BENCH = Bench(
    op="trnsolver.jacobi",
    run=eigh,
    tests="tests/trnsolver/test_eigh.py",
    cases=(),
    peers=(),
    kernels=(_kernel(1, 128, 128), _kernel(1, 512, 512, targets=("trn2",), slow=True), _kernel(4, 32, 32)),
    notes="The number of sweeps is that of one program.",
)
