"""Mean fields: what is taken from PySCF, what is built here, and what is refused, with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

from trnchem.molecules import molecule_of, pyscf
from trnchem.options import MP2Options, Reference, Stability
from trnsci import ArgumentError, NotConverged, NumericalError, check


def build_molecule(source: Any, options: MP2Options) -> Any:
    """Build the molecule of a file or a name, or take that of PySCF."""
    check.option("mean_field", "reference", options.reference, (None, "rhf", "uhf", "rohf"))
    if not isinstance(source, str | Path):
        _refuse_given("molecule", options, "basis", "charge", "spin")
        check.refuse("pbc" in type(source).__module__, "dfmp2", "mf", type(source), "a molecule, not a crystal")
        return source
    basis = "cc-pvdz" if options.basis is None else options.basis
    return molecule_of(source, basis, 0 if options.charge is None else options.charge, options.spin)


def build_field(molecule: Any, options: MP2Options) -> Any:
    """Return density-fitted Hartree-Fock of a molecule, before it runs."""
    kind = options.reference or ("uhf" if molecule.spin else "rhf")
    expected = f"'uhf' or 'rohf' with {molecule.spin} unpaired electrons"
    check.refuse(kind == "rhf" and molecule.spin, "mean_field", "reference", "rhf", expected)
    field = getattr(pyscf().scf, kind.upper())(molecule).density_fit()
    field.chkfile = None
    return field


def solve_field(field: Any, options: MP2Options) -> Any:
    """Run a mean field."""
    try:
        field.run()
    except pyscf().lib.exceptions.BasisNotFoundError as error:
        expected = "one for which PySCF has an auxiliary basis"
        hint = f"PySCF says: {error}. Build the mean field with scf.RHF(mol), which needs none, and pass it"
        raise ArgumentError("mean_field", "basis", options.basis or "cc-pvdz", expected, hint=hint) from None
    return _check_field(field)


@check.hands_on("dfmp2")
def mean_field(
    source: Any,
    *,
    basis: str | None = None,
    charge: int | None = None,
    spin: int | None = None,
    reference: Reference | None = None,
) -> Any:
    """Return a converged mean field.

    Args:
        source: a PySCF mean field that has run; a molecule of PySCF; the path of an xyz file; or a built-in name
            (``water``, ``h2o`` …).
        basis: orbital basis for a file or a name; ``cc-pvdz`` unless given. Hartree-Fock is density fitted.
        charge: of a file or a name; 0 unless given.
        spin: unpaired electrons of a file or a name; unless given none or one, as the number of electrons is even or
            odd.
        reference: ``rhf``, ``uhf`` or ``rohf`` for a file or a name; unless given ``rhf`` without unpaired electrons
            and ``uhf`` with some.

    Raises:
        ArgumentError: no such molecule, file or basis; the file is malformed; charge and spin do not go together; the
            mean field is not Hartree-Fock of a molecule with whole electrons.
        NotConverged: the mean field has not converged.

    Example:
        >>> mean_field("water", basis="sto-3g").mol.nelectron
        10
    """
    return built(source, MP2Options(basis=basis, charge=charge, spin=spin, reference=reference))


def built(source: Any, options: MP2Options) -> Any:
    """`mean_field` with its options in one value."""
    if is_description(source):
        return solve_field(build_field(build_molecule(source, options), options), options)
    _refuse_given("mean field", options, "basis", "charge", "spin", "reference")
    return _check_field(source)


def is_description(source: Any) -> bool:
    """Return whether a mean field is to be computed: of an xyz file, a built-in name or a molecule of PySCF."""
    return isinstance(source, (str, Path, pyscf().gto.MoleBase))


def _refuse_given(owner: str, options: MP2Options, *names: str) -> None:
    """Refuse options that a mean field or a molecule of PySCF has of its own."""
    for name in names:
        value = getattr(options, name)
        hint = f"Choose the {name} when building the molecule in PySCF"
        check.refuse(value is not None, "mean_field", name, value, f"None, because a {owner} has its own", hint=hint)


def _check_field(field: Any) -> Any:
    """Refuse what is not a converged Hartree-Fock calculation of a molecule with whole electrons."""
    scf, dft = pyscf().scf, pyscf().dft
    if not isinstance(field, scf.hf.SCF):
        raise ArgumentError(
            "dfmp2", "mf", type(field), "a PySCF mean field or molecule, an xyz file or a built-in name"
        )
    reason = ""
    # PySCF imports all of itself when a mean field is asked for an attribute it has not
    if "cell" in vars(field):
        reason = "Periodic systems are not supported"
    elif isinstance(field, dft.rks.KohnShamDFT):
        reason = "Orbitals of a density functional do not diagonalise the Fock operator; run scf.HF(mol)"
    elif not isinstance(field, scf.hf.RHF | scf.uhf.UHF):
        reason = "Orbitals of mixed spin are not supported"
    if reason:
        expected = "Hartree-Fock of a molecule: pyscf.scf.RHF, UHF or ROHF"
        raise ArgumentError("dfmp2", "mf", type(field), expected, hint=reason)
    missing = field.mo_coeff is None or field.mo_energy is None
    check.refuse(missing, "dfmp2", "mf", "a mean field that has not run", "one that has", hint="Call mf.kernel() first")
    check.refuse(np.asarray(field.mo_coeff).dtype.kind == "c", "dfmp2", "mf", "complex orbitals", "real ones")
    whole = {"RHF": (0, 2), "ROHF": (0, 1, 2), "UHF": (0, 1)}[kind_of(field)]
    odd = [float(value) for value in np.ravel(field.mo_occ) if value not in whole]
    if odd:
        expected = "orbitals with " + {"RHF": "2", "ROHF": "2, 1", "UHF": "1"}[kind_of(field)] + " or none"
        hint = "Smeared and averaged occupations are of no single determinant, which MP2 needs"
        raise ArgumentError("dfmp2", "mf", f"an orbital with {odd[0]:g} electrons", expected, hint=hint)
    if not field.converged:
        gradient = field.get_grad(field.mo_coeff, field.mo_occ)
        hint = "Its orbitals would give a wrong energy. Try mf.max_cycle = 200, mf.newton() or a level shift in PySCF,"
        iterations = int(getattr(field, "cycles", 0) or field.max_cycle)
        residual = float((gradient**2).sum() ** 0.5)
        raise NotConverged("dfmp2", iterations, residual, f"{hint} and a geometry in angstrom")
    return field


def kind_of(field: Any) -> Literal["RHF", "UHF", "ROHF"]:
    """Return which kind of Hartree-Fock a mean field is."""
    if np.ndim(field.mo_occ) == 2:
        return "UHF"
    return "ROHF" if isinstance(field, pyscf().scf.rohf.ROHF) else "RHF"


def check_stability(field: Any, wanted: Stability | None) -> None:
    """Refuse a mean field that a rotation of its orbitals would lower.

    Raises:
        NumericalError: it is a saddle point; the text says in which direction and what to do.
    """
    if wanted is None:
        return
    kind, quiet = kind_of(field), field.copy()
    quiet.verbose = 0
    # the search keeps the symmetry it starts with, so spins that are alike need the one for restricted orbitals
    alike = kind == "UHF" and bool(np.abs(np.subtract(*field.make_rdm1())).max() < 1e-6)
    quiet = quiet.to_rhf() if alike else quiet
    external = alike or (wanted == "external" and kind != "ROHF")
    _, _, inside, outside = quiet.stability(external=external, return_status=True)
    if inside and (outside or not external):
        return
    above = "UHF" if kind == "RHF" else "GHF"
    again = "mf.to_rhf().stability(external=True)[1]" if alike else "mf.stability()[0]"
    lower, hint = f"another {kind} solution", f"mo = {again}; mf.kernel(mf.make_rdm1(mo, mf.mo_occ)) in PySCF finds it"
    if inside and not alike:
        lower, hint = f"a solution of a less restricted kind ({above} or complex)", f"Start from scf.{above}(mol)"
    message = f"the mean field is not stable: a rotation of its orbitals leads to {lower} of lower energy"
    raise NumericalError("dfmp2", message, f"{hint}. Without stability= nobody looks")
