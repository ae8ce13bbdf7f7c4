"""What to compute: built-in molecules, xyz files, and mean fields made elsewhere."""

from __future__ import annotations

import difflib
import math
from pathlib import Path
from typing import Any

import numpy as np

from trnsci import ArgumentError, BackendUnavailable, NotConverged

Atom = tuple[str, tuple[float, float, float]]


def _ring(element: str, radius: float) -> list[Atom]:
    angles = (k * math.pi / 3 for k in range(6))
    return [(element, (radius * math.cos(angle), radius * math.sin(angle), 0.0)) for angle in angles]


# in angstrom; water is the geometry of the published reference value
GEOMETRIES: dict[str, list[Atom]] = {
    "water": [("O", (0.0, 0.0, 0.0)), ("H", (0.0, 0.757, 0.587)), ("H", (0.0, -0.757, 0.587))],
    "methane": [
        ("C", (0.0, 0.0, 0.0)),
        ("H", (0.629, 0.629, 0.629)),
        ("H", (-0.629, -0.629, 0.629)),
        ("H", (-0.629, 0.629, -0.629)),
        ("H", (0.629, -0.629, -0.629)),
    ],
    "ammonia": [
        ("N", (0.0, 0.0, 0.1173)),
        ("H", (0.0, 0.9377, -0.2737)),
        ("H", (0.8121, -0.4689, -0.2737)),
        ("H", (-0.8121, -0.4689, -0.2737)),
    ],
    "hydrogen fluoride": [("F", (0.0, 0.0, 0.0)), ("H", (0.0, 0.0, 0.9168))],
    "nitrogen": [("N", (0.0, 0.0, 0.0)), ("N", (0.0, 0.0, 1.0977))],
    "benzene": [*_ring("C", 1.3915), *_ring("H", 2.4715)],
    "glycine": [
        ("N", (0.0, 0.0, 0.0)),
        ("H", (-0.334, -0.943, 0.0)),
        ("H", (-0.334, 0.471, 0.816)),
        ("C", (1.455, 0.0, 0.0)),
        ("H", (1.818, 1.028, 0.0)),
        ("H", (1.818, -0.514, 0.89)),
        ("C", (2.009, -0.711, -1.231)),
        ("O", (1.383, -1.303, -2.09)),
        ("O", (3.357, -0.624, -1.281)),
        ("H", (3.65, -1.11, -2.1)),
    ],
}
FORMULAS = {
    "h2o": "water",
    "ch4": "methane",
    "nh3": "ammonia",
    "hf": "hydrogen fluoride",
    "n2": "nitrogen",
    "c6h6": "benzene",
}


def pyscf() -> Any:
    """Import PySCF, or say how to get it."""
    try:
        # parts of it become attributes when somebody imports them
        import pyscf
        import pyscf.df
        import pyscf.dft
        import pyscf.gto
        import pyscf.scf
    except ImportError as error:
        raise BackendUnavailable(
            backend="pyscf", reason=f"its import fails ({error})", how="In a clone: pip install '.[chem]'"
        ) from None
    return pyscf


def mean_field(source: Any, *, basis: str | None = None) -> Any:
    """Return a converged closed-shell mean field.

    Args:
        source: a PySCF mean field that has run; the path of an xyz file; or a built-in name (``water``, ``h2o`` …).
        basis: orbital basis for a file or a name; ``cc-pvdz`` unless given. Hartree-Fock is density fitted.

    Raises:
        ArgumentError: no such molecule, file or basis; the file is malformed; the mean field is not restricted
            Hartree-Fock of a closed shell.
        NotConverged: the mean field has not converged.

    Example:
        >>> mean_field("water", basis="sto-3g").mol.nelectron
        10
    """
    if not isinstance(source, str | Path):
        if basis is not None:
            raise ArgumentError(
                op="mean_field",
                argument="basis",
                got=basis,
                expected="None, because a mean field has its own",
                hint="Choose the basis when building the molecule in PySCF",
            )
        return _checked(source)
    return solved(unsolved(molecule_of(source, basis or "cc-pvdz")), basis or "cc-pvdz")


def unsolved(molecule: Any) -> Any:
    """Return density-fitted Hartree-Fock of a molecule, before it runs."""
    made = pyscf().scf.RHF(molecule).density_fit()
    made.chkfile = None
    return made


def solved(field: Any, basis: str) -> Any:
    """Run a mean field."""
    try:
        field.run()
    except pyscf().lib.exceptions.BasisNotFoundError as error:
        raise ArgumentError(
            op="mean_field",
            argument="basis",
            got=basis,
            expected="one for which PySCF has an auxiliary basis",
            hint=f"PySCF says: {error}. Build the mean field with scf.RHF(mol), which needs none, and pass it",
        ) from None
    return _checked(field)


def molecule_of(source: str | Path, basis: str) -> Any:
    """Return the molecule of a file or a built-in name."""
    name = str(source).strip().lower()
    known = FORMULAS.get(name, name)
    if known in GEOMETRIES:
        atoms = GEOMETRIES[known]
    elif isinstance(source, Path) or name.endswith(".xyz"):
        atoms = read_xyz(source)
    else:
        raise ArgumentError(
            op="mean_field",
            argument="molecule",
            got=str(source),
            expected="a built-in name, an xyz file or a PySCF mean field",
            hint=_nearest(known, [*GEOMETRIES, *FORMULAS], "The built-in ones are " + ", ".join(GEOMETRIES)),
        )
    gto, exceptions = pyscf().gto, pyscf().lib.exceptions
    try:
        return gto.M(atom=atoms, basis=basis, verbose=0)
    except exceptions.BasisNotFoundError as error:
        raise unknown_basis("basis", basis, error) from None
    except RuntimeError as error:
        # PySCF builds singlets unless told otherwise, and says so when electrons do not pair up.
        raise ArgumentError(
            op="mean_field",
            argument="molecule",
            got=str(source),
            expected="an even number of electrons",
            hint=f"PySCF says: {error}",
        ) from None


def unknown_basis(argument: str, name: object, error: Exception) -> ArgumentError:
    """Return the error for a basis PySCF does not have, with the nearest name it has."""
    from pyscf.gto.basis import ALIAS

    said = str(error).splitlines()[0]
    return ArgumentError(
        op="dfmp2",
        argument=argument,
        got=name,
        expected="a basis set PySCF has for these elements",
        hint=_nearest(str(name).lower().replace(" ", ""), list(ALIAS), f"PySCF says: {said}"),
    )


def _nearest(name: str, known: list[str], otherwise: str) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    return f"Did you mean {near[0]!r}?" if near and near[0] != name else otherwise


def read_xyz(path: str | Path) -> list[Atom]:
    """Read an xyz file: a count, a comment, and one line per atom with its element and coordinates in angstrom.

    Raises:
        ArgumentError: there is no such file, or a line does not say what it should; the line is named.
    """
    file = Path(path)
    if not file.is_file():
        raise ArgumentError(op="read_xyz", argument="path", got=str(path), expected="an xyz file that exists")
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()

    def wrong(number: int, expected: str) -> ArgumentError:
        got = lines[number - 1].strip()[:60] if number <= len(lines) else "the end of the file"
        return ArgumentError(op="read_xyz", argument=f"line {number} of {file.name}", got=got, expected=expected)

    if not lines or not lines[0].strip().isdecimal() or int(lines[0]) == 0:
        raise wrong(1, "the number of atoms")
    elements = pyscf().data.elements
    atoms: list[Atom] = []
    for number in range(3, 3 + int(lines[0])):
        words = lines[number - 1].split() if number <= len(lines) else []
        try:
            x, y, z = (float(word) for word in words[1:4])
        except ValueError:
            raise wrong(number, "an element and three coordinates") from None
        symbol = words[0].capitalize()
        if symbol not in elements.ELEMENTS[1:] or not all(map(math.isfinite, (x, y, z))):
            raise wrong(number, "an element and three finite coordinates")
        atoms.append((symbol, (x, y, z)))
    return atoms


def _checked(field: Any) -> Any:
    """Refuse what is not a converged restricted Hartree-Fock calculation of a molecule."""
    scf, dft = pyscf().scf, pyscf().dft
    if not isinstance(field, scf.hf.SCF):
        expected = "a PySCF mean field, an xyz file or a built-in name"
        raise ArgumentError(op="dfmp2", argument="mf", got=type(field), expected=expected)
    reason = ""
    if hasattr(field, "cell"):
        reason = "Periodic systems are not supported"
    elif isinstance(field, dft.rks.KohnShamDFT):
        reason = "Orbitals of a density functional do not diagonalise the Fock operator; run scf.RHF(mol)"
    elif isinstance(field, scf.rohf.ROHF) or not isinstance(field, scf.hf.RHF):
        reason = "Open shells are not supported"
    if reason:
        expected = "restricted Hartree-Fock of a closed shell, pyscf.scf.RHF"
        raise ArgumentError(op="dfmp2", argument="mf", got=type(field), expected=expected, hint=reason)
    if field.mo_coeff is None or field.mo_energy is None:
        raise ArgumentError(
            op="dfmp2", argument="mf", got="a mean field that has not run", expected="one that has",
            hint="Call mf.kernel() first",
        )  # fmt: skip
    if field.mo_coeff.dtype.kind == "c":
        raise ArgumentError(op="dfmp2", argument="mf", got="complex orbitals", expected="real ones")
    if not np.isin(field.mo_occ, (0, 2)).all():
        odd = next(float(value) for value in field.mo_occ if value not in (0, 2))
        raise ArgumentError(
            op="dfmp2", argument="mf", got=f"an orbital with {odd:g} electrons", expected="orbitals with 2 or none",
            hint="Smeared and averaged occupations are not a closed shell",
        )  # fmt: skip
    if not field.converged:
        raise _not_converged(field)
    return field


def _not_converged(field: Any) -> NotConverged:
    gradient = field.get_grad(field.mo_coeff, field.mo_occ)
    return NotConverged(
        op="dfmp2",
        iterations=int(getattr(field, "cycles", 0) or field.max_cycle),
        residual=float((gradient**2).sum() ** 0.5),
        hint="Its orbitals would give a wrong energy. Try mf.max_cycle = 200, mf.newton() or a level shift in PySCF,"
        " and a geometry in angstrom",
    )
