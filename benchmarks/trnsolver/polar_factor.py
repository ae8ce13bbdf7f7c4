"""Polar factors, with which ``trnsolver.svd`` begins on the device from 6 columns on."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.registry import TARGETS, Bench, Kernel
from trnsolver import svd
from trnsolver.eigen.divide import constants
from trnsolver.kernels import polar_factor as kernels


def _kernel(*shape: int, targets: tuple[str, ...] = TARGETS) -> Kernel:
    def inputs() -> tuple[Any, ...]:
        eye, _ = constants(shape[-1], torch.device("cpu"))
        return torch.empty(shape, device="meta"), torch.empty(shape[1:], device="meta"), eye

    return Kernel(name="x".join(map(str, shape)), kernel=kernels.polar_factor, inputs=inputs, targets=targets)


BENCH = Bench(
    op="trnsolver.polar_factor",
    run=svd,
    tests="tests/trnsolver/test_svd.py",
    cases=(),
    peers=(),
    kernels=(_kernel(1, 128, 128), _kernel(1, 512, 512, targets=("trn2",)), _kernel(4, 32, 32)),
    notes="The eigenproblem that follows is in `trnsolver.eigh`.",
)
