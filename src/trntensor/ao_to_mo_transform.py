"""Integral transformation from atomic to molecular orbitals, three- and four-index, as one program."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trnsci import ArgumentError, Cost, Op, array_function, check
from trnsci.gradient import Saved
from trnsci.nki import K_TILE, P_MAX, launch
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
            op="ao_to_mo_transform",
            argument="shape of eri",
            got=tuple(eri.shape),
            expected="[nao, nao, naux] or [nao, nao, nao, nao]",
        )
    for name, x in (("C_occ", C_occ), ("C_vir", C_vir)):
        if x.ndim != 2:
            raise ArgumentError(
                op="ao_to_mo_transform", argument=f"shape of {name}", got=tuple(x.shape), expected="two axes"
            )
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
    """``out[i, a, x] = sum left[m, i] right[n, a] e[m, n, x]``."""
    if torch.is_grad_enabled() and (e.requires_grad or left.requires_grad or right.requires_grad):
        # The registered operator keeps the operands only; torch would keep the half-transformed integrals.
        made: Tensor = torch.ops.trntensor.ao_to_mo_transform.default(e, left, right)
        return made
    return _transform(e, left, right)


def _fake(e: Tensor, left: Tensor, right: Tensor) -> Tensor:
    return e.new_empty((left.shape[1], right.shape[1], e.shape[2]))


def _cost(e: Tensor, left: Tensor, right: Tensor) -> Cost:
    (M, N, X), occ, vir = e.shape, left.shape[1], right.shape[1]
    size = e.dtype.itemsize
    flops = (8 if e.is_complex() else 2) * (M * N * X * occ + N * X * occ * vir)
    return Cost(flops, size * (M * N * X + M * occ + N * vir), size * occ * vir * X, size * occ * N * _width(e, occ))


def _width(e: Tensor, occ: int) -> int:
    """Columns of X at once, by the memory the half-transformed integrals take."""
    return max(1, min(e.shape[2], _BLOCK_BYTES // max(1, occ * e.shape[1] * e.dtype.itemsize)))


_transform = Op("trntensor::ao_to_mo_transform", fake=_fake, cost=_cost)


@_transform.impl("pytorch")
def _pytorch(e: Tensor, left: Tensor, right: Tensor) -> Tensor:
    (M, N, X), occ = e.shape, left.shape[1]
    out = e.new_empty((occ, right.shape[1], X))
    width = _width(e, occ)
    for start in range(0, X, width):
        part = e[:, :, start : start + width]
        columns = part.shape[2]
        half = torch.mm(left.mT, part.reshape(M, N * columns))  # [i, nx]
        out[:, :, start : start + columns] = torch.matmul(right.mT, half.view(occ, N, columns))
    return out


@_transform.vjp(saves=("e", "left", "right"))
def _gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    from trntensor.einsum import einsum

    e, left, right = saved.e.conj(), saved.left.conj(), saved.right.conj()
    found: dict[str, Tensor] = {}
    if saved.needs("e"):
        found["e"] = einsum("mi,na,iax->mnx", left, right, grad)
    if saved.needs("left"):
        found["left"] = einsum("mnx,na,iax->mi", e, right, grad)
    if saved.needs("right"):
        found["right"] = einsum("mnx,mi,iax->na", e, left, grad)
    return found


def _limits(e: Tensor, left: Tensor, right: Tensor) -> str | None:
    if e.dtype != torch.float32:
        return f"computes in fp32, which is not what {str(e.dtype).removeprefix('torch.')} asks for; takes float32"
    (M, N, _), occ, vir = e.shape, left.shape[1], right.shape[1]
    held = 4 * (math.ceil(M / K_TILE) * occ + math.ceil(N / K_TILE) * vir)
    if held > 24 * 1024:
        return f"keeps both coefficient matrices in SBUF: {held} bytes a partition, at most {24 * 1024}"
    half = 4 * P_MAX * math.ceil(N / K_TILE)
    if half > kernels.HALF:
        return f"keeps one orbital's half-transformed integrals in SBUF: {half} bytes, at most {kernels.HALF}"
    return None


@_transform.impl("nki", limits=_limits)
def _nki(e: Tensor, left: Tensor, right: Tensor) -> Tensor:
    if e.numel() == 0 or left.numel() == 0 or right.numel() == 0:
        return _fake(e, left, right).zero_()
    made: Tensor = launch(kernels.ao_to_mo_transform, e.contiguous(), left.contiguous(), right.contiguous())
    return made
