"""Kernels by name: these always run NKI, on the Trainium of this machine if it has one, else on the simulator."""

from __future__ import annotations

from torch import Tensor

import trnsci
from trnblas.gemm import gemm
from trnsci import HAS_NKI, array_function, neuron
from trnsci.config import BackendName

__all__ = ["HAS_NKI", "nki_batched_gemm", "nki_gemm"]


def _kernels() -> BackendName:
    return "nki" if neuron.device() is not None else "simulator"


@array_function
def nki_gemm(a: Tensor, b: Tensor) -> Tensor:
    """Multiply ``a`` [M, K] by ``b`` [K, N] with the NKI kernel of `trnblas.gemm`."""
    with trnsci.backend(_kernels()):
        return gemm(1.0, a, b)


@array_function
def nki_batched_gemm(a: Tensor, b: Tensor) -> Tensor:
    """Multiply ``a`` [B, M, K] by ``b`` [B, K, N], the whole batch in one program."""
    with trnsci.backend(_kernels()):
        return gemm(1.0, a, b)
