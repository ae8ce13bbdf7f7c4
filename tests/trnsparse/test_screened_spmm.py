"""Screening: bounds, quartets, densities and the fused product."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import trnsci
import trnsparse as ts
from trnsci import ArgumentError
from trnsci.errors import DtypeError
from trnsci.testing import BACKENDS, assert_within, gamma, gaussian


@pytest.mark.grid(2)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("block", [128, 50, None], ids=str)
@pytest.mark.parametrize("threshold", [0.0, 0.3, 5.0, 1e9])
def test_screened_products_are_those_of_the_masked_matrix(backend, block, threshold):
    m, k = 200, 270
    a, b = gaussian((m, k), 1), gaussian((k, 9), 2)
    u, w = gaussian((m,), 3).abs(), gaussian((k,), 4).abs()
    u[:128] *= 1e-3
    masked = torch.where(torch.outer(u, w) > threshold, a, 0).double()
    with backend:
        matrix = ts.BSRMatrix.from_dense(a, block) if block else ts.CSRMatrix.from_dense(a)
        made = ts.screened_spmm(matrix, u, w, b, threshold)
    assert_within(made, masked @ b.double(), bound(masked, b))


def bound(masked, b):
    """The stated one, and underflow of one product."""
    size = masked.abs().double() @ b.abs().double()
    return gamma(masked.shape[1] + 2, b.dtype) * size + torch.finfo(b.dtype).tiny


def test_dense_and_other_formats_are_taken():
    a, b, u = gaussian((9, 9), 1, torch.float64), gaussian((9, 2), 2, torch.float64), torch.arange(9.0).double()
    masked = torch.where(torch.outer(u, u) > 10, a, 0)
    for kind in (a, ts.CSRMatrix.from_dense(a), ts.BSRMatrix.from_dense(a, 4)):
        made = ts.screened_spmm(kind, u, u, b, 10.0)
        assert_within(made, torch.from_numpy(masked.numpy() @ b.numpy()), 2 * bound(masked, b))


@pytest.mark.parametrize("block", [3, None], ids=str)
def test_gradients(block):
    dense = gaussian((6, 7), 1, torch.float64)
    a = ts.BSRMatrix.from_dense(dense, block) if block else ts.CSRMatrix.from_dense(dense)
    u, w = torch.arange(6.0), torch.arange(7.0)
    values, b = a.values.clone().requires_grad_(), gaussian((7, 2), 2, torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda v, b: ts.screened_spmm(a.with_values(v), u, w, b, 6.0), (values, b))
    # hidden numbers cannot shorten the matrix
    images = torch.func.vmap(lambda v: ts.screened_spmm(a.with_values(v), u, w, b, 6.0))(
        values.expand(2, *values.shape)
    )
    assert torch.allclose(images[1], ts.screened_spmm(a, u, w, b, 6.0))


@pytest.mark.sim
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_kernel_gradients_are_those_of_float64(backend):
    dense, b, g = gaussian((150, 140), 1), gaussian((140, 3), 2), gaussian((150, 3), 5)
    u, w = gaussian((150,), 3).abs(), gaussian((140,), 4).abs()
    x, y = ts.BSRMatrix.from_dense(dense).requires_grad_(), b.clone().requires_grad_()
    x.values.retain_grad()
    with backend:
        ts.screened_spmm(x, u, w, y, 0.5).backward(g)
    stays = torch.outer(u, w) > 0.5
    masked = torch.where(stays, dense, 0)
    assert_within(y.grad, masked.double().T @ g.double(), bound(masked.T, g))
    found = x.detach().with_values(x.values.grad).to_dense()
    # that of sddmm: sums over the columns of b
    error = gamma(3 + 2, b.dtype) * (g.abs().double() @ b.abs().double().T)
    assert_within(found, torch.where(stays, g.double() @ b.double().T, 0), error)


# Ties, squares that round to the threshold, products beyond float64.
BOUNDS = st.sampled_from([0.0, 1e-200, 3e-5, 0.1, 0.1 + 2**-56, 0.3, 0.5, 1.0, 2.0, 1e200])
THRESHOLDS = st.sampled_from([0.0, 1e-310, 1e-3, 0.01, 0.1 * 0.1, 0.03, 0.09, 0.25, 1.0, 50.0])


@given(st.integers(0, 6).flatmap(lambda n: st.lists(BOUNDS, min_size=n * n, max_size=n * n)), THRESHOLDS)
def test_every_quartet_above_the_threshold_is_kept_and_no_other(bounds, threshold):
    n = math.isqrt(len(bounds))
    q = torch.tensor(bounds, dtype=torch.float64).reshape(n, n)
    q = torch.maximum(q, q.T)
    kept = ts.screen_quartets(q, threshold)
    pairs = [(i, j) for i in range(n) for j in range(i + 1)]
    exact = {pair: Fraction(q[pair].item()) for pair in pairs}
    wanted = {
        frozenset([p, r])
        for p, r in itertools.combinations_with_replacement(pairs, 2)
        if exact[p] * exact[r] > Fraction(threshold)
    }
    found = [frozenset([tuple(row[:2]), tuple(row[2:])]) for row in kept.indices().tolist()]
    assert len(found) == len(set(found)) == len(kept)
    assert set(found) == wanted
    assert kept.total == len(pairs) * (len(pairs) + 1) // 2
    assert f"{len(wanted)} of {kept.total} quartets kept" in str(kept)


@pytest.mark.grid(1)
@pytest.mark.parametrize("value", [math.nan, -1.0, math.inf])
@pytest.mark.parametrize("screen", ["quartets", "density", "u", "w"])
def test_bounds_that_bound_nothing_are_refused(screen, value):
    bounds, line, b = torch.ones(3, 3), torch.ones(3), torch.ones(3, 1)
    bounds[1, 2] = bounds[2, 1] = value
    bad = line.clone()
    bad[2] = value
    call = {
        "quartets": lambda: ts.screen_quartets(bounds, 0.1),
        "density": lambda: ts.density_screen(bounds, torch.ones(3, 3), 0.1),
        "u": lambda: ts.screened_spmm(torch.ones(3, 3), bad, line, b, 0.1),
        "w": lambda: ts.screened_spmm(torch.ones(3, 3), line, bad, b, 0.1),
    }[screen]
    with pytest.raises(ArgumentError, match="expected a finite bound that is not negative") as caught:
        call()
    assert caught.value.argument == {"quartets": "bounds[1, 2]", "density": "bounds[1, 2]"}.get(screen, f"{screen}[2]")
    assert caught.value.got == value or math.isnan(value)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_screens_do_not_depend_on_the_scale_of_bounds(scale):
    """Squares of these leave float32."""
    a, b = gaussian((9, 9), 1), gaussian((9, 2), 2)
    u = torch.arange(9.0) * scale
    masked = torch.where(torch.outer(u.double(), u.double()) > 10.5 * scale * scale, a, 0)
    assert_within(ts.screened_spmm(a, u, u, b, 10.5 * scale * scale), masked.double() @ b.double(), bound(masked, b))
    kept = ts.density_screen(torch.outer(u, u.new_ones(9)), torch.full((9, 9), scale), 7.5 * 8 * scale**3)
    assert sorted(set(kept.row.tolist())) == [8]


def test_schwarz_bounds_hold_for_real_integrals():
    from pyscf import gto

    molecule = gto.M(atom="O 0 0 0; H 0 0.76 0.59; H 0 -0.76 0.59; H 0 0 9", basis="6-31g", spin=1, verbose=0)
    eri = torch.from_numpy(molecule.intor("int2e"))
    q = ts.schwarz_bounds(eri)
    # PySCF drops primitives below e**-60, the root of which is what a bound can miss, times the largest bound.
    missed = math.exp(-30) * float(q.max())
    # roots, and their product, are rounded
    limit = torch.einsum("ij,kl->ijkl", q, q) * (1 + gamma(4, q.dtype)) + missed
    assert bool((eri.abs() <= limit).all())
    assert torch.equal(q, ts.schwarz_bounds(torch.einsum("ijij->ij", eri)))
    kept = ts.screen_quartets(q, 1e-8)
    assert kept.fraction < 1
    lost = eri.clone()
    i, j, k, m = kept.indices().T
    for a, b, c, d in itertools.chain.from_iterable(
        [(w, x, y, z), (x, w, y, z), (w, x, z, y), (x, w, z, y), (y, z, w, x), (z, y, w, x), (y, z, x, w), (z, y, x, w)]
        for w, x, y, z in [(i, j, k, m)]
    ):
        lost[a, b, c, d] = 0
    assert float(lost.abs().max()) <= 1e-8 * (1 + gamma(4, q.dtype)) + missed


def test_density_screen_keeps_what_can_matter():
    q, p = gaussian((5, 5), 1, torch.float64).abs(), gaussian((5, 5), 2, torch.float64)
    made = ts.density_screen(q, p, 0.8)
    assert torch.equal(made.to_dense(), torch.where(q * p.abs() * q.max() > 0.8, p, 0))
    p[2, 3] = torch.nan
    assert bool(ts.density_screen(q, p, 0.8)[2, 3].isnan())


def test_numpy_bounds_are_taken():
    assert isinstance(ts.schwarz_bounds(np.ones((2, 2))), np.ndarray)


def test_mistakes_are_named():
    with pytest.raises(ArgumentError, match=r"shape of integrals is \(2, 3\)"):
        ts.schwarz_bounds(torch.ones(2, 3))
    with pytest.raises(ArgumentError, match="threshold is -1"):
        ts.screen_quartets(torch.ones(2, 2), -1)
    with pytest.raises(DtypeError, match="threshold is 1j"):
        ts.screen_quartets(torch.ones(2, 2), 1j)
    with pytest.raises(ArgumentError, match=r"shape of b is \(2,\), expected \[K, N\]"):
        ts.screened_spmm(torch.ones(2, 2), torch.ones(2), torch.ones(2), torch.ones(2), 0.0)
    with pytest.raises(ArgumentError, match="M differs: a has M=2, u has M=3"):
        ts.screened_spmm(torch.ones(2, 2), torch.ones(3), torch.ones(2), torch.ones(2, 1), 0.0)


def test_a_plan_names_the_product():
    a, b = ts.BSRMatrix.from_dense(torch.ones(2, 2)), torch.ones(2, 1)
    plan = trnsci.plan(ts.screened_spmm, a, torch.ones(2), torch.ones(2), b, 0.0)
    assert [step.op for step in plan.steps] == ["trnsparse::bsr_spmm"]
