"""``trntensor.einsum`` beside ``torch.einsum`` and opt_einsum: two operands, four-index transform, random networks."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import opt_einsum
import torch
from opt_einsum.testing import rand_equation

from benchmarks.registry import Bench, Case, Peer
from trnsci.testing import gaussian
from trntensor import einsum, plan


def _case(
    name: str, equation: str, shapes: list[tuple[int, ...]], dtype: torch.dtype, *, overhead: bool = False
) -> Case:
    def inputs() -> tuple[Any, ...]:
        return equation, *(gaussian(shape, n, dtype) for n, shape in enumerate(shapes))

    scheme = plan(equation, *shapes, dtype=dtype)
    result = math.prod(scheme.program.result_shape)
    size = dtype.itemsize * (result + sum(math.prod(shape) for shape in shapes))
    return Case(name=name, inputs=inputs, flops=scheme.flops, bytes=size, overhead=overhead)


def _network(seed: int, operands: int = 8) -> tuple[str, list[tuple[int, ...]]]:
    equation, shapes = rand_equation(operands, 3, n_out=2, d_min=4, d_max=12, seed=seed)
    return equation, [tuple(shape) for shape in shapes]


_MATRICES = [(64, 96), (96, 80)]
_FOUR = [(48,) * 4, *[(48, 48)] * 4]

BENCH = Bench(
    op="trntensor.einsum",
    run=einsum,
    tests="tests/trntensor/test_einsum.py",
    cases=(
        _case("ij,jk->ik 8 float32", "ij,jk->ik", [(8, 8), (8, 8)], torch.float32, overhead=True),
        _case("ij,jk->ki 8 float32", "ij,jk->ki", [(8, 8), (8, 8)], torch.float32, overhead=True),
        _case("bij,bjk->bik 8 float32", "bij,bjk->bik", [(4, 8, 8), (4, 8, 8)], torch.float32, overhead=True),
        _case("ij,jk->ik 1 MFLOP float32", "ij,jk->ik", _MATRICES, torch.float32),
        _case("ij,jk->ki 512 float32", "ij,jk->ki", [(512, 512), (512, 512)], torch.float32),
        _case("bij,bjk->bik 16x128 float32", "bij,bjk->bik", [(16, 128, 128), (16, 128, 128)], torch.float32),
        _case("ikj,jl->ilk 64 float32", "ikj,jl->ilk", [(64, 64, 64), (64, 64)], torch.float32),
        _case("pqrs,pi,qj,rk,sl->ijkl 48 float32", "pqrs,pi,qj,rk,sl->ijkl", _FOUR, torch.float32),
        *(_case(f"8-operand network {seed} float64", *_network(seed), torch.float64) for seed in (1, 2, 3)),
    ),
    peers=(
        Peer(name="torch.einsum", run=torch.einsum),
        Peer(name="opt_einsum on torch", run=opt_einsum.contract),
        Peer(
            name="numpy.einsum",
            devices=("cpu",),
            prepare=lambda equation, *x: (equation, *(t.numpy() for t in x)),
            run=functools.partial(np.einsum, optimize=True),
        ),
    ),
    tolerance=1e-4,
    notes="Overhead rows are differences in microseconds. torch.einsum contracts more operands with opt_einsum's path "
    "too, where that package is installed.",
)
