"""The earlier `trnblas`: its argument order, its spellings, and symmetric products as whole matrices."""

import functools
from typing import Any

import torch
from torch import Tensor

import trnblas
import trnblas.nki
import trnsci
from trnsci import neuron
from trnsci.earlier.calls import Function, read_calls, weigh_addend

_syrk, _gemm, _mp2_pairs, _backend = trnblas.syrk, trnblas.gemm, trnblas.mp2_pairs, trnsci.backend


def _by_kernel(function: Function) -> Function:
    """Decorate a function of ours: its kernel runs, on the device of this machine, else on the simulator."""

    @functools.wraps(function)
    def run(*args: Any, **keywords: Any) -> Any:
        with _backend("nki" if neuron.device() is not None else "simulator"):
            return function(*args, **keywords)

    return run


def _on_all(function: Function) -> Function:
    """Decorate a function of a vector: an array of any shape is one, in the order of its elements."""
    return lambda x: function(x.reshape(-1))


_MODULES = read_calls("trnblas", {"addend": weigh_addend, "kernel": _by_kernel, "all": _on_all})


def syrk(
    alpha: complex, A: Tensor, beta: complex = 0.0, C: Tensor | None = None, trans: Any = False, uplo: Any = "upper"
) -> Tensor:
    """Return ``alpha * A @ A^T + beta * C``, or ``A^T @ A``, as a whole matrix, whichever triangle is named."""
    _syrk(0.0, A[..., :0, :0], lower=uplo)
    return _MODULES["trnblas"]["gemm"](alpha, A, A, beta, C, trans, not trans)


@_by_kernel
def nki_batched_pair_energy(B: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> Tensor:
    """Return the MP2 energies [I, I] of all pairs, from factors ``B`` [I, A, P]."""
    nocc, nvir, _ = B.shape
    flat = B.reshape(nocc * nvir, -1)
    return _mp2_pairs(_gemm(1.0, flat, flat, trans_b=True), eps_occ, eps_occ, eps_vir)


@_by_kernel
def nki_fused_gemm_energy(
    b_i: Tensor, b_j: Tensor, eps_occ_i: Tensor | float, eps_occ_j: Tensor | float, eps_vir: Tensor
) -> Tensor:
    """Return the MP2 energy of one pair, from its factors ``b_i`` and ``b_j`` [A, P]."""
    first, second = (torch.as_tensor(x, dtype=b_i.dtype, device=b_i.device).reshape(1) for x in (eps_occ_i, eps_occ_j))
    return _mp2_pairs(_gemm(1.0, b_i, b_j, trans_b=True), first, second, eps_vir).reshape(())


MODULES: dict[str, dict[str, Any]] = {
    "trnblas": _MODULES["trnblas"] | {"syrk": syrk},
    "trnblas.nki": _MODULES["trnblas.nki"] | {f.__name__: f for f in (nki_batched_pair_energy, nki_fused_gemm_energy)},
}
