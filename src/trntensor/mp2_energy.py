"""MP2 correlation energy from density-fitted integrals, contracted and reduced without forming the integrals."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnblas import host
from trnsci import ArgumentError, Cost, DtypeError, Op, array_function, check, native
from trnsci.gradient import Saved
from trnsci.nki import launch
from trntensor.kernels import mp2_energy as kernels

SOURCE = Path(__file__).with_name("pairs.c")


class MP2Energy(NamedTuple):
    """The correlation energy and its spin components; ``total`` is their sum."""

    total: Any
    opposite_spin: Any
    same_spin: Any


@array_function
def mp2_energy(B: Tensor, eps_occ: Tensor, eps_vir: Tensor, *, parts: bool = False) -> Tensor | MP2Energy:
    """Closed-shell MP2 correlation energy, ``sum T_ab (2 T_ab - T_ba) / (e_i + e_j - e_a - e_b)``.

    ``T = B[i] @ B[j].T`` is the block ``(ia|jb)`` of integrals. Pairs are taken once, ``i <= j``, and their integrals
    exist one block at a time.

    Args:
        B: [nocc, nvir, naux], the fitted three-index integrals; real.
        eps_occ: [nocc], energies of occupied orbitals.
        eps_vir: [nvir], energies of virtual orbitals, above the occupied ones.
        parts: return the spin components too.

    Returns:
        A scalar, or `MP2Energy` with ``total``, ``opposite_spin`` (``sum T_ab**2 / D``) and ``same_spin``
        (``sum T_ab (T_ab - T_ba) / D``).

    Raises:
        ArgumentError: shapes do not fit, or a denominator is not negative.
        DtypeError: dtypes differ or are not real floating-point ones.

    Error bound:
        ``g(naux + nocc**2 * nvir**2 + 8)`` of the sum of absolute values in any order of summation; see
        docs/trntensor/mp2_energy.md for the sharper one of blocked sums.

    Cost:
        ``nocc * (nocc + 1) * nvir**2 * naux`` FLOPs; memory ``O(nvir * naux)`` beyond the operands.

    Example:
        >>> mp2_energy(torch.ones(1, 1, 1), torch.tensor([-1.0]), torch.tensor([1.0]))
        tensor(-0.2500)
    """
    dtype = check.floating("mp2_energy", B=B, eps_occ=eps_occ, eps_vir=eps_vir)
    if dtype.is_complex:
        raise DtypeError(op="mp2_energy", argument="dtype of B", got=dtype, expected="a real dtype")
    _check(B, eps_occ, eps_vir)
    check.same_device("mp2_energy", B=B, eps_occ=eps_occ, eps_vir=eps_vir)
    wants = torch.is_grad_enabled() and (B.requires_grad or eps_occ.requires_grad or eps_vir.requires_grad)
    # The registered operator has the blocked gradient; differentiating through the loop would keep every block.
    run = torch.ops.trntensor.mp2_energy.default if wants else _mp2_energy
    square, cross = run(B, eps_occ, eps_vir)
    if not parts:
        return 2 * square - cross
    return MP2Energy(2 * square - cross, square, square - cross)


def _check(B: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> None:
    if B.ndim != 3:
        raise ArgumentError(
            op="mp2_energy", argument="shape of B", got=tuple(B.shape), expected="three axes, [nocc, nvir, naux]"
        )
    for name, x in (("eps_occ", eps_occ), ("eps_vir", eps_vir)):
        if x.ndim != 1:
            raise ArgumentError(op="mp2_energy", argument=f"shape of {name}", got=tuple(x.shape), expected="one axis")
    check.equal("mp2_energy", "nocc", B=B.shape[0], eps_occ=eps_occ.shape[0])
    check.equal("mp2_energy", "nvir", B=B.shape[1], eps_vir=eps_vir.shape[0])
    if not B.is_meta and type(B) is Tensor and eps_occ.numel() and eps_vir.numel():
        highest, lowest = float(eps_occ.detach().max()), float(eps_vir.detach().min())
        if not highest < lowest:
            raise ArgumentError(
                op="mp2_energy",
                argument="eps_occ",
                got=f"{highest} at its highest",
                expected=f"below the lowest of eps_vir, {lowest}",
                hint="A gap that closes makes a denominator vanish; check the order of the arguments",
            )


def _fake(B: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> tuple[Tensor, Tensor]:
    return B.new_empty(()), B.new_empty(())


def _cost(B: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> Cost:
    nocc, nvir, naux = B.shape
    flops = nocc * (nocc + 1) * nvir * nvir * naux + 3 * nocc * (nocc + 1) * nvir * nvir
    block = 3 * nvir * nvir * _block(nocc, nvir, naux) * B.dtype.itemsize
    return Cost(flops, B.dtype.itemsize * (B.numel() + nocc + nvir), 2 * B.dtype.itemsize, block)


_mp2_energy = Op("trntensor::mp2_energy", fake=_fake, cost=_cost)


def _block(nocc: int, nvir: int, naux: int) -> int:
    """Orbitals j at once: as many as keep the integrals no larger than a few B[i]."""
    return max(1, min(nocc, naux // max(1, nvir)))


def _blocks(nocc: int, width: int) -> Iterator[tuple[int, int, int]]:
    for i in range(nocc):
        for start in range(i, nocc, width):
            yield i, start, min(nocc, start + width)


@_mp2_energy.impl("pytorch")
def _pytorch(B: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> tuple[Tensor, Tensor]:
    (nocc, nvir, naux), dtype = B.shape, B.dtype
    # Half precision is too short for sums of this length.
    work = torch.float32 if B.dtype.itemsize < 4 else B.dtype
    occ, vir = eps_occ.to(work), eps_vir.to(work).contiguous()
    if B.numel() == 0:
        return B.new_zeros(()), B.new_zeros(())
    loop = _loop(B, work)
    # One pass needs one copy of the block, so that three times as wide ones take the same memory.
    copies = 1 if loop else 3
    width = min(nocc, _block(nocc, nvir, naux) * 3 // copies)
    memory = torch.empty((copies, width * nvir * nvir), dtype=work, device=B.device)
    sums = torch.empty((2, nocc * (nocc + 1) // 2), dtype=torch.float64 if loop else work, device=B.device)
    weights = torch.full((sums.shape[1],), 2.0, dtype=torch.float64, device=B.device)
    gaps = None if loop else vir[:, None] + vir  # [nvir, nvir]
    place = 0
    for i, start, stop in _blocks(nocc, width):
        count = stop - start
        found, size = sums[:, place : place + count], count * nvir * nvir
        right, left = B[i].to(work), B[start:stop].to(work).reshape(count * nvir, naux)
        t = _integrals(left, right.mT, memory[0, :size].view(count * nvir, nvir))
        pair = occ[start:stop] + occ[i]
        if loop is not None:
            loop(count, nvir, t.data_ptr(), pair.data_ptr(), vir.data_ptr(), found[0].data_ptr(), found[1].data_ptr())
        else:
            assert gaps is not None
            _energies(found, t.view(count, nvir, nvir), pair, gaps, memory[1:, :size].view(2, count, nvir, nvir))
        if start == i:
            weights[place] = 1.0
        place += count
    square, cross = (sums.double() @ weights).to(dtype).unbind()
    return square.clone(), cross.clone()


def _integrals(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    if host.multiplies(left, right):
        return host.product(left, right, out)
    return torch.mm(left, right, out=out)


def _energies(found: Tensor, t: Tensor, pair: Tensor, gaps: Tensor, memory: Tensor) -> None:
    """Both sums of every pair in the block, in passes over it."""
    y, z = memory
    torch.sub(pair.view(-1, 1, 1), gaps, out=y)
    torch.div(t, y, out=y)
    torch.sum(torch.mul(y, t, out=z), (1, 2), out=found[0])
    torch.sum(torch.mul(y, t.mT, out=z), (1, 2), out=found[1])


def _loop(B: Tensor, work: torch.dtype) -> Any:
    """The compiled pass, or ``None``: it runs on one thread, so that with many torch's own passes are faster."""
    if (
        B.device.type != "cpu"
        or torch.get_num_threads() > 4
        or torch._C._functorch.peek_interpreter_stack() is not None
    ):
        return None
    library = native.load(SOURCE)
    if library is None:
        return None
    found = library.pairs_float32 if work is torch.float32 else library.pairs_float64
    found.argtypes, found.restype = (ctypes.c_int64,) * 2 + (ctypes.c_void_p,) * 5, None
    return found


@_mp2_energy.vjp(saves=("B", "eps_occ", "eps_vir"))
def _gradient(saved: Saved, grad_square: Tensor, grad_cross: Tensor) -> Mapping[str, Any]:
    B, eps_occ, eps_vir = saved.B, saved.eps_occ, saved.eps_vir
    nocc, nvir, naux = B.shape
    rows, occ_rows = [], []
    d_vir = torch.zeros_like(eps_vir)
    gaps = eps_vir[:, None] + eps_vir
    width = _block(nocc, nvir, naux)
    for i in range(nocc):
        d_row, d_occ = torch.zeros_like(B[i]), torch.zeros_like(eps_occ[i])
        for start in range(0, nocc, width):
            stop = min(nocc, start + width)
            t = torch.matmul(B[i], B[start:stop].mT)  # [j, a, b]
            r = 1 / ((eps_occ[start:stop] + eps_occ[i]).view(-1, 1, 1) - gaps)
            slope = 2 * (grad_square * t + grad_cross * t.mT) * r
            d_row = d_row + 2 * torch.einsum("jab,jbp->ap", slope, B[start:stop])
            value = -(grad_square * t + grad_cross * t.mT) * t * r * r
            d_occ = d_occ + 2 * value.sum()
            d_vir = d_vir - 2 * value.sum((0, 2))
        rows.append(d_row)
        occ_rows.append(d_occ)
    if not rows:
        return {"B": torch.zeros_like(B), "eps_occ": torch.zeros_like(eps_occ), "eps_vir": d_vir}
    return {"B": torch.stack(rows), "eps_occ": torch.stack(occ_rows), "eps_vir": d_vir}


def _limits(B: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> str | None:
    if B.dtype != torch.float32:
        return f"sums in fp32, which is not what {str(B.dtype).removeprefix('torch.')} asks for; takes float32"
    return None


@_mp2_energy.impl("nki", limits=_limits)
def _nki(B: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> tuple[Tensor, Tensor]:
    if B.numel() == 0:
        return B.new_zeros(()), B.new_zeros(())
    made = launch(
        kernels.mp2_energy, B.contiguous(), eps_occ.view(1, -1), eps_vir.view(1, -1), eps_vir.view(-1, 1)
    )  # [1, 2]
    return made[0, 0].clone(), made[0, 1].clone()
