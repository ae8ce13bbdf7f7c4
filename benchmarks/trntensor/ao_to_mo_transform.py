"""``trntensor.ao_to_mo_transform`` beside torch and opt_einsum."""

from __future__ import annotations

from typing import Any

import opt_einsum
import torch
from torch import Tensor

from benchmarks.registry import Bench, Case, Kernel, Peer
from trnsci.testing import gaussian
from trntensor import ao_to_mo_transform
from trntensor.kernels import ao_to_mo_transform as kernels

THREE = "mnx,mi,na->iax"


def _case(nao: int, naux: int, nocc: int, nvir: int, dtype: torch.dtype) -> Case:
    def inputs() -> tuple[Any, ...]:
        return gaussian((nao, nao, naux), 1, dtype), gaussian((nao, nocc), 2, dtype), gaussian((nao, nvir), 3, dtype)

    return Case(
        name=f"{nao} basis, {naux} aux, {nocc} occ, {nvir} vir, {str(dtype).removeprefix('torch.')}",
        inputs=inputs,
        flops=2 * nao * naux * nocc * (nao + nvir),
        bytes=dtype.itemsize * (nao * nao * naux + nocc * nvir * naux),
    )


def _torch(eri: Tensor, left: Tensor, right: Tensor) -> Tensor:
    half = torch.tensordot(left, eri, ([0], [0]))  # [i, n, x]
    return torch.matmul(right.mT, half)


def _kernel(nao: int, naux: int, nocc: int, nvir: int, targets: tuple[str, ...] = ("trn1", "trn2", "trn3")) -> Kernel:
    def inputs() -> tuple[Any, ...]:
        shapes = (nao, nao, naux), (nao, nocc), (nao, nvir)
        return tuple(torch.empty(shape, device="meta") for shape in shapes)

    name = f"{nao} basis, {naux} aux, {nocc} occ, {nvir} vir, float32"
    return Kernel(name=name, kernel=kernels.ao_to_mo_transform, inputs=inputs, targets=targets)


BENCH = Bench(
    op="trntensor.ao_to_mo_transform",
    run=ao_to_mo_transform,
    tests="tests/trntensor/test_ao_to_mo_transform.py",
    cases=(_case(96, 256, 16, 80, torch.float32), _case(96, 256, 16, 80, torch.float64)),
    peers=(
        Peer(name="two torch products", run=_torch),
        Peer(name="opt_einsum on torch", run=lambda e, left, right: opt_einsum.contract(THREE, e, left, right)),
    ),
    kernels=(_kernel(512, 128, 64, 448, ("trn2",)), _kernel(200, 130, 9, 70)),
    tolerance=1e-4,
    notes="The kernel reads its integrals in rows of one tile; on trn1 it waits for those reads.",
)
