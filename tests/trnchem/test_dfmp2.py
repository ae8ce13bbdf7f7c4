"""Energies against PySCF's DF-MP2 with the same auxiliary basis, on every backend."""

import dataclasses
import importlib
import math

import numpy as np
import pytest
import torch

import trnchem
import trnsci
from tests.together import together
from tests.trnchem.arguments import arguments
from trnchem import MP2Options, dfmp2
from trnchem.accuracy import FP64
from trnsci import ArgumentError, NotConverged, NumericalError, UnsupportedError, predict
from trnsci.testing import BACKENDS

SMALL = ["water", "methane", "ammonia", "hydrogen fluoride", "nitrogen"]
# hartree, as docs/trnchem/dfmp2.md states them
BOUNDS = {"fp64": 1e-9, "fp32": 2e-6}


def compare(result, expected, bound):
    total, opposite, same = expected
    assert abs(result.e_corr - total) <= bound
    assert abs(result.e_os - opposite) <= bound
    assert abs(result.e_ss - same) <= bound


@pytest.mark.grid(2)
@pytest.mark.sim
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize("name", SMALL)
def test_small_molecules_agree_with_pyscf(field, reference, name, precision, backend):
    with backend:
        found = dfmp2(field(name), options=MP2Options(precision=precision, reuse=False))
    assert found.metric.method == "cholesky"
    assert found.metric.vectors == found.metric.functions
    compare(found, reference(name), BOUNDS[precision])


@pytest.mark.grid(2)
@pytest.mark.parametrize("reuse", [True, False], ids=["reused", "computed"])
@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize("name", ["benzene", "glycine"])
def test_larger_molecules_agree_with_pyscf_on_the_host(field, reference, name, precision, reuse):
    with trnsci.backend("pytorch"):
        found = dfmp2(field(name), options=MP2Options(precision=precision, reuse=reuse))
    compare(found, reference(name), BOUNDS[precision])


def test_water_has_its_published_energy():
    found = dfmp2("water", options=MP2Options(reuse=False))
    assert found.e_corr == pytest.approx(-0.203977110, abs=5e-10)
    assert found.e_os == pytest.approx(-0.152388632, abs=5e-10)
    assert found.e_ss == pytest.approx(-0.051588478, abs=5e-10)


@pytest.mark.parametrize("name", SMALL)
def test_without_density_fitting_in_the_mean_field_the_basis_made_for_mp2_is_used(field, reference, name):
    found = dfmp2(field(name, fitted=False))
    assert found.metric.method == "cholesky"
    compare(found, reference(name, fitted=False), 1e-9)


def test_a_chosen_auxiliary_basis_is_used(water):
    from pyscf import df
    from pyscf.mp import dfmp2 as theirs

    solver = theirs.DFMP2(water)
    solver.with_df = df.DF(water.mol, auxbasis="cc-pvtz-ri")
    expected = float(solver.kernel(with_t2=False)[0])
    found = dfmp2(water, options=MP2Options(auxbasis="cc-pvtz-ri"))
    assert abs(found.e_corr - expected) <= FP64
    assert found.metric.functions == solver.with_df.get_naoaux()
    assert abs(found.e_corr - dfmp2(water).e_corr) > 1e-7


@pytest.mark.parametrize("frozen", [1, [0], [0, 1, 23], "core"], ids=str)
def test_frozen_orbitals_are_left_out(water, frozen):
    from pyscf.mp import dfmp2 as theirs

    expected = float(theirs.DFMP2(water, frozen=1 if frozen == "core" else frozen).kernel(with_t2=False)[0])
    assert abs(dfmp2(water, options=MP2Options(frozen=frozen)).e_corr - expected) <= FP64


def test_pair_energies_are_symmetric_and_add_up(water):
    found = dfmp2(water, options=MP2Options(pairs=True))
    for part, total in zip(found.pairs, (found.e_os, found.e_ss), strict=True):
        assert part.shape == (5, 5)
        torch.testing.assert_close(part, part.T, rtol=0, atol=0)
        assert float(part.sum()) == pytest.approx(total, abs=1e-14)
        assert bool((part.diagonal() <= 1e-15).all())


def test_pair_energies_agree_with_amplitudes_of_pyscf(water):
    from pyscf.mp import dfmp2 as theirs

    solver = theirs.DFMP2(water)
    solver.kernel(with_t2=True)
    t2 = solver.t2
    ovL = solver.ao2mo().ovL.reshape(5, 19, -1)
    integrals = np.einsum("iap,jbp->ijab", ovL, ovL)
    opposite = torch.from_numpy(np.einsum("ijab,ijab->ij", t2, integrals))
    torch.testing.assert_close(
        dfmp2(water, options=MP2Options(pairs=True)).pairs.opposite_spin, opposite, rtol=0, atol=1e-12
    )


def test_scaled_energies_are_the_published_combinations(water):
    found = dfmp2(water)
    assert found.e_scs == pytest.approx(1.2 * found.e_os + found.e_ss / 3, abs=1e-15)
    assert found.e_sos == pytest.approx(1.3 * found.e_os, abs=1e-15)
    assert found.e_tot == found.e_hf + found.e_corr


def stated(precision, result):
    """The bound of docs/trnchem/dfmp2.md, as a share of the energy."""
    return 2**-24 * (64 + result.metric.growth) + (2**-7 if precision == "fast" else 0)


# every pair of two of the four options; the first row gave -2547.9 hartree
@pytest.mark.parametrize(
    ("name", "basis", "reuse", "method", "precision"),
    [
        ("nitrogen", "cc-pvdz", False, "pairs", "fast"),
        ("nitrogen", "cc-pvdz", True, "laplace", "fp32"),
        ("nitrogen", "cc-pvdz", False, "laplace", "compensated"),
        ("nitrogen", "cc-pvdz", True, "pairs", "kahan"),
        ("water", "sto-3g", True, "laplace", "fast"),
        ("water", "sto-3g", False, "pairs", "fp32"),
        ("water", "sto-3g", True, "pairs", "compensated"),
        ("water", "sto-3g", False, "laplace", "kahan"),
        ("water", "aug-cc-pvdz", True, "pairs", "fast"),
        ("water", "aug-cc-pvdz", False, "laplace", "fast"),
        ("water", "aug-cc-pvdz", False, "pairs", "fp32"),
        ("water", "aug-cc-pvdz", True, "laplace", "compensated"),
        ("water", "aug-cc-pvdz", False, "pairs", "kahan"),
    ],
)
def test_every_precision_keeps_its_bound_whoever_fits(field, name, basis, reuse, method, precision):
    mean = field(name, basis)
    exact = dfmp2(mean, options=MP2Options(reuse=reuse, method=method))
    found = dfmp2(mean, options=MP2Options(reuse=reuse, method=method, precision=precision))
    bound = stated(precision, found)
    assert abs(found.e_os - exact.e_os) <= bound * abs(exact.e_os)
    assert abs(found.e_corr - exact.e_corr) <= bound * abs(exact.e_corr)
    if precision == "fast":
        # eight bits are visible
        assert abs(found.e_os - exact.e_os) > 1e-7 * abs(exact.e_os)


@pytest.mark.parametrize("beta", [2.5, 1.8, 1.4])
def test_a_fit_that_single_precision_does_not_survive_is_refused(water, beta):
    from pyscf import df

    auxbasis = df.aug_etb(water.mol, beta=beta)
    exact = dfmp2(water, options=MP2Options(auxbasis=auxbasis))
    for precision in ("fp32", "fast", "compensated"):
        if exact.metric.growth > 2**14:
            with pytest.raises(NumericalError, match="precision='fp64'") as caught:
                dfmp2(water, options=MP2Options(auxbasis=auxbasis, precision=precision))
            assert f"{exact.metric.growth:.3g}" in str(caught.value)
        else:
            found = dfmp2(water, options=MP2Options(auxbasis=auxbasis, precision=precision))
            assert abs(found.e_corr - exact.e_corr) <= stated(precision, found) * abs(exact.e_corr)
    assert (exact.metric.growth > 2**14) == (beta == 1.4)


@together(("atom", "charge"), [("He 0 0 0", 0), ("He 0 0 0; He 0 0 3", 0), ("H 0 0 0", 1)])
@together("method", ["pairs", "laplace", "stochastic"])
def test_a_basis_without_virtual_orbitals_has_no_correlation(atom, charge, method):
    from pyscf import gto, scf

    mean = scf.RHF(gto.M(atom=atom, basis="sto-3g", charge=charge, verbose=0)).density_fit()
    mean.chkfile = None
    mean.run()
    found = dfmp2(mean, options=MP2Options(method=method, pairs=method == "pairs"))
    assert (found.e_corr, found.e_tot) == (0.0, mean.e_tot)
    assert "Nothing to correlate" in str(trnchem.plan(mean, options=trnchem.MP2Options(method=method)))
    assert trnchem.plan(mean, ranks=2, options=trnchem.MP2Options(method=method)).stages == ()
    if method == "pairs":
        assert found.pairs.opposite_spin.abs().sum() == 0


@pytest.mark.parametrize("kind", ["smeared", "averaged"])
def test_fractional_occupations_are_refused(water, kind):
    from pyscf import gto, scf

    if kind == "smeared":
        mean = scf.addons.smearing_(scf.RHF(gto.M(atom="Be 0 0 0; Be 0 0 2.5", basis="sto-3g", verbose=0)), sigma=0.2)
    else:
        mean = scf.addons.frac_occ(scf.RHF(gto.M(atom="B 0 0 0; B 0 0 1.6", basis="sto-3g", verbose=0)))
    mean.chkfile = None
    mean.kernel()
    if np.isin(mean.mo_occ, (0, 2)).all():
        mean.mo_occ = mean.mo_occ - 0.25 * (mean.mo_occ == 2)
    with pytest.raises(ArgumentError, match="orbitals with 2 or none") as caught:
        dfmp2(mean)
    assert caught.value.argument == "mf"


def test_two_runs_give_the_same_bits(water):
    first, second = (dfmp2(water, options=MP2Options(reuse=False, pairs=True)) for _ in range(2))
    assert first.e_corr == second.e_corr
    assert torch.equal(first.pairs.same_spin, second.pairs.same_spin)


def test_results_cannot_be_changed(water):
    with pytest.raises(dataclasses.FrozenInstanceError):
        dfmp2(water).e_os = 0.0


def test_progress_tells_every_stage_in_order(water):
    told = []
    dfmp2(water, options=MP2Options(reuse=False, progress=told.append))
    assert list(dict.fromkeys(p.stage for p in told)) == ["metric", "integrals", "fit", "pairs"]
    assert told[-1] == ("pairs", 15, 15)
    assert all(0 <= p.done <= p.total for p in told)


@pytest.mark.sim
def test_residency_moves_fewer_bytes_and_changes_no_bit(water):
    energies, moved = [], []
    for resident in (False, True):
        with trnsci.backend("simulator"), trnsci.ledger() as book:
            energies.append(dfmp2(water, options=MP2Options(precision="fp32", reuse=False, resident=resident)).e_corr)
        moved.append(book.bytes_to_device + book.bytes_from_device)
    assert abs(energies[0] - energies[1]) <= 1e-7
    assert moved[1] < moved[0]


@pytest.mark.sim
def test_the_device_runs_one_fused_program_in_fp32_and_pairs_where_asked(water):
    with trnsci.backend("simulator"):
        assert trnchem.plan(water, options=trnchem.MP2Options(precision="fp32")).fused
        assert not trnchem.plan(water, options=trnchem.MP2Options(precision="fp64")).fused
        found = dfmp2(water, options=MP2Options(precision="fp32", pairs=True))
    assert not found.plan.fused
    assert float(sum(part.sum() for part in found.pairs)) == pytest.approx(found.e_corr, abs=1e-12)


@pytest.mark.parametrize("method", ["pairs", "laplace", "stochastic"])
@pytest.mark.parametrize("reuse", [True, False], ids=["reused", "computed"])
def test_a_backend_for_trnchem_decides_for_what_others_do_for_it(field, method, reuse):
    options = {"method": method, "reuse": reuse, "precision": "fp32", "samples": 4}
    with trnsci.backend("simulator", library="trnchem"), trnsci.ledger() as ledger:
        forced = dfmp2(field("water", "sto-3g"), **arguments(**options))
    assert {entry.step.implementation for entry in ledger.entries if entry.depth == 0} == {"nki"}
    with trnsci.backend("simulator"):
        expected = dfmp2(field("water", "sto-3g"), **arguments(**options))
    assert forced.e_os == expected.e_os
    # unless the library that works has a setting of its own
    with (
        trnsci.backend("simulator", library="trnchem"),
        trnsci.backend("pytorch", library="trnblas"),
        trnsci.ledger() as ledger,
    ):
        dfmp2(field("water", "sto-3g"), **arguments(**options))
    ran = {entry.step.implementation for entry in ledger.entries if entry.step.op == "trnblas::gemm"}
    assert "nki" not in ran


@pytest.mark.parametrize("precision", BOUNDS)
def test_laplace_gives_the_opposite_spin_energy(field, reference, precision):
    found = dfmp2(field("ammonia"), options=MP2Options(method="laplace", precision=precision))
    assert abs(found.e_os - reference("ammonia")[1]) <= BOUNDS[precision]
    assert found.e_ss is None
    assert found.e_scs is None
    assert found.e_corr == 1.3 * found.e_os


@pytest.mark.sim
def test_laplace_runs_on_the_simulator(water, reference):
    with trnsci.backend("simulator"):
        found = dfmp2(water, options=MP2Options(method="laplace", precision="fp32"))
    assert abs(found.e_os - reference("water")[1]) <= 2e-6


def test_stochastic_energies_are_right_on_average_and_know_their_error(water, reference):
    few, many = (dfmp2(water, options=MP2Options(method="stochastic", samples=n, seed=7)) for n in (50, 800))
    for found in (few, many):
        # five standard errors: once in two million
        assert abs(found.e_os - reference("water")[1]) <= 5 * found.standard_error
    assert many.standard_error == pytest.approx(few.standard_error / 4, rel=0.5)
    assert dfmp2(water, options=MP2Options(method="stochastic", samples=50, seed=7)).e_os == few.e_os
    assert dfmp2(water, options=MP2Options(method="stochastic", samples=50, seed=8)).e_os != few.e_os


def test_one_sample_has_no_standard_error(water):
    assert dfmp2(water, options=MP2Options(method="stochastic", samples=1)).standard_error == math.inf


@together(
    ("options", "argument", "sentence"),
    [
        ({"method": "cholesky"}, "method", "expected one of 'pairs', 'laplace', 'stochastic'"),
        ({"method": "laplace", "pairs": True}, "pairs", "left out, because 'laplace' has no pairs"),
        ({"samples": 0}, "samples", "at least 1"),
        ({"screening": -1.0}, "screening", "not negative"),
        ({"screening": math.nan}, "screening", "not negative"),
        ({"precision": "fp16"}, "precision", "expected one of 'fast', 'fp32', 'compensated', 'fp64', 'kahan'"),
        ({"frozen": 5}, "frozen", "There are 5 occupied and 19 virtual ones"),
        ({"frozen": -1}, "frozen", "positions from 0 to 23"),
        ({"frozen": [99]}, "frozen", "positions from 0 to 23"),
        ({"frozen": "valence"}, "frozen", "'core'"),
        ({"frozen": [0.7]}, "frozen", "their positions"),
        ({"frozen": [1.0]}, "frozen", "their positions"),
        ({"frozen": 0.7}, "frozen", "their positions"),
        ({"frozen": "1"}, "frozen", "their positions"),
        ({"frozen": [True]}, "frozen", "their positions"),
        ({"frozen": [None]}, "frozen", "their positions"),
        ({"frozen": True}, "frozen", "their positions"),
        ({"frozen": list(range(5, 24))}, "frozen", "There are 5 occupied and 19 virtual ones"),
        ({"samples": True}, "samples", "an integer"),
        ({"samples": 2.0}, "samples", "an integer"),
        ({"pairs": "no"}, "pairs", "True or False"),
        ({"resident": 1}, "resident", "True or False"),
        ({"screening": "x"}, "screening", "not negative"),
        ({"screening": None}, "screening", "not negative"),
        ({"seed": -1}, "seed", "at least 0"),
        ({"seed": 1.5}, "seed", "an integer"),
        ({"progress": 3}, "progress", "a function or None"),
        ({"scratch": "/nowhere/at/all"}, "scratch", "a folder that exists"),
        ({"scratch": 3}, "scratch", "a folder that exists"),
        ({"checkpoint": 3}, "checkpoint", "the path of a file"),
        ({"auxbasis": "cc-pvdz-jkfitt"}, "auxbasis", "is 'cc-pvdz-jkfitt', expected a basis set PySCF has"),
        ({"basis": "cc-pvdz"}, "basis", "because a mean field has its own"),
    ],
)
def test_wrong_options_are_named(water, options, argument, sentence):
    with pytest.raises(ArgumentError) as caught:
        dfmp2(water, **arguments(**options))
    assert caught.value.argument == argument
    assert sentence in str(caught.value)


@pytest.mark.parametrize("option", ["checkpoint", "scratch"])
def test_files_are_checked_before_a_mean_field_is_computed(monkeypatch, option):
    module = importlib.import_module("trnchem.preparation")
    monkeypatch.setattr(module, "built", lambda *_: pytest.fail("the mean field was computed first"))
    with pytest.raises(ArgumentError, match=f"{option} is '/nowhere/at/all'"):
        dfmp2("benzene", **arguments(**{option: "/nowhere/at/all"}))


def test_a_basis_of_a_wrong_kind_is_named():
    with pytest.raises(ArgumentError, match="basis is 7"):
        dfmp2("water", options=MP2Options(basis=7))


def test_a_mean_field_that_has_not_converged_is_refused():
    from pyscf import gto, scf

    field = scf.RHF(gto.M(atom=trnchem.GEOMETRIES["water"], basis="cc-pvdz", verbose=0))
    field.max_cycle, field.chkfile = 2, None
    field.kernel()
    with pytest.raises(NotConverged) as caught:
        dfmp2(field)
    assert caught.value.iterations == 2
    assert caught.value.residual > 1e-6
    assert "not converged after 2 iterations" in str(caught.value)
    assert "mf.max_cycle" in str(caught.value)


def test_mean_fields_of_other_kinds_are_refused(water):
    from pyscf import dft, gto, scf

    oxygen = gto.M(atom="O 0 0 0; O 0 0 1.2", basis="sto-3g", spin=2, verbose=0)
    for field, sentence in (
        (scf.UHF(oxygen), "Call mf.kernel() first"),
        (scf.GHF(oxygen), "mixed spin"),
        (dft.UKS(oxygen), "density functional"),
        (dft.RKS(water.mol), "density functional"),
        (scf.RHF(water.mol), "Call mf.kernel() first"),
        (3.0, "mf is float"),
    ):
        with pytest.raises(ArgumentError) as caught:
            dfmp2(field)
        assert caught.value.op == "dfmp2"
        assert sentence in str(caught.value)


def test_a_strict_backend_that_refuses_is_not_replaced(water):
    with trnsci.backend("nki"), pytest.raises((UnsupportedError, trnsci.BackendUnavailable)):
        dfmp2(water)


@pytest.mark.sim
def test_with_a_device_auto_sends_what_pays_there(field, reference, monkeypatch):
    from trnsci.neuron import StandIn, stand_in

    # a processor whose rates were not measured while others kept it busy
    monkeypatch.setattr(predict, "host", lambda: predict.Host(1e-6, 1.2e11, 6e10, 1e10))
    with stand_in(StandIn("trn2")), trnsci.ledger() as book:
        small, large = (
            trnchem.plan(field(name), options=trnchem.MP2Options(precision="fp32")) for name in ("water", "benzene")
        )
        found = dfmp2(field("benzene"), options=MP2Options(precision="fp32"))
    assert (small.place, small.fused) == ("host memory", False)
    assert (large.place, large.fused) == ("device memory", True)
    assert "predicted" in large.why
    assert {entry.step.backend for entry in book if entry.step.op == "trntensor::mp2_energy"} == {"nki"}
    compare(found, reference("benzene"), 2e-6)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
@pytest.mark.parametrize("memory", [None, "60 MB"], ids=["in memory", "from disk"])
def test_pairs_on_a_device_that_b_is_brought_to(water, reference, device, memory):
    whole = dfmp2(water, memory=memory)
    seen, before = [], 0
    if device == "cuda":
        torch.cuda.init()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    found = dfmp2(water, memory=memory, options=MP2Options(device=device, progress=seen.append))
    if device == "cuda":
        assert torch.cuda.max_memory_allocated() - before <= found.plan.blocks.peak_bytes
    compare(found, reference("water"), BOUNDS["fp64"])
    assert abs(found.e_corr - whole.e_corr) < 1e-12
    assert abs(found.e_ss - whole.e_ss) < 1e-12
    assert found.plan.blocks.device.type == device
    assert "Pairs in blocks of" in found.plan.why
    pairs = [step for step in seen if step.stage == "pairs"]
    assert pairs[-1].done == pairs[-1].total


def test_a_device_takes_no_pairs_checkpoints_or_other_methods(water):
    for more in ({"pairs": True}, {"method": "laplace"}, {"precision": "fast"}):
        with pytest.raises(ArgumentError, match="device"):
            dfmp2(water, **arguments(device="cpu", **more))
