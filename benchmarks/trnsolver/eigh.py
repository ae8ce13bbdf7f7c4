"""``trnsolver.eigh`` beside torch and SciPy. On chip it is spectral divide and conquer from 14 rows on."""

from __future__ import annotations

from typing import Any

import scipy.linalg
import torch

from benchmarks.registry import TARGETS, Bench, Case, Kernel, Peer, Whole
from trnsci.testing import gaussian
from trnsolver import eigh
from trnsolver.eigen.divide import constants, levels
from trnsolver.kernels import eigh as kernels


def _inputs(shape: tuple[int, ...]) -> tuple[Any, ...]:
    x = gaussian(shape, 1)
    return (0.5 * (x + x.mT),)


def _case(*shape: int) -> Case:
    n = shape[-1]
    batch = shape[0] if len(shape) == 3 else 1
    name = f"{f'{batch}x' if len(shape) == 3 else ''}({shape[-2]}x{n}) float32"
    return Case(name=name, inputs=lambda: _inputs(shape), flops=9 * batch * n**3, bytes=8 * batch * shape[-2] * n)


def _kernel(*shape: int, targets: tuple[str, ...] = TARGETS) -> Kernel:
    def inputs() -> tuple[Any, ...]:
        a = torch.empty(shape, device="meta")
        return a, a, torch.empty((*shape[:2], 1), device="meta"), *constants(shape[-1], torch.device("cpu"))

    return Kernel(
        name="x".join(map(str, shape)),
        kernel=kernels.eigh,
        inputs=inputs,
        options={"levels": levels(shape[-1])},
        targets=targets,
    )


BENCH = Bench(
    op="trnsolver.eigh",
    run=eigh,
    tests="tests/trnsolver/test_eigh.py",
    cases=(_case(256, 256), _case(1024, 1024), _case(1000, 32, 32)),
    peers=(
        Peer(name="torch.linalg.eigh", run=torch.linalg.eigh),
        Peer(
            name="scipy.linalg.eigh",
            run=lambda a: scipy.linalg.eigh(a, driver="evd"),
            prepare=lambda a: (a.numpy(),),
            requires="scipy",
            devices=("cpu",),
        ),
    ),
    kernels=(
        _kernel(1, 128, 128),
        _kernel(4, 128, 128),
        _kernel(4, 32, 32),
    ),
    # from 256 rows on a matrix is split and solved in pieces, which are programs of their own
    wholes=tuple(Whole(name=f"{n} rows", inputs=lambda n=n: _inputs((n, n))) for n in (256, 512)),
    tolerance=1e-3,
    comparable=lambda result: result[0],
    notes="Rows without a batch are whole calls. Spectra over many decades take more programs.",
)
