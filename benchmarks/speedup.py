"""Speed-up against size, for the first picture of the docs: ``python -m benchmarks.speedup``.

CPU times are measured: processor time of one thread, the least of several runs, of what a user without an accelerator
would call. Trainium's are predicted for one core of trn2 with operands on the device: kernels alone, and with what the
host takes to start each op, or the one program, over the native device, as in the verdicts of `trnsci fit`. Both go to
``benchmarks/speedup.json``; ``python -m tools.pictures speedup`` draws them.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import scipy.sparse
import torch

import trnblas
import trnfft
import trnrand
import trnsci
import trnsolver
import trnsparse
from benchmarks import programs
from benchmarks.report import machine
from trnsci.links import link
from trnsci.testing import gaussian

FILE = Path(__file__).parent / "speedup.json"
TARGET = "trn2"
ROW = 8  # entries in a row of the sparse matrix


@dataclass(frozen=True, slots=True)
class Series:
    """One operation over sizes: what a CPU runs, and the plan of our call, or of our program."""

    name: str
    sizes: tuple[int, ...]
    inputs: Callable[[int], tuple[Any, ...]]
    cpu: Callable[..., Any]
    ours: Callable[..., Any]


def _spd(n: int) -> torch.Tensor:
    x = gaussian((n, n), 3)
    return x @ x.mT / n + torch.eye(n)


def _symmetric(n: int) -> torch.Tensor:
    x = gaussian((n, n), 4)
    return x + x.mT


def _sparse(n: int) -> tuple[Any, torch.Tensor]:
    """A matrix with eight entries in a row, anywhere, and a vector."""
    columns = torch.randint(0, n, (n * ROW,), generator=torch.Generator().manual_seed(5)).numpy()
    pointers = range(0, n * ROW + 1, ROW)
    matrix = scipy.sparse.csr_array((gaussian((n * ROW,), 6).numpy(), columns, list(pointers)), shape=(n, n))
    matrix.sum_duplicates()
    return matrix, gaussian((n,), 7)


def _grid(n: int) -> tuple[Any, torch.Tensor]:
    """The five-point stencil of a square grid of n points, and a vector."""
    side = math.isqrt(n)
    line = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    return scipy.sparse.csr_array(scipy.sparse.kronsum(line, line), dtype="float32"), gaussian((side * side,), 7)


def _wave(n: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.complex(gaussian((n,), 1 + i), gaussian((n,), 4 + i)) for i in range(3))


def _solve_wave(v: torch.Tensor, half: torch.Tensor, g: torch.Tensor, steps: int = 150) -> torch.Tensor:
    """What `programs.solitons` computes, by torch."""
    fft, ifft = torch.fft.fft, torch.fft.ifft
    for _ in range(steps):
        a = g * fft(ifft(v).real ** 2)
        b = g * fft(ifft(half * (v + a / 2)).real ** 2)
        c = g * fft(ifft(half * v + b / 2).real ** 2)
        d = g * fft(ifft(half**2 * v + half * c).real ** 2)
        v = half**2 * v + (half**2 * a + 2 * half * (b + c) + d) / 6
    return v


POWERS = tuple(2**k for k in range(5, 13))
SERIES = (
    Series(
        "matrix product, n × n",
        POWERS,
        lambda n: (gaussian((n, n), 1), gaussian((n, n), 2)),
        torch.matmul,
        lambda a, b: trnsci.plan(trnblas.gemm, 1.0, a, b),
    ),
    Series(
        "attention, n positions",
        (128, 256, 512, 1024, 2048, 4096, 8192),
        lambda n: (gaussian((1, 1, n, 128), 1),) * 3,
        lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda q, k, v: trnsci.plan(trnsparse.attention, q, k, v, trnsparse.causal()),
    ),
    Series(
        "Fourier transforms, 256 rows of n",
        (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192),
        lambda n: (torch.complex(gaussian((256, n), 1), gaussian((256, n), 2)),),
        torch.fft.fft,
        lambda x: trnsci.plan(trnfft.fft, x),
    ),
    Series(
        "Cholesky, n × n",
        POWERS,
        lambda n: (_spd(n),),
        torch.linalg.cholesky,
        lambda a: trnsci.plan(trnsolver.cholesky, a),
    ),
    Series(
        "eigenproblem, n × n",
        POWERS[:-1],
        lambda n: (_symmetric(n),),
        torch.linalg.eigh,
        lambda a: trnsci.plan(trnsolver.eigh, a),
    ),
    Series(
        "normal numbers, n × n",
        (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192),
        lambda n: (n,),
        lambda n: torch.randn(n, n),
        lambda n: trnsci.plan(trnrand.Generator(1).normal, n, n),
    ),
    Series(
        f"sparse product, n × n, {ROW} a row",
        tuple(4**k for k in range(4, 11)),
        _sparse,
        lambda a, x: a @ x.numpy(),
        lambda a, x: trnsci.plan(trnsparse.spmv, trnsparse.CSRMatrix.from_scipy(a), x),
    ),
    Series(
        "sparse product, grid of n points",
        tuple(4**k for k in range(4, 11)),
        _grid,
        lambda a, x: a @ x.numpy(),
        lambda a, x: trnsci.plan(trnsparse.spmv, trnsparse.CSRMatrix.from_scipy(a), x),
    ),
    Series(
        "program: 150 soliton steps, n points",
        tuple(4**k for k in range(4, 9)),
        _wave,
        _solve_wave,
        lambda *wave: trnsci.program(programs.solitons).plan(*wave),
    ),
)


def least(run: Callable[[], Any], seconds: float = 0.6) -> float:
    """Processor seconds of one call: the least mean over batches of calls, within a budget."""
    run()
    began = time.process_time()
    run()
    once = max(time.process_time() - began, 1e-7)
    calls = max(1, round(0.02 / once))
    best = once
    for _ in range(max(3, round(seconds / (once * calls)))):
        began = time.process_time()
        for _ in range(calls):
            run()
        best = min(best, (time.process_time() - began) / calls)
    return best


def predicted(series: Series, size: int) -> dict[str, float]:
    """Predicted seconds of one size, the ends of their interval, and of them the kernels'."""
    with trnsci.backend("simulator"):
        plan = series.ours(*series.inputs(size))
    if isinstance(plan, trnsci.ProgramPlan):
        one = plan.predict(TARGET)
        kernels, (low, high), starting = one.kernels, (one.low, one.high), one.total - one.kernels
    else:
        started = sum(each.programs for step in plan.steps if (each := step.programs(TARGET)) is not None)
        kernels, (low, high), starting = plan.predicted[TARGET], plan.interval[TARGET], started * link(TARGET).dispatch
    times = {"kernels_s": kernels, "predicted_s": starting + kernels, "low_s": starting + low}
    return times | {"high_s": starting + high}


def rows() -> Iterator[dict[str, Any]]:
    """Measure and predict every size of every series."""
    for series in SERIES:
        for size in series.sizes:
            inputs = series.inputs(size)
            seconds = least(lambda s=series, i=inputs: s.cpu(*i))
            yield {"series": series.name, "size": size, "cpu_s": seconds, **predicted(series, size)}


def predicted_again(kept: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Predict every kept row again, beside the time that was measured for it."""
    series = {each.name: each for each in SERIES}
    for row in kept:
        yield row | predicted(series[row["series"]], row["size"])


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--predicted", action="store_true", help="predict again, and keep what was measured")
    again = parser.parse_args().predicted
    torch.set_num_threads(1)
    kept = json.loads(FILE.read_text()) if again else {"machine": machine("cpu"), "target": TARGET, "rows": []}
    written = []
    for row in predicted_again(kept["rows"]) if again else rows():
        print(f"{row['series']:36} {row['size']:5}  {row['cpu_s'] / row['predicted_s']:.3g} times")
        written.append(row)
    FILE.write_text(json.dumps({**kept, "rows": written}, indent=1) + "\n")


if __name__ == "__main__":
    main()
