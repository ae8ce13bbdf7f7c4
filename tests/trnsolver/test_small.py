"""Batches of small matrices and triangular systems by compiled loops: LAPACK's answers, within the same bounds."""

import pytest
import torch

from trnsci import ArgumentError, DtypeError, Singular, native
from trnsci.testing import gaussian
from trnsolver import (
    cholesky,
    cholesky_solve,
    inv,
    lapack,
    lu_factor,
    lu_inverse,
    lu_solve,
    qr,
    small,
    solve,
    solve_triangular,
)
from trnsolver.arguments import roundoff

pytestmark = pytest.mark.skipif(native.why_not() is not None, reason="needs a C compiler")
DTYPES = [torch.float32, torch.float64]
# around the vectors' lengths and the largest size
SIZES = [8, 15, 17, 33, 64]


def norm(x):
    return float(torch.linalg.matrix_norm(x.double()).max())


def batch(m, n, dtype, seed=1):
    return gaussian((6, m, n), seed, dtype=torch.float64).to(dtype)


def layouts(a):
    """The same matrices by rows, by columns, and with gaps."""
    wide = a.new_zeros((*a.shape[:-1], 2 * a.shape[-1]))
    wide[..., ::2] = a
    return {"rows": a, "columns": a.mT.contiguous().mT, "gaps": wide[..., ::2]}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("layout", ["rows", "columns", "gaps"])
def test_cholesky(dtype, n, layout):
    x = batch(n, n, dtype)
    a = x @ x.mT + torch.eye(n, dtype=dtype)
    given = layouts(a.tril() + torch.full_like(a, float("nan")).triu(1))[layout]
    assert small.serves(given)
    factor, info = small.cholesky(given)
    assert not bool(info.any())
    assert torch.equal(factor, factor.tril())
    assert factor.mT.is_contiguous()
    assert norm(factor.double() @ factor.double().mT - a) <= 20 * n * roundoff(dtype) * norm(a)


def test_cholesky_names_the_first_minor():
    a = torch.eye(16).repeat(5, 1, 1)
    a[3, 7, 7], a[3, 9, 9] = -1.0, -1.0
    assert small.cholesky(a)[1].tolist() == [0, 0, 0, 8, 0]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(n, n) for n in SIZES] + [(20, 33), (33, 20), (64, 8), (8, 64), (1, 16)], ids=str)
@pytest.mark.parametrize("layout", ["rows", "columns", "gaps"])
def test_lu_has_lapacks_pivots(dtype, shape, layout):
    a = batch(*shape, dtype)
    factors, pivots = small.lu(layouts(a)[layout])
    expected = torch.linalg.lu_factor(a)
    assert torch.equal(pivots, expected.pivots)
    assert factors.stride() == expected.LU.stride()
    p, lower, upper = torch.lu_unpack(factors.double(), pivots)
    assert norm(p @ lower @ upper - a) <= 20 * max(shape) * roundoff(dtype) * norm(lower) * norm(upper)


def test_lu_of_singular_matrices():
    a = torch.zeros(4, 16, 16)
    a[1, 0] = 1.0
    factors, pivots = small.lu(a)
    assert torch.equal(factors[0], a[0])
    assert pivots[0].tolist() == list(range(1, 17))
    p, lower, upper = torch.lu_unpack(factors, pivots)
    assert torch.equal(p @ lower @ upper, a)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(n, n) for n in SIZES] + [(20, 33), (33, 20), (64, 8), (8, 64)], ids=str)
@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
def test_qr(dtype, shape, mode):
    a = batch(*shape, dtype)
    m, n = shape
    a[2, :, n // 2] = 0.0
    assert small.serves(a)
    q, r = qr(a, mode=mode)
    expected = torch.linalg.qr(a, mode)
    assert [t.stride() for t in (q, r)] == [t.stride() for t in expected]
    assert [t.shape for t in (q, r)] == [t.shape for t in expected]
    assert torch.equal(r, r.triu())
    if mode == "r":
        return
    bound = 20 * m * roundoff(dtype)
    assert norm(q.double() @ r.double() - a) <= bound * norm(a)
    assert norm(q.double().mT @ q.double() - torch.eye(q.shape[-1])) <= bound


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_qr_neither_overflows_nor_vanishes(scale):
    a = batch(16, 16, torch.float32) * scale
    q, r = qr(a)
    assert norm((q.double() @ r.double() - a) / scale) <= 20 * 16 * roundoff(a.dtype) * norm(a / scale)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [8, 13, 130])
@pytest.mark.parametrize("columns", [1, 8, 9, 40])
@pytest.mark.parametrize("upper", [True, False], ids=["upper", "lower"])
@pytest.mark.parametrize("unit", [True, False], ids=["unit", "any"])
def test_triangular_systems(dtype, n, columns, upper, unit):
    a = batch(n, n, dtype) / n + torch.eye(n, dtype=dtype)
    b = batch(n, columns, dtype, 2)
    kept = a.triu(1 if unit else 0) if upper else a.tril(-1 if unit else 0)
    kept = kept + torch.eye(n, dtype=dtype) if unit else kept
    for layout in layouts(a).values():
        for right in layouts(b).values():
            x = small.triangular(layout, right, not upper, unit)
            assert x.mT.is_contiguous()
            assert norm(kept.double() @ x.double() - b) <= 20 * n * roundoff(dtype) * norm(kept) * norm(x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("adjoint", [True, False], ids=["adjoint", "plain"])
@pytest.mark.parametrize("shape", [(6, 16, 16), (2, 3, 33, 33), (200, 200)], ids=str)
def test_systems_with_factors(monkeypatch, dtype, adjoint, shape):
    monkeypatch.setattr(small, "_WORK", 0)
    n = shape[-1]
    a = gaussian(shape, 3, dtype=torch.float64).to(dtype) + n**0.5 * torch.eye(n, dtype=dtype)
    b = gaussian((*shape[:-1], 16), 4, dtype=torch.float64).to(dtype)
    factors, pivots = lu_factor(a)
    assert small.solves(factors, b)
    x = lu_solve(factors, pivots, b, adjoint=adjoint)
    matrix = (a.mT if adjoint else a).double()
    assert norm(matrix @ x.double() - b) <= 20 * n * roundoff(dtype) * (norm(a) * norm(x) + norm(b))
    spd = a @ a.mT
    x = cholesky_solve(b, cholesky(spd))
    assert norm(spd.double() @ x.double() - b) <= 20 * n * roundoff(dtype) * (norm(spd) * norm(x) + norm(b))
    for inverse in (inv(a), lu_inverse(factors, pivots)):
        assert norm(inverse.double() @ a.double() - torch.eye(n)) <= 20 * n * roundoff(dtype) * norm(a) * norm(inverse)


def test_without_the_loops_torch_answers_the_same(monkeypatch):
    a = batch(32, 32, torch.float64) + 6 * torch.eye(32, dtype=torch.float64)
    b = batch(32, 8, torch.float64, 2)
    found = solve(a, b), solve_triangular(a, b, upper=True), qr(a).r
    monkeypatch.setattr(small, "_loop", lambda stem, dtype: None)
    assert not small.serves(a)
    assert not small.solves(a, b)
    for ours, theirs in zip(found, (solve(a, b), solve_triangular(a, b, upper=True), qr(a).r), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)


def test_what_is_differentiated_stays_with_torch():
    a = batch(16, 16, torch.float32)
    assert small.serves(a)
    assert not small.serves(a.clone().requires_grad_())
    assert not small.serves(a.to(torch.complex64))
    assert not small.serves(a[0])
    assert not small.serves(a[:, :4, :4])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("n", [32, 70])
@pytest.mark.parametrize("by_columns", [True, False], ids=["columns", "rows"])
def test_single_matrices_by_scipys_lapack(monkeypatch, dtype, n, by_columns):
    monkeypatch.setattr(lapack.host, "prefers_numpy", lambda: True)
    real = gaussian((n, n), 1, dtype=torch.float64)
    a = (torch.complex(real, gaussian((n, n), 2, dtype=torch.float64)) if dtype.is_complex else real).to(dtype)
    a = a + n**0.5 * torch.eye(n, dtype=dtype)
    b = gaussian((n, 40), 3).to(dtype)
    if by_columns:
        a, b = a.mT.contiguous().mT, b.mT.contiguous().mT
    assert lapack.serves(a, b)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    spd = a @ a.mH
    spd = (spd + spd.mH) / 2
    bound, size = 20 * n * roundoff(dtype), norm_of(a)

    def close(x, y, scale):
        assert norm_of(x.to(wide) - y.to(wide)) <= bound * scale

    factors, pivots = lapack.getrf(a)
    p, lower, upper = torch.lu_unpack(factors.to(wide), pivots)
    close(p.to(wide) @ lower @ upper, a, norm_of(lower) * norm_of(upper))
    for adjoint in (True, False):
        x = lapack.getrs(factors, pivots, b, adjoint)
        close((a.mH if adjoint else a).to(wide) @ x.to(wide), b, size * norm_of(x))
    x = lapack.getri(factors, pivots)
    close(x.to(wide) @ a.to(wide), torch.eye(n), size * norm_of(x))
    factor, info = lapack.potrf(spd)
    assert int(info) == 0
    close(factor.to(wide) @ factor.mH.to(wide), spd, norm_of(spd))
    for layout in (factor, factor.contiguous()):
        x = lapack.potrs(layout, b)
        close(spd.to(wide) @ x.to(wide), b, norm_of(spd) * norm_of(x))
        x = lapack.trsm(layout, b, True, False)
        close(factor.to(wide) @ x.to(wide), b, norm_of(factor) * norm_of(x))
        x = lapack.trtri(layout, False)
        close(x.to(wide) @ factor.to(wide), torch.eye(n), norm_of(x) * norm_of(factor))
    unit = (factor / n).tril(-1) + torch.eye(n, dtype=dtype)
    close(lapack.trtri(unit * 1.0, True).to(wide) @ unit.to(wide), torch.eye(n), n * norm_of(unit))
    packed, tau = lapack.geqrf(a)
    r = packed.triu()
    q = lapack.orgqr(packed, tau)
    close(q.to(wide) @ r.to(wide), a, size)
    assert int(lapack.potrf(spd - 2 * norm_of(spd) * torch.eye(n, dtype=dtype))[1]) == 1


def norm_of(x):
    return float(torch.linalg.matrix_norm(x.to(torch.complex128)))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("upper", [False, True])
def test_quick_triangles_raise_what_slow_ones_do(dtype, upper):
    n = 256
    a, b = gaussian((n, n), 1, dtype) + 40 * torch.eye(n, dtype=dtype), gaussian((n, 8), 2, dtype)
    assert small.checked_triangular(a, b, not upper, False) is not None
    read, unread = ((3, 200), (200, 3)) if upper else ((200, 3), (3, 200))

    def spoilt(place, value):
        bad = a.clone()
        bad[place] = value
        return bad

    for value in (float("inf"), float("nan")):
        for place in (read, (9, 9)):
            with pytest.raises(ArgumentError, match=rf"a\[{place[0]}, {place[1]}\]"):
                solve_triangular(spoilt(place, value), b, upper=upper)
        # what is not read may be anything
        assert torch.isfinite(solve_triangular(spoilt(unread, value), b, upper=upper)).all()
        eye = torch.eye(n, dtype=dtype)
        eye[9, 9] = value
        assert torch.equal(solve_triangular(eye, b, upper=upper, unitriangular=True), b)
        wrong = b.clone()
        wrong[7, 2] = value
        with pytest.raises(ArgumentError, match=r"b\[7, 2\]"):
            solve_triangular(a, wrong, upper=upper)
    with pytest.raises(Singular) as caught:
        solve_triangular(spoilt((9, 9), 0.0), b, upper=upper)
    assert caught.value.index == 9
    with pytest.raises(Singular):
        solve_triangular(spoilt((9, 9), 0.0), torch.zeros_like(b), upper=upper)


@pytest.mark.parametrize("adjoint", [False, True])
def test_quick_solutions_from_factors_raise_what_slow_ones_do(adjoint):
    a, b = gaussian((256, 256), 1) + 16 * torch.eye(256), gaussian((256, 8), 2)
    factors, pivots = lu_factor(a)
    assert small.checked_lu_solve(factors, pivots, b, adjoint) is not None
    for value, text in ((0, "pivots is 0"), (257, "pivots is 257")):
        wrong = pivots.clone()
        wrong[5] = value
        with pytest.raises(ArgumentError, match=text):
            lu_solve(factors, wrong, b, adjoint=adjoint)
    bad = factors.clone()
    bad[9, 9] = 0.0
    with pytest.raises(Singular):
        lu_solve(bad, pivots, b, adjoint=adjoint)
    bad[9, 9] = float("inf")
    with pytest.raises(ArgumentError, match=r"factors\[9, 9\] is inf"):
        lu_solve(bad, pivots, b, adjoint=adjoint)
    with pytest.raises(DtypeError):
        lu_solve(factors, pivots.long(), b, adjoint=adjoint)
    with pytest.raises(DtypeError):
        lu_solve(factors, pivots, b.double(), adjoint=adjoint)
