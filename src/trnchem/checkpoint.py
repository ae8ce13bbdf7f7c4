"""Finished pairs in a file: written whole or not at all, checked when read, and never unpickled."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trnchem.orbitals import Orbitals
from trnchem.pairs import PairState
from trnchem.store import full_disk, h5py
from trnsci import ArgumentError

FORMAT = "trnchem.dfmp2 1"
ARRAYS = ("C_occ", "C_vir", "e_occ", "e_vir", "opposite", "same", "done")


class Checkpoint:
    """The file of one calculation: what it is of, its orbitals, and the energies of finished pairs.

    The orbitals are kept because a mean field that runs again may rotate degenerate ones or change signs, and pairs of
    different orbitals do not add up to an energy.

    Args:
        path: of the file; its folder must exist.
        identity: what the calculation is of, by name. A file with other values is refused.
    """

    def __init__(self, path: str | Path, identity: Mapping[str, str]) -> None:
        self.path = Path(path)
        self.identity = dict(identity)
        if self.path.is_dir() or not self.path.parent.is_dir():
            expected = "a file in a folder that exists"
            raise ArgumentError(op="dfmp2", argument="checkpoint", got=str(path), expected=expected)

    def load(self, orbitals: Orbitals) -> tuple[Orbitals, PairState] | None:
        """Return the orbitals and finished pairs of the file, or ``None`` where there is no file.

        Raises:
            ArgumentError: the file is damaged, or belongs to another calculation.
        """
        if not self.path.exists():
            return None
        identity, arrays = self._read()
        for name, mine in self.identity.items():
            if identity.get(name) != mine:
                raise self._refused(f"of another calculation: its {name} is {identity.get(name)}", f"{name} {mine}")
        energies = (arrays["e_occ"], arrays["e_vir"])
        for kept, now in zip(energies, (orbitals.e_occ, orbitals.e_vir), strict=True):
            if kept.shape != now.shape or float((kept - now).abs().max()) > 1e-4:
                raise self._refused("of another state of this molecule", "the same orbital energies")
        same = Orbitals(arrays["C_occ"], arrays["C_vir"], *energies, orbitals.frozen)
        return same, PairState(arrays["opposite"], arrays["same"], arrays["done"])

    def _refused(self, got: str, expected: str) -> ArgumentError:
        return ArgumentError(
            op="dfmp2",
            argument=f"checkpoint {self.path}",
            got=got,
            expected=expected,
            hint="Name another file, or delete this one to start again",
        )

    def _read(self) -> tuple[dict[str, str], dict[str, torch.Tensor]]:
        try:
            with h5py().File(self.path, "r") as file:
                if file.attrs.get("format") != FORMAT:
                    raise self._refused(f"of format {file.attrs.get('format')!r}", repr(FORMAT))
                arrays = {name: np.asarray(file[name][()]) for name in ARRAYS}
                identity = {name: str(value) for name, value in file["identity"].attrs.items()}
                checksum = file.attrs["checksum"]
        except (OSError, KeyError, ValueError, RuntimeError) as error:
            if isinstance(error, ArgumentError):
                raise
            raise self._refused(f"damaged ({error})", "the file a calculation wrote") from None
        if any(array.dtype.kind not in "fb" for array in arrays.values()) or checksum != _checksum(arrays, identity):
            raise self._refused("damaged (its checksum is wrong)", "the file a calculation wrote")
        return identity, {name: torch.from_numpy(array) for name, array in arrays.items()}

    def save(self, orbitals: Orbitals, state: PairState) -> None:
        """Write the file anew beside the old one and put it in its place: a crash leaves one or the other.

        Raises:
            CapacityError: the disk is full. The file of the last call is intact.
        """
        parts = (orbitals.C_occ, orbitals.C_vir, orbitals.e_occ, orbitals.e_vir, state.opposite, state.same, state.done)
        arrays = {name: part.numpy() for name, part in zip(ARRAYS, parts, strict=True)}
        image = io.BytesIO()
        with h5py().File(image, "w") as file:
            file.attrs["format"] = FORMAT
            file.attrs["checksum"] = _checksum(arrays, self.identity)
            file.create_group("identity").attrs.update(self.identity)
            for name, array in arrays.items():
                file[name] = array
        fresh = self.path.with_name(self.path.name + ".new")
        try:
            with full_disk(fresh, "The pairs finished before are safe in the file; free some space and run again"):
                with fresh.open("wb") as out:
                    out.write(image.getbuffer())
                    out.flush()
                    os.fsync(out.fileno())
                fresh.replace(self.path)
        finally:
            fresh.unlink(missing_ok=True)


def _checksum(arrays: Mapping[str, np.ndarray[Any, Any]], identity: Mapping[str, str]) -> str:
    total = hashlib.sha256(repr(sorted(identity.items())).encode())
    for name in ARRAYS:
        array = arrays[name]
        total.update(f"{name} {array.shape} {array.dtype.str}".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def identity(molecule: Any, auxiliary: Any, orbitals: Orbitals, precision: str) -> dict[str, str]:
    """What makes two calculations the same, in words short enough for an error."""
    return {
        **molecule_text(molecule),
        "auxbasis": basis_text(auxiliary),
        "frozen": str(list(orbitals.frozen)),
        "precision": precision,
    }


def molecule_text(molecule: Any) -> dict[str, str]:
    """What a molecule is."""
    atoms = [molecule.atom_pure_symbol(k) for k in range(molecule.natm)]
    formula = "".join(f"{a}{atoms.count(a) if atoms.count(a) > 1 else ''}" for a in dict.fromkeys(atoms))
    coordinates = np.round(molecule.atom_coords(), 8) + 0.0
    return {
        "molecule": f"{formula} charge {molecule.charge}",
        "geometry": _digest(repr(atoms).encode() + coordinates.tobytes()),
        "basis": basis_text(molecule),
    }


def basis_text(molecule: Any) -> str:
    """How many functions a molecule or an auxiliary one has, and which."""
    return f"{molecule.nao_nr()} functions, {_digest(repr(sorted(molecule._basis.items())).encode())}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]
