"""Backward errors of at most 20 N u on matrices that factorisations find hard, on every backend."""

import importlib

import numpy as np
import pytest
import scipy.linalg
import torch

import trnsolver as ts
from trnsci import NumericalError, Singular
from trnsci.testing import BACKENDS, gaussian, unit_roundoff

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)
# Every dtype on every backend, of kernels those of double precision in the slow group; and more than one tile.
CASES = [
    pytest.param(
        each,
        dtype,
        11 if dtype == torch.complex128 else 21,
        marks=pytest.mark.slow if each.runs_kernels and unit_roundoff(dtype) < 2.0**-30 else (),
    )
    for each in BACKENDS
    for dtype in DTYPES
]
LARGE = [
    pytest.param(backend, torch.float32, 130, marks=pytest.mark.slow) for backend in BACKENDS if backend.runs_kernels
]


def _matrix(family, n, dtype):
    a = torch.from_numpy(family(n))
    if dtype.is_complex:
        # A unitary diagonal on one side keeps singular values and leaves nothing real.
        phases = torch.exp(1j * torch.linspace(0, 6, n, dtype=torch.float64))
        a = a.to(torch.complex128) * phases
    return a.to(dtype)


def _wide(*tensors):
    return [x.to(torch.complex128 if x.is_complex() else torch.float64) for x in tensors]


def _limit(a):
    return 20 * max(a.shape[-2:]) * unit_roundoff(a.dtype)


@pytest.mark.grid(1)
@pytest.mark.parametrize(("backend", "dtype", "n"), CASES + LARGE, ids=str)
def test_lu_and_qr(backend, dtype, n, family, norm):
    a = _matrix(family, n, dtype)
    with backend:
        q, r = _wide(*ts.qr(a))
    assert norm(q @ r - _wide(a)[0]) <= _limit(a) * norm(a)
    assert norm(q.mH @ q - torch.eye(n, dtype=q.dtype)) <= _limit(a)
    with backend:
        if np.abs(scipy.linalg.lu(family(n))[2]).max() > torch.finfo(dtype).max:
            with pytest.raises(NumericalError, match="overflows"):
                ts.lu(a)
            return
        p, lower, upper = _wide(*ts.lu(a))
    growth = max(1.0, float(upper.abs().max()) / max(float(a.abs().max()), 1e-300))
    assert norm(p @ lower @ upper - _wide(a)[0]) <= _limit(a) * growth * norm(a)


@pytest.mark.grid(1)
@pytest.mark.parametrize(("backend", "dtype", "n"), CASES + LARGE, ids=str)
def test_systems(backend, dtype, n, family, norm):
    a, b = _matrix(family, n, dtype), gaussian((n, 2), 5, dtype)
    with backend:
        try:
            x = ts.solve(a, b)
        except Singular:
            # LAPACKs differ in whether rounding leaves an exact zero on the diagonal
            assert np.linalg.matrix_rank(family(n)) < n
            return
    (wide, right), found = _wide(a, b), _wide(x)[0]
    assert norm(right - wide @ found) <= _limit(a) * (norm(a) * norm(x) + norm(b))


@pytest.mark.grid(1)
@pytest.mark.parametrize(("backend", "dtype", "n"), CASES + LARGE, ids=str)
def test_cholesky(backend, dtype, n, family, norm):
    x = _matrix(family, n, dtype)
    x = x / max(float(x.abs().max()), 1e-30)
    a = x @ x.mH
    # As near to singular as the factorisation survives.
    a = 0.5 * (a + a.mH) + n * 4 * unit_roundoff(dtype) * max(norm(a), 1.0) * torch.eye(n, dtype=dtype)
    b = gaussian((n, 2), 5, dtype)
    with backend:
        factor, solved = ts.cholesky(a), ts.solve_spd(a, b)
    (wide, right), (factor, solved) = _wide(a, b), _wide(factor, solved)
    assert norm(factor @ factor.mH - wide) <= _limit(a) * norm(a)
    assert norm(right - wide @ solved) <= _limit(a) * (norm(a) * norm(solved) + norm(b))


@pytest.mark.grid(1)
@pytest.mark.parametrize(("backend", "dtype", "n"), CASES, ids=str)
def test_spectra(backend, dtype, n, family, norm):
    a = _matrix(family, n, dtype)
    h = 0.5 * (a + a.mH)
    with backend:
        w, v = ts.eigh(h)
        u, s, vh = ts.svd(a)
    wide, (v, u, vh) = torch.complex128, (x.to(torch.complex128) for x in (v, u, vh))
    eye = torch.eye(n, dtype=wide)
    assert norm(v * w @ v.mH - h.to(wide)) <= _limit(a) * norm(h)
    assert norm(u * s @ vh - a.to(wide)) <= _limit(a) * norm(a)
    for basis in (v, u, vh):
        assert norm(basis.mH @ basis - eye) <= _limit(a)
    expected = np.linalg.svd(a.to(wide).numpy(), compute_uv=False)
    assert np.abs(s.numpy() - expected).max() <= _limit(a) * norm(a)


@pytest.mark.grid(1)
@pytest.mark.parametrize(("backend", "dtype", "n"), CASES, ids=str)
def test_polar_and_least_squares(backend, dtype, n, family, norm):
    a, b = _matrix(family, 8, dtype), gaussian((8, 2), 5, dtype)
    with backend:
        u, p = ts.polar(a)
        x = ts.lstsq(a, b).solution
    assert norm(_wide(u)[0] @ _wide(p)[0] - _wide(a)[0]) <= 2 * _limit(a) * norm(a)
    # Rank is a matter of rounding here; whatever it was taken for, the residual is no longer than b.
    assert torch.isfinite(x).all()
    assert norm(_wide(b)[0] - _wide(a)[0] @ _wide(x)[0]) <= norm(b) + _limit(a) * (norm(a) * norm(x) + norm(b))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_double_precision_is_corrected_single_precision_not_the_host(dtype, norm, monkeypatch):
    n = 24
    a, b = gaussian((2, n, n), 1, dtype), gaussian((2, n, 3), 2, dtype)
    # one of them far from 1, which changes nothing for the other
    a[1] *= 1e200
    spd = a[:1] @ a[:1].mH + torch.eye(n, dtype=dtype)
    expected = torch.linalg.svdvals(a[0])

    def refused(*_, **__):
        raise AssertionError("LAPACK was called")

    names = ["eigh", "svd"]
    if not dtype.is_complex:
        # complex64 itself has its blocks of 64 columns from LAPACK
        names += ["cholesky_ex", "lu_factor_ex", "solve_triangular"]
        monkeypatch.setattr(importlib.import_module("trnsolver.dense.qr").QrFactor, "pytorch", refused)
    for name in names:
        monkeypatch.setattr(torch.linalg, name, refused)
    with BACKENDS[-1]:
        factor, x, (q, r), (u, s, vh) = ts.cholesky(spd), ts.solve(a, b), ts.qr(a), ts.svd(a[0])
        values, vectors = ts.eigh(spd[0])
    assert norm(factor @ factor.mH - spd) <= _limit(a) * norm(spd)
    for each, right, found, basis, triangle in zip(a, b, x, q, r, strict=True):
        assert norm(right - each @ found) <= _limit(a) * (norm(each) * norm(found) + norm(right))
        assert norm(basis @ triangle - each) <= _limit(a) * norm(each)
        assert norm(basis.mH @ basis - torch.eye(n, dtype=dtype)) <= _limit(a)
    assert norm(u * s @ vh - a[0]) <= _limit(a) * norm(a[0])
    assert float((s - expected).abs().max()) <= _limit(a) * norm(a[0])
    assert norm(vectors * values @ vectors.mH - spd[0]) <= _limit(a) * norm(spd)
