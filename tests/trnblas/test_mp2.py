import numpy as np
import pytest
import torch

import trnsci
from tests.together import together
from tests.trnblas.oracles import F64, KERNELS
from trnblas import mp2_energy, mp2_pairs
from trnblas.mp2 import exponentials
from trnblas.nki import nki_mp2_energy
from trnsci import ArgumentError, UnsupportedError
from trnsci.testing import BACKENDS, assert_within, gamma, gaussian

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)


def molecule(occupied, virtual, dtype=torch.float32, symmetric=False):
    """Amplitudes and orbital energies of a size; amplitudes from factors where they must be symmetric."""
    eps_occ = torch.linspace(-20.0, -0.4, occupied, dtype=F64)
    eps_vir = torch.linspace(0.1, 30.0, virtual, dtype=F64)
    if symmetric:
        b = gaussian((occupied * virtual, 5), 1, F64)
        t = b @ b.mT
    else:
        t = gaussian((occupied * virtual, occupied * virtual), 1, F64)
    return t.to(dtype), eps_occ.to(dtype), eps_vir.to(dtype)


def oracle(t, eps_i, eps_j, eps_v):
    """Pair energies in float64, and the same sum of magnitudes."""
    i, j, v = len(eps_i), len(eps_j), len(eps_v)
    t = t.double().numpy().reshape(i, v, j, v).transpose(0, 2, 1, 3)
    e_i, e_j, e_v = (e.double().numpy() for e in (eps_i, eps_j, eps_v))
    below = e_i[:, None, None, None] + e_j[None, :, None, None] - e_v[:, None] - e_v
    terms = t * (2 * t - t.swapaxes(2, 3)) / below
    size = np.abs(t) * (2 * np.abs(t) + np.abs(t.swapaxes(2, 3))) / np.abs(below)
    return torch.from_numpy(terms.sum((2, 3))), torch.from_numpy(size.sum((2, 3)))


def bound(size, virtual, error=1e-7):
    # Energies are rounded to fp32 and enter exponents up to a few hundred, as the sum of exponentials sees them.
    return (error + gamma(virtual + 6 + np.log2(virtual), torch.float32) + 64 * 2.0**-24) * size


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize(("occupied", "virtual"), [(1, 1), (2, 8), (3, 130), (2, 112), (5, 7)])
def test_pair_energies(backend, occupied, virtual):
    t, eps_occ, eps_vir = molecule(occupied, virtual)
    expected, size = oracle(t, eps_occ, eps_occ, eps_vir)
    with backend:
        pairs = mp2_pairs(t, eps_occ, eps_occ, eps_vir)
        energy = mp2_energy(t, eps_occ, eps_occ, eps_vir)
    assert_within(pairs, expected, bound(size, virtual))
    assert_within(energy, expected.sum(), bound(size.sum(), virtual * occupied))


@on_backends
def test_more_virtual_orbitals_than_a_bank(backend):
    t, eps_occ, eps_vir = molecule(1, 600)
    expected, size = oracle(t, eps_occ, eps_occ, eps_vir)
    with backend:
        assert_within(mp2_pairs(t, eps_occ, eps_occ, eps_vir), expected, bound(size, 600))


@on_backends
def test_chunks_and_pair_symmetry_give_the_same_energy(backend):
    t, eps_occ, eps_vir = molecule(5, 9, symmetric=True)
    expected, size = oracle(t, eps_occ, eps_occ, eps_vir)
    spoiled = t.clone().unflatten(0, (5, 9)).unflatten(2, (5, 9))
    for i in range(5):
        spoiled[i, :, i + 1 :] = torch.nan
    spoiled = spoiled.reshape(45, 45)
    with backend:
        half = mp2_energy(spoiled, eps_occ, eps_occ, eps_vir, symmetric=True)
        chunks = [mp2_energy(t[s * 9 : e * 9], eps_occ[s:e], eps_occ, eps_vir) for s, e in ((0, 2), (2, 5))]
        halves = [
            mp2_energy(spoiled[s * 9 : e * 9], eps_occ[s:e], eps_occ, eps_vir, symmetric=True, first=s)
            for s, e in ((0, 2), (2, 5))
        ]
    for got in (half, sum(chunks), sum(halves)):
        assert_within(got, expected.sum(), bound(size.sum(), 45))


@pytest.mark.sim
@pytest.mark.parametrize("virtual", [8, 16, 64])
def test_partials_by_name(virtual):
    t, eps_occ, eps_vir = molecule(2, virtual)
    expected, size = oracle(t[:virtual], eps_occ[:1], eps_occ, eps_vir)
    with trnsci.ledger() as book:
        partials = nki_mp2_energy(t[:virtual], eps_occ[:1], eps_occ, eps_vir)
    assert [entry.step.op for entry in book] == ["trnblas::mp2"]
    assert partials.shape == (virtual, 1, 2)
    assert partials.dtype == torch.float32
    assert_within(partials.double().sum(0), expected, bound(size, virtual))


@pytest.mark.sim
def test_partials_by_name_are_checked_and_differentiated():
    t, eps_occ, eps_vir = molecule(2, 3)
    with pytest.raises(ArgumentError, match="shape of t_flat"):
        nki_mp2_energy(torch.cat([t, t], 1), eps_occ, eps_occ, eps_vir)
    with pytest.raises(ArgumentError, match="real amplitudes"):
        nki_mp2_energy(*(x + 0j for x in (t, eps_occ, eps_occ, eps_vir)))
    nki_mp2_energy(t.requires_grad_(), eps_occ, eps_occ, eps_vir).sum().backward()
    got, t = t.grad, t.detach().double().requires_grad_()
    mp2_energy(t, *(x.double() for x in (eps_occ, eps_occ, eps_vir))).backward()
    assert_within(got, t.grad, bound(t.grad.abs() + 1, 3))


@pytest.mark.grid(1)
@pytest.mark.parametrize("ratio", [1.0, 3.0, 100.0, 1e4])
@pytest.mark.parametrize("error", [1e-3, 1e-7, 1e-9])
def test_exponentials_meet_their_error_everywhere(ratio, error):
    t, w = exponentials(ratio, error)
    assert len(t) <= 128
    x = np.random.default_rng(0).uniform(1.0, ratio, 5000)
    assert np.abs(1 - x * (np.exp(-np.outer(x, t)) @ w)).max() <= 1.01 * error


def test_an_error_that_cannot_be_reached_says_what_can():
    with pytest.raises(ArgumentError, match="what 128 exponentials reach for denominators spanning 1e\\+04"):
        exponentials(1e4, 1e-15)


def test_gradients():
    t, eps_occ, eps_vir = molecule(2, 3, F64)
    operands = [x.requires_grad_() for x in (t[:3].clone(), eps_occ[:1].clone(), eps_occ, eps_vir)]
    assert torch.autograd.gradcheck(lambda *args: mp2_pairs(*args), operands)
    operator = torch.ops.trnblas.mp2.default
    assert torch.autograd.gradcheck(lambda *args: operator(*args, False, 0, 1e-7), operands)
    torch.library.opcheck(operator, (*[x.detach() for x in operands], False, 0, 1e-7))


@pytest.mark.parametrize("backend", KERNELS, ids=str)
def test_gradients_through_the_kernel(backend):
    t, eps_occ, eps_vir = molecule(2, 6)
    t.requires_grad_()
    with backend:
        mp2_energy(t, eps_occ, eps_occ, eps_vir).backward()
    wide = t.detach().double().requires_grad_()
    mp2_energy(wide, eps_occ.double(), eps_occ.double(), eps_vir.double()).backward()
    # Four products of T with itself and its transpose, over the smallest denominator.
    gap = 2 * (eps_vir.min() - eps_occ.max()).abs().double()
    size = 6 * wide.detach().abs().max() / gap
    assert_within(t.grad, wide.grad, (1e-7 + gamma(16, torch.float32) + 64 * 2.0**-24) * size)


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize(("occupied", "virtual", "symmetric"), [(1, 1, False), (3, 5, True), (2, 40, False)])
def test_float64_is_float64_on_every_backend(backend, occupied, virtual, symmetric):
    t, eps_occ, eps_vir = molecule(occupied, virtual, F64, symmetric)
    expected, size = oracle(t, eps_occ, eps_occ, eps_vir)
    limit = 2 * gamma(virtual**2 + 6, F64) * size
    with backend, trnsci.ledger() as book:
        energy = mp2_energy(t, eps_occ, eps_occ, eps_vir, symmetric=symmetric)
        assert_within(mp2_pairs(t, eps_occ, eps_occ, eps_vir), expected, limit)
    assert {entry.step.backend for entry in book} == {backend.name}
    assert_within(energy, expected.sum(), limit.sum())


@pytest.mark.parametrize("backend", KERNELS, ids=str)
def test_more_virtual_orbitals_than_the_chip_holds_are_refused(backend, monkeypatch):
    monkeypatch.setattr("trnblas.mp2.MOST_VIRTUAL", 4)
    t, eps_occ, eps_vir = molecule(1, 5)
    with backend, pytest.raises(UnsupportedError, match="at most 4 virtual orbitals"):
        mp2_energy(t, eps_occ, eps_occ, eps_vir)


def test_no_pairs_no_energy():
    empty = torch.ones(0)
    assert mp2_energy(torch.ones(0, 0), empty, empty, torch.ones(3)) == 0


@together(
    ("args", "options", "text"),
    [
        (
            (torch.ones(2, 3), torch.ones(1), torch.ones(1), torch.ones(2)),
            {},
            "shape of t_flat is (2, 3), expected (2, 2)",
        ),
        (
            (torch.ones(2, 2), torch.ones(1), torch.ones(1), torch.ones(2)),
            {},
            "a virtual orbital at 1.0', expected all above",
        ),
        (
            (torch.ones(2, 2), -torch.ones(1), -torch.ones(1), torch.ones(1, 2)),
            {},
            "shape of eps_vir is (1, 2), expected one",
        ),
        (
            (torch.ones(2, 2), -torch.ones(1), -torch.ones(1), torch.ones(2)),
            {"target_error": 2.0},
            "target_error is 2.0",
        ),
        (
            (torch.ones(2, 2), -torch.ones(1), -torch.ones(1), torch.ones(2)),
            {"symmetric": True, "first": 3},
            "first is 3",
        ),
    ],
)
def test_bad_arguments_are_named(args, options, text):
    with pytest.raises(ArgumentError) as caught:
        mp2_energy(*args, **options)
    assert text in str(caught.value)
