"""``trnsolver.eigsh`` with a shift beside SciPy's ARPACK."""

from __future__ import annotations

from typing import Any

import scipy.sparse.linalg

from benchmarks.registry import Bench, Case, Peer
from benchmarks.trnsolver.sparse_factor import _grid
from trnsolver import eigsh


def _case(k: int) -> Case:
    def inputs() -> tuple[Any, ...]:
        return (_grid(k, 2),)

    return Case(
        name=f"grid {k}^2 float64", inputs=inputs, flops=10 * k**3 + 40 * k * k, bytes=40 * k * k, devices=("cpu",)
    )


BENCH = Bench(
    op="trnsolver.eigsh",
    run=lambda a: eigsh(a, 4, sigma=1.234).values,
    tests="tests/trnsolver/test_eigsh.py",
    cases=(_case(40), _case(80)),
    peers=(
        Peer(
            name="scipy eigsh",
            run=lambda a: scipy.sparse.linalg.eigsh(a, 4, sigma=1.234)[0],
            requires="scipy",
            devices=("cpu",),
        ),
    ),
    comparable=lambda found: abs(found).sum(),
)
