"""The correlation energy of second-order perturbation theory, fused: no pair's amplitudes leave the chip.

``E = sum over ijab of T_ijab (2 T_ijab - T_ijba) / D_ijab`` with ``D = e_i + e_j - e_a - e_b``. The denominators become
a short sum of exponentials, ``-1/D = sum over q of w_q exp(t_q D)``, each a product of four factors. The sum over a
and b is then a matrix product with the vectors ``exp(-t_q e_a)``, and no element is divided.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnblas.arguments import HALF, alike, has_data, through
from trnblas.kernels import mp2 as kernels
from trnblas.split import split_gemm
from trnsci import ArgumentError, array_function, check, cuda, op, programs, run
from trnsci.nki import P_MAX, launch, tiles

Sums = Callable[[Tensor, Tensor], Tensor]

# Amplitudes of one pair, twice, must fit into SBUF: V / 128 tiles of 4 V bytes in each partition.
MOST_VIRTUAL = 1600
# Amplitudes that stay in a processor's cache while they are used.
_CACHED = 1 << 18


@array_function
@check.hands_on("mp2_pairs")
def mp2_energy(
    t_flat: Tensor,
    eps_occ_chunk: Tensor,
    eps_occ_full: Tensor,
    eps_vir: Tensor,
    *,
    symmetric: bool = False,
    first: int = 0,
    target_error: float = 1e-7,
) -> Tensor:
    """Return the energy of a chunk of occupied orbitals: the sum of `mp2_pairs`, a number.

    Use it when the integrals ``T`` exist. From fitted integrals `trntensor.mp2_energy` never holds them at once, and
    `trnchem.dfmp2` starts from a molecule.

    Example:
        >>> mp2_energy(torch.ones(1, 1), torch.tensor([-1.0]), torch.tensor([-1.0]), torch.tensor([1.0]))
        tensor(-0.2500)
    """
    options = {"symmetric": symmetric, "first": first, "target_error": target_error}
    return mp2_pairs(t_flat, eps_occ_chunk, eps_occ_full, eps_vir, **options).sum()  # type: ignore[arg-type]


@array_function
def mp2_pairs(
    t_flat: Tensor,
    eps_occ_chunk: Tensor,
    eps_occ_full: Tensor,
    eps_vir: Tensor,
    *,
    symmetric: bool = False,
    first: int = 0,
    target_error: float = 1e-7,
) -> Tensor:
    """Return the energy of every pair of occupied orbitals, ``sum over ab of T (2 T - T') / D``.

    Args:
        t_flat: [I V, J V]; row ``i V + a``, column ``j V + b`` holds ``T[i, j, a, b]``.
        eps_occ_chunk: [I], energies of the occupied orbitals of the rows.
        eps_occ_full: [J], energies of all occupied orbitals.
        eps_vir: [V], energies of the virtual orbitals, all above the occupied ones.
        symmetric: promises ``T[i, j, a, b] = T[j, i, b, a]``; pairs with ``j > first + i`` are then not read, and
            their energy is counted in their mirror image.
        first: position of the chunk's first orbital among all, used when ``symmetric``.
        target_error: relative error of the kernel's ``1 / D``; PyTorch divides.

    Returns:
        [I, J]

    Error bound:
        ``target_error + g(V + 6) + 2**-24 log2(V)`` relative to ``sum over ab of |T (2 T - T')| / |D|``. Float64 is
        ``g(V**2 + 6)`` of its own unit roundoff on every backend: the kernels multiply and add slices, exactly.

    Raises:
        ArgumentError: shapes do not fit, occupied and virtual energies overlap, or ``target_error`` cannot be reached
            with 128 exponentials.
    """
    named = {
        "t_flat": t_flat,
        "eps_occ_chunk": eps_occ_chunk,
        "eps_occ_full": eps_occ_full,
        "eps_vir": eps_vir,
    }
    alike("mp2_pairs", **named)
    check.refuse(t_flat.is_complex(), "mp2_pairs", "t_flat", "complex", "real amplitudes")
    for name in ("eps_occ_chunk", "eps_occ_full", "eps_vir"):
        if named[name].ndim != 1:
            raise ArgumentError("mp2_pairs", f"shape of {name}", tuple(named[name].shape), "one dimension")
    i, j, v = len(eps_occ_chunk), len(eps_occ_full), len(eps_vir)
    if tuple(t_flat.shape) != (i * v, j * v):
        raise ArgumentError(
            op="mp2_pairs", argument="shape of t_flat", got=tuple(t_flat.shape),
            expected=f"({i * v}, {j * v}), for {i} x {j} occupied and {v} virtual orbitals",
        )  # fmt: skip
    check.flag("mp2_pairs", symmetric=symmetric)
    if symmetric:
        first = check.integer("mp2_pairs", "first", first, 0, j - i)
    if not 0 < check.real("mp2_pairs", "target_error", target_error) < 1:
        raise ArgumentError("mp2_pairs", "target_error", target_error, "between 0 and 1")
    if t_flat.numel() and has_data(eps_occ_chunk, eps_occ_full, eps_vir):
        # three copies of a few numbers cost a GPU less than three kernels and as many copies
        occ_i, occ_j, vir = (x.detach().cpu() for x in (eps_occ_chunk, eps_occ_full, eps_vir))
        highest, lowest = max(float(occ_i.max()), float(occ_j.max())), float(vir.min())
        if not highest < lowest:
            raise ArgumentError(
                op="mp2_pairs", argument="eps_vir", got=f"a virtual orbital at {lowest}",
                expected=f"all above the highest occupied one at {highest}",
            )  # fmt: skip
    return run(Mp2(t_flat, eps_occ_chunk, eps_occ_full, eps_vir, symmetric, first, target_error))


@op("trnblas::mp2", calls="triton trnblas.cuda.mp2")
class Mp2(NamedTuple):
    """The energy of every pair: ``sum over ab of T (2 T - T') / D``."""

    t_flat: Tensor  # [I V, J V]
    eps_i: Tensor  # [I]
    eps_j: Tensor  # [J]
    eps_vir: Tensor  # [V]
    symmetric: bool
    first: int
    target_error: float

    def fake(self) -> Tensor:
        return self.t_flat.new_empty((self.eps_i.shape[0], self.eps_j.shape[0]))

    def cost(self) -> int:
        return 8 * self.t_flat.numel() // (2 if self.symmetric else 1)

    def cuda(self) -> Tensor:
        from trnblas.cuda.mp2 import pair_energies

        energies = pair_energies(*(x.contiguous() for x in (self.t_flat, self.eps_i, self.eps_j, self.eps_vir)))
        if self.symmetric:
            i, j = (torch.arange(size, device=energies.device) for size in energies.shape)
            ahead = j - (self.first + i).unsqueeze(1)
            # what lies beyond the diagonal may be anything
            energies = torch.where(ahead > 0, 0.0, torch.where(ahead < 0, 2 * energies, energies))
        return energies.to(self.t_flat.dtype)

    def compiles(self) -> tuple[Hashable, float]:
        return ("trnblas.cuda.mp2", self.t_flat.dtype), 1.0

    def limits(self, implementation: str) -> str | None:
        if implementation == "cuda":
            if self.t_flat.dtype not in (torch.float32, torch.float64) or not self.t_flat.numel():
                return "takes float32 and float64, and at least one pair"
            return cuda.why_no_triton(self.t_flat.device)
        large = self.eps_vir.shape[0] > MOST_VIRTUAL and self.t_flat.dtype != torch.float64
        if implementation == "nki" and large:
            return f"the kernel holds a pair's amplitudes in SBUF: at most {MOST_VIRTUAL} virtual orbitals"
        return None

    def pytorch(self) -> Tensor:
        dtype = self.t_flat.dtype
        operands = (self.t_flat, self.eps_i, self.eps_j, self.eps_vir)
        if dtype in HALF:
            operands = tuple(x.float() for x in operands)  # type: ignore[assignment]
        sums = _sum(*operands, symmetric=self.symmetric, first=self.first, sums=lambda t, y: (t * y).sum((-2, -1)))
        return sums.to(dtype)

    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        # Recomputed: the amplitudes alone are as large as all that the formula derives from them.
        return through(self, ("t_flat", "eps_i", "eps_j", "eps_vir"), grad, needs)

    def nki(self) -> Tensor:
        operands = (self.t_flat, self.eps_i, self.eps_j, self.eps_vir)
        if self.t_flat.numel() == 0:
            return self.fake().zero_()
        if self.t_flat.dtype == torch.float64:
            return _sum(*operands, symmetric=self.symmetric, first=self.first, sums=_emulated_sums)
        partials = pair_partials(*operands, symmetric=self.symmetric, first=self.first, target_error=self.target_error)
        return partials.double().sum(0).to(self.t_flat.dtype)


def _weight(i: int, j: int, first: int) -> float:
    """Return how often a pair counts when its mirror image is left out."""
    return 0.0 if j > first + i else 1.0 if j == first + i else 2.0


def _sum(
    t_flat: Tensor, eps_i: Tensor, eps_j: Tensor, eps_vir: Tensor, *, symmetric: bool, first: int, sums: Sums
) -> Tensor:
    """Return every pair's energy, some rows of pairs at a time; ``sums`` multiplies and adds up."""
    rows, columns, v = len(eps_i), len(eps_j), len(eps_vir)
    if t_flat.numel() == 0:
        return t_flat.new_zeros((rows, columns))
    virtual = eps_vir.unsqueeze(1) + eps_vir
    energies = []
    # With symmetry every row has its own pairs.
    for i in tiles(rows, 1 if symmetric else max(1, _CACHED // (columns * v * v))):
        count = min(columns, first + i.stop) if symmetric else columns
        block = t_flat[i.start * v : i.stop * v].reshape(i.size, v, columns, v)
        t = block[:, :, :count].transpose(1, 2)  # [i, j, a, b]
        below = (eps_i[i.span, None] + eps_j[:count])[..., None, None] - virtual
        # T - T' / 2 is one pass, and the sums are doubled
        pairs = sums(t, torch.sub(t, t.mT, alpha=0.5) / below)
        if symmetric:
            weighted = pairs * pairs.new_tensor([_weight(i.start, j, first) for j in range(count)])
            pairs = torch.nn.functional.pad(weighted, (0, columns - count))
        energies.append(pairs)
    return 2 * torch.cat(energies)


def _emulated_sums(t: Tensor, weighted: Tensor) -> Tensor:
    """Sum products [I, J, V, V] over a and b, exactly in slices on the device, and round to float64."""
    pairs = t.shape[0] * t.shape[1]
    return split_gemm(t.reshape(pairs, 1, -1), weighted.reshape(pairs, -1, 1)).reshape(t.shape[:2])


def pair_partials(
    t_flat: Tensor, eps_i: Tensor, eps_j: Tensor, eps_vir: Tensor, *, symmetric: bool, first: int, target_error: float
) -> Tensor:
    """Run the kernel: [Q, I, J], the part of every exponential in every pair's energy."""
    u, left, right = _factors(eps_i, eps_j, eps_vir, target_error)
    t, exponents = t_flat.float(), (u.contiguous(), u.mT.contiguous())
    v, side = len(eps_vir), _side(*exponents)
    rows = []
    for i in tiles(len(eps_i), side):
        row = []
        for j in tiles(len(eps_j), side):
            pairs = left[:, i.span].contiguous(), right[:, j.span].contiguous()
            # where the diagonal is, seen from the first pair of this block; pairs beyond it are left out
            at = first + i.start - j.start
            if symmetric and at + pairs[0].shape[1] <= 0:
                row.append(left.new_zeros((left.shape[0], pairs[0].shape[1], pairs[1].shape[1])))
                continue
            beyond = symmetric and at + 1 < pairs[1].shape[1]
            block = t[i.start * v : i.stop * v, j.start * v : j.stop * v].contiguous()
            options = {"symmetric": beyond, "first": at if beyond else 0}
            row.append(launch(kernels.mp2, block, *exponents, *pairs, **options))
        rows.append(torch.cat(row, 2))
    partials = torch.cat(rows, 1)  # [Q, I, J]
    if symmetric:
        weights = [[_weight(i, j, first) for j in range(len(eps_j))] for i in range(len(eps_i))]
        partials = partials * partials.new_tensor(weights) if not partials.is_meta else partials
    return partials


def _side(u: Tensor, uT: Tensor) -> int:
    """Return how many orbitals a program of pairs takes on either side without growing too long to compile."""
    one = u.new_empty((u.shape[1], 1))
    pair = programs.size_of(kernels.mp2, (u.new_empty((len(u), len(u))), u, uT, one, one), {})
    return math.isqrt(programs.limits().holds(pair))


def _factors(eps_i: Tensor, eps_j: Tensor, eps_vir: Tensor, target_error: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``exp(-t e_a)`` [V, Q], and the occupied factors [Q, I] and [Q, J] with weights and sign."""
    if eps_vir.is_meta:
        shapes = (len(eps_vir), 48), (48, len(eps_i)), (48, len(eps_j))
        v, i, j = (eps_vir.new_empty(shape, dtype=torch.float32) for shape in shapes)
        return v, i, j
    i, j, v = (e.detach().double().cpu() for e in (eps_i, eps_j, eps_vir))
    zero = v.min()
    smallest = float(2 * zero - i.max() - j.max())
    largest = float(2 * v.max() - i.min() - j.min())
    t, w = (torch.from_numpy(x) for x in exponentials(largest / smallest, target_error))
    t, w = t / smallest, w / smallest
    factors = (
        torch.exp(-(v - zero).unsqueeze(1) * t),
        -w.unsqueeze(1) * torch.exp(-t.unsqueeze(1) * (zero - i)),
        torch.exp(-t.unsqueeze(1) * (zero - j)),
    )
    u, left, right = (x.float().to(eps_vir.device) for x in factors)
    return u, left, right


@functools.lru_cache(maxsize=64)
def exponentials(ratio: float, target_error: float) -> tuple[Any, Any]:
    """Return exponents and weights with ``|1/x - sum w exp(-t x)| <= target_error / x`` for x in [1, ``ratio``].

    The trapezoidal rule on the double exponential substitution of ``1/x = integral of exp(-t x) dt``; the step shrinks
    until the error, measured on a fine grid, is met.
    """
    x = np.exp(np.linspace(0.0, math.log(max(ratio, 1.0)), 2000))
    # Beyond these ends every term is below the error asked for.
    low = -math.log(math.log(10 * ratio / target_error) + 1) - 0.5
    high = math.log(math.log(10 / target_error)) + 1.0
    step, best = 1.0, math.inf
    while (high - low) / step + 1 < P_MAX:
        s = np.arange(low, high + step, step)
        t = np.exp(s - np.exp(-s))
        w = step * t * (1 + np.exp(-s))
        error = float(np.abs(1 - x * (np.exp(-np.outer(x, t)) @ w)).max())
        if error <= target_error:
            return t, w
        best = min(best, error)
        step *= 0.93
    raise ArgumentError(
        op="mp2_pairs",
        argument="target_error",
        got=target_error,
        expected=f"at least {best:.2g}, what {P_MAX} exponentials reach for denominators spanning {ratio:.3g}",
    )
