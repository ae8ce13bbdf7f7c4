"""Forces, relaxed densities and dipoles: against central differences of PySCF's energies, and its own densities."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from pyscf import grad, gto, mp, scf
from pyscf.mp import dfmp2_native

import trnchem
from trnchem import MP2Options, dfmp2
from trnchem.result import SCALINGS
from trnsci import ArgumentError, CapacityError, UnsupportedError

# hartree per bohr that a gradient may differ from central differences of energies by
BOUND = 1e-7
# in angstrom, none of them at rest
ATOMS = {
    "H2": "H 0 0 0; H 0.1 0 .8",
    "HF": "H 0 0 0; F 0 .1 1.0",
    "LiH": "Li 0 0 0; H 0 .1 1.5",
    "H2O": "O 0 0 0.1; H 0 .757 .587; H 0.1 -.8 .5",
    "H2S": "S 0 0 0.1; H 0 .957 .9; H 0.1 -.95 .95",
    "NH3": "N 0 0 .2; H 0 .9377 -.2737; H .8121 -.4689 -.2; H -.8 -.4689 -.3",
    "CH4": "C 0 0 .1; H .629 .629 .629; H -.629 -.629 .6; H -.629 .629 -.629; H .629 -.7 -.629",
    "N2": "N 0 0 0; N 0 .1 1.1",
    "CO": "C 0 0 0; O 0.1 0 1.15",
    "HCN": "H 0 0 -1.1; C 0 0 0; N .1 0 1.15",
    "CO2": "O 0 0 -1.2; C 0 0.1 0; O 0 0 1.15",
    "C2H2": "H 0 0 -1.7; C 0 .1 -.6; C 0 0 .6; H 0 0 1.65",
    "HCHO": "C 0 0 0; O 0 0 1.2; H 0 .95 -.6; H 0.1 -.9 -.55",
    "HOOH": "O 0 .7 0; O 0 -.7 0; H .8 .9 .3; H -.8 -.9 .4",
    "OH": "O 0 0 0; H .1 0 .97",
    "CH3": "C 0 0 .1; H 1.079 0 0; H -.5395 .93444 0; H -.5395 -.9 0",
    "NH2": "N 0 0 0; H 0 .8 .65; H 0 -.75 .7",
    "O2": "O 0 0 0; O 0 .1 1.2",
    "BH2": "B 0 0 0; H 0 1.05 .5; H 0.1 -1 .45",
    "CH2": "C 0 0 0; H 0 1 .4; H 0.1 -.95 .45",
    "H2O and a ghost": "O 0 0 0.1; H 0 .757 .587; H 0.1 -.8 .5; ghost-H 0 0 -2.2",
    "HI": "H 0 0 0; I 0.1 0 1.65",
}
# molecule, charge, unpaired electrons, fitted reference, frozen orbitals, energy
DEFAULT = [
    ("H2O", 0, 0, True, None, "mp2"),
    ("H2O", 0, 0, False, "core", "scs"),
    ("OH", 0, 1, True, "core", "mp2"),
    ("NH2", 0, 1, False, None, "sos"),
]
SLOW = [
    ("H2", 0, 0, True, None, "mp2"),
    ("HF", 0, 0, True, None, "scs"),
    ("LiH", 0, 0, False, None, "mp2"),
    ("H2S", 0, 0, True, "core", "mp2"),
    ("NH3", 0, 0, True, [0, 9], "mp2"),
    ("CH4", 0, 0, False, None, "sos"),
    ("N2", 0, 0, True, [0, 1], "mp2"),
    ("CO", 0, 0, False, "core", "mp2"),
    ("HCN", 0, 0, True, None, "mp2"),
    ("CO2", 0, 0, True, "core", "scs"),
    ("C2H2", 0, 0, True, None, "mp2"),
    ("HCHO", 0, 0, False, "core", "mp2"),
    ("HOOH", 0, 0, True, None, "mp2"),
    ("OH", -1, 0, True, None, "mp2"),
    ("CH3", 0, 1, False, None, "mp2"),
    ("O2", 0, 2, True, "core", "scs"),
    ("BH2", 0, 1, True, None, "mp2"),
    ("CH2", 0, 2, False, "core", "mp2"),
    ("H2O", 1, 1, True, [[0], [0, 1]], "mp2"),
    ("H2O and a ghost", 0, 0, True, None, "mp2"),
    ("HI", 0, 0, True, None, "mp2"),
]


def molecule_of(name, charge=0, spin=0):
    # iodine has a pseudopotential
    basis = {"basis": "def2-svp", "ecp": "def2-svp"} if name == "HI" else {"basis": "6-31g"}
    return gto.M(atom=ATOMS[name], charge=charge, spin=spin, verbose=0, **basis)


def solve(molecule, fitted, guess=None, core=None):
    mean = scf.UHF(molecule) if molecule.spin else scf.RHF(molecule)
    mean = mean.density_fit() if fitted else mean
    mean.conv_tol, mean.conv_tol_grad, mean.max_cycle = 1e-11, 1e-9, 200
    if core is not None:
        mean.get_hcore = lambda *_: core
    mean.kernel(guess)
    assert mean.converged
    return mean


def peer(mean, frozen, energy):
    """The total energy by PySCF."""
    frozen = pyscf_core(mean.mol) if frozen == "core" else frozen
    theirs = (mp.dfump2.DFUMP2 if mean.mol.spin else mp.dfmp2.DFMP2)(mean, frozen=frozen).run()
    opposite, same = SCALINGS[energy]
    return mean.e_tot + opposite * theirs.e_corr_os + same * theirs.e_corr_ss


def pyscf_core(molecule):
    from pyscf.data.elements import chemcore

    return chemcore(molecule)


def central_difference(mean, along, fitted, frozen, energy, step=2e-3):
    """The derivative along a direction from four energies, whose error is of the fourth order of the step."""
    where, density, energies = mean.mol.atom_coords(), mean.make_rdm1(), []
    for factor in (1, -1, 2, -2):
        moved = mean.mol.set_geom_(where + factor * step * along, unit="Bohr", inplace=False)
        energies.append(peer(solve(moved, fitted, density), frozen, energy))
    return (8 * (energies[0] - energies[1]) - (energies[2] - energies[3])) / (12 * step)


@pytest.mark.parametrize(
    ("name", "charge", "spin", "fitted", "frozen", "energy"),
    [*DEFAULT, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)],
)
def test_forces_are_central_differences_of_pyscfs_energies(name, charge, spin, fitted, frozen, energy):
    mean = solve(molecule_of(name, charge, spin), fitted)
    result = dfmp2(mean, options=MP2Options(frozen=frozen))
    forces = result.gradient(energy)
    assert np.abs(forces.sum(0)).max() <= BOUND
    draw = np.random.default_rng(len(name))
    along = draw.standard_normal(forces.shape)
    along /= np.linalg.norm(along)
    assert abs((forces * along).sum() - central_difference(mean, along, fitted, frozen, energy)) <= BOUND


def test_every_component_of_one_gradient():
    mean = solve(molecule_of("HF"), True)
    forces = dfmp2(mean).gradient()
    for atom, axis in itertools.product(range(2), (1, 2)):
        along = np.zeros((2, 3))
        along[atom, axis] = 1
        assert abs(forces[atom, axis] - central_difference(mean, along, True, None, "mp2")) <= BOUND


@pytest.mark.parametrize("spin", [0, 1])
def test_a_large_auxiliary_basis_gives_the_gradient_without_fitting(spin):
    molecule = gto.M(atom=ATOMS["H2O" if spin == 0 else "NH2"], basis="cc-pvdz", spin=spin, verbose=0)
    mean = solve(molecule, False)
    theirs = (mp.UMP2 if spin else mp.MP2)(mean, frozen=1).run()
    exact = (grad.ump2 if spin else grad.mp2).Gradients(theirs).kernel()
    errors = []
    for basis in ("cc-pvdz-ri", "cc-pvqz-ri"):
        ours = dfmp2(mean, options=MP2Options(frozen=1, auxbasis=basis))
        errors.append(np.abs(ours.gradient() - exact).max())
        # the energy and its slope have fitting errors of one size
        assert errors[-1] <= 4 * abs(ours.e_corr - theirs.e_corr) + 1e-7
    assert errors[1] < 0.5 * errors[0]


def test_the_relaxed_density_is_that_of_pyscf():
    mean = solve(gto.M(atom=ATOMS["H2O"], basis="cc-pvdz", verbose=0), False)
    mean = mean.density_fit(auxbasis="cc-pvdz-ri")
    mean.conv_tol, mean.conv_tol_grad = 1e-12, 1e-10
    mean.run()
    for frozen in (None, 1):
        theirs = dfmp2_native.DFMP2(mean, auxbasis="cc-pvdz-ri", frozen=frozen)
        theirs.kernel()
        expected = theirs.make_rdm1_relaxed(ao_repr=True)
        result = dfmp2(mean, options=MP2Options(frozen=frozen))
        # whatever its tolerance, PySCF's dipole is 2.5e-7 from the derivative of its energies, and ours 1e-12
        assert np.abs(result.density() - expected).max() <= 1e-6
        moment = mean.dip_moment(dm=expected, verbose=0)
        assert np.abs(result.dipole() - moment).max() <= 1e-6
        occupations, orbitals = result.natural_orbitals()
        assert abs(occupations.sum() - 10) <= 1e-10
        assert (np.diff(occupations) <= 0).all()
        np.testing.assert_allclose((orbitals * occupations) @ orbitals.T, result.density(), atol=1e-12, rtol=0)


@pytest.mark.parametrize("case", [("HF", 0, 0, True), ("NH2", 0, 1, False)], ids=str)
def test_a_dipole_is_the_response_to_a_field(case):
    name, charge, spin, fitted = case
    mean = solve(molecule_of(name, charge, spin), fitted)
    charges, where = mean.mol.atom_charges(), mean.mol.atom_coords()
    energies, core, position = [], mean.get_hcore(), mean.mol.intor("int1e_r")
    for strength in (1e-3, -1e-3, 2e-3, -2e-3):
        bent = solve(mean.mol, fitted, mean.make_rdm1(), core + strength * position[2])
        energies.append(peer(bent, None, "mp2"))
    slope = (8 * (energies[0] - energies[1]) - (energies[2] - energies[3])) / 12e-3
    nuclear = charges @ where[:, 2]
    assert abs(dfmp2(mean).dipole(unit="au")[2] - (nuclear - slope)) <= BOUND


def test_forces_from_disk_and_in_single_precision_are_the_same():
    mean = solve(molecule_of("NH3"), True)
    forces = dfmp2(mean).gradient()
    with pytest.raises(CapacityError) as caught:
        dfmp2(mean, memory="29 MB", options=MP2Options(reuse=False)).gradient()
    assert "memory=" in str(caught.value)
    small = dfmp2(mean, memory=caught.value.required, options=MP2Options(reuse=False))
    np.testing.assert_allclose(small.gradient(), forces, atol=1e-11, rtol=0)
    # as the energy: 2**-24 (64 + growth) of it
    single = dfmp2(mean, options=MP2Options(precision="fp32", reuse=False))
    assert np.abs(single.gradient() - forces).max() <= 2.0**-24 * (64 + single.metric.growth)


def test_scanners_and_pyscfs_objects():
    mean = solve(molecule_of("H2O"), True)
    solver = trnchem.DFMP2(mean, frozen="core").run()
    forces = solver.nuc_grad_method().kernel()
    np.testing.assert_allclose(forces, dfmp2(mean, options=MP2Options(frozen="core")).gradient(), atol=1e-12)
    np.testing.assert_allclose(solver.Gradients().kernel(atmlst=[2]), forces[[2]], atol=1e-12)
    scanner = trnchem.DFMP2(mean).nuc_grad_method().as_scanner()
    assert scanner.as_scanner() is scanner
    moved = mean.mol.set_geom_(mean.mol.atom_coords() * 1.01, unit="Bohr", inplace=False)
    energy, there = scanner(moved)
    again = solve(moved, True)
    assert scanner.converged
    assert abs(energy - dfmp2(again).e_tot) <= 1e-9
    np.testing.assert_allclose(there, dfmp2(again).gradient(), atol=1e-6)


@pytest.mark.parametrize("forces", [False, True], ids=["energies", "forces"])
def test_a_scan_leaves_the_mean_field_it_began_with_as_it_was(forces):
    mean = solve(molecule_of("H2O"), True)
    before, integrals = dfmp2(mean).e_corr, mean.with_df._cderi
    solver = trnchem.DFMP2(mean)
    scan = solver.nuc_grad_method().as_scanner() if forces else solver.as_scanner()
    scan(mean.mol.set_geom_(mean.mol.atom_coords() * 1.05, unit="Bohr", inplace=False))
    assert mean.with_df._cderi is integrals
    assert mean.with_df.mol is mean.mol
    assert dfmp2(mean).e_corr == before
    assert solver.run().e_corr == pytest.approx(before, abs=1e-12)


@pytest.mark.slow
def test_geometric_optimises_a_molecule():
    from pyscf.geomopt.geometric_solver import optimize

    mean = scf.RHF(gto.M(atom=ATOMS["H2O"], basis="cc-pvdz", verbose=0)).density_fit()
    best = optimize(
        trnchem.DFMP2(mean.run(), frozen="core"), convergence_grms=1e-6, convergence_gmax=3e-6, maxsteps=20, verbose=0
    )
    found = solve(best, True)
    assert np.abs(dfmp2(found, options=MP2Options(frozen="core")).gradient()).max() <= 1e-5
    # MP2 in cc-pVDZ without the core: 0.965 angstrom (NIST, Computational Chemistry Comparison and Benchmark Database)
    oxygen, *hydrogens = best.atom_coords(unit="angstrom")
    assert [round(float(np.linalg.norm(each - oxygen)), 3) for each in hydrogens] == [0.965, 0.965]


def test_a_copy_has_a_gradient_and_a_pickled_result_says_why_it_has_none():
    mean = scf.RHF(gto.M(atom=ATOMS["H2"], basis="6-31g", verbose=0)).density_fit().run()
    result = dfmp2(mean)
    np.testing.assert_allclose(copy.copy(result).gradient(), result.gradient(), atol=1e-12, rtol=0)
    there = pickle.loads(pickle.dumps(result))
    assert there.e_tot == result.e_tot
    with pytest.raises(UnsupportedError, match="in another process; compute it here"):
        there.gradient()


def test_what_has_no_gradient_says_why():
    open_shell = gto.M(atom=ATOMS["OH"], basis="6-31g", spin=1, verbose=0)
    rohf = dfmp2(scf.ROHF(open_shell).run())
    with pytest.raises(UnsupportedError, match="take a UHF reference"):
        rohf.gradient()
    with pytest.raises(UnsupportedError, match="take a UHF reference"):
        rohf.dipole()
    mean = solve(molecule_of("H2O"), True)
    with pytest.raises(UnsupportedError, match="energy has noise"):
        dfmp2(mean, options=MP2Options(method="stochastic", samples=4)).gradient()
    with pytest.raises(ArgumentError, match="energy is 'ccsd'"):
        dfmp2(mean).gradient("ccsd")
    # two of three orbitals that are one level
    atom = solve(gto.M(atom="Ne 0 0 0", basis="6-31g", verbose=0), True)
    with pytest.raises(ArgumentError, match="degenerate orbitals together"):
        dfmp2(atom, options=MP2Options(frozen=3)).gradient()
    assert np.abs(dfmp2(atom, options=MP2Options(frozen=2)).gradient()).max() <= BOUND


def test_no_correlation_leaves_the_forces_of_the_mean_field():
    mean = solve(gto.M(atom="He 0 0 0; H 0 0 .8", basis="sto-3g", charge=-1, verbose=0), True)
    result = dfmp2(mean)
    assert result.e_corr == 0
    np.testing.assert_allclose(result.gradient(), mean.nuc_grad_method().set(verbose=0).kernel(), atol=1e-9)


def test_laplace_has_the_gradient_of_its_own_energy():
    mean = solve(molecule_of("H2O"), True)
    scaled = dfmp2(mean, options=MP2Options(method="laplace"))
    np.testing.assert_allclose(scaled.gradient(), dfmp2(mean).gradient("sos"), atol=1e-10)
