"""Spread solutions and spectra on two ranks with one thread each, beside one rank with one thread."""

from __future__ import annotations

import functools
from typing import Any

from benchmarks.ranks import Ranks
from benchmarks.registry import Bench, Case, Peer


def _on_rank(name: str, n: int) -> Any:
    """The sum of the magnitudes of the result, which every rank has."""
    import torch

    import trnsolver
    from trnsci import distributed
    from trnsci.testing import gaussian

    a, mesh = gaussian((n, n), 1, dtype=torch.float64), distributed.mesh()
    a = a + a.T if name == "eigvalsh" else a
    operands = (a,) if name != "solve" else (a, gaussian((n, 8), 2, dtype=torch.float64))
    result = getattr(trnsolver, name)(*(distributed.shard(x, mesh, 0) for x in operands))
    return float(distributed.gather(result).abs().sum())


@functools.cache
def _pool(ranks: int) -> Ranks:
    return Ranks(ranks)


def _case(name: str, n: int, flops: int) -> Case:
    return Case(
        name=f"{name} {n}x{n} float64", inputs=lambda: (name, n), flops=flops, bytes=8 * n * n, devices=("cpu",)
    )


BENCH = Bench(
    op="trnsolver.sharded",
    run=lambda name, n: _pool(2).run(_on_rank, name, n)[0],
    tests="tests/trnsolver/test_sharded.py",
    cases=(
        _case("solve", 1000, 2 * 1000**3 // 3),
        _case("inv", 600, 2 * 600**3),
        _case("eigvalsh", 240, 4 * 240**3 // 3),
    ),
    peers=(Peer(name="one rank", run=lambda name, n: _pool(1).run(_on_rank, name, n)[0], devices=("cpu",)),),
    tolerance=1e-8,
    notes="It needs two free cores: on a busy machine the ranks share what is left. One rank computes a spectrum by "
    "LAPACK, several by block Jacobi, which is ten times the work and moves blocks only. Panels and products are the "
    "kernels of lu, gemm and eigh.",
    devices=("cpu",),
)
