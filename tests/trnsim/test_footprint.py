"""Memory a simulation takes beside the kernel's HBM tensors."""

import tracemalloc

import numpy as np
import pytest

from trnblas.kernels.gemm import gemm
from trnsim import simulate


@pytest.mark.parametrize("checks", [True, False], ids=["checks", "bare"])
def test_a_gemm_stays_within_twice_its_hbm_tensors(checks):
    n = 1024
    aT, b = (np.full((1, n, n), 0.5, np.float32) for _ in range(2))
    run = simulate(gemm, target="trn2", checks=checks)
    run(aT[:, :128, :128].copy(), b[:, :128, :128].copy())
    tracemalloc.start()
    out = run(aT, b)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    inputs = aT.nbytes + b.nbytes
    assert out.nbytes < peak
    assert inputs + peak <= 2 * (inputs + out.nbytes)
