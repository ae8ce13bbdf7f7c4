"""``trnblas.gemm_scaled`` beside torch's product of FP8 matrices."""

from __future__ import annotations

import functools
import subprocess
import sys

import torch

from benchmarks.registry import Bench, Case, Peer
from trnblas import gemm_scaled


def _case(n: int) -> Case:
    def inputs() -> tuple[torch.Tensor, ...]:
        source = torch.Generator().manual_seed(1)
        a, b = (torch.randn(n, n, generator=source).to(torch.float8_e4m3fn) for _ in range(2))
        return a, b, torch.tensor(0.5), torch.tensor(0.25)

    return Case(name=f"{n}x{n} float8_e4m3fn", inputs=inputs, flops=2 * n**3, bytes=6 * n * n, devices=("cpu",))


def _columns(a: torch.Tensor, b: torch.Tensor, *scales: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Torch wants the second matrix by columns."""
    return a, b.t().contiguous().t(), *scales


@functools.cache
def _works(n: int) -> bool:
    """Whether torch multiplies such matrices here: some of its builds end the process, so another one tries."""
    program = (
        f"import torch; x, s = torch.ones({n}, {n}).to(torch.float8_e4m3fn), torch.ones(()); "
        "torch._scaled_mm(x, x.t(), s, s, out_dtype=torch.float32)"
    )
    return subprocess.run([sys.executable, "-c", program], check=False, capture_output=True).returncode == 0


BENCH = Bench(
    op="trnblas.scaled",
    run=gemm_scaled,
    tests="tests/trnblas/test_integer.py",
    cases=(_case(64), _case(512)),
    peers=(
        Peer(
            name="torch._scaled_mm",
            run=lambda a, b, left, right: torch._scaled_mm(a, b, left, right, out_dtype=torch.float32),
            prepare=_columns,
            devices=("cpu",),
            takes=lambda a, *_: _works(a.shape[0]),
        ),
    ),
    tolerance=1e-5,
    notes="Its kernel is gemm's: FP8 numbers are exact in bfloat16. Torch makes the same conversion and product; ours "
    "also rounds operands to bfloat16, which changes nothing, and scales in float64.",
    devices=("cpu",),
)
