"""Integral transformation from atomic to molecular orbitals, three- and four-index, as one program."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from trnsci import ArgumentError, Cost, array_function, check, op, run
from trnsci.gradient import saves
from trnsci.nki import K_TILE, P_MAX, launch
from trntensor.einsum import einsum
from trntensor.kernels import ao_to_mo_transform as kernels

_BLOCK_BYTES = 64 << 20


@array_function
def ao_to_mo_transform(eri: Tensor, C_occ: Tensor, C_vir: Tensor) -> Tensor:
    """Transform integrals to occupied and virtual orbitals.

    Args:
        eri: [nao, nao, naux], three-index density-fitting integrals; or [nao, nao, nao, nao], all four-index ones. No
            permutational symmetry is assumed.
        C_occ: [nao, nocc], orbital coefficients.
        C_vir: [nao, nvir], orbital coefficients.

    Returns:
        [nocc, nvir, naux], ``sum C_occ[m, i] C_vir[n, a] eri[m, n, P]``, which `mp2_energy` takes; or
        [nocc, nvir, nocc, nvir], the integrals (ia|jb).

    Raises:
        ArgumentError: shapes do not fit.
        DtypeError: dtypes differ or are not floating-point ones.

    Error bound:
        ``g(2 nao + 4)`` times the same transformation of absolute values, twice that for four indices.

    Cost:
        ``2 nao**2 nocc naux + 2 nao nocc nvir naux`` FLOPs for three indices; the half-transformed integrals exist one
        block at a time, on PyTorch as in the kernel.

    Example:
        >>> ao_to_mo_transform(torch.ones(2, 2, 3), torch.ones(2, 1), torch.ones(2, 4)).shape
        torch.Size([1, 4, 3])
    """
    check.floating("ao_to_mo_transform", eri=eri, C_occ=C_occ, C_vir=C_vir)
    check.same_device("ao_to_mo_transform", eri=eri, C_occ=C_occ, C_vir=C_vir)
    if eri.ndim not in (3, 4):
        raise ArgumentError(
            "ao_to_mo_transform", "shape of eri", tuple(eri.shape), "[nao, nao, naux] or [nao, nao, nao, nao]"
        )
    for name, x in (("C_occ", C_occ), ("C_vir", C_vir)):
        check.refuse(x.ndim != 2, "ao_to_mo_transform", f"shape of {name}", tuple(x.shape), "two axes")
    check.equal("ao_to_mo_transform", "nao", eri=eri.shape[0], C_occ=C_occ.shape[0])
    check.equal("ao_to_mo_transform", "nao", eri=eri.shape[1], C_vir=C_vir.shape[0])
    if eri.ndim == 3:
        return transform_pair(eri, C_occ, C_vir)
    check.equal("ao_to_mo_transform", "nao", eri=eri.shape[2], C_occ=C_occ.shape[0])
    check.equal("ao_to_mo_transform", "nao", eri=eri.shape[3], C_vir=C_vir.shape[0])
    nao, nocc, nvir = eri.shape[0], C_occ.shape[1], C_vir.shape[1]
    half = transform_pair(eri.reshape(nao, nao, nao * nao), C_occ, C_vir)  # [i, a, ls]
    other = half.reshape(nocc * nvir, nao, nao).permute(1, 2, 0)  # [l, s, ia]
    both = transform_pair(other, C_occ, C_vir)  # [j, b, ia]
    return both.permute(2, 0, 1).reshape(nocc, nvir, nocc, nvir)


def transform_pair(e: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return ``out[i, a, x] = sum left[m, i] right[n, a] e[m, n, x]``."""
    return run(Transform(e, left, right))


@op("trntensor::ao_to_mo_transform")
class Transform(NamedTuple):
    """``out[i, a, x] = sum left[m, i] right[n, a] e[m, n, x]``."""

    e: Tensor  # [M, N, X]
    left: Tensor  # [M, I]
    right: Tensor  # [N, A]

    def fake(self) -> Tensor:
        return self.e.new_empty((self.left.shape[1], self.right.shape[1], self.e.shape[2]))

    def cost(self) -> Cost:
        (M, N, X), occ, vir = self.e.shape, self.left.shape[1], self.right.shape[1]
        size = self.e.dtype.itemsize
        flops = (8 if self.e.is_complex() else 2) * (M * N * X * occ + N * X * occ * vir)
        read, written = size * (M * N * X + M * occ + N * vir), size * occ * vir * X
        return Cost(flops, read, written, size * occ * N * _width(self.e, occ))

    def pytorch(self) -> Tensor:
        e, left, right = self.e, self.left, self.right
        (M, N, X), occ = e.shape, left.shape[1]
        width, parts = _width(e, occ), []
        for start in range(0, max(X, 1), width):
            part = e[:, :, start : start + width]
            half = torch.mm(left.mT, part.reshape(M, N * part.shape[2]))  # [i, nx]
            parts.append(torch.matmul(right.mT, half.view(occ, N, part.shape[2])))
        return parts[0] if len(parts) == 1 else torch.cat(parts, 2)

    # torch would keep the half-transformed integrals beside the operands
    @saves("e", "left", "right", pytorch=True)
    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        e, left, right = self.e.conj(), self.left.conj(), self.right.conj()
        gradients: dict[str, Tensor] = {}
        if "e" in needs:
            gradients["e"] = einsum("mi,na,iax->mnx", left, right, grad)
        if "left" in needs:
            gradients["left"] = einsum("mnx,na,iax->mi", e, right, grad)
        if "right" in needs:
            gradients["right"] = einsum("mnx,mi,iax->na", e, left, grad)
        return gradients

    def limits(self, implementation: str) -> str | None:
        if implementation != "nki":
            return None
        name = str(self.e.dtype).removeprefix("torch.")
        if self.e.dtype != torch.float32:
            return f"computes in fp32, which is not what {name} asks for; takes float32"
        (M, N, _), occ, vir = self.e.shape, self.left.shape[1], self.right.shape[1]
        held = 4 * (math.ceil(M / K_TILE) * occ + math.ceil(N / K_TILE) * vir)
        if held > 24 * 1024:
            return f"keeps both coefficient matrices in SBUF: {held} bytes a partition, at most {24 * 1024}"
        half = 4 * P_MAX * math.ceil(N / K_TILE)
        if half > kernels.HALF:
            return f"keeps one orbital's half-transformed integrals in SBUF: {half} bytes, at most {kernels.HALF}"
        return None

    def nki(self) -> Tensor:
        if any(x.numel() == 0 for x in self):
            return self.fake().zero_()
        result: Tensor = launch(kernels.ao_to_mo_transform, *(x.contiguous() for x in self))
        return result


def _width(e: Tensor, occ: int) -> int:
    """Return how many columns of X fit at once, by the memory of the half-transformed integrals."""
    return max(1, min(e.shape[2], _BLOCK_BYTES // max(1, occ * e.shape[1] * e.dtype.itemsize)))
