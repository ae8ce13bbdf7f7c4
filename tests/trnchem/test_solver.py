"""``trnchem.DFMP2``: PySCF's manners, and densities that enter its tools."""

import io

import numpy as np
import pytest

import trnchem
from tests.trnchem.test_open_shell import open_field
from trnchem import DFMP2, MP2Result
from trnchem.accuracy import FP64
from trnsci import ArgumentError, CapacityError


def theirs(mean, frozen=None):
    from pyscf import mp

    solver = mp.MP2(mean, frozen=frozen)
    solver.verbose = 0
    return solver.run()


CASES = [("water", None, None), ("water", None, [0, 20]), ("hydroxyl", "UHF", None), ("oxygen", "ROHF", [[0], [1, 15]])]


@pytest.fixture(params=CASES, ids=str)
def case(request, field):
    name, kind, frozen = request.param
    mean = field(name) if kind is None else open_field(name, kind)
    return mean, frozen


def test_energies_and_densities_are_those_of_pyscfs_object(case):
    mean, frozen = case
    pt, expected = DFMP2(mean, frozen=frozen).run(), theirs(mean, frozen)
    assert isinstance(pt, type(expected))
    for name in ("e_corr", "e_corr_os", "e_corr_ss", "e_tot", "emp2_scs", "e_hf"):
        assert abs(getattr(pt, name) - getattr(expected, name)) <= FP64
    assert pt.t2 is None
    for ao_repr in (False, True):
        np.testing.assert_allclose(
            pt.make_rdm1(ao_repr=ao_repr), expected.make_rdm1(ao_repr=ao_repr), rtol=0, atol=1e-11
        )
    pt.kernel(with_t2=True)
    for mine, other in zip(np.atleast_1d(pt.t2) if isinstance(pt.t2, np.ndarray) else pt.t2, expected.t2, strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-11)
    np.testing.assert_allclose(pt.make_rdm1(t2=pt.t2), expected.make_rdm1(), rtol=0, atol=1e-11)


def test_frozen_natural_orbitals_go_round_through_pyscf(case):
    mean, frozen = case
    pt, expected = DFMP2(mean, frozen=frozen), theirs(mean, frozen)
    (left, C), (left_expected, C_expected) = pt.make_fno(thresh=3e-3), expected.make_fno(thresh=3e-3)
    np.testing.assert_array_equal(np.hstack(left), np.hstack(left_expected))
    from pyscf.mp import dfmp2, dfump2

    theirs_again = dfump2.DFUMP2 if isinstance(C_expected, list) else dfmp2.DFMP2
    plain = theirs_again(pt._scf, frozen=left_expected, mo_coeff=C_expected)
    plain.kernel(with_t2=False)
    small = DFMP2(pt._scf, frozen=left, mo_coeff=C).run()
    assert abs(small.e_corr - plain.e_corr) <= FP64
    assert small.e_corr > expected.e_corr


def test_natural_orbitals_and_properties_enter_pyscfs_tools(water):
    pt = DFMP2(water)
    occupations, C = pt.natural_orbitals()
    assert occupations.sum() == pytest.approx(10, abs=FP64)
    assert 1.9 < occupations[4] < 2 < occupations[0] + 1e-9 + 1
    np.testing.assert_allclose(C.T @ water.get_ovlp() @ C, np.eye(24), rtol=0, atol=FP64)
    mine = water.dip_moment(dm=pt.make_rdm1(ao_repr=True), verbose=0)
    other = water.dip_moment(dm=theirs(water).make_rdm1(ao_repr=True), verbose=0)
    np.testing.assert_allclose(mine, other, rtol=0, atol=FP64)
    occupations, _ = DFMP2(open_field("oxygen")).natural_orbitals()
    assert occupations.sum() == pytest.approx(16, abs=FP64)


def test_attributes_are_options(water, tmp_path):
    pt = DFMP2(water).set(chkfile=tmp_path / "water.ckpt", frozen=1, max_memory=2000, pairs=True)
    pt.stdout, pt.verbose = io.StringIO(), 4
    assert pt.run() is pt
    told = pt.stdout.getvalue()
    for words in (
        "E(DFMP2) = ",
        "E_corr(same-spin)",
        "max_memory 2000",
        "trnblas.gemm, pair by pair",
        "wall time for pairs",
    ):
        assert words in told
    assert isinstance(pt.result, MP2Result)
    assert pt.result.plan.memory < 2000e6
    assert DFMP2(water, frozen=1).run(chkfile=tmp_path / "water.ckpt").result.resumed == 10
    sampled = DFMP2(water).set(method="stochastic", samples=8, verbose=4)
    sampled.stdout = io.StringIO()
    sampled.run()
    assert sampled.e_corr == pytest.approx(1.3 * sampled.e_corr_os)
    assert "E(SOS-DFMP2)" in sampled.stdout.getvalue()
    assert "+-" in sampled.stdout.getvalue()
    with pytest.raises(CapacityError):
        DFMP2(water).run(max_memory=1)
    assert DFMP2(water).set_frozen().run().e_corr == DFMP2(water, frozen="core").run().e_corr


def test_objects_of_pyscf_come_in_and_go_out(water):
    from pyscf import df, mp

    given = mp.dfmp2.DFMP2(water, frozen=1)
    given.with_df, given.max_memory = df.DF(water.mol, auxbasis="cc-pvtz-ri"), 3000
    pt = DFMP2(given).run()
    assert (pt.frozen, pt.max_memory) == (1, 3000)
    given.kernel(with_t2=False)
    assert abs(pt.e_corr - given.e_corr) <= FP64
    back = pt.to_pyscf()
    assert type(back) is mp.dfmp2.DFMP2
    assert back.e_tot == pt.e_tot
    back.kernel()
    assert abs(back.e_corr - pt.e_corr) <= FP64


def test_a_mean_field_that_has_not_run_runs_and_scanners_scan():
    from pyscf import gto, scf

    mol = gto.M(atom="H 0 0 0; F 0 0 0.92", basis="6-31g", verbose=0)
    scan = DFMP2(scf.RHF(mol).density_fit().set(conv_tol=1e-12)).as_scanner()
    other = "H 0 0 0; F 0 0 1.0"
    alone = theirs(scf.RHF(gto.M(atom=other, basis="6-31g", verbose=0)).density_fit().run(conv_tol=1e-12))
    assert scan(other) == pytest.approx(alone.e_tot, abs=1e-8)
    assert scan.e_corr == pytest.approx(alone.e_corr, abs=1e-8)


def test_what_is_not_there_is_said(water):
    with pytest.raises(ArgumentError, match="precision"):
        DFMP2(water).set(presicion="fp32")
    with pytest.raises(ArgumentError, match="a mean field or MP2 object"):
        DFMP2(3.0)
    assert DFMP2("water", frozen="core").frozen == 1
    with pytest.raises(ArgumentError, match="mo_coeff"):
        DFMP2(water).kernel(mo_coeff=water.mo_coeff)
    assert trnchem.DFMP2 is DFMP2
