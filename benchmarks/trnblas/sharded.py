"""``trnblas.gemm`` on two ranks with one thread each, beside one rank with one thread, and the kernel that adds up."""

from __future__ import annotations

import functools
from typing import Any

import torch

from benchmarks.ranks import Ranks
from benchmarks.registry import Bench, Case, Kernel, Peer
from trnblas import gemm
from trnblas.kernels import sharded as kernels
from trnsci.testing import gaussian


@functools.cache
def _operands(n: int, dtype: torch.dtype) -> tuple[Any, Any]:
    """On each rank, kept between calls: both matrices cut along rows."""
    from trnsci import distributed

    mesh = distributed.mesh()
    return tuple(distributed.shard(gaussian((n, n), seed, dtype), mesh, 0) for seed in (1, 2))


def _on_rank(n: int, dtype: torch.dtype) -> torch.Tensor:
    """One product; what comes back is a corner of this rank's rows, to compare."""
    return gemm(1.0, *_operands(n, dtype)).to_local()[:8, :8].clone()


@functools.cache
def _pool(ranks: int) -> Ranks:
    return Ranks(ranks)


def _with(ranks: int, n: int, dtype: torch.dtype) -> torch.Tensor:
    return _pool(ranks).run(_on_rank, n, dtype)[0]


def _two(n: int, dtype: torch.dtype) -> torch.Tensor:
    return _with(2, n, dtype)


def _one(n: int, dtype: torch.dtype) -> torch.Tensor:
    return _with(1, n, dtype)


def _case(n: int, dtype: torch.dtype) -> Case:
    name = f"({n}x{n}x{n}) {str(dtype).removeprefix('torch.')}"
    return Case(name=name, inputs=lambda: (n, dtype), flops=2 * n**3, bytes=3 * dtype.itemsize * n * n)


def _kernel(ranks: int, m: int, k: int, n: int, dtype: torch.dtype, *targets: str) -> Kernel:
    def inputs() -> tuple[Any, ...]:
        return tuple(torch.empty(shape, dtype=dtype, device="meta") for shape in ((k // ranks, m), (k // ranks, n)))

    name = f"{ranks} ranks ({m}x{k}x{n}) {str(dtype).removeprefix('torch.')}"
    return Kernel(
        name=name, kernel=kernels.sharded_gemm, inputs=inputs, options={"ranks": ranks}, targets=targets, ranks=ranks
    )


BENCH = Bench(
    op="trnblas.sharded",
    run=_two,
    tests="tests/trnblas/test_sharded.py",
    cases=(_case(1024, torch.float32), _case(4096, torch.float32)),
    peers=(Peer(name="one rank", run=_one, devices=("cpu",)),),
    kernels=(
        _kernel(2, 2048, 2048, 2048, torch.bfloat16, "trn1", "trn2", "trn3"),
        _kernel(4, 2048, 2048, 2048, torch.bfloat16, "trn1", "trn2", "trn3"),
        _kernel(4, 600, 1200, 300, torch.float32, "trn2"),
    ),
    tolerance=1e-5,
    notes=(
        "Ours is two ranks with one thread each; the bar is a ratio of at most 0.67 at 4096. On a busy machine "
        "with two cores the ranks share what is left, and the ratio says little."
    ),
    devices=("cpu",),
)
