"""MP2 energies of integrals that stay where they are: blocks of orbitals are brought to a device, two at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from trnsci import ArgumentError, CapacityError
from trnsci.ops import definition
from trnsci.plans import quantity
from trnsci.specs import TensorSpec
from trntensor.mp2_energy import Between, Sums, Within, mp2_between, mp2_within

# What torch's allocator and other programs may take between asking and using.
SHARE = 0.9


class Blocks(NamedTuple):
    """Orbitals of a block, the device they are brought to, and the bytes of it that are used at most."""

    rows: int
    device: torch.device
    peak_bytes: int

    def __str__(self) -> str:
        return f"blocks of {self.rows} orbitals on {self.device}, at most {quantity(self.peak_bytes, 'B')} there"


def device_of(op: str, device: torch.device | str) -> torch.device:
    """A device by its name, which has memory here."""
    try:
        found = torch.empty(0, device=torch.device(device)).device
    except (RuntimeError, TypeError, ValueError, AssertionError) as error:
        said = str(error).partition("\n")[0]
        expected = "a device torch knows and this machine has, as 'cuda'"
        raise ArgumentError(
            op=op, argument="device", got=device, expected=expected, hint=f"torch says: {said}"
        ) from None
    return found


def blocks(
    nocc: int, nvir: int, naux: int, dtype: torch.dtype, device: torch.device, memory: int | None = None
) -> Blocks:
    """Choose blocks as large as ``memory`` bytes of a device allow; by default most of what is free there."""
    if memory is None and device.type == "cuda":
        memory = int(SHARE * torch.cuda.mem_get_info(device)[0])
    rows = nocc
    while rows > 1 and memory is not None and _peak(nocc, rows, nvir, naux, dtype, device) > memory:
        rows = -(-rows // 2)
    needed = _peak(nocc, rows, nvir, naux, dtype, device)
    if memory is not None and needed > memory:
        hint = "Two orbitals' integrals and their products must fit; there is no smaller block"
        raise CapacityError(where=str(device), required=needed, available=memory, hint=hint)
    return Blocks(rows, device, needed)


def _peak(nocc: int, rows: int, nvir: int, naux: int, dtype: torch.dtype, device: torch.device) -> int:
    """Bytes of energies, of one block or two, and of what their pairs need."""
    block = TensorSpec((rows, nvir, naux), dtype, device=device)
    one, vir = TensorSpec((rows,), dtype, device=device), TensorSpec((nvir,), dtype, device=device)
    calls = [Within(block, one, vir)]  # type: ignore[arg-type]
    if rows < nocc:
        calls.append(Between(block, block, one, one, vir))  # type: ignore[arg-type]
    work = max(call.workspace(definition(call).decide(call).implementation) for call in calls)
    return block.nbytes * len(calls) + work + dtype.itemsize * (nocc + nvir) + (1 << 16)


def energies(
    rows: Callable[[int, int], Tensor], eps_occ: Tensor, eps_vir: Tensor, chosen: Blocks, done: Callable[[int], None]
) -> Sums:
    """Both sums over all pairs.

    Args:
        rows: returns integrals [last - first, nvir, naux] of the orbitals from ``first`` to ``last``, in any memory.
        eps_occ: [nocc]
        eps_vir: [nvir]
        chosen: the blocks.
        done: is told of every so many finished pairs.
    """
    nocc, step, device = len(eps_occ), chosen.rows, chosen.device
    occ, vir = eps_occ.to(device), eps_vir.to(device)
    square = cross = torch.zeros((), dtype=torch.float64, device=device)
    for i in range(0, nocc, step):
        left, mine = rows(i, min(nocc, i + step)).to(device), occ[i : i + step]
        s, c = mp2_within(left, mine, vir)
        square, cross = square + s.double(), cross + c.double()
        done(len(mine) * (len(mine) + 1) // 2)
        for j in range(i + step, nocc, step):
            right, others = rows(j, min(nocc, j + step)).to(device), occ[j : j + step]
            s, c = mp2_between(left, right, mine, others, vir)
            square, cross = square + 2 * s.double(), cross + 2 * c.double()
            del right
            done(len(mine) * len(others))
        del left
    return square.to(eps_occ.dtype), cross.to(eps_occ.dtype)
