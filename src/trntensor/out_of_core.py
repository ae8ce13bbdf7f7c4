"""MP2 energies of integrals that stay where they are: blocks of orbitals are brought to a device, two at a time."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from trnsci import CapacityError
from trnsci.plans import quantity
from trntensor.pair_sums import Sums

# What torch's allocator and other programs may take between asking and using.
SHARE = 0.9


class Blocks(NamedTuple):
    """Orbitals of a block, the device they are brought to, and the bytes of it that are used at most."""

    rows: int
    device: torch.device
    peak_bytes: int

    def __str__(self) -> str:
        return f"blocks of {self.rows} orbitals on {self.device}, at most {quantity(self.peak_bytes, 'B')} there"


def blocks(nocc: int, peak: Callable[[int], int], device: torch.device, memory: int | None = None) -> Blocks:
    """Choose blocks as large as ``memory`` bytes of a device allow; by default most of what is free there.

    ``peak`` returns the bytes that blocks of a number of orbitals take at most.
    """
    if memory is None and device.type == "cuda":
        memory = int(SHARE * torch.cuda.mem_get_info(device)[0])
    rows = nocc
    while rows > 1 and memory is not None and peak(rows) > memory:
        rows = -(-rows // 2)
    if memory is not None and peak(rows) > memory:
        hint = "Two orbitals' integrals and their products must fit; there is no smaller block"
        raise CapacityError(where=str(device), required=peak(rows), available=memory, hint=hint)
    return Blocks(rows, device, peak(rows))


def energies(
    rows: Callable[[int, int], Tensor],
    eps_occ: Tensor,
    eps_vir: Tensor,
    *,
    chosen: Blocks,
    done: Callable[[int], None],
    within: Callable[..., Sums],
    between: Callable[..., Sums],
) -> Sums:
    """Return both sums over all pairs; ``within`` and ``between`` return those of one block and of two.

    ``rows`` returns integrals [last - first, nvir, naux] of the orbitals from ``first`` to ``last``, in any memory, and
    ``done`` is called with the number of pairs finished since its last call.
    """
    nocc, step, device = len(eps_occ), chosen.rows, chosen.device
    occ, vir = eps_occ.to(device), eps_vir.to(device)
    square = cross = torch.zeros((), dtype=torch.float64, device=device)
    for i in range(0, nocc, step):
        left, mine = rows(i, min(nocc, i + step)).to(device), occ[i : i + step]
        s, c = within(left, mine, vir)
        square, cross = square + s.double(), cross + c.double()
        done(len(mine) * (len(mine) + 1) // 2)
        for j in range(i + step, nocc, step):
            right, others = rows(j, min(nocc, j + step)).to(device), occ[j : j + step]
            s, c = between(left, right, mine, others, vir)
            square, cross = square + 2 * s.double(), cross + 2 * c.double()
            del right
            done(len(mine) * len(others))
        del left
    return square.to(eps_occ.dtype), cross.to(eps_occ.dtype)


def opposite(
    rows: tuple[Callable[[int, int], Tensor], Callable[[int, int], Tensor]],
    eps_occ: tuple[Tensor, Tensor],
    eps_vir: tuple[Tensor, Tensor],
    *,
    chosen: Blocks,
    done: Callable[[int], None],
    between: Callable[..., Sums],
) -> Tensor:
    """Sum squares over all pairs of an orbital of one spin with one of the other; arguments of either spin."""
    step, device = chosen.rows, chosen.device
    occ, vir = ([energies.to(device) for energies in each] for each in (eps_occ, eps_vir))
    total = torch.zeros((), dtype=torch.float64, device=device)
    for i in range(0, len(occ[0]), step):
        mine = occ[0][i : i + step]
        left = rows[0](i, i + len(mine)).to(device)
        for j in range(0, len(occ[1]), step):
            others = occ[1][j : j + step]
            right = rows[1](j, j + len(others)).to(device)
            total = total + between(left, right, mine, others, *vir)[0].double()
            del right
            done(len(mine) * len(others))
        del left
    return total
