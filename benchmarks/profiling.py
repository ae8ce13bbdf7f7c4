"""What profiling costs beside plain simulation: ``python -m benchmarks.profiling`` on ten kernels of the suite.

Processor time of `trnsim.profile` over that of `trnsim.simulate`, the least of interleaved runs, with all checks.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

import trnsim
from benchmarks import registry
from benchmarks.registry import Kernel

BAR = 2.5
OPS = (
    "trnblas.gemm",
    "trnblas.trsm",
    "trnblas.iamax",
    "trnfft.fft",
    "trnfft.stft",
    "trnrand.sobol",
    "trnsolver.cholesky",
    "trnsolver.qr",
    "trnsparse.attention",
    "trntensor.mp2_energy",
)


def _smallest(op: str) -> Kernel:
    """The registered kernel of an op with the fewest input elements."""
    return min(registry.load(op).kernels, key=lambda kernel: sum(t.numel() for t in _tensors(kernel)))


def _tensors(kernel: Kernel) -> list[torch.Tensor]:
    return [value for value in kernel.inputs() if isinstance(value, torch.Tensor)]


def _filled(value: Any) -> Any:
    """Numbers of a positive definite matrix where there are none: a factorisation should run to its end."""
    if not isinstance(value, torch.Tensor) or not value.is_meta:
        return value
    made = torch.zeros(value.shape, dtype=value.dtype)
    if made.dim() >= 2 and made.dtype.is_floating_point:
        made += torch.eye(made.shape[-2], made.shape[-1], dtype=made.dtype) + 1e-3
    return made


def _seconds(run: Callable[[], Any]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def ratio(op: str, rounds: int = 5) -> tuple[str, float, float]:
    """The kernel that was run, seconds of plain simulation, and profiling over it."""
    kernel = _smallest(op)
    options = kernel.options() if callable(kernel.options) else kernel.options
    given = [_filled(value) for value in kernel.inputs()]
    plain, costed = trnsim.simulate(kernel.kernel), trnsim.profile(kernel.kernel)
    both = [
        (_seconds(lambda: plain(*given, **options)), _seconds(lambda: costed(*given, **options))) for _ in range(rounds)
    ]
    least = min(one for one, _ in both)
    return kernel.name, least, min(two for _, two in both) / least


def main() -> int:
    """Print the ratios; the exit status is one when one is above the bar."""
    found = []
    for op in OPS:
        name, seconds, times = ratio(op)
        found.append(times)
        print(f"{op:22}{name:44}{seconds * 1e3:8.1f} ms  {times:.2f}", flush=True)
    print(f"median {statistics.median(found):.2f}, largest {max(found):.2f}, at most {BAR} wanted")
    return int(max(found) > BAR)


if __name__ == "__main__":
    sys.exit(main())
