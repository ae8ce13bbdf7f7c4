"""The orbitals that take part: which are occupied, which virtual, which frozen."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from trnchem.molecules import pyscf
from trnsci import ArgumentError

Frozen = int | Sequence[int] | Literal["core"] | None


@dataclass(frozen=True, slots=True, eq=False)
class Orbitals:
    """Coefficients and energies in float64.

    Attributes:
        C_occ, C_vir: [nao, nocc] and [nao, nvir].
        e_occ, e_vir: [nocc] and [nvir].
        frozen: positions left out, among all orbitals.
    """

    C_occ: Tensor
    C_vir: Tensor
    e_occ: Tensor
    e_vir: Tensor
    frozen: tuple[int, ...]


def orbitals(field: Any, frozen: Frozen) -> Orbitals:
    """Split a mean field's orbitals.

    Args:
        field: a converged mean field.
        frozen: ``None``; how many of the lowest orbitals to leave out; their positions, virtual ones too; or
            ``core`` for the shells below the valence shell.

    Raises:
        ArgumentError: positions do not exist, they leave nothing of what there was, or occupied and virtual energies
            overlap.
    """
    count = len(field.mo_occ)
    left_out = _positions(field, frozen, count)
    kept = np.ones(count, dtype=bool)
    kept[list(left_out)] = False
    occupied, virtual = kept & (field.mo_occ > 0), kept & (field.mo_occ == 0)
    there = int((field.mo_occ > 0).sum())
    # a basis without virtual orbitals has no correlation energy, which is an answer
    if left_out and (bool(there) > occupied.any() or bool(count - there) > virtual.any()):
        raise ArgumentError(
            op="dfmp2",
            argument="frozen",
            got=frozen,
            expected="at least one occupied and one virtual orbital left",
            hint=f"There are {there} occupied and {count - there} virtual ones",
        )
    parts = [np.ascontiguousarray(field.mo_coeff[:, which]) for which in (occupied, virtual)]
    energies = [np.array(field.mo_energy[which], dtype=np.float64) for which in (occupied, virtual)]
    if occupied.any() and virtual.any() and not energies[0].max() < energies[1].min():
        raise ArgumentError(
            op="dfmp2",
            argument="mf",
            got=f"an occupied orbital at {energies[0].max():.6g} Ha",
            expected=f"below the lowest virtual one at {energies[1].min():.6g} Ha",
            hint="Perturbation theory needs a gap; this is not the ground state of the mean field",
        )
    C_occ, C_vir = (torch.from_numpy(np.array(part, dtype=np.float64)) for part in parts)
    e_occ, e_vir = (torch.from_numpy(energy) for energy in energies)
    return Orbitals(C_occ, C_vir, e_occ, e_vir, left_out)


def _positions(field: Any, frozen: Frozen, count: int) -> tuple[int, ...]:
    if frozen is None:
        return ()
    if frozen == "core":
        return tuple(range(pyscf().data.elements.chemcore(field.mol)))
    whole = isinstance(frozen, int | np.integer) and not isinstance(frozen, bool)
    try:
        listed = range(int(frozen)) if whole else [_position(each) for each in frozen]  # type: ignore[union-attr,arg-type]
    except TypeError:
        expected = "None, a number of orbitals, their positions, or 'core'"
        raise ArgumentError(op="dfmp2", argument="frozen", got=frozen, expected=expected) from None
    positions = tuple(sorted(set(listed)))
    if (whole and int(frozen) < 0) or (positions and not 0 <= positions[0] <= positions[-1] < count):  # type: ignore[arg-type]
        raise ArgumentError(
            op="dfmp2", argument="frozen", got=frozen, expected=f"positions from 0 to {count - 1}, or how many"
        )
    return positions


def _position(given: Any) -> int:
    """An integer as it is; 0.7 is none, and True is no position."""
    if isinstance(given, bool | np.bool_):
        raise TypeError
    return operator.index(given)
