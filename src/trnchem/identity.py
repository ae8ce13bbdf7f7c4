"""What a calculation is of, in words short enough for an error."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from trnchem.orbitals import Orbitals
from trnchem.references import kind_of

if TYPE_CHECKING:
    from trnchem.dfmp2 import Request


def identity(field: Any, auxiliary: Any, orbitals: Orbitals, precision: str, want: Request) -> dict[str, str]:
    """Return what makes two calculations the same."""
    sampled = {} if want.method == "pairs" else {"quadrature error": str(want.quadrature_error)}
    if want.method == "stochastic":
        sampled |= {"samples": str(want.samples), "seed": str(want.seed)}
        sampled |= {"spins": "both"} if want.same_spin else {}
    return {
        **molecule_text(field.mol),
        "mean field": kind_of(field),
        "auxbasis": basis_text(auxiliary),
        "frozen": str(list(orbitals.frozen)),
        "precision": precision,
        "screening": str(float(want.screening)),
        "method": want.method,
        **sampled,
    }


def molecule_text(molecule: Any) -> dict[str, str]:
    """Describe a molecule."""
    atoms = [molecule.atom_pure_symbol(k) for k in range(molecule.natm)]
    formula = "".join(f"{a}{atoms.count(a) if atoms.count(a) > 1 else ''}" for a in dict.fromkeys(atoms))
    coordinates = np.round(molecule.atom_coords(), 8) + 0.0
    return {
        "molecule": f"{formula} charge {molecule.charge}" + (f" spin {molecule.spin}" if molecule.spin else ""),
        "geometry": _digest(repr(atoms).encode() + coordinates.tobytes()),
        "basis": basis_text(molecule),
    }


def basis_text(molecule: Any) -> str:
    """Return how many functions a molecule or an auxiliary one has, and which."""
    return f"{molecule.nao_nr()} functions, {_digest(repr(sorted(molecule._basis.items())).encode())}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]
