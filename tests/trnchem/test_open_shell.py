"""Open shells against PySCF's DF-UMP2, by every method, and what is refused."""

import functools
import json
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

import trnchem
import trnsci
from tests.trnchem.arguments import arguments
from trnchem import MP2Options, dfmp2
from trnchem.accuracy import FP64
from trnsci import ArgumentError, CapacityError, NumericalError
from trnsci.testing import BACKENDS

# atoms, charge and spin: a radical, a cation, a high-spin atom, a biradical, and one without orbitals of spin down
OPEN = {
    "hydroxyl": ("O 0 0 0; H 0 0 0.97", 0, 1),
    "water cation": ("O 0 0 0; H 0 0.757 0.587; H 0 -0.757 0.587", 1, 1),
    "nitrogen atom": ("N 0 0 0", 0, 3),
    "oxygen": ("O 0 0 0; O 0 0 1.2", 0, 2),
    "hydrogen atom": ("H 0 0 0", 0, 1),
}


@functools.cache
def open_field(name, kind="UHF", basis="6-31g", fitted=True):
    from pyscf import gto, scf

    atom, charge, spin = OPEN[name]
    mean = getattr(scf, kind)(gto.M(atom=atom, charge=charge, spin=spin, basis=basis, verbose=0))
    mean = mean.density_fit() if fitted else mean
    mean.chkfile = None
    return mean.run()


def expected(mean, frozen=None):
    """PySCF's UMP2 with fitted integrals, in the auxiliary basis that it chooses."""
    from pyscf.mp import dfump2

    solver = dfump2.DFUMP2(mean if mean.istype("UHF") else mean.to_uhf(), frozen=frozen)
    solver.kernel(with_t2=False)
    return solver.e_corr, solver.e_corr_os, solver.e_corr_ss


def compare(found, theirs, bound=1e-9):
    for mine, other in zip((found.e_corr, found.e_os, found.e_ss), theirs, strict=True):
        assert abs(mine - other) <= bound


@pytest.mark.sim
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize(
    ("name", "kind", "reuse"),
    [("hydroxyl", "UHF", True), ("hydroxyl", "ROHF", False)],
)
def test_energies_are_pyscfs_on_every_backend(name, kind, reuse, backend):
    mean = open_field(name, kind, "sto-3g")
    with backend:
        compare(dfmp2(mean, options=MP2Options(reuse=reuse)), expected(mean))
        few = [0, 1, 2]
        assert (
            abs(
                dfmp2(mean, options=MP2Options(reuse=reuse, method="laplace", frozen=few)).e_os - expected(mean, few)[1]
            )
            <= FP64
        )


@pytest.mark.parametrize("kind", ["UHF", "ROHF"])
@pytest.mark.parametrize("name", OPEN)
def test_every_molecule_and_both_references(name, kind):
    mean = open_field(name, kind)
    compare(dfmp2(mean), expected(mean))
    for method in ("laplace", "stochastic"):
        found = dfmp2(mean, options=MP2Options(method=method, samples=200, seed=3))
        allowed = 1e-9 if method == "laplace" else 4 * found.standard_error
        assert abs(found.e_os - expected(mean)[1]) <= allowed
        assert found.e_ss is None
    sampled = dfmp2(mean, options=MP2Options(method="stochastic", same_spin=True, samples=200, seed=3))
    assert abs(sampled.e_os - found.e_os) <= FP64
    assert abs(sampled.e_corr - expected(mean)[0]) <= sampled.error


def test_one_orbital_of_spin_down_beside_several_of_spin_up():
    from pyscf import gto, scf

    molecule = gto.M(atom="H 0 0 0; H 0 0 0.9; H 0 0 1.9", basis="6-31g", spin=1, verbose=0)
    mean = scf.UHF(molecule).density_fit().run()
    compare(dfmp2(mean), expected(mean))


def test_without_density_fitting_the_basis_made_for_mp2_is_used():
    mean = open_field("oxygen", fitted=False)
    compare(dfmp2(mean), expected(mean))


@pytest.mark.parametrize("precision", ["fp32", "compensated", "fast"])
def test_lower_precision_keeps_its_bound(precision):
    mean = open_field("oxygen", "ROHF")
    exact = dfmp2(mean, options=MP2Options(reuse=False))
    found = dfmp2(mean, options=MP2Options(reuse=False, precision=precision))
    bound = 2**-24 * (64 + found.metric.growth) + (2**-7 if precision == "fast" else 0)
    assert 0 < abs(found.e_corr - exact.e_corr) <= bound * abs(exact.e_corr)


@pytest.mark.parametrize("frozen", [1, [0, 9], [[0], [0, 1]], "core", [[], [10]]], ids=str)
def test_frozen_orbitals_of_both_spins_or_of_each(frozen):
    mean = open_field("hydroxyl")
    theirs = expected(mean, 1 if frozen == "core" else frozen)
    compare(dfmp2(mean, options=MP2Options(frozen=frozen)), theirs)
    assert abs(dfmp2(mean, options=MP2Options(frozen=frozen, method="laplace")).e_os - theirs[1]) <= FP64


def test_two_lists_are_of_two_spins(water):
    with pytest.raises(ArgumentError, match="one list of positions") as caught:
        dfmp2(water, options=MP2Options(frozen=[[0], [0]]))
    assert caught.value.argument == "frozen"


def test_an_open_shell_that_is_closed_has_the_energy_of_a_closed_one(water):
    one = dfmp2(water, options=MP2Options(pairs=True))
    two = dfmp2(water.to_uhf(), options=MP2Options(pairs=True))
    compare(two, (one.e_corr, one.e_os, one.e_ss), 1e-8)
    up = slice(0, 5)
    # a pair of a closed shell is four pairs of spins
    total = 2 * two.pairs.opposite_spin[up, 5:]
    torch.testing.assert_close(total, one.pairs.opposite_spin, rtol=0, atol=1e-8)
    torch.testing.assert_close(2 * two.pairs.same_spin[up, up], one.pairs.same_spin, rtol=0, atol=1e-8)
    assert two.plan.sizes.spins.up == 5


def test_pairs_add_up_and_have_one_spin_part():
    found = dfmp2(open_field("oxygen"), options=MP2Options(pairs=True))
    up = found.plan.sizes.spins.up
    assert (up, found.pairs.same_spin.shape) == (9, (16, 16))
    assert float(found.pairs.opposite_spin.sum()) == pytest.approx(found.e_os, abs=1e-14)
    assert float(found.pairs.same_spin.sum()) == pytest.approx(found.e_ss, abs=1e-14)
    assert not found.pairs.same_spin[:up, up:].any()
    assert not found.pairs.opposite_spin[:up, :up].any()
    assert "9 + 7 occupied" in str(found.plan)


@pytest.mark.parametrize("method", ["pairs", "laplace", "stochastic"])
def test_blocks_from_disk_change_nothing(method):
    mean = open_field("oxygen")
    options = {"method": method, "samples": 3}
    with pytest.raises(CapacityError) as caught:
        dfmp2(mean, **arguments(memory=1, **options))
    found = dfmp2(mean, **arguments(memory=caught.value.required, **options))
    assert found.plan.place == "disk"
    assert abs(found.e_os - dfmp2(mean, **arguments(**options)).e_os) <= 1e-12


KILLED = textwrap.dedent("""
    import json, sys, time
    import trnchem
    path, name, reference, options = sys.argv[1], *sys.argv[2:4], json.loads(sys.argv[4])
    told = []
    def tell(now):
        if now.stage == options["method"] and now.done:
            print(now.done, flush=True)
            told.append(now.done)
            if len(told) == 3:
                time.sleep(600)
    mean = trnchem.mean_field(name, basis="6-31g", reference=reference)
    trnchem.dfmp2(mean, checkpoint=path, options=trnchem.MP2Options(progress=tell, **options))
""")
PAIRS, LAPLACE = {"method": "pairs"}, {"method": "laplace", "quadrature_error": 1e-6}
SAMPLED = {"method": "stochastic", "samples": 5}
BOTH_SPINS = {**SAMPLED, "same_spin": True}


# methyl, not hydroxyl, whose hole points where it likes: another process may sample another orientation of it
@pytest.mark.parametrize(
    ("name", "reference", "options"),
    [
        ("methyl", "uhf", BOTH_SPINS),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("methyl", "uhf", PAIRS),
                ("methyl", "rohf", PAIRS),
                ("methyl", "uhf", LAPLACE),
                ("methyl", "rohf", SAMPLED),
                ("methyl", "rohf", BOTH_SPINS),
                ("water", "rhf", LAPLACE),
                ("water", "rhf", SAMPLED),
                ("water", "rhf", BOTH_SPINS),
            )
        ),
    ],
)
def test_killed_and_resumed_by_every_method(tmp_path, name, reference, options):
    path, method = tmp_path / "killed.ckpt", options["method"]
    command = [sys.executable, "-c", KILLED, str(path), name, reference, json.dumps(options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        told = [int(child.stdout.readline()) for _ in range(3)][-1]
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL
    mean = trnchem.mean_field(name, basis="6-31g", reference=reference)
    seen = []
    found = dfmp2(mean, **arguments(checkpoint=path, progress=seen.append, **options))
    assert found.resumed >= told * options.get("samples", 1)
    assert next(now.done for now in seen if now.stage == method) >= told
    whole = dfmp2(mean, **arguments(**options))
    assert abs(found.e_os - whole.e_os) <= FP64
    assert abs(found.e_corr - whole.e_corr) <= FP64
    assert found.standard_error == pytest.approx(whole.standard_error, abs=FP64)
    seen.clear()
    assert dfmp2(mean, **arguments(checkpoint=path, progress=seen.append, **options)).e_corr == found.e_corr
    assert {now.stage for now in seen} == {method}


def test_a_checkpoint_of_another_method_seed_or_reference_is_refused(tmp_path):
    path = tmp_path / "radical.ckpt"
    mean = open_field("hydroxyl")
    options = {"method": "stochastic", "samples": 4, "checkpoint": path}
    dfmp2(mean, **arguments(**options))
    for other, changes, says in (
        (mean, {"method": "laplace"}, "its method is stochastic"),
        (mean, {"samples": 5}, "its samples is 4"),
        (mean, {"seed": 1}, "its seed is 0"),
        (open_field("hydroxyl", "ROHF"), {}, "its mean field is UHF"),
    ):
        with pytest.raises(ArgumentError, match=says):
            dfmp2(other, **arguments(**{**options, **changes}))


@pytest.mark.parametrize(("kind", "says"), [("UHF", "orbitals with 1 or none"), ("ROHF", "orbitals with 2, 1 or none")])
def test_fractional_occupations_are_refused(kind, says):
    import copy

    mean = copy.copy(open_field("hydroxyl", kind))
    mean.mo_occ = np.array(mean.mo_occ) * 0.75
    with pytest.raises(ArgumentError, match=says) as caught:
        dfmp2(mean)
    assert "no single determinant" in str(caught.value)


def test_a_saddle_point_is_refused_when_asked():
    from pyscf import gto, scf

    stretched = gto.M(atom="H 0 0 0; H 0 0 2.5", basis="6-31g", verbose=0)
    restricted = scf.RHF(stretched).density_fit().run()
    assert dfmp2(restricted, options=MP2Options(stability="internal")).e_corr < 0
    with pytest.raises(NumericalError, match=r"Start from scf\.UHF") as caught:
        dfmp2(restricted, options=MP2Options(stability="external"))
    assert "less restricted kind" in str(caught.value)
    saddle = scf.UHF(stretched).density_fit().run(np.stack([restricted.make_rdm1() / 2] * 2))
    with pytest.raises(NumericalError, match="another UHF solution") as caught:
        dfmp2(saddle, options=MP2Options(stability="internal"))
    assert "mo = mf.to_rhf().stability(external=True)[1]; mf.kernel" in str(caught.value)
    mo = saddle.to_rhf().stability(external=True)[1]
    lower = scf.UHF(stretched).density_fit().run(saddle.make_rdm1(mo, saddle.mo_occ))
    assert dfmp2(lower, options=MP2Options(stability="internal")).e_hf < saddle.e_tot
    with pytest.raises(ArgumentError, match="stability"):
        dfmp2(lower, options=MP2Options(stability="both"))


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
@pytest.mark.parametrize(("name", "rows"), [("oxygen", None), ("oxygen", 2), ("hydrogen atom", None)])
def test_pairs_of_both_spins_on_a_device_that_b_is_brought_to(monkeypatch, name, rows, device):
    module, mean, seen = sys.modules["trnchem.preparation"], open_field(name), []
    if rows is not None:
        # blocks of either spin that do not come out even
        whole = module.mp2_blocks
        monkeypatch.setattr(module, "mp2_blocks", lambda *sizes, **more: whole(*sizes, **more)._replace(rows=rows))
    found = dfmp2(mean, options=MP2Options(device=device, progress=seen.append))
    compare(found, expected(mean))
    compare(dfmp2(mean, options=MP2Options(device=device, precision="fp32")), expected(mean), 2e-6)
    assert seen[-1].done == seen[-1].total == found.plan.sizes.nocc * (found.plan.sizes.nocc + 1) // 2
    assert found.plan.blocks.device.type == device


@pytest.mark.sim
@pytest.mark.parametrize("name", ["hydroxyl", "hydrogen atom"])
def test_the_device_runs_fused_programs_of_each_spin_and_of_both_in_fp32(name):
    mean = open_field(name)
    with trnsci.backend("simulator"), trnsci.ledger() as book:
        found = dfmp2(mean, options=MP2Options(precision="fp32"))
    assert (found.plan.place, found.plan.fused) == ("device memory", True)
    compare(found, expected(mean), 2e-6)
    ran = [entry.step.op for entry in book.entries if entry.step.op.startswith("trntensor")]
    assert ran == ["trntensor::mp2_energy", "trntensor::mp2_energy", "trntensor::mp2_between"]
