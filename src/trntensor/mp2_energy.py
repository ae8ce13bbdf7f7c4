"""MP2 correlation energy from density-fitted integrals, contracted and reduced without forming the integrals."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnblas.arguments import has_data
from trnblas.split import split_gemm
from trnsci import ArgumentError, Cost, DtypeError, array_function, check, cuda, loops, op, programs, run
from trnsci.gradient import saves
from trnsci.nki import launch
from trnsci.ops import definition
from trnsci.planning import remark
from trnsci.specs import TensorSpec
from trntensor import out_of_core
from trntensor.kernels import mp2_energy as kernels

_CALLS = {"cuda": "torch.mm and triton trntensor.cuda.mp2_energy", "host": "trnsci.loops.pairs"}
# sum T_ab T_ab / D and sum T_ab T_ba / D
Sums = tuple[Tensor, Tensor]


class MP2Energy(NamedTuple):
    """The correlation energy and its spin components; ``total`` is their sum."""

    total: Any
    opposite_spin: Any
    same_spin: Any


@array_function
def mp2_energy(
    B: Tensor,
    eps_occ: Tensor,
    eps_vir: Tensor,
    *,
    parts: bool = False,
    device: torch.device | str | None = None,
    memory: int | None = None,
) -> Tensor | MP2Energy:
    """Return the closed-shell MP2 correlation energy, ``sum T_ab (2 T_ab - T_ba) / (e_i + e_j - e_a - e_b)``.

    ``T = B[i] @ B[j].T`` is the block ``(ia|jb)`` of integrals. Pairs are taken once, ``i <= j``, and their integrals
    exist one block at a time. Use it when you have ``B``: `trnblas.mp2_energy` takes the integrals themselves, and
    `trnchem.dfmp2` a molecule.

    Args:
        B: [nocc, nvir, naux], the fitted three-index integrals; real.
        eps_occ: [nocc], energies of occupied orbitals.
        eps_vir: [nvir], energies of virtual orbitals, above the occupied ones.
        parts: return the spin components too.
        device: where to compute, if not where B is: B stays there, and blocks of its orbitals are brought, two at a
            time. The plan says how large they are and what of the device's memory is used at most. No gradient.
        memory: bytes of ``device`` to use at most; by default nine tenths of what is free on a GPU.

    Returns:
        A scalar, or `MP2Energy` with ``total``, ``opposite_spin`` (``sum T_ab**2 / D``) and ``same_spin``
        (``sum T_ab (T_ab - T_ba) / D``).

    Raises:
        ArgumentError: shapes do not fit, or a denominator is not negative. A GPU's kernel is not waited for: it gives
            NaN for such energies.
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
        raise DtypeError("mp2_energy", "dtype of B", dtype, "a real dtype")
    check.same_device("mp2_energy", B=B, eps_occ=eps_occ, eps_vir=eps_vir)
    _check(B, eps_occ, eps_vir)
    if not eps_vir.is_cuda or device is not None:
        check_gap(eps_occ, eps_vir)
    if device is None and memory is not None:
        raise ArgumentError("mp2_energy", "memory", memory, "None without device")
    memory = None if memory is None else check.integer("mp2_energy", "memory", memory, 0, 2**63 - 1)
    check.flag("mp2_energy", parts=parts)
    if device is None:
        square, cross = mp2_within(B, eps_occ, eps_vir)
    else:
        square, cross = _brought(B, eps_occ, eps_vir, device, memory)
    # square + (square - cross), in one pass
    total = torch.lerp(cross, square, 2.0)
    return MP2Energy(total, square, square - cross) if parts else total


def _brought(B: Tensor, eps_occ: Tensor, eps_vir: Tensor, device: torch.device | str, memory: int | None) -> Sums:
    """Return both sums, computed on a device that does not hold all of B; they go back to where B is."""
    nocc, nvir, naux = B.shape
    chosen = mp2_blocks(
        nocc,
        nvir,
        naux,
        dtype=B.dtype,
        device=torch.empty(0, device=check.device("mp2_energy", device)).device,
        memory=memory,
    )
    remark(str(chosen))
    if not has_data(B, eps_occ, eps_vir) or B.numel() == 0:
        return mp2_within(B, eps_occ, eps_vir)
    with torch.no_grad():
        square, cross = mp2_brought(lambda first, last: B[first:last], eps_occ, eps_vir, chosen, lambda pairs: None)
    return square.to(B.device), cross.to(B.device)


def mp2_blocks(
    nocc: int,
    nvir: int,
    naux: int,
    *,
    dtype: torch.dtype,
    device: torch.device,
    memory: int | None = None,
    two: bool = False,
) -> out_of_core.Blocks:
    """Choose blocks of orbitals to bring to a device, as large as ``memory`` bytes of it allow.

    ``two``: there are two sets, of which the larger has ``nocc`` orbitals, and blocks of both meet.
    """

    def peak(rows: int) -> int:
        """Return bytes of energies, of one block or two, and of what their pairs need."""
        block = TensorSpec((rows, nvir, naux), dtype, device=device)
        one, vir = TensorSpec((rows,), dtype, device=device), TensorSpec((nvir,), dtype, device=device)
        calls: list[Any] = [Within(block, one, vir)]  # type: ignore[arg-type]
        if two or rows < nocc:
            calls.append(Between(block, block, one, one, vir))  # type: ignore[arg-type]
        work = max(call.workspace(definition(call).decide(call).implementation) for call in calls)
        return block.nbytes * len(calls) + work + dtype.itemsize * (nocc + nvir) + (1 << 16)

    return out_of_core.blocks(nocc, peak, device, memory)


def mp2_brought(
    rows: Callable[[int, int], Tensor],
    eps_occ: Tensor,
    eps_vir: Tensor,
    chosen: out_of_core.Blocks,
    done: Callable[[int], None],
) -> Sums:
    """Return both sums over all pairs of integrals that ``rows`` brings; see `trntensor.out_of_core.energies`."""
    return out_of_core.energies(
        rows, eps_occ, eps_vir, chosen=chosen, done=done, within=mp2_within, between=mp2_between
    )


def _check(B: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> None:
    check.refuse(B.ndim != 3, "mp2_energy", "shape of B", tuple(B.shape), "three axes, [nocc, nvir, naux]")
    for name, x in (("eps_occ", eps_occ), ("eps_vir", eps_vir)):
        check.refuse(x.ndim != 1, "mp2_energy", f"shape of {name}", tuple(x.shape), "one axis")
    check.equal("mp2_energy", "nocc", B=B.shape[0], eps_occ=eps_occ.shape[0])
    check.equal("mp2_energy", "nvir", B=B.shape[1], eps_vir=eps_vir.shape[0])


def check_gap(eps_occ: Tensor, eps_vir: Tensor) -> None:
    """Refuse energies with which a denominator could vanish."""
    if not has_data(eps_occ, eps_vir) or not eps_occ.numel() or not eps_vir.numel():
        return
    highest, lowest = eps_occ.cpu().max().item(), eps_vir.cpu().min().item()
    # NaN passes no comparison
    if not highest < lowest:
        raise ArgumentError(
            op="mp2_energy",
            argument="eps_occ",
            got=f"{highest} at its highest",
            expected=f"below the lowest of eps_vir, {lowest}",
            hint="A gap that closes makes a denominator vanish; check the order of the arguments",
        )


def mp2_within(B: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> Sums:
    """Return both sums over all pairs of one set of orbitals; pairs i < j are computed once."""
    return run(Within(B, eps_occ, eps_vir))


@op("trntensor::mp2_energy", calls=_CALLS)
class Within(NamedTuple):
    """Both sums over all pairs of one set of orbitals; pairs i < j are computed once."""

    B: Tensor  # [nocc, nvir, naux]
    eps_occ: Tensor  # [nocc]
    eps_vir: Tensor  # [nvir]

    def fake(self) -> tuple[Tensor, Tensor]:
        return self.B.new_empty(()), self.B.new_empty(())

    def cost(self) -> Cost:
        (nocc, nvir, naux), size = self.B.shape, self.B.dtype.itemsize
        flops = nocc * (nocc + 1) * nvir * nvir * (naux + 3)
        block = 3 * nvir * nvir * _block(nocc, nvir, naux) * size
        return Cost(flops, size * (self.B.numel() + nocc + nvir), 2 * size, block)

    def limits(self, implementation: str) -> str | None:
        return _limits(implementation, self.B)

    def compiles(self) -> tuple[Hashable, float]:
        return ("trntensor.cuda.mp2_energy", self.B.dtype, True), 2.0

    def workspace(self, implementation: str) -> int:
        return _gpu_workspace(self.B, self.B) if implementation == "cuda" else self.cost().workspace

    def cuda(self) -> Sums:
        from trntensor.cuda import mp2_energy

        B, eps_occ = self.B.contiguous(), self.eps_occ.contiguous()
        return mp2_energy.energies(B, B, eps_occ, eps_occ, self.eps_vir.contiguous(), once=True)

    def host(self) -> Sums:
        return _summed(self._pairs, once=True, loop=_loop())

    def pytorch(self) -> Sums:
        if self.B.is_cuda:
            check_gap(self.eps_occ, self.eps_vir)
        return _summed(self._pairs, once=True)

    @property
    def _pairs(self) -> Between:
        """The pairs of the set with itself."""
        return Between(self.B, self.B, self.eps_occ, self.eps_occ, self.eps_vir)

    # blocked: differentiating through the loop would keep every block
    @saves("B", "eps_occ", "eps_vir", host=True, pytorch=True)
    def vjp(self, grad: Sums, needs: frozenset[str]) -> dict[str, Tensor]:
        gradients = slopes(self.B, self.B, self.eps_occ, self.eps_occ, self.eps_vir, *grad)
        return dict(zip(("B", "eps_occ", "eps_vir"), gradients, strict=True))

    def nki(self) -> Sums:
        B, eps_occ, eps_vir = self.B.contiguous(), self.eps_occ, self.eps_vir
        if B.is_cuda:
            check_gap(eps_occ, eps_vir)
        if B.numel() == 0:
            return B.new_zeros(()), B.new_zeros(())
        if B.dtype == torch.float64:
            return _summed(self._pairs, once=True, multiply=split_gemm)
        cuts, sums = _pieces(len(B), piece(*B.shape[1:])), B.new_zeros(2)
        for at, rows in enumerate(cuts):
            one = eps_occ[rows].view(1, -1)
            sums = sums + launch(kernels.mp2_energy, B[rows], one, eps_vir.view(1, -1), eps_vir.view(-1, 1))[0]
            for others in cuts[at + 1 :]:
                sums = sums + 2 * _program(B[rows], B[others], one, eps_occ[others].view(1, -1), eps_vir)
        return sums[0].clone(), sums[1].clone()


def mp2_between(
    left: Tensor,
    right: Tensor,
    eps_left: Tensor,
    eps_right: Tensor,
    eps_vir: Tensor,
    eps_vir_right: Tensor | None = None,
) -> Sums:
    """Return both sums over all pairs of an orbital of one set with one of another, each once; see `Between`."""
    return run(Between(left, right, eps_left, eps_right, eps_vir, eps_vir_right))


@op("trntensor::mp2_between", calls=_CALLS)
class Between(NamedTuple):
    """Both sums over all pairs of an orbital of one set with one of another, each once.

    The sets are those of two ranks, or of two spins: these have virtual orbitals of their own, ``eps_vir_right`` is
    given, and the second sum is zero because electrons of different spins do not exchange.
    """

    left: Tensor  # [rows, nvir, naux]
    right: Tensor  # [columns, nvir, naux]
    eps_left: Tensor  # [rows]
    eps_right: Tensor  # [columns]
    eps_vir: Tensor  # [nvir]
    eps_vir_right: Tensor | None = None  # [nvir]

    def fake(self) -> tuple[Tensor, Tensor]:
        return self.left.new_empty(()), self.left.new_empty(())

    def cost(self) -> Cost:
        (rows, nvir, naux), columns, size = self.left.shape, self.right.shape[0], self.left.dtype.itemsize
        flops = 2 * rows * columns * nvir * nvir * (naux + 3)
        block = 3 * nvir * nvir * _block(columns, nvir, naux) * size
        read = size * (self.left.numel() + self.right.numel() + rows + columns + nvir)
        return Cost(flops, read, 2 * size, block)

    def limits(self, implementation: str) -> str | None:
        if implementation == "host" and self.eps_vir_right is not None:
            return "the compiled pass takes the energies of one spin"
        return _limits(implementation, self.left)

    def compiles(self) -> tuple[Hashable, float]:
        return ("trntensor.cuda.mp2_energy", self.left.dtype, False, self.eps_vir_right is None), 2.0

    def workspace(self, implementation: str) -> int:
        return _gpu_workspace(self.left, self.right) if implementation == "cuda" else self.cost().workspace

    def cuda(self) -> Sums:
        from trntensor.cuda import mp2_energy

        other = None if self.eps_vir_right is None else self.eps_vir_right.contiguous()
        left, right, eps_left, eps_right, eps_vir = (x.contiguous() for x in self[:5])
        return mp2_energy.energies(left, right, eps_left, eps_right, eps_vir, other, once=False)

    def host(self) -> Sums:
        return _summed(self, loop=_loop())

    def pytorch(self) -> Sums:
        return _summed(self)

    def vjp(self, grad: Sums, needs: frozenset[str]) -> dict[str, Tensor]:
        # A pair stands for itself alone, and `slopes` counts its mirror image too.
        vir, other = self.eps_vir, self.eps_vir_right
        grad = grad if other is None else (grad[0], torch.zeros_like(grad[1]))
        ahead = slopes(self.left, self.right, self.eps_left, self.eps_right, vir, *grad, other)
        back = slopes(self.right, self.left, self.eps_right, self.eps_left, vir if other is None else other, *grad, vir)
        gradients = {"left": ahead[0], "right": back[0], "eps_left": ahead[1], "eps_right": back[1]}
        gradients |= (
            {"eps_vir": ahead[2] + back[2]} if other is None else {"eps_vir": ahead[2], "eps_vir_right": back[2]}
        )
        return {name: gradient / 2 for name, gradient in gradients.items()}

    def nki(self) -> Sums:
        left, right, eps_left, eps_right, eps_vir, other_vir = self
        if left.numel() == 0 or right.numel() == 0:
            return left.new_zeros(()), left.new_zeros(())
        if left.dtype == torch.float64:
            return _summed(self, multiply=split_gemm)
        left, right, sums, width = left.contiguous(), right.contiguous(), left.new_zeros(2), piece(*left.shape[1:])
        for rows in _pieces(len(left), width):
            for others in _pieces(len(right), width):
                one, other = eps_left[rows].view(1, -1), eps_right[others].view(1, -1)
                sums = sums + _program(left[rows], right[others], one, other, eps_vir, eps_vir_right=other_vir)
        return sums[0].clone(), sums[1].clone()


def _limits(implementation: str, B: Tensor) -> str | None:
    name = str(B.dtype).removeprefix("torch.")
    if implementation == "nki" and B.dtype not in (torch.float32, torch.float64):
        return f"takes float32, and float64 in slices, not {name}; convert with .float()"
    if implementation == "cuda":
        if B.dtype not in (torch.float32, torch.float64):
            return f"takes float32 and float64, not {name}"
        return "there are no integrals" if B.numel() == 0 else cuda.why_no_triton(B.device)
    if implementation == "host":
        if torch.get_num_threads() > 4:
            return "the pass runs on one thread, and torch has many"
        if B.numel() == 0:
            return "there are no integrals"
        if _loop() is None:
            return "there is no compiled pass on this machine"
    return None


def _gpu_workspace(left: Tensor, right: Tensor) -> int:
    """Return bytes on a GPU beyond operands and result: a panel of integrals, its sums, contiguous copies."""
    from trntensor.cuda import mp2_energy

    copies = sum(x.nbytes for x in {id(left): left, id(right): right}.values() if not x.is_contiguous())
    return copies + mp2_energy.workspace(left.shape[0], right.shape[0], left.shape[1], left.dtype.itemsize)


def _block(nocc: int, nvir: int, naux: int) -> int:
    """Return how many orbitals j keep the integrals no larger than a few B[i]."""
    return max(1, min(nocc, naux // max(1, nvir)))


def _summed(
    pairs_of: Between,
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
    if torch._C._functorch.peek_interpreter_stack() is not None:
        # torch.func transforms what writes into no memory of its own.
        return _transformed(pairs_of, work)
    # One pass needs one copy of the block, so that three times as wide ones take the same memory.
    copies = 1 if loop else 3
    width = min(columns, _block(columns, nvir, naux) * 3 // copies)
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


def _transformed(pairs: Between, work: torch.dtype) -> Sums:
    """Return both sums over all ordered pairs, row by row."""
    left, right, one, other, vir = (x.to(work) for x in pairs[:5])
    spins, square = pairs.eps_vir_right is not None, left.new_zeros(())
    cross, gaps = square, vir[:, None] + (vir if pairs.eps_vir_right is None else pairs.eps_vir_right.to(work))
    for i in range(len(left)):
        t = torch.matmul(left[i], right.mT)  # [j, a, b]
        weighted = t / ((other + one[i]).view(-1, 1, 1) - gaps)
        square = square + (weighted * t).sum()
        cross = cross if spins else cross + (weighted * t.mT).sum()
    return square.to(pairs.left.dtype), cross.to(pairs.left.dtype)


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


def _loop() -> Callable[..., None] | None:
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
    width = _block(columns, nvir, naux)
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


def piece(nvir: int, naux: int) -> int:
    """Return how many orbitals a program of pairs takes on either side without growing too long to compile."""
    B, energy, vir = torch.empty((1, nvir, naux)), torch.empty((1, 1)), torch.empty((1, nvir))
    pair = programs.size_of(kernels.mp2_energy, (B, energy, vir, vir.mT.contiguous(), B, energy), {})
    return math.isqrt(programs.limits().holds(pair))


def _pieces(count: int, width: int) -> list[slice]:
    return [slice(start, min(count, start + width)) for start in range(0, count, width)]


def _program(
    left: Tensor,
    right: Tensor,
    one: Tensor,
    other: Tensor,
    eps_vir: Tensor,
    *,
    eps_vir_right: Tensor | None = None,
) -> Tensor:
    options = {} if eps_vir_right is None else {"spins": True}
    row = (eps_vir if eps_vir_right is None else eps_vir_right).view(1, -1)
    sums: Tensor = launch(kernels.mp2_energy, left, one, row, eps_vir.view(-1, 1), right, other, **options)  # [1, 2]
    return sums[0]
