"""``trnblas.gemm`` beside torch, NumPy and SciPy, and what dispatch costs on top of a bare torch call."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.linalg import blas

from benchmarks.registry import TARGETS, Bench, Case, Kernel, Peer
from trnblas import gemm
from trnblas.kernels import gemm as kernels
from trnsci.testing import gaussian


def _case(m: int, k: int, n: int, dtype: torch.dtype, *, batch: int = 1, overhead: bool = False) -> Case:
    lead = (batch,) if batch > 1 else ()
    name = f"{f'{batch}x' if batch > 1 else ''}({m}x{k}x{n}) {str(dtype).removeprefix('torch.')}"
    terms = 8 if dtype.is_complex else 2

    def inputs() -> tuple[Any, ...]:
        return 1.0, gaussian((*lead, m, k), 1, dtype), gaussian((*lead, k, n), 2, dtype)

    return Case(
        name=name,
        inputs=inputs,
        flops=terms * batch * m * k * n,
        bytes=dtype.itemsize * batch * (m * k + k * n + m * n),
        overhead=overhead,
    )


def _precise(n: int, dtype: torch.dtype, precision: str) -> Case:
    return Case(
        name=f"({n}x{n}x{n}) {str(dtype).removeprefix('torch.')} {precision}",
        inputs=lambda: (1.0, gaussian((n, n), 1, dtype), gaussian((n, n), 2, dtype), precision),
        flops=2 * n**3,
        bytes=3 * dtype.itemsize * n * n,
        devices=("cuda",),
    )


def _torch(alpha: float, a: torch.Tensor, b: torch.Tensor, precision: str = "") -> torch.Tensor:
    return torch.matmul(a.bfloat16(), b.bfloat16()) if precision == "fast" else torch.matmul(a, b)


def _to_numpy(alpha: float, a: torch.Tensor, b: torch.Tensor) -> tuple[Any, ...]:
    return alpha, a.numpy(), b.numpy()


def _to_fortran(alpha: float, a: torch.Tensor, b: torch.Tensor) -> tuple[Any, ...]:
    return alpha, np.asfortranarray(a.numpy()), np.asfortranarray(b.numpy())


def _scipy(alpha: float, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    (multiply,) = blas.get_blas_funcs(("gemm",), (a, b))
    if a.ndim == 2:
        return multiply(alpha, a, b)
    return np.stack([multiply(alpha, x, y) for x, y in zip(a, b, strict=True)])


def _kernel(
    m: int, k: int, n: int, dtype: torch.dtype, *, batch: int = 1, targets: tuple[str, ...] = TARGETS
) -> Kernel:
    def inputs() -> tuple[Any, ...]:
        shapes = (batch, k, m), (batch, k, n)
        return tuple(torch.empty(shape, dtype=dtype, device="meta") for shape in shapes)

    name = f"{batch}x({m}x{k}x{n}) {str(dtype).removeprefix('torch.')}"
    half = dtype in (torch.float16, torch.bfloat16)
    return Kernel(name=name, kernel=kernels.gemm, inputs=inputs, options={"half": half}, targets=targets)


BENCH = Bench(
    op="trnblas.gemm",
    run=lambda alpha, a, b, precision=None: gemm(alpha, a, b, precision=precision),
    tests="tests/trnblas/test_gemm.py",
    cases=(
        _case(8, 8, 8, torch.float32, overhead=True),
        _case(256, 256, 256, torch.float32),
        _case(1024, 1024, 1024, torch.float32),
        _case(1024, 1024, 1024, torch.float64),
        _case(512, 512, 512, torch.complex64),
        _case(256, 128, 256, torch.float32, batch=32),
        _precise(4096, torch.float32, "fast"),
        _precise(4096, torch.float64, "compensated"),
    ),
    peers=(
        Peer(name="torch.matmul", run=_torch),
        Peer(name="numpy.matmul", run=lambda alpha, a, b: np.matmul(a, b), prepare=_to_numpy, devices=("cpu",)),
        Peer(name="scipy.linalg.blas", run=_scipy, prepare=_to_fortran, requires="scipy", devices=("cpu",)),
    ),
    kernels=(
        _kernel(2048, 2048, 2048, torch.bfloat16),
        _kernel(4096, 8192, 8192, torch.float32, targets=("trn2",)),
        _kernel(200, 300, 77, torch.float32),
        _kernel(256, 128, 256, torch.float32, batch=32),
    ),
    # beside bfloat16's own rounding of the result
    tolerance=5e-3,
    notes="The first row is the cost of argument checks and dispatch: a difference in microseconds, at most 15.",
)
