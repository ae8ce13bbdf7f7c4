"""Errors in hartree: what is stated, targets that are met, quadratures that are measured, and basis sets."""

import functools
import math

import mpmath
import numpy as np
import pytest
import torch

import trnchem
from tests.together import together
from tests.trnchem.arguments import arguments
from tests.trnchem.test_open_shell import expected, open_field
from trnchem import MP2Options, dfmp2
from trnchem.orbitals import Orbitals, orbitals
from trnchem.pairs import PairState, run_pairs
from trnchem.quadrature import quadrature
from trnchem.store import HostStore
from trnsci import ArgumentError, NumericalError


def spread(ratio):
    """Orbitals whose energy differences span a ratio."""
    e_occ, e_vir = torch.tensor([-1.0 * ratio + 1.0, 0.0], dtype=torch.float64), torch.tensor([[1.0]])
    none = torch.empty(0)
    return Orbitals(none, none, e_occ, e_vir.double(), ())


@together("error", [1e-3, 1e-6, 1e-8, 1e-11])
@together("ratio", [1.0, 7.0, 90.0, 3000.0])
def test_a_quadrature_keeps_the_error_it_states(ratio, error):
    found = quadrature(spread(ratio), error)
    allowed = max(error, 1e-11 * ratio / 1000)
    assert found.error <= allowed
    assert found.ratio == pytest.approx(ratio)
    # elsewhere than where it was measured, in more digits than it was computed with
    t, w = (mpmath.matrix(part.tolist()) for part in (found.t, found.w))
    for x in 2 * np.exp(np.random.default_rng(0).uniform(0, math.log(ratio) or 1e-9, 40)):
        total = mpmath.fsum(w[k] * mpmath.exp(-t[k] * x) for k in range(len(t)))
        assert abs(1 - x * total) <= 1.05 * allowed + 1e-14


def test_fitted_exponents_are_few():
    counts = [len(quadrature(spread(90.0), error).t) for error in (1e-3, 1e-5, 1e-6)]
    assert counts == sorted(counts)
    # the trapezoidal rule takes 38 for the last
    assert counts[-1] <= 12


@pytest.mark.parametrize("error", [1e-3, 1e-6, 1e-8])
def test_the_energy_is_off_by_no_more_than_the_quadrature(water, error):
    exact = dfmp2(water)
    found = dfmp2(water, options=MP2Options(method="laplace", quadrature_error=error))
    assert abs(found.e_os - exact.e_os) <= error * abs(exact.e_os) + 1e-12
    assert abs(found.e_corr - 1.3 * exact.e_os) <= found.error
    assert found.error <= 1.3 * error * abs(exact.e_os) + 1.01e-9


def test_long_sums_of_one_sign_keep_the_bound_of_fp32():
    draw = torch.Generator().manual_seed(2)
    nocc, nvir, naux = 2, 400, 8
    # large terms first, as of low orbitals: a sum that has grown does not feel small ones
    B = torch.randn((nocc, nvir, naux), generator=draw) * torch.logspace(0, -2, nvir)[:, None]
    occ, vir = -torch.rand(nocc, generator=draw) - 0.5, torch.rand((1, nvir), generator=draw) + 0.2
    state, store = PairState.empty(nocc), HostStore((nocc, nvir, naux), torch.float32)
    store.put_columns(0, B)
    run_pairs(store, (occ, vir), state, rows=nocc, width=1, precision="fp32", finished=lambda *pair: None)
    T = torch.einsum("iap,jbp->ijab", B.double(), B.double()).numpy()
    e_occ, e_vir = occ.double().numpy(), vir[0].double().numpy()
    D = e_occ[:, None, None, None] + e_occ[:, None, None] - e_vir[:, None] - e_vir
    exact = (T**2 / D).sum(), (T * (T - T.swapaxes(2, 3)) / D).sum()
    for mine, theirs in zip(state.totals(), exact, strict=True):
        assert abs(mine - theirs) <= 64 * 2.0**-24 * abs(theirs)


@pytest.mark.parametrize(
    ("target", "reuse", "precision"),
    [(1e-2, True, "fast"), (1e-5, True, "fp32"), (1e-6, True, "fp64"), (1e-4, False, "fp32"), (1e-8, False, "fp64")],
)
def test_a_target_is_met_by_the_cheapest_precision(water, reference, target, reuse, precision):
    found = dfmp2(water, options=MP2Options(target_error=target, reuse=reuse))
    assert found.plan.precision == precision
    assert abs(found.e_corr - reference("water")[0]) <= found.error <= target


@pytest.mark.parametrize("target", [1e-3, 1e-6])
def test_a_target_of_the_methods_without_pairs(target):
    mean = open_field("oxygen", "ROHF")
    found = dfmp2(mean, options=MP2Options(method="laplace", target_error=target))
    assert abs(found.e_corr - 1.3 * expected(mean)[1]) <= found.error <= target
    assert found.plan.quadrature_error > 1e-8


def test_a_target_of_random_vectors_chooses_how_many(field):
    mean = field("benzene")
    found = dfmp2(mean, options=MP2Options(method="stochastic", target_error=0.15, samples=8, seed=2))
    assert found.error <= 0.15
    with pytest.raises(NumericalError, match="method='laplace' is exact and cheaper"):
        dfmp2(mean, options=MP2Options(method="stochastic", target_error=1e-4, samples=8))


@pytest.mark.parametrize(("samples", "target"), [(1, 0.3), (3, 0.1), (6, 0.03)])
def test_few_random_vectors_to_start_with_are_no_reason_to_give_up(field, samples, target):
    # from the deviation of so few it followed that fewer would do, and of these that none could
    assert (
        dfmp2(
            field("water", "sto-3g"), options=MP2Options(method="stochastic", target_error=target, samples=samples)
        ).error
        <= target
    )


@together(
    ("options", "says"),
    [
        ({"target_error": 0.0}, "hartree, more than 0"),
        ({"target_error": 1e-6, "precision": "fp32"}, "because target_error chooses it"),
        ({"target_error": 1e-6, "quadrature_error": 1e-6}, "because target_error chooses it"),
        ({"same_spin": True, "method": "laplace"}, "as expensive as pairs"),
        ({"same_spin": True}, "'pairs' computes it always"),
        ({"quadrature_error": 2.0, "method": "laplace"}, "a relative error from 1e-13 to 1"),
    ],
)
def test_targets_that_cannot_be_are_refused(water, options, says):
    with pytest.raises(ArgumentError, match=says):
        dfmp2(water, **arguments(**options))


def test_a_target_below_double_precision_is_refused(water):
    with pytest.raises(NumericalError, match="fp64 states 1e-09"):
        dfmp2(water, options=MP2Options(target_error=1e-12))


def test_frozen_cores_are_counted_by_element_as_in_pyscf():
    from pyscf import gto, mp, scf

    for atom, basis, ecp, left in (
        ("Cl 0 0 0; H 0 0 1.28", "6-31g", {}, 5),
        ("I 0 0 0; H 0 0 1.6", "lanl2dz", "lanl2dz", 0),
    ):
        mean = scf.RHF(gto.M(atom=atom, basis=basis, ecp=ecp, verbose=0)).run()
        chosen = orbitals(mean, "core")
        assert len(chosen.frozen) == left == (mp.MP2(mean).set_frozen().frozen or 0)


@functools.cache
def in_basis(basis):
    return dfmp2("hydrogen fluoride", options=MP2Options(basis=basis))


def test_extrapolation_recovers_the_limit_of_its_formulas():
    made = [(-1.0 + 0.3 * (x + 1) * math.exp(-9 * math.sqrt(x)), -0.5 + 0.7 * x**-3) for x in (3, 4)]
    found = trnchem.extrapolate(*made, cardinals=(3, 4))
    assert trnchem.extrapolate(*(tuple(map(np.float64, pair)) for pair in made), cardinals=(3, 4)) == found
    assert found.e_hf == pytest.approx(-1.0, abs=1e-12)
    assert found.e_corr == pytest.approx(-0.5, abs=1e-12)
    assert found.e_tot == pytest.approx(-1.5, abs=1e-12)
    two, three = in_basis("cc-pvdz"), in_basis("cc-pvtz")
    assert trnchem.extrapolate(two, three, cardinals=(2, 3)).e_corr < three.e_corr < two.e_corr
    for wrong in ((3, 2), (2, 2), (1, 2), (2, 2.5)):
        with pytest.raises(ArgumentError, match="cardinal numbers"):
            trnchem.extrapolate(two, three, cardinals=wrong)
    with pytest.raises(ArgumentError, match=r"a result of dfmp2, or its energies"):
        trnchem.extrapolate(two.e_corr, three.e_corr, cardinals=(2, 3))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "same_spin"), [("water", False), ("water", True), ("methyl", True)])
def test_the_error_bar_of_random_vectors_holds_over_a_thousand_seeds(field, name, same_spin):
    mean = field(name, "6-31g")
    exact, likely, sure = dfmp2(mean), 0, 0
    for seed in range(1000):
        found = dfmp2(
            mean, options=MP2Options(method="stochastic", same_spin=same_spin, seed=seed, quadrature_error=1e-5)
        )
        energy, truth = (found.e_corr, exact.e_corr) if same_spin else (found.e_os, exact.e_os)
        likely += found.interval[0] <= truth <= found.interval[1]
        sure += abs(energy - truth) <= found.error * energy / found.e_corr
    # three standard deviations of a share of 1000
    assert abs(likely - 954) <= 3 * math.sqrt(1000 * 0.954 * 0.046)
    assert sure >= 997 - 3 * math.sqrt(1000 * 0.997 * 0.003)
