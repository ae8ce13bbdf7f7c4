"""Amplitudes and the densities they make, from rows of B, one occupied orbital at a time."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

import trnblas
from trnchem.budget import dtype_of
from trnchem.options import Request
from trnchem.preparation import prepare_run
from trnchem.stages import Run, open_store
from trnchem.store import Store
from trnsci import CapacityError, from_device


class SpinDensity(NamedTuple):
    """Addition of MP2 to the density of one spin; both are alike in a closed shell.

    Attributes:
        occupied: [nocc, nocc], negative.
        virtual: [nvir, nvir].
    """

    occupied: Tensor
    virtual: Tensor


def unrelaxed_densities(want: Request) -> list[SpinDensity]:
    """Return what MP2 adds to the density without the response of the orbitals, of each set of orbitals.

    Raises:
        CapacityError: the amplitudes of one orbital do not fit into the budget.
    """
    run = _prepare_amplitudes(want)
    with open_store(run.plan, run.plan.sizes.nocc, want.scratch) as store:
        run.build(store)
        return contract_amplitudes(run, store, (1.0, 1.0))


def contract_amplitudes(
    run: Run, store: Store, scaling: tuple[float, float], keep: Callable[[int, Tensor, Tensor], None] | None = None
) -> list[SpinDensity]:
    """Return the densities of each set of orbitals.

    Args:
        run: the calculation.
        store: B.
        scaling: factors of the opposite-spin and the same-spin part of the energy whose derivatives they are.
        keep: called with every orbital ``i``, its rows of B, and ``sum_jb T_ijab B_jb``, both [nvir, vectors]. ``T`` is
            the derivative of the energy by ``(ia|jb)``, halved, of one spin.
    """
    nvir, sets, spins, (opposite, same) = run.plan.sizes.nvir, run.sets, run.orbitals.spins, scaling
    occupied = [torch.zeros((len(part), len(part)), dtype=torch.float64, device="cpu") for part in sets]
    virtual = [torch.zeros((nvir, nvir), dtype=torch.float64, device="cpu") for _ in sets]
    for i, t in _amplitudes(run, store):
        mine, T = spins.of(i), torch.empty_like(t)
        for spin, rows in enumerate(sets):
            own, partner = t[rows.start : rows.stop], T[rows.start : rows.stop]
            if spins.up is None:
                torch.sub((opposite + same) * own, own.mT, alpha=same, out=partner)
            elif spin == mine:
                torch.sub(own, own.mT, out=partner).mul_(same)
            else:
                torch.mul(own, opposite, out=partner)
            if rows:
                pairs = [x.reshape(len(rows), -1) for x in (own, partner)]
                occupied[spin] -= _product(run, *pairs, trans_b=True)
        columns, partners = t.view(-1, nvir), T.view(-1, nvir)
        virtual[mine] += _product(run, columns, partners, trans_a=True)
        if keep is not None:
            total = None
            for first, block in _blocks(run, store):
                part, flat = partners[first * nvir : (first + len(block)) * nvir], block.reshape(-1, block.shape[2])
                image = trnblas.gemm(1.0, part, flat, trans_a=True, precision=run.plan.precision)
                total = image if total is None else total + image
            if total is not None:
                keep(i, store.rows(i, i + 1)[0], from_device(total))
    return [SpinDensity(o, v) for o, v in zip(occupied, virtual, strict=True)]


def _product(run: Run, left: Tensor, right: Tensor, *, trans_a: bool = False, trans_b: bool = False) -> Tensor:
    product = trnblas.gemm(1.0, left, right, trans_a=trans_a, trans_b=trans_b, precision=run.plan.precision)
    return from_device(product).double()


def amplitudes(want: Request) -> list[Tensor]:
    """Return all amplitudes as PySCF orders them: ``t2[i, j, a, b]``, or those of equal, different and equal spins.

    Raises:
        CapacityError: they do not fit into the budget.
    """
    run = _prepare_amplitudes(want)
    n, parts = run.plan.sizes, run.sets
    shapes = [(len(parts[0]), len(parts[k]), n.nvir, n.nvir) for k in range(len(parts))]
    shapes += [(len(part), len(part), n.nvir, n.nvir) for part in parts[1:]]
    needed = sum(torch.Size(shape).numel() for shape in shapes) * n.itemsize
    if needed > run.plan.memory:
        hint = "Energies and densities need none of them: with_t2=False"
        raise CapacityError("host memory for amplitudes", needed, run.plan.memory, hint)
    arrays = [torch.zeros(shape, dtype=dtype_of(run.plan.precision), device="cpu") for shape in shapes]
    with open_store(run.plan, n.nocc, want.scratch) as store:
        run.build(store)
        for i, t in _amplitudes(run, store):
            of_i = run.orbitals.spins.of(i)
            # the other order of a pair of different spins is not asked for
            for spin, rows in list(enumerate(parts))[of_i:]:
                own = t[rows.start : rows.stop]
                same = len(parts) > 1 and of_i == spin
                arrays[of_i + spin][i - parts[of_i].start] = (own - own.mT if same else own).mT
    return arrays


def _prepare_amplitudes(want: Request) -> Run:
    """B is the same whatever computes the energy."""
    return prepare_run(replace(want, method="pairs", device=None, checkpoint=None), amplitudes=True)[1]


def _amplitudes(run: Run, store: Store) -> Iterator[tuple[int, Tensor]]:
    """Yield every orbital with ``t[j, b, a] = (ia|jb) / (e_i + e_j - e_a - e_b)`` of all orbitals ``j``.

    Every pair is computed once where all fit into the budget, and otherwise twice.
    """
    plan, n = run.plan, run.plan.sizes
    if not plan.stages:
        return
    every = n.nocc * (n.nocc + 1) // 2 * n.nvir**2 * n.itemsize
    held: list[Tensor] | None = [] if plan.peak_bytes + every <= plan.memory else None
    for i in range(n.nocc):
        later = _pairs_of(run, store, i, 0 if held is None else i)
        if held is not None:
            held.append(later)
            if i:
                later = torch.cat([torch.stack([held[j][i - j].mT for j in range(i)]), later])
        yield i, later


def _pairs_of(run: Run, store: Store, i: int, first: int) -> Tensor:
    """Return the amplitudes of an orbital with those from ``first`` on, [nocc - first, nvir, nvir]."""
    orbitals, n = run.orbitals, run.plan.sizes
    e_vir, spins = orbitals.e_vir, orbitals.spins
    t = torch.empty((n.nocc - first, n.nvir, n.nvir), dtype=dtype_of(run.plan.precision), device="cpu")
    one = store.rows(i, i + 1)[0].mT
    for start, rows in _blocks(run, store, first):
        flat = rows.reshape(-1, rows.shape[2])
        integrals = from_device(trnblas.gemm(1.0, flat, one, precision=run.plan.precision))
        sums = e_vir[spins.of(start)][:, None] + e_vir[spins.of(i)]
        energies = (orbitals.e_occ[start : start + len(rows)] + orbitals.e_occ[i]).view(-1, 1, 1)
        block = t[start - first : start - first + len(rows)]
        torch.div(integrals.view(block.shape), (energies - sums).to(t.dtype), out=block)
    return t


def _blocks(run: Run, store: Store, first: int = 0) -> Iterator[tuple[int, Tensor]]:
    """Yield rows of B in blocks of one spin, with their first orbital."""
    nocc = run.plan.sizes.nocc
    while first < nocc:
        last = run.orbitals.spins.until(first, min(nocc, first + run.plan.rows))
        yield first, store.rows(first, last)
        first = last
