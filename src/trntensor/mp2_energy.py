"""MP2 correlation energy from density-fitted integrals, contracted and reduced without forming the integrals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnblas.arguments import has_data
from trnblas.split import split_gemm
from trnsci import ArgumentError, Cost, DtypeError, array_function, check, cuda, op, programs, run
from trnsci.gradient import saves
from trnsci.nki import launch, tiles
from trnsci.ops import definition
from trnsci.planning import remark
from trnsci.specs import TensorSpec
from trntensor import out_of_core
from trntensor.kernels import mp2_energy as kernels
from trntensor.pair_sums import Sums, block_of, loop_over_block, slopes, sum_pairs

_CALLS = {"cuda": "torch.mm and triton trntensor.cuda.mp2_energy", "host": "trnsci.loops.pairs"}


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
        square, cross = _sum_elsewhere(B, eps_occ, eps_vir, device, memory)
    # square + (square - cross), in one pass
    total = torch.lerp(cross, square, 2.0)
    return MP2Energy(total, square, square - cross) if parts else total


def _sum_elsewhere(B: Tensor, eps_occ: Tensor, eps_vir: Tensor, device: torch.device | str, memory: int | None) -> Sums:
    """Return both sums, computed on a device that does not hold all of B; they go back to where B is."""
    nocc, nvir, naux = B.shape
    chosen = mp2_blocks(nocc, nvir, naux, dtype=B.dtype, device=check.device("mp2_energy", device), memory=memory)
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
    # of a kind of device, the one in use
    device = torch.empty(0, device=device, dtype=torch.float32).device

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
        block = 3 * nvir * nvir * block_of(nocc, nvir, naux) * size
        return Cost(flops, size * (self.B.numel() + nocc + nvir), 2 * size, block)

    def limits(self, implementation: str) -> str | None:
        return self._pairs.limits(implementation)

    def compiles(self) -> tuple[Hashable, float]:
        return ("trntensor.cuda.mp2_energy", self.B.dtype, True), 2.0

    def workspace(self, implementation: str) -> int:
        return self._pairs.workspace(implementation)

    def cuda(self) -> Sums:
        return self._pairs.cuda(once=True)

    def host(self) -> Sums:
        return sum_pairs(self._pairs, once=True, loop=loop_over_block())

    def pytorch(self) -> Sums:
        if self.B.is_cuda:
            check_gap(self.eps_occ, self.eps_vir)
        return sum_pairs(self._pairs, once=True)

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
        if self.B.is_cuda:
            check_gap(self.eps_occ, self.eps_vir)
        return self._pairs.nki(once=True)


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
        block = 3 * nvir * nvir * block_of(columns, nvir, naux) * size
        read = size * (self.left.numel() + self.right.numel() + rows + columns + nvir)
        return Cost(flops, read, 2 * size, block)

    def limits(self, implementation: str) -> str | None:
        name = str(self.left.dtype).removeprefix("torch.")
        if implementation == "nki" and self.left.dtype not in (torch.float32, torch.float64):
            return f"takes float32, and float64 in slices, not {name}; convert with .float()"
        if implementation == "cuda":
            if self.left.dtype not in (torch.float32, torch.float64):
                return f"takes float32 and float64, not {name}"
            return "there are no integrals" if self.left.numel() == 0 else cuda.why_no_triton(self.left.device)
        if implementation == "host":
            if self.eps_vir_right is not None:
                return "the compiled pass takes the energies of one spin"
            if torch.get_num_threads() > 4:
                return "the pass runs on one thread, and torch has many"
            if self.left.numel() == 0:
                return "there are no integrals"
            if loop_over_block() is None:
                return "there is no compiled pass on this machine"
        return None

    def compiles(self) -> tuple[Hashable, float]:
        return ("trntensor.cuda.mp2_energy", self.left.dtype, False, self.eps_vir_right is None), 2.0

    def workspace(self, implementation: str) -> int:
        if implementation != "cuda":
            return self.cost().workspace
        from trntensor.cuda import mp2_energy

        # a panel of integrals, its sums, contiguous copies
        left, right = self.left, self.right
        copies = sum(x.nbytes for x in {id(left): left, id(right): right}.values() if not x.is_contiguous())
        return copies + mp2_energy.workspace(left.shape[0], right.shape[0], left.shape[1], left.dtype.itemsize)

    def cuda(self, once: bool = False) -> Sums:
        from trntensor.cuda import mp2_energy

        left, eps_left, eps_right, eps_vir = (
            x.contiguous() for x in (self.left, self.eps_left, self.eps_right, self.eps_vir)
        )
        right = left if self.right is self.left else self.right.contiguous()
        other = None if self.eps_vir_right is None else self.eps_vir_right.contiguous()
        return mp2_energy.energies(left, right, eps_left, eps_right, eps_vir, other, once=once)

    def host(self) -> Sums:
        return sum_pairs(self, loop=loop_over_block())

    def pytorch(self) -> Sums:
        return sum_pairs(self)

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

    def nki(self, once: bool = False) -> Sums:
        left = self.left.contiguous()
        right = left if self.right is self.left else self.right.contiguous()
        if left.numel() == 0 or right.numel() == 0:
            return left.new_zeros(()), left.new_zeros(())
        if left.dtype == torch.float64:
            return sum_pairs(self, once=once, multiply=split_gemm)
        sums, width = left.new_zeros(2), piece(*left.shape[1:])
        options = {} if self.eps_vir_right is None else {"spins": True}
        row = (self.eps_vir if self.eps_vir_right is None else self.eps_vir_right).view(1, -1)
        for i, j in itertools.product(tiles(len(left), width), tiles(len(right), width)):
            if once and j.index < i.index:
                continue
            # of one set, a piece with itself has every pair once inside, and with another one stands for both orders
            inside = once and i.index == j.index
            others = () if inside else (right[j.span], self.eps_right[j.span].view(1, -1))
            tensors = left[i.span], self.eps_left[i.span].view(1, -1), row, self.eps_vir.view(-1, 1), *others
            sums = sums + (2 if once and not inside else 1) * launch(kernels.mp2_energy, *tensors, **options)[0]
        return sums[0].clone(), sums[1].clone()


def piece(nvir: int, naux: int) -> int:
    """Return how many orbitals a program of pairs takes on either side without growing too long to compile."""
    B = torch.empty((1, nvir, naux), dtype=torch.float32, device="cpu")
    energy, vir = B.new_empty((1, 1)), B.new_empty((1, nvir))
    pair = programs.size_of(kernels.mp2_energy, (B, energy, vir, vir.mT.contiguous(), B, energy), {})
    return math.isqrt(programs.limits().holds(pair))
