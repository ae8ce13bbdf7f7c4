"""The unrelaxed one-particle density and the amplitudes, from rows of B, one occupied orbital at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

import trnblas
from trnchem.budget import dtype_of
from trnchem.dfmp2 import Request, prepared
from trnchem.stages import Run, open_store
from trnchem.store import Store
from trnsci import CapacityError, from_device


class SpinDensity(NamedTuple):
    """What MP2 adds to the density of one spin; both are alike in a closed shell.

    Attributes:
        occupied: [nocc, nocc], negative.
        virtual: [nvir, nvir].
    """

    occupied: Tensor
    virtual: Tensor


class Amplitudes(NamedTuple):
    """``t[j, b, a] = (ia|jb) / (e_i + e_j - e_a - e_b)`` of one orbital ``i`` with all of one spin.

    Attributes:
        i: the orbital, among all rows of B.
        spin: of the others: 0, or 1 for spin down.
        same: whether ``i`` has that spin too, and the shell is open.
        t: [nocc, nvir, nvir].
    """

    i: int
    spin: int
    same: bool
    t: Tensor


def densities(want: Request) -> list[SpinDensity]:
    """Return what MP2 adds to the density without the response of the orbitals, of each set of orbitals.

    Every pair of occupied orbitals is computed twice, once for either of them.

    Raises:
        CapacityError: the amplitudes of one orbital do not fit into the budget.
    """
    run = _prepared(want)
    parts = run.sets
    nvir = run.plan.sizes.nvir
    occupied = [torch.zeros((len(part), len(part)), dtype=torch.float64, device="cpu") for part in parts]
    virtual = [torch.zeros((nvir, nvir), dtype=torch.float64, device="cpu") for _ in parts]
    for each in _amplitudes(run, want):
        t, closed = each.t, run.orbitals.spins.up is None
        # of a sum over both orders of a pair, the parts with t on the left are half
        partner = 2 * t - t.mT if closed else t - t.mT if each.same else t
        occupied[each.spin] -= _product(t, partner, run)
        virtual[each.spin] += _product(t.transpose(0, 1), partner.transpose(0, 1), run)
    return [SpinDensity(o, v) for o, v in zip(occupied, virtual, strict=True)]


def _product(left: Tensor, right: Tensor, run: Run) -> Tensor:
    """Sum over all but the first indices."""
    rows = [x.reshape(len(x), -1) for x in (left, right)]
    return from_device(trnblas.gemm(1.0, rows[0], rows[1], trans_b=True, precision=run.plan.precision)).double()


def amplitudes(want: Request) -> list[Tensor]:
    """Return all amplitudes as PySCF orders them: ``t2[i, j, a, b]``, or those of equal, different and equal spins.

    Raises:
        CapacityError: they do not fit into the budget.
    """
    run = _prepared(want)
    n, parts = run.plan.sizes, run.sets
    shapes = [(len(parts[0]), len(parts[k]), n.nvir, n.nvir) for k in range(len(parts))]
    shapes += [(len(part), len(part), n.nvir, n.nvir) for part in parts[1:]]
    needed = sum(torch.Size(shape).numel() for shape in shapes) * n.itemsize
    if needed > run.plan.memory:
        hint = "Energies and densities need none of them: with_t2=False"
        raise CapacityError("host memory for amplitudes", needed, run.plan.memory, hint)
    arrays = [torch.zeros(shape, dtype=dtype_of(run.plan.precision), device="cpu") for shape in shapes]
    for each in _amplitudes(run, want):
        of_i = run.orbitals.spins.of(each.i)
        if each.spin < of_i:
            continue  # the other order of a pair of different spins
        row = each.i - parts[of_i].start
        arrays[of_i + each.spin][row] = (each.t - each.t.mT if each.same else each.t).mT
    return arrays


def _prepared(want: Request) -> Run:
    """B is the same whatever computes the energy."""
    return prepared(replace(want, method="pairs", device=None))[1]


def _amplitudes(run: Run, want: Request) -> Iterator[Amplitudes]:
    plan = run.plan
    n, up = plan.sizes, run.orbitals.spins.up
    if not plan.stages:
        return
    needed = 4 * n.nocc * n.nvir**2 * n.itemsize
    if needed > plan.memory:
        hint = "The amplitudes of one orbital with all others are held at once"
        raise CapacityError("host memory for the density", needed, plan.memory, hint)
    with open_store(plan, n.nocc, want.scratch) as store:
        run.build(store)
        for i in range(n.nocc):
            one = store.rows(i, i + 1)[0]
            for spin, rows in enumerate(run.sets):
                same = up is not None and run.orbitals.spins.of(i) == spin
                if rows:
                    yield Amplitudes(i, spin, same, _of_pair(run, store, i, one, spin, rows))


def _of_pair(run: Run, store: Store, i: int, one: Tensor, spin: int, rows: range) -> Tensor:
    orbitals, plan, blocks = run.orbitals, run.plan, []
    e_vir = orbitals.e_vir
    sums = e_vir[spin][:, None] + e_vir[orbitals.spins.of(i)]
    for first in range(rows.start, rows.stop, plan.rows):
        last = min(rows.stop, first + plan.rows)
        others = store.rows(first, last)
        flat = others.reshape(-1, others.shape[2])
        integrals = from_device(trnblas.gemm(1.0, flat, one.mT, precision=plan.precision))
        energies = (orbitals.e_occ[first:last] + orbitals.e_occ[i]).view(-1, 1, 1)
        blocks.append(integrals.view(last - first, plan.sizes.nvir, -1) / (energies - sums).to(integrals.dtype))
    return torch.cat(blocks)
