"""Sums over pairs of orbitals in torch's memory, block by block, and their gradients."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from trnsci import loops
from trnsci.host import is_transformed

# sum T_ab T_ab / D and sum T_ab T_ba / D
Sums: TypeAlias = tuple[Tensor, Tensor]
# integrals of two sets of orbitals, their energies, and those of virtual orbitals, of both spins where these differ
Pairs: TypeAlias = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None]


def block_of(nocc: int, nvir: int, naux: int) -> int:
    """Return how many orbitals j keep the integrals no larger than a few B[i]."""
    return max(1, min(nocc, naux // max(1, nvir)))


def sum_pairs(
    pairs_of: Pairs,
    *,
    once: bool = False,
    multiply: Callable[[Tensor, Tensor], Tensor] | None = None,
    loop: Callable[..., None] | None = None,
) -> Sums:
    """Return the sums over all pairs.

    ``once``: both sets are one, and pairs i < j are computed once and counted twice. ``multiply`` gives the integrals:
    on a device of fp32 from slices, whose exact products add up to float64. ``loop`` is the compiled pass.
    """
    left, right, eps_left, eps_right, eps_vir, eps_vir_right = pairs_of
    (rows, nvir, naux), columns, dtype = left.shape, right.shape[0], left.dtype
    # Half precision is too short for sums of this length.
    work = torch.float32 if dtype.itemsize < 4 else dtype
    one, other, vir = eps_left.to(work), eps_right.to(work), eps_vir.to(work).contiguous()
    vir_right = None if eps_vir_right is None else eps_vir_right.to(work)
    if left.numel() == 0 or right.numel() == 0:
        return left.new_zeros(()), left.new_zeros(())
    if is_transformed():
        # torch.func transforms what writes into no memory of its own.
        return _sum_functionally(pairs_of, work)
    # One pass needs one copy of the block, so that three times as wide ones take the same memory.
    copies = 1 if loop else 3
    width = min(columns, block_of(columns, nvir, naux) * 3 // copies)
    pairs = rows * (rows + 1) // 2 if once else rows * columns
    memory = torch.empty((copies, width * nvir * nvir), dtype=work, device=left.device)
    sums = torch.empty((2, pairs), dtype=torch.float64 if loop else work, device=left.device)
    weights = torch.full((pairs,), 2.0 if once else 1.0, dtype=torch.float64, device=left.device)
    gaps = None if loop else (vir if vir_right is None else vir_right)[:, None] + vir  # [nvir, nvir]
    index = 0
    starts = ((i, start) for i in range(rows) for start in range(i if once else 0, columns, width))
    for i, start in starts:
        stop = min(columns, start + width)
        count = stop - start
        block_sums, size = sums[:, index : index + count], count * nvir * nvir
        first, others = left[i].to(work), right[start:stop].to(work).reshape(count * nvir, naux)
        block = memory[0, :size].view(count * nvir, nvir)
        t = torch.mm(others, first.mT, out=block) if multiply is None else block.copy_(multiply(others, first.mT))
        pair = other[start:stop] + one[i]
        if loop is not None:
            loop(
                int(work is torch.float64), *(x.detach().numpy() for x in (t, pair, vir, block_sums[0], block_sums[1]))
            )
        else:
            assert gaps is not None
            blocks = memory[1:, :size].view(2, count, nvir, nvir)
            _energies(block_sums, t.view(count, nvir, nvir), pair, gaps, blocks, spins=vir_right is not None)
        if once and start == i:
            weights[index] = 1.0
        index += count
    square, cross = (sums.double() @ weights).to(dtype).unbind()
    return square.clone(), cross.clone()


def _sum_functionally(operands: Pairs, work: torch.dtype) -> Sums:
    """Return both sums over all ordered pairs, row by row."""
    left, right, one, other, vir = (x.to(work) for x in operands[:5])
    vir_right, square = operands[5], left.new_zeros(())
    cross, gaps = square, vir[:, None] + (vir if vir_right is None else vir_right.to(work))
    for i in range(len(left)):
        t = torch.matmul(left[i], right.mT)  # [j, a, b]
        weighted = t / ((other + one[i]).view(-1, 1, 1) - gaps)
        square = square + (weighted * t).sum()
        cross = cross if vir_right is not None else cross + (weighted * t.mT).sum()
    return square.to(operands[0].dtype), cross.to(operands[0].dtype)


def _energies(sums: Tensor, t: Tensor, pair: Tensor, gaps: Tensor, memory: Tensor, *, spins: bool) -> None:
    """Compute both sums of every pair in the block, in passes over it; of different ``spins`` the second is zero."""
    y, z = memory
    torch.sub(pair.view(-1, 1, 1), gaps, out=y)
    torch.div(t, y, out=y)
    torch.sum(torch.mul(y, t, out=z), (1, 2), out=sums[0])
    if spins:
        sums[1].zero_()
    else:
        torch.sum(torch.mul(y, t.mT, out=z), (1, 2), out=sums[1])


def loop_over_block() -> Callable[..., None] | None:
    """Return the compiled pass over a block, where the extension module was built."""
    return None if loops.compiled is None else loops.compiled.pairs


def slopes(
    left: Tensor,
    right: Tensor,
    eps_left: Tensor,
    eps_right: Tensor,
    eps_vir: Tensor,
    grad_square: Tensor,
    grad_cross: Tensor,
    eps_vir_right: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of ``left``, its energies and the virtual energies from pairs with ``right``.

    Every pair stands for its mirror image too, which is where the twos come from; the sum over all of ``right``
    is the whole gradient.
    """
    (rows, nvir, naux), columns = left.shape, right.shape[0]
    d_rows, occ_rows = [], []
    d_vir = torch.zeros_like(eps_vir)
    gaps = eps_vir[:, None] + (eps_vir if eps_vir_right is None else eps_vir_right)
    width = block_of(columns, nvir, naux)
    for i in range(rows):
        d_row, d_occ = torch.zeros_like(left[i]), torch.zeros_like(eps_left[i])
        for start in range(0, columns, width):
            stop = min(columns, start + width)
            t = torch.matmul(left[i], right[start:stop].mT)  # [j, a, b]
            r = 1 / ((eps_right[start:stop] + eps_left[i]).view(-1, 1, 1) - gaps)
            slope = 2 * (grad_square * t + grad_cross * t.mT) * r
            d_row = d_row + 2 * torch.einsum("jab,jbp->ap", slope, right[start:stop])
            value = -(grad_square * t + grad_cross * t.mT) * t * r * r
            d_occ = d_occ + 2 * value.sum()
            d_vir = d_vir - 2 * value.sum((0, 2))
        d_rows.append(d_row)
        occ_rows.append(d_occ)
    if not d_rows:
        return torch.zeros_like(left), torch.zeros_like(eps_left), d_vir
    return torch.stack(d_rows), torch.stack(occ_rows), d_vir
