"""The orbitals that take part: which are occupied, which virtual, which frozen, in one set or one of each spin."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnchem.molecules import pyscf
from trnsci import ArgumentError

Frozen = int | Sequence[int] | Sequence[Sequence[int]] | Literal["core"] | None
Positions = tuple[int, ...]


class Spins(NamedTuple):
    """The order of the occupied orbitals, which are the rows of B.

    The energy is the sum over all ordered pairs of rows. In a closed shell a row stands for both spins, and a pair has
    an opposite-spin and a same-spin part. In an open shell a pair has one of them, and half of it in either order.

    Attributes:
        up: how many orbitals of spin up come first; ``None`` for a closed shell.
    """

    up: int | None = None

    @property
    def sets(self) -> int:
        """Sets of orbitals: 1 or 2."""
        return 1 if self.up is None else 2

    def of(self, orbital: int) -> int:
        """Return the set of an orbital: 0, or 1 for spin down."""
        return int(self.up is not None and orbital >= self.up)

    def ranges(self, nocc: int) -> list[range]:
        """Return occupied orbitals of each set."""
        return [range(nocc)] if self.up is None else [range(self.up), range(self.up, nocc)]

    def most(self, nocc: int) -> int:
        """Return occupied orbitals of the larger set."""
        return nocc if self.up is None else max(self.up, nocc - self.up)

    def until(self, first: int, last: int) -> int:
        """Return where orbitals from ``first`` on change their spin, or ``last`` if they do not before."""
        return last if self.up is None or first >= self.up else min(last, self.up)


CLOSED = Spins()


@dataclass(frozen=True, slots=True, eq=False)
class Orbitals:
    """Coefficients and energies in float64.

    Where spin up has fewer virtual orbitals than spin down, zeros stand for the rest: they have no integrals.

    Attributes:
        C_occ: [nao, nocc], of spin up and then of spin down where the shell is open.
        C_vir: [sets, nao, nvir], one set or one of each spin.
        e_occ: [nocc].
        e_vir: [sets, nvir].
        frozen: positions left out, among all orbitals; of each spin where they differ.
        spins: the order of the occupied orbitals.
    """

    C_occ: Tensor
    C_vir: Tensor
    e_occ: Tensor
    e_vir: Tensor
    frozen: Positions | tuple[Positions, Positions]
    spins: Spins = CLOSED

    @property
    def gaps(self) -> list[tuple[float, float]]:
        """Smallest and largest difference of a virtual and an occupied energy, of each spin that has both."""
        parts = (self.e_occ[: self.spins.up], self.e_occ[len(self.e_occ) if self.spins.up is None else self.spins.up :])
        pairs = [(occ, vir) for occ, vir in zip(parts, self.e_vir, strict=False) if len(occ) and len(vir)]
        return [(float(vir.min() - occ.max()), float(vir.max() - occ.min())) for occ, vir in pairs]

    def products(self, overlap: Tensor) -> list[Tensor]:
        """Return the inner products of all orbitals of each spin, in the overlap of the basis functions."""
        ranges = self.spins.ranges(len(self.e_occ))
        sets = [torch.cat([self.C_occ[:, list(r)], C], 1) for r, C in zip(ranges, self.C_vir, strict=True)]
        return [C.mT @ overlap @ C for C in sets]


class OrbitalSet(NamedTuple):
    """All orbitals of one spin, or of both: which are occupied, coefficients [nao, nmo], energies."""

    occupied: Any
    C: Any
    energies: Any


def orbitals(field: Any, frozen: Frozen) -> Orbitals:
    """Split a mean field's orbitals.

    Args:
        field: a converged mean field.
        frozen: ``None``; how many of the lowest orbitals to leave out; their positions, virtual ones too, for both
            spins or a list for each; or ``core`` for the shells below the valence shell.

    Raises:
        ArgumentError: positions do not exist, they leave nothing of what there was, or occupied and virtual energies
            overlap.
    """
    sets = orbital_sets(field)
    left_out = _left_out(field, frozen, len(sets[0].occupied), len(sets))
    kept = [_keep_orbitals(each, positions) for each, positions in zip(sets, left_out, strict=True)]
    _refuse_nothing(frozen, sets, kept, any(left_out))
    nvir = max(len(part.energies) - int(part.occupied.sum()) for part in kept)
    split = [_split(part, nvir) for part in kept]
    C_occ, C_vir, e_occ, e_vir = (
        [torch.from_numpy(np.array(each[k], dtype=np.float64)) for each in split] for k in range(4)
    )
    return Orbitals(
        torch.cat(C_occ, 1),
        torch.stack(C_vir),
        torch.cat(e_occ),
        torch.stack(e_vir),
        left_out[0] if left_out[0] == left_out[-1] else (left_out[0], left_out[1]),
        CLOSED if len(sets) == 1 else Spins(len(e_occ[0])),
    )


def orbital_sets(field: Any) -> list[OrbitalSet]:
    """Return orbitals of both spins at once, or of each: restricted open shells have two Fock operators here."""
    occ, C, energies = field.mo_occ, field.mo_coeff, field.mo_energy
    if np.ndim(occ) == 2:
        return [OrbitalSet(occ[s] > 0, C[s], np.asarray(energies[s])) for s in (0, 1)]
    if not (np.asarray(occ) == 1).any():
        return [OrbitalSet(occ > 0, C, np.asarray(energies))]
    if not hasattr(energies, "mo_ea"):
        # a mean field read from a file has lost them
        focks = field.get_fock()
        energies = [np.einsum("pi,pq,qi->i", C, focks_s, C) for focks_s in (focks.focka, focks.fockb)]
    else:
        energies = [energies.mo_ea, energies.mo_eb]
    return [OrbitalSet(occ > 0, C, np.asarray(energies[0])), OrbitalSet(occ == 2, C, np.asarray(energies[1]))]


def _keep_orbitals(part: OrbitalSet, left_out: Positions) -> OrbitalSet:
    if not left_out:
        return part
    kept = np.ones(len(part.occupied), dtype=bool)
    kept[list(left_out)] = False
    return OrbitalSet(part.occupied[kept], part.C[:, kept], part.energies[kept])


def _refuse_nothing(frozen: Frozen, sets: list[OrbitalSet], kept: list[OrbitalSet], left_out: bool) -> None:
    if not left_out:
        # a basis without virtual orbitals has no correlation energy, which is an answer
        return
    occupied = [any(bool(each.occupied.any()) for each in parts) for parts in (sets, kept)]
    virtual = [any(bool((~each.occupied).any()) for each in parts) for parts in (sets, kept)]
    if occupied[0] > occupied[1] or virtual[0] > virtual[1]:
        there = [f"{int(each.occupied.sum())} occupied and {int((~each.occupied).sum())} virtual ones" for each in sets]
        expected, hint = "at least one occupied and one virtual orbital left", ", of the other spin ".join(there)
        raise ArgumentError("dfmp2", "frozen", frozen, expected, hint=f"There are {hint}")


def _split(part: OrbitalSet, nvir: int) -> tuple[Any, Any, Any, Any]:
    """Return occupied and virtual coefficients and energies, virtual ones filled up with zeros."""
    occupied, C, energies = part
    e_occ, e_vir = energies[occupied], energies[~occupied]
    if len(e_occ) and len(e_vir) and not e_occ.max() < e_vir.min():
        got, expected = (
            f"an occupied orbital at {e_occ.max():.6g} Ha",
            f"below the lowest virtual one at {e_vir.min():.6g} Ha",
        )
        hint = "Perturbation theory needs a gap; this is not the ground state of the mean field"
        raise ArgumentError("dfmp2", "mf", got, expected, hint=hint)
    C_vir, more = C[:, ~occupied], nvir - len(e_vir)
    if more:
        # an energy that keeps denominators as they are, or away from zero
        high = e_vir.max() if len(e_vir) else e_occ.max(initial=0.0) + 1.0
        C_vir = np.pad(C_vir, ((0, 0), (0, more)))
        e_vir = np.pad(e_vir, (0, more), constant_values=high)
    return C[:, occupied], C_vir, e_occ, e_vir


def _left_out(field: Any, frozen: Frozen, count: int, sets: int) -> list[Positions]:
    """Return positions to leave out of each set."""
    if frozen is None or isinstance(frozen, str | int | np.integer) or not _is_nested(frozen):
        return [_positions(field, frozen, count)] * sets
    if sets != 2 or len(frozen) != 2:
        expected = "one list of positions, or two where spins have orbitals of their own"
        raise ArgumentError("dfmp2", "frozen", frozen, expected)
    return [_positions(field, list(each), count) for each in frozen]  # type: ignore[arg-type]


def _is_nested(frozen: Any) -> bool:
    try:
        return any(isinstance(each, Sequence | np.ndarray) and not isinstance(each, str) for each in frozen)
    except TypeError:
        return False


def _positions(field: Any, frozen: Frozen, count: int) -> tuple[int, ...]:
    if frozen is None:
        return ()
    if isinstance(frozen, str) and frozen == "core":
        return tuple(range(pyscf().data.elements.chemcore(field.mol)))
    whole = isinstance(frozen, int | np.integer) and not isinstance(frozen, bool)
    try:
        listed = range(int(frozen)) if whole else [_position(each) for each in frozen]  # type: ignore[union-attr,arg-type]
    except TypeError:
        expected = "None, a number of orbitals, their positions, or 'core'"
        raise ArgumentError("dfmp2", "frozen", frozen, expected) from None
    positions = tuple(sorted(set(listed)))
    if (whole and int(frozen) < 0) or (positions and not 0 <= positions[0] <= positions[-1] < count):  # type: ignore[arg-type]
        raise ArgumentError("dfmp2", "frozen", frozen, f"positions from 0 to {count - 1}, or how many")
    return positions


def _position(given: Any) -> int:
    """Return an integer as it is; refuse 0.7 and True."""
    if isinstance(given, bool | np.bool_):
        raise TypeError
    return operator.index(given)
