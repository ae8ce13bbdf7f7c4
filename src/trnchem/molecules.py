"""Built-in molecules and xyz files."""

from __future__ import annotations

import difflib
import math
import tomllib
from pathlib import Path
from typing import Any

from trnsci import ArgumentError, BackendUnavailable, check

Atom = tuple[str, tuple[float, float, float]]


def _parse_atoms(text: str) -> list[Atom]:
    words = (line.split() for line in text.splitlines())
    return [(symbol, (float(x), float(y), float(z))) for symbol, x, y, z in words]


_TABLE = tomllib.loads(Path(__file__).with_name("molecules.toml").read_text(encoding="utf-8"))
GEOMETRIES = {name: _parse_atoms(facts["atoms"]) for name, facts in _TABLE.items()}
FORMULAS: dict[str, str] = {facts["formula"]: name for name, facts in _TABLE.items() if "formula" in facts}


def pyscf() -> Any:
    """Import PySCF, or say how to get it."""
    try:
        # parts of it become attributes when somebody imports them
        import pyscf
        import pyscf.df
        import pyscf.dft
        import pyscf.gto
        import pyscf.mp
        import pyscf.scf
    except ImportError as error:
        raise missing("pyscf", error) from None
    return pyscf


def missing(package: str, error: ImportError) -> BackendUnavailable:
    """Return the error for a package of the extra ``chem`` that cannot be imported."""
    return BackendUnavailable(package, f"its import fails ({error})", "In a clone: pip install '.[chem]'")


def molecule_of(source: str | Path, basis: str, charge: int = 0, spin: int | None = None) -> Any:
    """Return the molecule of a file or a built-in name; without ``spin`` electrons pair up as far as they can."""
    charge = check.integer("mean_field", "charge", charge)
    spin = None if spin is None else check.integer("mean_field", "spin", spin, 0)
    check.refuse(not basis, "mean_field", "basis", basis, "a basis set PySCF has")
    name = str(source).strip().lower()
    known = FORMULAS.get(name, name)
    if known in GEOMETRIES:
        atoms = GEOMETRIES[known]
    elif isinstance(source, Path) or name.endswith(".xyz"):
        atoms = read_xyz(source)
    else:
        expected = "a built-in name, an xyz file or a PySCF mean field"
        hint = _nearest(known, [*GEOMETRIES, *FORMULAS], "The built-in ones are " + ", ".join(GEOMETRIES))
        raise ArgumentError("mean_field", "molecule", str(source), expected, hint=hint)
    gto, exceptions = pyscf().gto, pyscf().lib.exceptions
    try:
        electrons = sum(gto.charge(symbol) for symbol, _ in atoms) - charge
        if electrons < 0:
            raise RuntimeError(f"there are {electrons + charge} electrons to take away")
        if spin is None:
            spin = _TABLE.get(known, {}).get("unpaired", 0) if charge == 0 else 0
            spin = spin or electrons % 2
        return gto.M(atom=atoms, basis=basis, charge=charge, spin=spin, verbose=0)
    except (exceptions.BasisNotFoundError, AttributeError, TypeError) as error:
        raise unknown_basis("basis", basis, error) from None
    except RuntimeError as error:
        got, expected = f"{charge} and {spin}", f"what {electrons + charge} electrons of the neutral molecule allow"
        raise ArgumentError("mean_field", "charge and spin", got, expected, hint=f"PySCF says: {error}") from None


def unknown_basis(argument: str, name: object, error: Exception) -> ArgumentError:
    """Return the error for a basis PySCF does not have, with the nearest name it has."""
    from pyscf.gto.basis import ALIAS

    message = str(error).splitlines()[0]
    hint = _nearest(str(name).lower().replace(" ", ""), list(ALIAS), f"PySCF says: {message}")
    return ArgumentError("dfmp2", argument, name, "a basis set PySCF has for these elements", hint=hint)


def _nearest(name: str, known: list[str], otherwise: str) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    return f"Did you mean {near[0]!r}?" if near and near[0] != name else otherwise


def read_xyz(path: str | Path) -> list[Atom]:
    """Read an xyz file: a count, a comment, and one line per atom with its element and coordinates in angstrom.

    Raises:
        ArgumentError: there is no such file, or a line does not say what it should; the line is named.
    """
    check.kind("read_xyz", "path", path, str | Path, "the path of a file")
    file = Path(path)
    check.refuse(not file.is_file(), "read_xyz", "path", str(path), "an xyz file that exists")
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()

    def wrong(line: int, expected: str) -> ArgumentError:
        got = lines[line - 1].strip()[:60] if line <= len(lines) else "the end of the file"
        return ArgumentError("read_xyz", f"line {line} of {file.name}", got, expected)

    if not lines or not lines[0].strip().isdecimal() or int(lines[0]) == 0:
        raise wrong(1, "the number of atoms")
    elements = pyscf().data.elements
    atoms: list[Atom] = []
    for line in range(3, 3 + int(lines[0])):
        words = lines[line - 1].split() if line <= len(lines) else []
        try:
            x, y, z = (float(word) for word in words[1:4])
        except ValueError:
            raise wrong(line, "an element and three coordinates") from None
        symbol = words[0].capitalize()
        if symbol not in elements.ELEMENTS[1:] or not all(map(math.isfinite, (x, y, z))):
            raise wrong(line, "an element and three finite coordinates")
        atoms.append((symbol, (x, y, z)))
    return atoms
