"""``trntensor.mp2_energy`` beside a loop over pairs in torch, and the energy step of PySCF's own DF-MP2."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.registry import Bench, Case, Kernel, Peer
from trnsci.testing import gaussian
from trntensor import mp2_energy
from trntensor.kernels import mp2_energy as kernels


def _case(nocc: int, nvir: int, naux: int, dtype: torch.dtype, devices: tuple[str, ...] = ("cpu", "cuda")) -> Case:
    def inputs() -> tuple[Any, ...]:
        B = gaussian((nocc, nvir, naux), 1, dtype) / naux**0.5
        return B, -torch.linspace(0.5, 2.0, nocc, dtype=dtype), torch.linspace(0.1, 3.0, nvir, dtype=dtype)

    return Case(
        name=f"{nocc}x{nvir}x{naux} {str(dtype).removeprefix('torch.')}",
        inputs=inputs,
        flops=nocc * (nocc + 1) * nvir * nvir * naux,
        bytes=dtype.itemsize * nocc * nvir * naux,
        devices=devices,
    )


def pair_loop(B: Tensor, occ: Tensor, vir: Tensor) -> Tensor:
    """The textbook's way: every pair, its integrals, its energy."""
    total = B.new_zeros(())
    for i in range(B.shape[0]):
        for j in range(B.shape[0]):
            T = B[i] @ B[j].mT
            D = occ[i] + occ[j] - vir[:, None] - vir
            total = total + (T * (2 * T - T.mT) / D).sum()
    return total


def row_loop(B: Tensor, occ: Tensor, vir: Tensor) -> Tensor:
    """All pairs of as many orbitals at once as a gigabyte of integrals allows."""
    total = B.new_zeros((), dtype=torch.float64)
    nocc, nvir, _ = B.shape
    step = max(1, (1 << 30) // (nocc * nvir * nvir * B.element_size()))
    for i in range(0, nocc, step):
        T = torch.einsum("iap,jbp->ijab", B[i : i + step], B)
        D = (occ[i : i + step, None] + occ)[:, :, None, None] - vir[:, None] - vir
        total = total + (T * (2 * T - T.mT) / D).sum()
    return total


def _for_pyscf(B: Tensor, occ: Tensor, vir: Tensor) -> tuple[Any, ...]:
    """A solver that has its integrals already: what remains is its energy step."""
    from pyscf import gto, scf
    from pyscf.mp import dfmp2

    nocc, nvir, naux = B.shape
    molecule = gto.M(atom="He 0 0 0", verbose=0)
    molecule.nelectron = 2 * nocc
    field = scf.RHF(molecule)
    field.mo_energy = np.concatenate([occ.double().numpy(), vir.double().numpy()])
    field.mo_coeff = np.eye(nocc + nvir)
    field.mo_occ = np.array([2] * nocc + [0] * nvir)
    field.converged = True
    solver = dfmp2.DFMP2(field, mo_coeff=field.mo_coeff, mo_occ=field.mo_occ)
    integrals = dfmp2._DFINCOREERIS(
        None,
        field.mo_coeff[:, :nocc],
        field.mo_coeff[:, nocc:],
        solver.max_memory,
        ovL=np.ascontiguousarray(B.double().numpy().reshape(nocc * nvir, naux)),
    )
    return solver, integrals


def _pyscf(solver: Any, integrals: Any) -> float:
    from pyscf.mp import dfmp2

    return float(dfmp2.kernel(solver, eris=integrals, with_t2=False)[0])


def _kernel(nocc: int, nvir: int, naux: int, targets: tuple[str, ...] = ("trn1", "trn2", "trn3")) -> Kernel:
    def inputs() -> tuple[Any, ...]:
        shapes = (nocc, nvir, naux), (1, nocc), (1, nvir), (nvir, 1)
        return tuple(torch.empty(shape, device="meta") for shape in shapes)

    return Kernel(name=f"{nocc}x{nvir}x{naux} float32", kernel=kernels.mp2_energy, inputs=inputs, targets=targets)


def _between(rows: int, columns: int, nvir: int, naux: int) -> Kernel:
    def inputs() -> tuple[Any, ...]:
        shapes = (rows, nvir, naux), (1, rows), (1, nvir), (nvir, 1), (columns, nvir, naux), (1, columns)
        return tuple(torch.empty(shape, device="meta") for shape in shapes)

    return Kernel(name=f"{rows} with {columns}, x{nvir}x{naux} float32", kernel=kernels.mp2_energy, inputs=inputs)


BENCH = Bench(
    op="trntensor.mp2_energy",
    run=mp2_energy,
    tests="tests/trntensor/test_mp2_energy.py",
    cases=(
        _case(16, 128, 128, torch.float32),
        # larger ones take the peers many seconds a call on one core
        _case(20, 160, 320, torch.float32, devices=("cpu",)),
        _case(20, 160, 320, torch.float64, devices=("cpu",)),
        *(
            _case(*sizes, dtype, devices=("cuda",))
            for sizes in ((16, 128, 256), (32, 224, 512), (64, 448, 1024), (96, 672, 1536))
            for dtype in (torch.float32, torch.float64)
        ),
    ),
    peers=(
        Peer(name="torch pair loop", run=pair_loop, devices=("cpu",)),
        Peer(name="torch blocked einsum", run=row_loop),
        Peer(name="PySCF DF-MP2", requires="pyscf", devices=("cpu",), prepare=_for_pyscf, run=_pyscf),
    ),
    kernels=(
        *(_kernel(16, 128, 128), _kernel(6, 448, 1536), _kernel(5, 19, 72), _kernel(2, 600, 300)),
        *(_between(3, 3, 448, 1536), _between(2, 3, 19, 72)),
    ),
    comparable=float,
    tolerance=1e-4,
    notes="PySCF always computes in float64, also in its float32 row.",
)
