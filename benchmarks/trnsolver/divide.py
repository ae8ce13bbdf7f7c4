"""Spectral divide and conquer, which ``trnsolver.eigh`` runs on the device from 16 rows on."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.registry import TARGETS, Bench, Kernel
from trnsolver import eigh
from trnsolver.divide import constants, levels
from trnsolver.kernels import divide as kernels


def _kernel(*shape: int, targets: tuple[str, ...] = TARGETS) -> Kernel:
    def inputs() -> tuple[Any, ...]:
        a = torch.empty(shape, device="meta")
        return a, a, torch.empty((*shape[:2], 1), device="meta"), *constants(shape[-1], torch.device("cpu"))

    return Kernel(
        name="x".join(map(str, shape)),
        kernel=kernels.divide,
        inputs=inputs,
        options={"levels": levels(shape[-1])},
        targets=targets,
    )


BENCH = Bench(
    op="trnsolver.divide",
    run=eigh,
    tests="tests/trnsolver/test_divide.py",
    cases=(),
    peers=(),
    kernels=(
        _kernel(1, 128, 128),
        _kernel(4, 128, 128),
        _kernel(1, 256, 256, targets=("trn2",)),
        _kernel(1, 512, 512, targets=("trn2",)),
        _kernel(4, 32, 32),
    ),
    notes="Levels are those of one program; spectra over many decades take a second one.",
)
