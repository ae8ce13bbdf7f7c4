"""``trnrand.Sobol`` beside scipy and torch."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from scipy.stats import qmc

from benchmarks.registry import Bench, Case, Kernel, Peer, device
from trnrand import Sobol
from trnrand.kernels import sobol as kernels


def _scipy(d: int, n: int) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return qmc.Sobol(d, scramble=False).random(n)


def _case(d: int, n: int) -> Case:
    return Case(name=f"{n}x{d} float64", inputs=lambda: (d, n), flops=2 * n * d, bytes=8 * n * d)


BENCH = Bench(
    op="trnrand.sobol",
    run=lambda d, n: Sobol(d).random(n, dtype=torch.float64, device=device()),
    tests="tests/trnrand/test_sobol.py",
    cases=(_case(8, 10**6), _case(100, 10**5)),
    peers=(
        Peer(name="scipy.stats.qmc", run=_scipy, devices=("cpu",)),
        Peer(
            name="torch SobolEngine",
            run=lambda d, n: torch.quasirandom.SobolEngine(d).draw(n, dtype=torch.float64),
            devices=("cpu",),
        ),
    ),
    kernels=(
        Kernel(
            name="2^21x8 float32",
            kernel=kernels.sobol,
            inputs=lambda: (
                torch.empty((128, 8 * 9), dtype=torch.uint32, device="meta"),
                torch.empty((4096, 8), dtype=torch.uint32, device="meta"),
            ),
            options={"row": 512},
        ),
    ),
    tolerance=1e-8,
)
