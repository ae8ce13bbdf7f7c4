"""The random-phase approximation: against PySCF's, its quadrature, and what it refuses."""

import pytest
from pyscf.gw import rpa as peer, urpa as open_peer

import trnchem
from trnchem import MP2Options, rpa
from trnchem.rpa import _rule
from trnsci import ArgumentError, CapacityError, NumericalError

# hartree: the quadrature's 1e-9 of energies below one
BOUND = 1e-9


@pytest.mark.parametrize(
    ("name", "frozen"),
    [("water", 0), ("nitrogen", 2), ("hydroxyl", 1), pytest.param("benzene", 6, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("reuse", [True, False])
def test_the_energy_is_pyscfs(name, frozen, reuse):
    mean = trnchem.mean_field(name)
    theirs = (open_peer.URPA if mean.mol.spin else peer.RPA)(mean, frozen=frozen)
    theirs.verbose = 0
    theirs.kernel(nw=100)
    result = rpa(mean, options=MP2Options(frozen=frozen, reuse=reuse))
    assert abs(result.e_corr - theirs.e_corr) <= BOUND
    assert result.e_tot == result.e_hf + result.e_corr
    assert result.quadrature_error <= 1e-9
    assert "E(corr)" in repr(result)


def test_precision_and_blocks():
    mean = trnchem.mean_field("water", basis="sto-3g")
    exact = rpa(mean)
    single = rpa(mean, options=MP2Options(precision="fp32", reuse=False))
    assert abs(single.e_corr - exact.e_corr) <= abs(exact.e_corr) * 2.0**-24 * (64 + single.metric.growth)
    with pytest.raises(CapacityError) as caught:
        rpa(mean, memory=1)
    small = rpa(mean, memory=caught.value.required)
    assert small.plan.place == "disk"
    assert abs(small.e_corr - exact.e_corr) <= 1e-12


def test_the_quadrature_measures_its_error():
    errors = [_rule(count, 50.0).error for count in (8, 16, 32)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-12
    loose = rpa("water", options=MP2Options(quadrature_error=1e-3))
    assert loose.frequencies < rpa("water").frequencies
    assert abs(loose.e_corr - rpa("water").e_corr) <= 1e-3 * abs(loose.e_corr)


def test_options_of_mp2_are_refused():
    for options in ({"method": "laplace"}, {"pairs": True}, {"samples": 3}, {"target_error": 1e-3}):
        with pytest.raises(ArgumentError) as caught:
            rpa("water", options=MP2Options(**options))
        assert (caught.value.op, caught.value.argument) == ("rpa", next(iter(options)))
    with pytest.raises(ArgumentError, match="expected trnchem"):
        rpa("water", options={"frozen": 1})


def test_no_correlation_and_energy_differences_that_no_rule_spans():
    from pyscf import gto, scf

    ion = scf.RHF(gto.M(atom="He 0 0 0; H 0 0 .8", basis="sto-3g", charge=-1, verbose=0)).run()
    assert rpa(ion).e_corr == 0
    mean = scf.RHF(gto.M(atom="H 0 0 0; H 0 0 .8", basis="6-31g", verbose=0)).run()
    mean.mo_energy[1] = mean.mo_energy[0] + 1e-9
    with pytest.raises(NumericalError, match="256 frequencies leave"):
        rpa(mean)
