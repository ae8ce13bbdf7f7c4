"""Batches of small matrices, a matrix in each partition: bounds, singular ones, launches in pieces, predicted times."""

import numpy as np
import pytest
import torch

import trnsci
import trnsolver as ts
from trnsci import NotPositiveDefinite, Singular
from trnsci.testing import gaussian, unit_roundoff
from trnsolver.batched import batches

U = unit_roundoff(torch.float32)


@pytest.fixture
def launches(monkeypatch):
    """Names of the kernels launched, in order."""
    names, start = [], batches.launch

    def watch(kernel, *tensors, **static):
        names.append(kernel.function.__name__)
        return start(kernel, *tensors, **static)

    monkeypatch.setattr(batches, "launch", watch)
    return names


def _norm(x):
    return np.linalg.norm(x.to(torch.complex128).numpy(), 2, axis=(-2, -1))


SIZES = [pytest.param(21, id="21"), pytest.param(64, id="64", marks=pytest.mark.slow)]


@pytest.mark.parametrize("n", SIZES)
def test_factors_of_hard_matrices(n, hard, launches):
    a, limit = hard(n, 2).float(), 20 * n * U
    with trnsci.backend("simulator"):
        (factors, pivots), (q, r) = ts.lu_factor(a), ts.qr(a)
    assert launches == ["batched_lu", "batched_qr"]
    p, lower, upper = torch.lu_unpack(factors.double(), pivots)
    growth = np.maximum(1.0, (upper.abs().amax((-2, -1)) / a.double().abs().amax((-2, -1)).clamp_min(1e-300)).numpy())
    assert (_norm(p @ lower @ upper - a.double()) <= limit * growth * _norm(a)).all()
    assert (lower.abs() <= 1.0).all()
    assert (_norm(q.double() @ r.double() - a.double()) <= limit * _norm(a)).all()
    assert (_norm(q.double().mT @ q.double() - torch.eye(n)) <= limit).all()


@pytest.mark.parametrize("n", SIZES)
def test_spectra_of_hard_matrices(n, hard, launches):
    a, limit = hard(n, 8 if n > 32 else 4).float(), 20 * n * U
    h = 0.5 * (a + a.mT)
    with trnsci.backend("simulator"):
        w, v = ts.eigh(h)
        u, s, vh = ts.svd(a)
    assert {"batched_eigh", "batched_svd", "batched_qr"} == set(launches)
    assert (_norm((v * w.unsqueeze(-2)).double() @ v.double().mT - h.double()) <= limit * _norm(h)).all()
    assert (_norm((u * s.unsqueeze(-2)).double() @ vh.double() - a.double()) <= limit * _norm(a)).all()
    for basis in (v, u, vh):
        assert (_norm(basis.double().mT @ basis.double() - torch.eye(n)) <= limit).all()


@pytest.mark.parametrize("n", SIZES)
def test_systems_and_definite_matrices(n, launches):
    # as many scales as make partitions hold more than one matrix
    q, _ = np.linalg.qr(gaussian((n, n), 3, torch.float64).numpy())
    a = torch.from_numpy((q * np.logspace(0, -7, n)) @ q.T)
    a = torch.stack([a * 10.0**k for k in range(-30, 31)] * 3).float()
    scale = torch.from_numpy(_norm(a))[:, None, None]
    spd = a.double() @ a.double().mT / scale + 1e-5 * scale * torch.eye(n)
    spd, b, limit = (0.5 * (spd + spd.mT)).float(), gaussian((len(a), n, 2), 5), 20 * n * U
    with trnsci.backend("simulator"):
        factor, x = ts.cholesky(spd), ts.solve(a, b)
    # no scale counts as growth, for which there is QR
    assert set(launches) == {"batched_cholesky", "batched_lu", "batched_triangular"}
    assert (_norm(factor.double() @ factor.double().mT - spd.double()) <= limit * _norm(spd)).all()
    left = _norm(b.double() - a.double() @ x.double())
    assert (left <= limit * (_norm(a) * _norm(x) + _norm(b))).all()


@pytest.mark.parametrize("shape", [(3, 1, 1), (2, 2, 2), (129, 3, 3), (2, 9, 4), (2, 4, 9), (260, 5, 5)], ids=str)
def test_edges(shape):
    a = gaussian(shape, 1)
    with trnsci.backend("simulator"):
        factors, pivots = ts.lu_factor(a)
        q, r = ts.qr(a)
        u, s, vh = ts.svd(a, full_matrices=False)
    expected, exchanged = torch.linalg.lu_factor(a)
    assert torch.equal(pivots, exchanged)
    torch.testing.assert_close(factors, expected, rtol=0, atol=40 * max(shape) * U * float(expected.abs().max()))
    torch.testing.assert_close(q @ r, a, rtol=0, atol=40 * max(shape) * U * float(a.abs().max()))
    torch.testing.assert_close((u * s.unsqueeze(-2)) @ vh, a, rtol=0, atol=40 * max(shape) * U * float(_norm(a).max()))


def test_complex_matrices(hard, launches):
    n, limit = 7, 20 * 7 * U
    a = (hard(n) * torch.exp(1j * torch.linspace(0, 6, n, dtype=torch.float64))).to(torch.complex64)
    wide = a.to(torch.complex128)
    spd = wide @ wide.mH
    scale = torch.from_numpy(np.maximum(_norm(spd), 1e-20))[:, None, None]
    spd = (spd / scale + 1e-4 * torch.eye(n)).to(torch.complex64)
    with trnsci.backend("simulator"):
        p, lower, upper = (x.to(torch.complex128) for x in ts.lu(a))
        q, r = (x.to(torch.complex128) for x in ts.qr(a))
        factor, inverse = ts.cholesky(spd), ts.inv(spd)
    assert {"batched_lu", "batched_qr", "batched_cholesky", "batched_triangular"} == set(launches)
    growth = np.maximum(1.0, (upper.abs().amax((-2, -1)) / wide.abs().amax((-2, -1)).clamp_min(1e-300)).numpy())
    assert (_norm(p @ lower @ upper - wide) <= limit * growth * _norm(a)).all()
    assert (_norm(q @ r - wide) <= limit * _norm(a)).all()
    assert (_norm(q.mH @ q - torch.eye(n)) <= limit).all()
    assert not factor.diagonal(dim1=-2, dim2=-1).imag.any()
    assert not r.diagonal(dim1=-2, dim2=-1).imag.any()
    factor, spd, inverse = (x.to(torch.complex128) for x in (factor, spd, inverse))
    assert (_norm(factor @ factor.mH - spd) <= limit * _norm(spd)).all()
    assert (_norm(spd @ inverse - torch.eye(n)) <= limit * _norm(spd) * _norm(inverse)).all()


@pytest.mark.parametrize(("lower", "unit"), [(True, False), (False, True)])
def test_only_the_triangle_is_read(lower, unit):
    triangle = gaussian((5, 7, 7), 1).tril(-1) / 7 + 2 * torch.eye(7)
    triangle = triangle if lower else triangle.mT
    other = torch.full((5, 7, 7), torch.nan)
    a = triangle + (other.triu(1) if lower else other.tril(-1)).nan_to_num(1e30)
    read = (triangle - triangle.diagonal(dim1=-2, dim2=-1).diag_embed() + torch.eye(7) if unit else triangle).double()
    b = gaussian((5, 7, 3), 2)
    with trnsci.backend("simulator"):
        x = ts.solve_triangular(a, b, upper=not lower, unitriangular=unit)
        inverse = ts.inv_triangular(a, lower=lower, unit=unit)
    assert (_norm(b.double() - read @ x.double()) <= 20 * 7 * U * _norm(read) * _norm(x)).all()
    assert (_norm(inverse.double() @ read - torch.eye(7)) <= 20 * 7 * U * _norm(read) * _norm(inverse)).all()


def test_singular_and_indefinite_ones_are_named():
    a = gaussian((6, 8, 8), 1)
    a[3, :, 4] = 0.0
    with trnsci.backend("simulator"):
        factors, pivots = ts.lu_factor(a)
        with pytest.raises(Singular, match=r"batch \(3,\)"):
            ts.solve(a, gaussian((6, 8, 1), 2))
        assert float(ts.det(a)[3]) == 0.0
    expected, exchanged, _ = torch.linalg.lu_factor_ex(a)
    assert torch.equal(pivots, exchanged)
    torch.testing.assert_close(factors, expected, rtol=0, atol=1e-4)
    spd = a @ a.mT + torch.eye(8)
    spd[2, 5, 5] = -1.0
    with trnsci.backend("simulator"), pytest.raises(NotPositiveDefinite) as caught:
        ts.cholesky(spd)
    with trnsci.backend("pytorch"), pytest.raises(NotPositiveDefinite) as expected_error:
        ts.cholesky(spd)
    assert str(caught.value) == str(expected_error.value)


def test_launches_in_pieces_have_the_bits_of_the_whole(launches, monkeypatch):
    a = gaussian((140, 4, 4), 1)

    def all_of_them():
        with trnsci.backend("simulator"):
            return *ts.lu_factor(a), *ts.eigh(a + a.mT), ts.inv_triangular(a.tril() + 4 * torch.eye(4), lower=True)

    whole, names = all_of_them(), set(launches)
    launches.clear()
    # 128 matrices fill the partitions once; a program of one instruction holds no more
    monkeypatch.setattr(batches, "BYTES", 1)
    monkeypatch.setenv("TRNSCI_PROGRAM_INSTRUCTIONS", "1")
    for x, y in zip(whole, all_of_them(), strict=True):
        assert torch.equal(x, y)
    assert {name: launches.count(name) for name in names} == dict.fromkeys(names, 2)


def _milliseconds(fn, *shapes):
    with trnsci.backend("simulator"):
        plan = trnsci.plan(fn, *(torch.empty(shape, device="meta") for shape in shapes))
    return 1e3 * plan.predicted["trn2"]


def test_predicted_times_of_a_thousand():
    many = (1024, 32, 32)
    assert _milliseconds(ts.cholesky, many) <= 0.2
    assert _milliseconds(ts.solve, many, (1024, 32, 1)) <= 0.8
    assert _milliseconds(ts.eigh, (1024, 8, 8)) <= 0.3


@pytest.mark.parametrize("name", ["cholesky", *(pytest.param(x, marks=pytest.mark.slow) for x in ("lu", "qr"))])
def test_batches_are_taken_where_they_are_predicted_to_be_faster(name, monkeypatch):
    module = __import__(f"trnsolver.dense.{name}", fromlist=["pays"])
    op = {"cholesky": ts.cholesky, "lu": ts.lu_factor, "qr": ts.qr}[name]
    for most, first in module.LEAST:
        taken = _milliseconds(op, (first, most, most))
        with monkeypatch.context() as patch:
            patch.setattr(module, "pays", lambda least, a: False)
            assert taken <= _milliseconds(op, (first, most, most))


@pytest.mark.slow
def test_a_thousand():
    a = gaussian((1024, 32, 32), 1)
    with trnsci.backend("simulator"):
        w = ts.eigh(a + a.mT).values
        x = ts.solve(a, gaussian((1024, 32, 1), 2))
    expected = torch.linalg.eigvalsh((a + a.mT).double())
    assert ((w - expected).abs().amax(-1) <= 20 * 32 * U * expected.abs().amax(-1)).all()
    left = _norm(gaussian((1024, 32, 1), 2).double() - a.double() @ x.double())
    assert (left <= 20 * 32 * U * (_norm(a) * _norm(x) + 8.0)).all()
