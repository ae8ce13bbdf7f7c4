"""``trnchem.density_fit``: J and K as PySCF's, one tensor for Hartree-Fock and MP2, and a ledger of all of it."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import trnchem
import trnsci
from trnchem import DFMP2, density_fit, dfmp2
from trnchem.accuracy import FP64
from trnchem.budget import overhead
from trnsci import ArgumentError, CapacityError
from trnsci.testing import BACKENDS


def molecule(name="water", basis="6-31g", **options):
    from trnchem.molecules import molecule_of

    return molecule_of(name, basis, **options)


@pytest.mark.parametrize("kind", ["RHF", "UHF", "ROHF"])
def test_a_whole_calculation_is_pyscfs(kind):
    from pyscf import mp, scf

    mol = molecule("water" if kind == "RHF" else "oxygen", "cc-pvdz")
    mine = density_fit(getattr(scf, kind)(mol)).run(conv_tol=1e-11)
    theirs = getattr(scf, kind)(mol).density_fit().run(conv_tol=1e-11)
    assert abs(mine.e_tot - theirs.e_tot) <= FP64
    assert mine.with_df.metric.method == "cholesky"
    found = dfmp2(mine)
    # the tensor of the mean field
    assert found.metric.method == "mean field"
    assert abs(found.e_corr - float(mp.MP2(theirs).kernel(with_t2=False)[0])) <= FP64
    assert DFMP2(mine).run().e_corr == pytest.approx(found.e_corr, abs=1e-12)


@pytest.mark.sim
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("tagged", [True, False])
def test_matrices_are_those_of_pyscf_for_any_density(tagged, backend):
    from pyscf import lib, scf

    mol = molecule("hydroxyl", "sto-3g")
    mean = density_fit(scf.UHF(mol))
    draw = np.random.default_rng(1)
    nao = mol.nao_nr()
    if tagged:
        C, occ = draw.standard_normal((2, nao, nao)), np.array([[1.0, 1, 0.5, 0, 0, 0], [1, 0.3, 0, 0, 0, 0]])
        dm = lib.tag_array(np.einsum("sim,sm,sjm->sij", C, occ, C), mo_coeff=C, mo_occ=occ)
    else:
        dm = draw.standard_normal((3, nao, nao))
    with backend:
        mine = mean.with_df.get_jk(dm, hermi=0)
    for got, expected in zip(mine, scf.UHF(mol).density_fit().with_df.get_jk(dm, hermi=0), strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=FP64)
    only = mean.with_df.get_jk(dm, hermi=0, with_k=False)
    assert only[1] is None
    np.testing.assert_allclose(only[0], mine[0], rtol=0, atol=1e-10)
    assert mean.with_df.get_jk(dm, with_j=False)[0] is None


def test_the_ledger_shows_the_whole_calculation():
    from pyscf import scf

    with trnsci.backend("pytorch"), trnsci.ledger() as book:
        mean = density_fit(scf.RHF(molecule())).run()
        after = len(book.entries)
        dfmp2(mean)
    ops = [entry.step.op for entry in book.entries]
    assert {"trnsolver::cholesky", "trnblas::gemm"} <= set(ops[:after])
    assert ops[:after].count("trnblas::gemm") > 4 * 5
    assert len(ops) > after


def test_pairs_that_cannot_matter_are_dropped_where_few_are_left():
    from pyscf import gto, scf

    chain = gto.M(atom=[("He", (0, 0, 4.0 * k)) for k in range(24)], basis="6-31g", verbose=0)
    sparse = density_fit(scf.RHF(chain), auxbasis="weigend", screening=1e-10)
    theirs = scf.RHF(chain).density_fit(auxbasis="weigend")
    dm = np.eye(chain.nao_nr())
    for mine, other in zip(*(mean.with_df.get_jk(dm) for mean in (sparse, theirs)), strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=FP64)
    assert sparse.with_df.screen.sparse


def test_what_does_not_fit_is_in_a_file_and_read_in_slabs(tmp_path):
    from pyscf import lib, scf

    # a tensor of 29 MB, beside a metric of which four copies take 10
    mol = molecule("benzene", "cc-pvdz")
    one, other = (density_fit(scf.RHF(mol)) for _ in range(2))
    one.run()
    other.with_df.max_memory = lib.current_memory()[0] + overhead() / 1e6 + 16
    for mine, expected in zip(*(mean.with_df.get_jk(one.make_rdm1()) for mean in (other, one)), strict=True):
        np.testing.assert_allclose(mine, expected, rtol=0, atol=1e-10)
    file = other.with_df._cderi.name
    assert isinstance(one.with_df._cderi, np.ndarray)
    other.__dict__.update(
        {name: getattr(one, name) for name in ("mo_coeff", "mo_energy", "mo_occ", "e_tot", "converged")}
    )
    assert abs(dfmp2(one).e_corr - dfmp2(other).e_corr) <= 1e-11
    # a file of one's own stays; one of the program's goes with it
    kept = density_fit(scf.RHF(molecule()))
    kept.with_df._cderi_to_save = str(tmp_path / "water.h5")
    assert abs(kept.run().e_tot - density_fit(scf.RHF(molecule())).run().e_tot) <= FP64
    assert (tmp_path / "water.h5").exists()
    other.with_df.reset()
    assert not Path(file).exists()


@pytest.mark.slow
def test_the_budget_holds_by_the_systems_figures():
    """A fresh process with a tensor of 85 MB and max_memory 60 MB above what it has at the start."""
    program = """
        from pathlib import Path
        from pyscf import lib, scf
        from trnchem import density_fit
        from trnchem.molecules import molecule_of
        density_fit(scf.RHF(molecule_of("water", "sto-3g"))).run()
        mean = density_fit(scf.RHF(molecule_of("benzene", "cc-pvtz")))
        Path("/proc/self/clear_refs").write_text("5")
        mean.with_df.max_memory = lib.current_memory()[0] + 60
        mean.with_df.get_jk(mean.get_init_guess())
        peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
        print(int(peak.split()[1]) * 1024 / 1e6, mean.with_df.max_memory, mean.with_df._cderi.name)
    """
    # what each thread of OpenMP keeps for itself is not the tensor's
    command, environment = [sys.executable, "-c", textwrap.dedent(program)], {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    peak, budget, _ = done.stdout.split()
    assert float(peak) <= float(budget)


def test_fitting_replaces_fitting_and_scanners_move_on():
    from pyscf import scf

    mean = density_fit(scf.RHF(molecule()).density_fit(auxbasis="cc-pvdz-jkfit")).set(conv_tol=1e-11)
    assert mean.with_df.auxbasis == "cc-pvdz-jkfit"
    scan = mean.as_scanner()
    first = scan(molecule())
    moved = np.array([[0, 0, 0], [0, 0.8, 0.6], [0, -0.8, 0.6]])
    other = molecule().set_geom_(moved, unit="Angstrom", inplace=False)
    expected = scf.RHF(other).density_fit(auxbasis="cc-pvdz-jkfit").run(conv_tol=1e-11)
    assert scan(other) == pytest.approx(expected.e_tot, abs=1e-8)
    assert scan.e_tot != first


def test_what_cannot_be_fitted_is_refused():
    from pyscf import scf

    with pytest.raises(ArgumentError, match="a mean field of a molecule"):
        density_fit(3.0)
    assert density_fit("water").run().e_tot == pytest.approx(-76.026745, abs=1e-6)
    mean = scf.RHF(molecule())
    mean.max_memory = 1
    with pytest.raises(CapacityError, match=r"Raise mf\.max_memory, in MB, by the difference"):
        density_fit(mean).run()
    assert trnchem.density_fit is density_fit
