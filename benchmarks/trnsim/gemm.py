"""The tiled GEMM kernel simulated, beside one ``numpy.matmul`` and the same tiles in bare NumPy."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from benchmarks.registry import Bench, Case, Peer
from trnblas.kernels import gemm as kernels
from trnsim import simulate

K_TILE, M_TILE, N_TILE = 128, 128, 512


def _case(n: int, *, checks: bool, limit: float) -> Case:
    def inputs() -> tuple[Any, ...]:
        generator = np.random.default_rng(0)
        aT, b = (generator.standard_normal((1, n, n), dtype=np.float32) for _ in range(2))
        return aT, b, checks

    how = "with checks" if checks else "checks=False"
    return Case(name=f"{n}x{n}x{n} float32 {how}, at most {limit}", inputs=inputs, flops=2 * n**3, bytes=12 * n * n)


@functools.cache
def _simulated(checks: bool) -> Any:
    return simulate(kernels.gemm, target="trn2", checks=checks)


def _run(aT: np.ndarray, b: np.ndarray, checks: bool) -> np.ndarray:
    return _simulated(checks)(aT, b)


def _matmul(aT: np.ndarray, b: np.ndarray, _: bool) -> np.ndarray:
    return np.matmul(aT.transpose(0, 2, 1), b)


def _tiled(aT: np.ndarray, b: np.ndarray, _: bool) -> np.ndarray:
    """The kernel's own tiles copied, multiplied and added, with nothing around them."""
    _, k, m = aT.shape
    n = b.shape[2]
    out = np.empty((1, m, n), np.float32)
    bank, product = np.empty((2, M_TILE, N_TILE), np.float32)
    for i in range(0, m, M_TILE):
        fixed = [aT[0, s : s + K_TILE, i : i + M_TILE].copy() for s in range(0, k, K_TILE)]
        for j in range(0, n, N_TILE):
            for at, left in enumerate(fixed):
                right = b[0, at * K_TILE : (at + 1) * K_TILE, j : j + N_TILE].copy()
                np.matmul(left.T, right, out=bank if at == 0 else product)
                if at:
                    np.add(bank, product, out=bank)
            out[0, i : i + M_TILE, j : j + N_TILE] = bank
    return out


BENCH = Bench(
    op="trnsim.gemm",
    run=_run,
    tests="tests/trnsim/test_tensor_engine.py",
    cases=(_case(1024, checks=True, limit=3.5), _case(2048, checks=False, limit=2.5)),
    peers=(
        Peer(name="numpy.matmul", run=_matmul, devices=("cpu",)),
        Peer(name="tiled NumPy", run=_tiled, devices=("cpu",)),
    ),
    tolerance=1e-5,
    notes="Each case names the most it may take relative to numpy.matmul. The simulator works as the machine does, in"
    " tiles of 128×128 by 128×512, each product added to a PSUM bank. Plain NumPy takes most of that time for it.",
    devices=("cpu",),
)
