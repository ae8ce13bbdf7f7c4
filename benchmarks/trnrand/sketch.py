"""``trnrand.sketch`` beside torch making the normals first."""

from __future__ import annotations

import torch

from benchmarks.registry import Bench, Case, Kernel, Peer
from trnrand import Generator, sketch
from trnrand.kernels import sketch as kernels
from trnsci.testing import gaussian


def _case(m: int, size: int, n: int) -> Case:
    return Case(
        name=f"{m}x{n} to {size} float32",
        inputs=lambda: (gaussian((m, n), 1), size),
        flops=2 * m * n * size,
        bytes=4 * n * (m + size),
    )


BENCH = Bench(
    op="trnrand.sketch",
    run=lambda a, size: sketch(a, size, generator=Generator(1)),
    tests="tests/trnrand/test_sketch.py",
    cases=(_case(4096, 256, 512),),
    peers=(Peer(name="torch.randn, matmul", run=lambda a, size: torch.randn(a.shape[0], size, device=a.device).T @ a),),
    kernels=(
        Kernel(
            name="4096x2048 to 256 float32",
            kernel=kernels.sketch,
            inputs=lambda: (
                torch.empty((128, 30), dtype=torch.uint32, device="meta"),
                torch.empty((4096, 2048), device="meta"),
            ),
            options={"size": 256, "engine": "threefry4x32"},
        ),
    ),
    comparable=None,
)
