"""``trnrand.Halton`` beside scipy."""

from __future__ import annotations

import torch
from scipy.stats import qmc

from benchmarks.registry import Bench, Case, Kernel, Peer, device
from trnrand import Halton
from trnrand.halton import primes
from trnrand.kernels import halton as kernels


def _case(d: int, n: int) -> Case:
    return Case(name=f"{n}x{d} float64", inputs=lambda: (d, n), flops=40 * n * d, bytes=8 * n * d)


BENCH = Bench(
    op="trnrand.halton",
    run=lambda d, n: Halton(d).random(n, dtype=torch.float64, device=device()),
    tests="tests/trnrand/test_halton.py",
    cases=(_case(8, 10**5),),
    peers=(Peer(name="scipy.stats.qmc", run=lambda d, n: qmc.Halton(d, scramble=False).random(n), devices=("cpu",)),),
    kernels=(
        Kernel(
            name="2^21x8 float32",
            kernel=kernels.halton,
            inputs=lambda: (torch.empty((128, 1), device="meta"),),
            options={
                "bases": tuple(primes(8)),
                "digits": (21, 14, 10, 8, 7, 6, 6, 5),
                "rows": 4096,
                "row": 512,
            },
        ),
    ),
    tolerance=1e-12,
)
