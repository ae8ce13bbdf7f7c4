"""``trnsolver.solve_sparse`` beside SciPy's: SuperLU for the host's own, fronts for batches and devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg
import torch

from benchmarks.registry import Bench, Case, Peer
from trnsci.testing import gaussian
from trnsolver import solve_sparse


def _grid(k: int, dimensions: int) -> Any:
    line = sp.diags_array([-np.ones(k - 1), 2 * np.ones(k), -np.ones(k - 1)], offsets=[-1, 0, 1])
    a, eye = line, sp.eye_array(k)
    for _ in range(dimensions - 1):
        a = sp.kron(a, eye) + sp.kron(sp.eye_array(a.shape[0]), line)
    return sp.csc_array(a)


def _case(k: int, dimensions: int, method: str) -> Case:
    n = k**dimensions

    def inputs() -> tuple[Any, ...]:
        return _grid(k, dimensions), gaussian((n,), 1, dtype=torch.float64), method

    flops = 10 * k**3 if dimensions == 2 else 2 * k**6
    return Case(
        name=f"{method}, grid {k}^{dimensions} float64", inputs=inputs, flops=flops, bytes=16 * n, devices=("cpu",)
    )


BENCH = Bench(
    op="trnsolver.sparse_factor",
    run=lambda a, b, method: solve_sparse(a, b, kind="cholesky", method=method),
    tests="tests/trnsolver/test_sparse_factor.py",
    cases=tuple(_case(*size, method) for size in ((60, 2), (14, 3)) for method in ("superlu", "multifrontal")),
    peers=(
        Peer(
            name="scipy spsolve",
            run=lambda a, b: scipy.sparse.linalg.spsolve(a, b, permc_spec="MMD_AT_PLUS_A"),
            prepare=lambda a, b, _: (a, b.numpy()),
            requires="scipy",
            devices=("cpu",),
        ),
    ),
)
