"""Molecules: names, files, and how each mistake is said."""

import subprocess
import sys
from pathlib import Path

import pytest

import trnchem
from tests.together import together
from tests.trnchem.arguments import arguments
from trnchem import MP2Options, dfmp2, mean_field, read_xyz
from trnchem.accuracy import FP64
from trnchem.molecules import FORMULAS, molecule_of
from trnsci import ArgumentError, BackendUnavailable, NotConverged

WATER = "3\nwater, in angstrom\nO 0 0 0\nH 0 0.757 0.587\nh 0 -0.757 0.587\n"


@together("name", trnchem.GEOMETRIES)
def test_built_in_molecules_have_their_spin_and_sensible_distances(name):
    from pyscf import gto

    molecule = molecule_of(name, "sto-3g")
    assert molecule.spin == {"hydroxyl": 1, "methyl": 1, "oxygen": 2}.get(name, 0)
    distances = gto.inter_distance(molecule) + 99 * (gto.inter_distance(molecule) == 0)
    assert 1.6 < distances.min() < 2.9  # bohr: between O-H and C-C


def test_formulas_name_molecules():
    assert set(FORMULAS.values()) <= set(trnchem.GEOMETRIES)
    assert mean_field("H2O", basis="sto-3g").mol.natm == 3


def test_a_file_gives_what_the_built_in_molecule_gives(tmp_path):
    path = tmp_path / "water.xyz"
    path.write_text(WATER)
    for given in (path, str(path)):
        assert dfmp2(given).e_corr == pytest.approx(-0.203977110, abs=5e-10)
    assert [symbol for symbol, _ in read_xyz(path)] == ["O", "H", "H"]


@pytest.mark.parametrize(("atoms", "spin"), [("H 0 0 0; F 0 0 0.92", 0), ("N 0 0 0; H 0 0 1.03; H 0.99 0 -0.27", 1)])
def test_a_molecule_of_pyscf_gives_mp2_of_its_fitted_mean_field(atoms, spin):
    from pyscf import gto, mp, scf

    molecule = gto.M(atom=atoms, basis="6-31g", spin=spin, verbose=0)
    mean = (scf.UHF if spin else scf.RHF)(molecule).density_fit().run()
    expected = (mp.dfump2.DFUMP2 if spin else mp.dfmp2.DFMP2)(mean).run()
    found = dfmp2(molecule)
    assert found.e_hf == pytest.approx(mean.e_tot, abs=FP64)
    assert found.e_corr == pytest.approx(expected.e_corr, abs=FP64)
    assert found.reference == ("UHF" if spin else "RHF")
    with pytest.raises(ArgumentError, match="because a molecule has its own"):
        dfmp2(molecule, options=MP2Options(basis="sto-3g"))


@together(
    ("text", "line", "expected"),
    [
        ("", 1, "the number of atoms"),
        ("three\n\nO 0 0 0\n", 1, "the number of atoms"),
        ("0\n\n", 1, "the number of atoms"),
        ("2\n\nO 0 0 0\n", 4, "an element and three coordinates"),
        ("1\n\nO 0 0\n", 3, "an element and three coordinates"),
        ("1\n\nO 0 0 zero\n", 3, "an element and three coordinates"),
        ("1\n\nQq 0 0 0\n", 3, "an element and three finite coordinates"),
        ("1\n\nO 0 0 inf\n", 3, "an element and three finite coordinates"),
    ],
)
def test_a_malformed_file_is_refused_by_line(tmp_path, text, line, expected):
    path = tmp_path / "bad.xyz"
    path.write_text(text)
    with pytest.raises(ArgumentError) as caught:
        dfmp2(path)
    assert caught.value.argument == f"line {line} of bad.xyz"
    assert caught.value.expected == expected


@pytest.mark.parametrize(
    ("molecule", "sentence"),
    [
        ("watr", "Did you mean 'water'?"),
        ("unobtainium", "The built-in ones are water, methane"),
        ("nowhere.xyz", "an xyz file that exists"),
        (Path("nowhere.txt"), "an xyz file that exists"),
    ],
)
def test_an_unknown_molecule_is_named(molecule, sentence):
    with pytest.raises(ArgumentError) as caught:
        dfmp2(molecule)
    assert str(molecule) in str(caught.value)
    assert sentence in str(caught.value)


@pytest.mark.filterwarnings("ignore:Basis may be available")
@pytest.mark.parametrize(
    ("basis", "sentence"), [("cc-pvdzz", "Did you mean 'ccpvdz"), ("nobasis", "PySCF says: "), ("", "PySCF says: ")]
)
def test_a_basis_that_does_not_exist_is_named(basis, sentence):
    if basis == "":
        basis = "   "
    with pytest.raises(ArgumentError) as caught:
        dfmp2("water", options=MP2Options(basis=basis))
    assert caught.value.argument == "basis"
    assert caught.value.got == basis
    assert sentence in str(caught.value)


@pytest.mark.filterwarnings("ignore:Basis may be available")
def test_an_element_without_an_auxiliary_basis_is_named(tmp_path):
    path = tmp_path / "helium.xyz"
    path.write_text("1\n\nHe 0 0 0\n")
    with pytest.raises(ArgumentError) as caught:
        dfmp2(path)
    assert caught.value.argument == "basis"
    assert "not found for He" in str(caught.value)
    assert "scf.RHF(mol)" in str(caught.value)


def test_charge_and_spin_go_together_or_are_refused(tmp_path):
    path = tmp_path / "oh.xyz"
    path.write_text("2\nradical\nO 0 0 0\nH 0 0 0.97\n")
    assert [type(mean_field(path, basis="sto-3g", **options)).__name__ for options in (
        {}, {"reference": "rohf"}, {"charge": -1}, {"charge": -1, "reference": "uhf"}, {"spin": 3}
    )] == ["DFUHF", "DFROHF", "DFRHF", "DFUHF", "DFUHF"]  # fmt: skip
    for options, argument, says in (
        ({"spin": 2}, "charge and spin", "what 9 electrons of the neutral molecule allow"),
        ({"charge": 10}, "charge and spin", "9 electrons to take away"),
        ({"spin": -1}, "spin", "at least 0"),
        ({"charge": 0.5}, "charge", "an integer"),
        ({"reference": "rhf"}, "reference", "with 1 unpaired electrons"),
        ({"reference": "ghf"}, "reference", "'ghf'"),
    ):
        with pytest.raises(ArgumentError) as caught:
            dfmp2(path, **arguments(basis="sto-3g", **options))
        assert caught.value.argument == argument
        assert says in str(caught.value)


def test_a_molecule_that_does_not_converge_says_what_to_try(monkeypatch):
    from pyscf import scf

    monkeypatch.setattr(scf.hf.SCF, "max_cycle", 1)
    with pytest.raises(NotConverged) as caught:
        dfmp2("water")
    assert caught.value.iterations >= 1
    assert "mf.newton()" in str(caught.value)


def test_without_pyscf_the_extra_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pyscf", None)
    with pytest.raises(BackendUnavailable) as caught:
        dfmp2("water")
    assert caught.value.backend == "pyscf"
    assert "pip install '.[chem]'" in str(caught.value)


def test_a_mean_field_of_a_program_that_imported_only_what_it_uses():
    program = (
        "import pyscf.gto, pyscf.scf\n"
        "field = pyscf.scf.hf.RHF(pyscf.gto.M(atom='He', basis='cc-pvdz', verbose=0)).run()\n"
        "import trnchem\n"
        "print(trnchem.mean_field(field) is field)\n"
        "trnchem.dfmp2(field)\n"
        "import sys\n"
        "print('pyscf.pbc' in sys.modules)\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True", "False"]
