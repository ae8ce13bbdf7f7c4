"""Every option of ``torch.linalg``, under its name and in its place, with torch as the oracle."""

import numpy as np
import pytest
import torch

import trnsolver as ts
from tests.together import together
from trnsci import ArgumentError, DtypeError
from trnsci.testing import BACKENDS, gaussian, unit_roundoff

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)
A, B = gaussian((2, 5, 5), 1, torch.float64), gaussian((2, 5, 3), 2, torch.float64)
SPD = A @ A.mT + torch.eye(5, dtype=torch.float64)

CALLS = {
    "cholesky": ((SPD,), {}),
    "cholesky_inverse": ((torch.linalg.cholesky(SPD),), {}),
    "cholesky_solve": ((B, torch.linalg.cholesky(SPD)), {}),
    "cond": ((A,), {}),
    "det": ((A,), {}),
    "eig": ((A,), {}),
    "eigh": ((SPD,), {}),
    "eigvals": ((A,), {}),
    "eigvalsh": ((SPD,), {}),
    "geqrf": ((A,), {}),
    "householder_product": (torch.geqrf(A), {}),
    "inv": ((A,), {}),
    "lu": ((A,), {}),
    "lu_factor": ((A,), {}),
    "lu_solve": ((*torch.linalg.lu_factor(A), B), {}),
    "matrix_rank": ((A,), {}),
    "ormqr": ((*torch.geqrf(A), A), {}),
    "pinv": ((A,), {}),
    "qr": ((A,), {}),
    "slogdet": ((A,), {}),
    "solve": ((A, B), {}),
    "solve_triangular": ((A, B), {"upper": True}),
    "svd": ((A,), {}),
    "svdvals": ((A,), {}),
}


@together("name", CALLS)
def test_results_go_where_out_says(name):
    args, options = CALLS[name]
    expected = getattr(ts, name)(*args, **options)
    many = isinstance(expected, tuple)
    out = tuple(torch.empty_like(x) for x in expected) if many else torch.empty_like(expected)
    found = getattr(ts, name)(*args, **options, out=out)
    if not many:
        assert found is out
        assert torch.equal(out, expected)
        return
    assert type(found) is type(expected)
    for got, target, wanted in zip(found, out, expected, strict=True):
        assert got is target
        assert torch.equal(target, wanted)


@together("name", CALLS)
def test_an_out_that_does_not_fit_is_refused_and_left_alone(name):
    args, options = CALLS[name]
    expected = getattr(ts, name)(*args, **options)
    results = expected if isinstance(expected, tuple) else (expected,)
    last = results[-1]
    for wrong, error in (
        (last.new_zeros((*last.shape, 2)), ArgumentError),
        (last.new_zeros(last.shape, dtype=torch.int8), DtypeError),
    ):
        out = [*(torch.zeros_like(x) for x in results[:-1]), wrong]
        with pytest.raises(error, match=f"{name}: .* of out is"):
            getattr(ts, name)(*args, **options, out=tuple(out) if isinstance(expected, tuple) else out[0])
        assert not any(x.any() for x in out)


def test_out_may_be_numpys_and_may_not_share_memory():
    a = A[0].numpy().copy()
    out = np.empty_like(a)
    assert ts.inv(a, out=out) is out
    assert np.array_equal(out, ts.inv(a))
    with pytest.raises(ArgumentError, match="memory shared with a"):
        ts.inv(A, out=A)
    with pytest.raises(ArgumentError, match="number of tensors in out is 1, expected 2"):
        ts.qr(A, out=(torch.empty_like(A),))
    with pytest.raises(ArgumentError, match=r"memory shared with out\[0\]"):
        ts.qr(A, out=(memory := torch.empty_like(A), memory.mT))
    with pytest.raises(ArgumentError, match="elements share memory"):
        ts.inv(A[0], out=A.new_empty(99).as_strided(A[0].shape, (1, 1)))
    with pytest.raises(ArgumentError, match="out is int"):
        ts.qr(A, out=5)


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_systems_from_the_right(backend, dtype):
    a, b = gaussian((2, 6, 6), 1, dtype), gaussian((2, 3, 6), 2, dtype)
    h = a @ a.mH + 6 * torch.eye(6, dtype=dtype)
    factors = ts.lu_factor(a)
    with backend:
        plain, positive = ts.solve(a, b, left=False), ts.solve(h, b, left=False, assume="pos")
        solved = ts.lu_solve(*factors, b, left=False)
        turned = ts.lu_solve(*factors, b, left=False, adjoint=True)
    for x, matrix in ((plain, a), (positive, h), (solved, a), (turned, a.mH)):
        limit = (
            20 * 6 * unit_roundoff(dtype) * (torch.linalg.norm(matrix) * torch.linalg.norm(x) + torch.linalg.norm(b))
        )
        assert torch.linalg.norm(x @ matrix - b) <= limit
    with pytest.raises(ArgumentError, match="left=False right-hand sides are rows"):
        ts.solve(a, b.mT, left=False)


@pytest.mark.grid(1)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 5), (5, 3), (1, 1)])
def test_factors_without_exchanges_are_torchs(dtype, shape):
    a = gaussian(shape, 1, dtype)
    k = min(shape[-2:])
    a = a + 4 * torch.eye(*shape[-2:], dtype=dtype)  # far from needing any
    factors, pivots = ts.lu_factor(a, pivot=False)
    assert pivots.dtype == torch.int32
    assert torch.equal(pivots, torch.arange(1, k + 1, dtype=torch.int32).expand(*shape[:-2], k))
    wide = a.to(torch.complex128)
    p, lower, upper = torch.lu_unpack(factors.to(torch.complex128), pivots)
    size = torch.linalg.norm(lower) * torch.linalg.norm(upper)
    assert torch.linalg.norm(p @ lower @ upper - wide) <= 20 * max(shape[-2:]) * unit_roundoff(dtype) * size


@pytest.mark.parametrize("UPLO", ["L", "U"])
def test_triangles_by_torchs_name(UPLO):
    a = gaussian((3, 4, 4), 1, torch.complex128)
    values, vectors = ts.eigh(a, UPLO)
    assert torch.allclose(values, torch.linalg.eigh(a, UPLO).eigenvalues)
    assert torch.equal(ts.eigvalsh(a, UPLO=UPLO), ts.eigvalsh(a, uplo=UPLO))
    assert torch.allclose(ts.eigvalsh(a, UPLO), values)
    whole = torch.linalg.eigvalsh(a.triu() + a.triu(1).mH if UPLO == "U" else a.tril() + a.tril(-1).mH)
    assert torch.allclose(values, whole)
    assert vectors.shape == a.shape


TOLERANCES = [
    {},
    {"rtol": 0.3},
    {"atol": 1.0},
    {"atol": 1.0, "rtol": 0.5},
    {"atol": torch.tensor([0.1, 3.0], dtype=torch.float64)},
    {"rtol": torch.tensor([0.01, 0.6], dtype=torch.float64), "atol": torch.tensor([0.2, 0.1], dtype=torch.float64)},
]


@pytest.mark.grid(1)
@pytest.mark.parametrize("options", TOLERANCES, ids=str)
@pytest.mark.parametrize("hermitian", [False, True])
def test_what_counts_as_zero(options, hermitian):
    a = A + A.mT if hermitian else gaussian((2, 6, 4), 3, torch.float64)
    found = ts.pinv(a, **options, hermitian=hermitian)
    expected = torch.linalg.pinv(a, **options, hermitian=hermitian)
    bound = (
        2 * 20 * a.shape[-2] * 2.0**-53 * torch.linalg.matrix_norm(a, 2) * torch.linalg.matrix_norm(expected, 2) ** 2
    )
    assert (torch.linalg.matrix_norm(found - expected, 2) <= bound).all()
    rank = ts.matrix_rank(a, **options, hermitian=hermitian)
    assert torch.equal(rank, torch.linalg.matrix_rank(a, **options, hermitian=hermitian))


def test_numpys_name_for_the_relative_tolerance():
    a = gaussian((6, 4), 3, torch.float64)
    assert torch.equal(ts.pinv(a, 0.3), ts.pinv(a, rtol=0.3))
    assert np.allclose(ts.pinv(a.numpy(), 0.3), np.linalg.pinv(a.numpy(), 0.3))
    with pytest.raises(ArgumentError, match=r"rcond is 0\.1, expected None with rtol=0\.2"):
        ts.matrix_rank(a, rcond=0.1, rtol=0.2)


@pytest.mark.parametrize("hermitian", [False, True])
def test_gradients_of_pseudoinverses_of_low_rank(hermitian):
    x = gaussian((5, 2), 1, torch.float64)
    a = (x @ x.mT if hermitian else x @ gaussian((2, 4), 2, torch.float64)).requires_grad_()
    ts.pinv(a, rtol=1e-8, hermitian=hermitian).square().sum().backward()
    assert torch.isfinite(a.grad).all()


def test_options_stand_where_torch_has_them():
    assert ts.qr(A, "complete").q.shape == torch.linalg.qr(A, "complete").Q.shape
    assert ts.svd(B, False).u.shape == torch.linalg.svd(B, False).U.shape
    assert torch.allclose(ts.cond(A, 1), torch.linalg.cond(A, 1))
    assert torch.allclose(ts.cholesky_solve(B, torch.linalg.cholesky(SPD).mT, True), torch.linalg.solve(SPD, B))
    assert ts.schur(A, "complex").t.is_complex()


def test_options_that_do_not_go_with_a_target():
    for options, name in (({"left": False}, "left"), ({"out": torch.empty(5)}, "out")):
        with pytest.raises(ArgumentError, match=name):
            ts.solve(A[0], B[0], target_error=1e-10, **options)
    with pytest.raises(ArgumentError, match="out is"):
        ts.eigh(SPD[0], target_error=1e-10, out=(torch.empty(5), torch.empty(5, 5)))


NAMED = ["eig", "eigh", "geqrf", "lu", "lu_factor", "qr", "slogdet", "svd"]


@together("name", NAMED)
def test_results_have_the_names_of_torch(name):
    args, _ = CALLS[name]
    found = getattr(ts, name)(*args)
    expected = (getattr(torch.linalg, name, None) or getattr(torch, name))(*args)
    names = {"eig": "eigenvalues eigenvectors", "eigh": "eigenvalues eigenvectors", "geqrf": "a tau", "lu": "P L U"}
    names |= {"lu_factor": "LU pivots", "qr": "Q R", "slogdet": "sign logabsdet", "svd": "U S Vh"}
    for place, field in enumerate(names[name].split()):
        assert torch.equal(getattr(expected, field), expected[place])
        assert getattr(found, field) is found[place]


def test_options_may_stand_where_torch_has_them():
    factor = torch.linalg.cholesky(SPD)
    assert torch.equal(ts.cholesky_inverse(factor.mH, True), ts.cholesky_inverse(factor.mH, upper=True))
    packed = torch.geqrf(A)
    rounding = 2 * 20 * A.shape[-1] * 2.0**-53
    assert (ts.ormqr(*packed, A, False, True) - torch.ormqr(*packed, A, False, True)).norm() <= rounding * A.norm()
    expected = torch.linalg.lstsq(A, B, 1e-3).solution
    limit = rounding * float(torch.linalg.cond(A).max()) * float(expected.norm())
    assert (ts.lstsq(A, B, 1e-3).solution - expected).norm() <= limit
