"""Newton-Schulz inverse square roots beside eigenvectors of torch."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.registry import Bench, Case, Kernel, Peer
from trnblas.trsm import doubling_masks
from trnsci.testing import gaussian
from trnsolver import inv_sqrt_spd
from trnsolver.kernels import inv_sqrt_spd as kernels


def _inputs(shape: tuple[int, ...]) -> tuple[Any, ...]:
    x = gaussian(shape, 1)
    return (x @ x.mT / shape[-1] + torch.eye(shape[-1]),)


def _case(*shape: int) -> Case:
    n = shape[-1]
    batch = shape[0] if len(shape) == 3 else 1
    name = f"{f'{batch}x' if len(shape) == 3 else ''}({shape[-2]}x{n}) float32"
    return Case(name=name, inputs=lambda: _inputs(shape), flops=60 * batch * n**3, bytes=8 * batch * shape[-2] * n)


def _kernel(*shape: int) -> Kernel:
    def inputs() -> tuple[Any, ...]:
        return torch.empty(shape, device="meta"), doubling_masks(torch.device("cpu"))

    return Kernel(name="x".join(map(str, shape)), kernel=kernels.inv_sqrt_spd, inputs=inputs)


def _by_eigenvectors(a: torch.Tensor) -> torch.Tensor:
    w, v = torch.linalg.eigh(a)
    return v * w.rsqrt().unsqueeze(-2) @ v.mT


BENCH = Bench(
    op="trnsolver.inv_sqrt_spd",
    run=lambda a: inv_sqrt_spd(a, method="newton_schulz"),
    tests="tests/trnsolver/test_inv_sqrt_spd.py",
    slower="iterates until the host sees that it has converged; the peer diagonalises all matrices at once",
    cases=(_case(256, 256), _case(1000, 32, 32)),
    peers=(Peer(name="torch eigh", run=_by_eigenvectors),),
    kernels=(_kernel(1, 512, 512), _kernel(2, 100, 100)),
    tolerance=1e-2,
)
