"""Products by diagonals and by gathers on chip, over a gallery of patterns: SciPy's values within the stated bound."""

import dataclasses
import json
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import trnsci
import trnsparse as ts
from trnsci import ArgumentError
from trnsci.testing import assert_within, gamma, gaussian
from trnsparse import format_choice, sell_spmm


def _laplacian(*sizes):
    """The stencil of 3, 5 or 7 points on a grid."""
    total = sp.csr_array((1, 1))
    for size in sizes:
        line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(size, size))
        total = sp.kron(total, sp.eye_array(size)) + sp.kron(sp.eye_array(total.shape[0]), line)
    return sp.csr_array(total)


def _mesh(n):
    """Neighbours of points in the plane, in the order of reverse Cuthill-McKee."""
    from scipy.spatial import Delaunay

    triangles = Delaunay(np.random.default_rng(0).random((n, 2))).simplices
    i = np.concatenate([triangles[:, a] for a in (0, 1, 2)])
    j = np.concatenate([triangles[:, a] for a in (1, 2, 0)])
    pattern = sp.csr_array(sp.coo_array((np.ones(i.size), (i, j)), shape=(n, n)))
    pattern = sp.csr_array(pattern + pattern.T + sp.eye_array(n))
    order = sp.csgraph.reverse_cuthill_mckee(pattern, symmetric_mode=True)
    return sp.csr_array(pattern[order][:, order])


def _power_law(n, entries):
    rng = np.random.default_rng(1)
    weight = 1.0 / np.arange(1, n + 1)
    ends = [rng.permutation(n)[rng.choice(n, entries, p=weight / weight.sum())] for _ in range(2)]
    return sp.csr_array(sp.coo_array((np.ones(entries), tuple(ends)), shape=(n, n)))


def _circuit(n):
    """Local wires, a few long ones, and a node that all touch."""
    rng = np.random.default_rng(2)
    long = sp.coo_array((np.ones(n // 8), rng.integers(0, n, (2, n // 8))), shape=(n, n))
    rail = sp.coo_array((np.ones(n), (np.zeros(n, int), np.arange(n))), shape=(n, n))
    return sp.csr_array(_laplacian(n) + long + rail + rail.T)


def _rows(m, k):
    """Empty rows, a full one, and one entry."""
    dense = np.zeros((m, k))
    dense[m // 2] = 1
    dense[m - 1, 0] = 1
    return sp.csr_array(dense)


GALLERY = {
    "laplacian of a line": lambda: _laplacian(300),
    "laplacian of a square": lambda: _laplacian(17, 19),
    "laplacian of a cube": lambda: _laplacian(7, 6, 8),
    "mesh": lambda: _mesh(400),
    "circuit": lambda: _circuit(700),
    "power law": lambda: _power_law(1500, 9000),
    "banded, wide": lambda: sp.csr_array(sp.diags_array([1.0] * 9, offsets=range(-40, 50, 10), shape=(200, 320))),
    "banded, tall": lambda: sp.csr_array(sp.diags_array([1.0] * 3, offsets=(-150, -1, 20), shape=(260, 90))),
    "blocks": lambda: sp.csr_array(sp.block_diag([np.ones((6, 6))] * 40)),
    "random": lambda: sp.csr_array(sp.random_array((500, 400), density=0.02, random_state=np.random.default_rng(3))),
    "empty and full rows": lambda: _rows(140, 600),
    "one row": lambda: sp.csr_array(np.ones((1, 130))),
    "one entry": lambda: sp.csr_array(np.eye(1)),
}


def _matrix(name, dtype=torch.float32):
    pattern = GALLERY[name]()
    pattern.sum_duplicates()
    pattern.sort_indices()
    pattern.data = gaussian((pattern.nnz,), 4, torch.float64).numpy()
    return ts.CSRMatrix.from_scipy(pattern).to(dtype)


def _bound(a, b):
    wide = torch.complex128 if a.dtype.is_complex else torch.float64
    most = int(a.indptr.diff().max()) if a.nnz else 0
    size = a.abs().to(torch.float64).to_dense() @ b.abs().double()
    factor = 4 if wide is torch.complex128 else 1
    return factor * gamma(most + 2, a.dtype) * size + torch.finfo(torch.float32).tiny


def _routes(a, trans):
    return format_choice.count_routes(a.indptr, a.indices, a.shape[1], trans)


@pytest.mark.sim
@pytest.mark.parametrize("trans", [False, True], ids=["plain", "transposed"])
@pytest.mark.parametrize("name", GALLERY)
def test_every_route_is_scipys_product(name, trans):
    a = _matrix(name)
    b = gaussian((a.shape[0] if trans else a.shape[1], 2), 5)
    op_a = a.T if trans else a
    wanted = op_a.to(torch.float64).to_dense() @ b.double()
    for route in _routes(a, trans):
        with trnsci.backend("simulator"):
            assert_within(ts.spmm(a, b, trans=trans, format=route), wanted, _bound(op_a, b))


@pytest.mark.sim
@pytest.mark.parametrize("name", ["circuit", "power law", "laplacian of a square", "empty and full rows"])
def test_windows_and_exchange_both_hold_every_pattern(name):
    a, b = _matrix(name), gaussian((_matrix(name).shape[1], 1), 5)
    wanted = a.to(torch.float64).to_dense() @ b.double()
    pattern = a.indptr.numpy(), a.indices.numpy()
    for layout in (sell_spmm.count_near(*pattern), sell_spmm.count_far(*pattern, a.shape[1])):
        route = json.dumps(["sell", dataclasses.asdict(layout)])
        with trnsci.backend("simulator"):
            call = _call(a, b, route)
            assert_within(trnsci.run(call), wanted, _bound(a, b))


def _call(a, b, route):
    from trnsparse.spmm import Spmm

    return Spmm(a.indptr, a.indices, a.values, b, a.shape[1], False, route)


@pytest.mark.sim
@pytest.mark.parametrize("dtype", [torch.complex64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("route", ["dia", "sell"])
def test_other_dtypes_are_rounded_once(dtype, route):
    a = _matrix("laplacian of a square", dtype)
    b = gaussian((a.shape[1], 3), 6, dtype)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    wanted = a.to(wide).to_dense() @ b.to(wide)
    with trnsci.backend("simulator"):
        result = ts.spmm(a, b, format=route)
    single = a.to(torch.complex64 if dtype.is_complex else torch.float32)
    limit = _bound(single, b)
    if not dtype.is_complex:
        limit = limit + gamma(1, dtype) * (wanted.abs() + limit) + torch.finfo(dtype).smallest_normal
    assert_within(result, wanted, limit)


@pytest.mark.sim
@pytest.mark.parametrize("scale", [1e-18, 1e18])
def test_scales(scale):
    a, b = _matrix("mesh"), gaussian((400,), 7) * scale
    with trnsci.backend("simulator"):
        result = ts.spmv(a, b, format="sell")
    assert_within(result, a.to(torch.float64).to_dense() @ b.double(), _bound(a, b.unsqueeze(1))[:, 0])


@pytest.mark.sim
def test_gathers_keep_an_infinity_where_it_belongs():
    a, x = _matrix("random"), gaussian((400,), 8)
    x[17] = torch.inf
    with trnsci.backend("simulator"):
        result = ts.spmv(a, x, format="sell")
    met = a.to_dense()[:, 17] != 0
    assert torch.equal(result.isfinite(), ~met)


@pytest.mark.sim
@pytest.mark.parametrize("route", ["dia", "sell"])
def test_gradients_take_the_same_route(route):
    a, b = _matrix("laplacian of a square"), gaussian((323, 2), 9).requires_grad_()
    values = a.values.clone().requires_grad_()
    grad = gaussian((323, 2), 10)
    with trnsci.backend("simulator"), trnsci.ledger() as book:
        ts.spmm(a.with_values(values), b, format=route).backward(grad)
    assert [entry.step.op for entry in book].count("trnsparse::spmm") == 2
    assert_within(b.grad, a.T.to(torch.float64).to_dense() @ grad.double(), _bound(a.T, grad))
    at = a.to_coo()
    product = grad.double() @ b.detach().double().T
    limit = gamma(4, torch.float32) * (grad.abs().double() @ b.detach().abs().double().T)
    assert_within(values.grad, product[at.row, at.col], limit[at.row, at.col])


def test_the_choice_follows_the_structure():
    stencil, mesh = (ts.CSRMatrix.from_scipy(a).to(torch.float32) for a in (_laplacian(150, 150), _mesh(20000)))
    assert ts.choose(stencil, 1).format == ts.choose(stencil, 64).format == "dia"
    found = ts.choose(mesh, 1)
    assert found.format == "sell"
    assert "assumed" in found.reason
    assert found.seconds["dia"] is None
    assert ts.choose(ts.CSRMatrix.from_dense(torch.ones(256, 256)), 512).format in ("bsr", "dense")


def test_planning_counts_and_builds_nothing(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a plan converted or arranged the matrix")

    for kind in (ts.CSRMatrix, ts.COOMatrix):
        monkeypatch.setattr(kind, "to_bsr", refuse)
        monkeypatch.setattr(kind, "to_dense", refuse)
    monkeypatch.setattr(sys.modules["trnsparse.spmm"], "arrange", refuse)
    a = ts.CSRMatrix.from_scipy(
        sp.random_array((20000, 20000), density=4e-4, random_state=np.random.default_rng(0), format="csr")
    )
    with trnsci.backend("simulator"):
        plan = trnsci.plan(ts.spmv, a.to(torch.float32), torch.zeros(20000))
    assert "sell is predicted fastest" in str(plan)


def test_one_program_serves_patterns_of_one_class():
    layouts = set()
    for seed in range(3):
        columns = np.random.default_rng(seed).integers(0, 50, (2000, 4)).cumsum(1) + np.arange(2000)[:, None] % 100
        indptr, indices = np.arange(0, 8001, 4), np.sort(columns, 1).ravel()
        layout = sell_spmm.count_far(indptr, indices, 2000)
        layouts.add((layout.slices, layout.chunks, layout.chunk))
    assert len(layouts) == 1


def test_a_format_a_pattern_does_not_have_is_refused():
    a = _matrix("power law")
    with trnsci.backend("simulator"), pytest.raises(ArgumentError, match="few diagonals") as caught:
        ts.spmv(a, torch.zeros(1500), format="dia")
    assert caught.value.got == "dia"
