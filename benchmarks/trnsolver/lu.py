"""``trnsolver.lu_factor`` beside torch and SciPy."""

from __future__ import annotations

from typing import Any

import scipy.linalg
import torch

from benchmarks.registry import Bench, Case, Kernel, Peer
from benchmarks.trnsolver._common import case, scipy_peer
from trnsci.testing import gaussian
from trnsolver import lu_factor
from trnsolver.dense.identity import identity
from trnsolver.dense.pivots import row_tiles
from trnsolver.kernels import lu as kernels


def _case(*shape: int) -> Case:
    return case(shape, lambda size: gaussian(size, 1), 2 * shape[-1] ** 3 // 3)


def _kernel(*shape: int) -> Kernel:
    def inputs() -> tuple[Any, ...]:
        cpu = torch.device("cpu")
        tiles = row_tiles(shape[-2], cpu)
        padded = torch.empty(shape[0], tiles[0].numel(), shape[-1], device="meta")
        return padded, *tiles, identity(cpu)

    return Kernel(name="x".join(map(str, shape)), kernel=kernels.lu, inputs=inputs, options={"rows": shape[-2]})


BENCH = Bench(
    op="trnsolver.lu",
    run=lu_factor,
    tests="tests/trnsolver/test_lu.py",
    slower="checks that the factors are finite, and waits for the answer",
    cases=(_case(256, 256), _case(1024, 1024), _case(1000, 32, 32)),
    peers=(
        Peer(name="torch.linalg.lu_factor", run=torch.linalg.lu_factor),
        scipy_peer("scipy.linalg.lu_factor", scipy.linalg.lu_factor),
    ),
    kernels=(_kernel(1, 1024, 1024), _kernel(1, 200, 100)),
    tolerance=1e-2,
    comparable=lambda result: result[0],
    notes="The permutation is computed from the pivots; factors agree up to rounding.",
)
