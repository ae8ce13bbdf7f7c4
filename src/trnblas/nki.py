"""Kernels by name: these always run NKI, on the Trainium of this machine if it has one, else on the simulator."""

from __future__ import annotations

import torch
from torch import Tensor

import trnsci
from trnblas.gemm import gemm
from trnblas.mp2 import mp2_pairs
from trnsci import HAS_NKI, array_function, earlier, neuron
from trnsci.config import BackendName
from trnsci.nki import P_MAX

earlier.spell(__name__)

__all__ = ["HAS_NKI", "nki_batched_gemm", "nki_gemm", "nki_mp2_energy"]


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


@array_function
def nki_mp2_energy(T_flat: Tensor, eps_occ_chunk: Tensor, eps_occ_full: Tensor, eps_vir: Tensor) -> Tensor:
    """Return partial energies [P, I, J] of a chunk of occupied orbitals; their sum is `trnblas.mp2_energy`.

    P is the largest divisor of the number of virtual orbitals up to 128. The kernel reduces over partitions itself, so
    that the first partial is the energy of every pair, as `trnblas.mp2_pairs` has it, and the others are zero.
    """
    with trnsci.backend(_kernels()):
        pairs = mp2_pairs(T_flat, eps_occ_chunk, eps_occ_full, eps_vir)
    p = max(d for d in range(1, P_MAX + 1) if len(eps_vir) % d == 0)
    return torch.cat([pairs.unsqueeze(0), pairs.new_zeros((p - 1, *pairs.shape))])
