"""The earlier `trnblas`: its argument order, its spellings, and symmetric products as whole matrices."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import trnblas
import trnblas.nki
import trnsci
from trnsci import neuron

_set_backend, _get_backend = trnblas.set_backend, trnblas.get_backend
_syrk = trnblas.syrk
_gemm, _gemv, _ger, _axpy, _scal = trnblas.gemm, trnblas.gemv, trnblas.ger, trnblas.axpy, trnblas.scal
_symm, _symv, _trmm, _trmv, _trsm = trnblas.symm, trnblas.symv, trnblas.trmm, trnblas.trmv, trnblas.trsm
_nki_gemm, _nki_batched_gemm = trnblas.nki.nki_gemm, trnblas.nki.nki_batched_gemm
_mp2_pairs, _backend = trnblas.mp2_pairs, trnsci.backend


def axpy(alpha: complex, x: Tensor, y: Tensor) -> Tensor:
    """Return ``alpha * x + y``."""
    return _axpy(x, y, alpha)


def scal(alpha: complex, x: Tensor) -> Tensor:
    """Return ``alpha * x``."""
    return _scal(alpha, x)


def gemv(
    alpha: complex, A: Tensor, x: Tensor, beta: complex = 0.0, y: Tensor | None = None, trans: Any = False
) -> Tensor:
    """Return ``alpha * op(A) @ x + beta * y``."""
    return _gemv(alpha, A, x, beta, y, trans)


def ger(alpha: complex, x: Tensor, y: Tensor, A: Tensor | None = None) -> Tensor:
    """Return ``alpha * x y^T + A``."""
    return _ger(alpha, x, y, A)


def symv(
    alpha: complex, A: Tensor, x: Tensor, beta: complex = 0.0, y: Tensor | None = None, uplo: Any = "upper"
) -> Tensor:
    """Return ``alpha * A @ x + beta * y`` for symmetric ``A``, of which one triangle is read."""
    return _symv(alpha, A, x, beta, y, uplo)


def trmv(A: Tensor, x: Tensor, uplo: Any = "upper", trans: Any = False, diag: Any = "nonunit") -> Tensor:
    """Return ``op(A) @ x`` for triangular ``A``."""
    return _trmv(A, x, uplo, trans, diag)


def gemm(
    alpha: complex,
    A: Tensor,
    B: Tensor,
    beta: complex = 0.0,
    C: Tensor | None = None,
    transA: Any = False,
    transB: Any = False,
) -> Tensor:
    """Return ``alpha * op(A) @ op(B) + beta * C``; leading axes are batches."""
    return _gemm(alpha, A, B, beta, C, transA, transB)


def symm(
    alpha: complex,
    A: Tensor,
    B: Tensor,
    beta: complex = 0.0,
    C: Tensor | None = None,
    side: Any = "left",
    uplo: Any = "upper",
) -> Tensor:
    """Return ``alpha * A @ B + beta * C``, or ``B @ A``, for symmetric ``A``, of which one triangle is read."""
    return _symm(alpha, A, B, beta, C, side, uplo)


def syrk(
    alpha: complex, A: Tensor, beta: complex = 0.0, C: Tensor | None = None, trans: Any = False, uplo: Any = "upper"
) -> Tensor:
    """Return ``alpha * A @ A^T + beta * C``, or ``A^T @ A``, as a whole matrix, whichever triangle is named."""
    _syrk(0.0, A[..., :0, :0], lower=uplo)
    return _gemm(alpha, A, A, beta, C, trans, not trans)


def trsm(
    alpha: complex,
    A: Tensor,
    B: Tensor,
    side: Any = "left",
    uplo: Any = "upper",
    trans: Any = False,
    diag: Any = "nonunit",
) -> Tensor:
    """Solve ``op(A) @ X = alpha * B``, or ``X @ op(A)``, for triangular ``A``."""
    return _trsm(alpha, A, B, side, uplo, trans, diag)


def trmm(
    alpha: complex,
    A: Tensor,
    B: Tensor,
    side: Any = "left",
    uplo: Any = "upper",
    trans: Any = False,
    diag: Any = "nonunit",
) -> Tensor:
    """Return ``alpha * op(A) @ B``, or ``B @ op(A)``, for triangular ``A``."""
    return _trmm(alpha, A, B, side, uplo, trans, diag)


def _kernels() -> Any:
    """Return a block in which kernels run: on the device of this machine, else on the simulator."""
    return _backend("nki" if neuron.device() is not None else "simulator")


def nki_gemm(A: Tensor, B: Tensor) -> Tensor:
    """Return ``A @ B``, by the kernel."""
    return _nki_gemm(A, B)


def nki_batched_gemm(A: Tensor, B: Tensor) -> Tensor:
    """Return ``A @ B`` of each matrix of a batch, by the kernel."""
    return _nki_batched_gemm(A, B)


def nki_syrk(A: Tensor) -> Tensor:
    """Return ``A @ A^T`` as a whole matrix, by the kernel."""
    with _kernels():
        return _gemm(1.0, A, A, trans_b=True)


def nki_trsm(
    A: Tensor,
    B: Tensor,
    side: Any = "left",
    uplo: Any = "upper",
    trans: Any = False,
    diag: Any = "nonunit",
    alpha: complex = 1.0,
) -> Tensor:
    """Solve a triangular system by the kernel."""
    with _kernels():
        return _trsm(alpha, A, B, side, uplo, trans, diag)


def nki_batched_pair_energy(B: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> Tensor:
    """Return the MP2 energies [I, I] of all pairs, from factors ``B`` [I, A, P]."""
    nocc, nvir, _ = B.shape
    flat = B.reshape(nocc * nvir, -1)
    with _kernels():
        return _mp2_pairs(_gemm(1.0, flat, flat, trans_b=True), eps_occ, eps_occ, eps_vir)


def nki_fused_gemm_energy(
    b_i: Tensor, b_j: Tensor, eps_occ_i: Tensor | float, eps_occ_j: Tensor | float, eps_vir: Tensor
) -> Tensor:
    """Return the MP2 energy of one pair, from its factors ``b_i`` and ``b_j`` [A, P]."""
    first, second = (torch.as_tensor(x, dtype=b_i.dtype, device=b_i.device).reshape(1) for x in (eps_occ_i, eps_occ_j))
    with _kernels():
        return _mp2_pairs(_gemm(1.0, b_i, b_j, trans_b=True), first, second, eps_vir).reshape(())


_ENERGIES = (nki_syrk, nki_trsm, nki_batched_pair_energy, nki_fused_gemm_energy)
_NKI = {"HAS_NKI": trnsci.HAS_NKI, "set_backend": _set_backend, "get_backend": _get_backend}
MODULES: dict[str, dict[str, Any]] = {
    "trnblas": {
        "batched_gemm": gemm,
        **{f.__name__: f for f in (axpy, scal, gemv, ger, symv, trmv, gemm, symm, syrk, trsm, trmm)},
    },
    "trnblas.nki": {
        **_NKI,
        **{f.__name__: f for f in (nki_gemm, nki_batched_gemm, *_ENERGIES)},
    },
}
