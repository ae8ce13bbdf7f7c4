"""The host's BLAS and the pure PyTorch path compute the same thing, whatever way matrices lie in memory."""

import numpy as np
import pytest
import torch

import trnsci
from tests.together import together
from tests.trnblas.oracles import F32, F64, scipy_blas, sum_bound
from trnblas import (
    asum,
    gbmv,
    host_blas,
    iamax,
    iamin,
    nrm2,
    rot,
    rotm,
    sbmv,
    spmv,
    spr,
    spr2,
    symm,
    symv,
    syr2k,
    syrk,
    tbmv,
    tbsv,
    tpmv,
    tpsv,
    trmm,
    trmv,
    trsm,
    trsv,
)
from trnsci import Singular, ledger
from trnsci.testing import assert_within, gamma, gaussian, pairs

LAYOUTS = {
    "by rows": lambda x: x,
    "by columns": lambda x: x.mT.contiguous().mT,
    "strided": lambda x: torch.stack([x, x], -1)[..., 0],
}


@pytest.fixture(params=["scipy", "torch alone"])
def library(request, monkeypatch):
    if request.param == "torch alone":
        monkeypatch.setattr(host_blas, "refusal", lambda *tensors, **options: "not in this test")
    return request.param


@pytest.mark.grid(1)
@pytest.mark.parametrize(
    ("dtype", "lower", "layouts", "size"),
    pairs(
        [F32, F64],
        [0, 1],
        [("by rows", "by columns"), ("by columns", "by rows"), ("strided", "strided")],
        [(5, 3), (600, 40), (7, 1)],
    ),
    ids=str,
)
def test_every_layout(library, dtype, lower, layouts, size):
    (left, right), (n, columns) = layouts, size
    square, other = gaussian((n, n), 1, dtype), gaussian((n, columns), 2, dtype)
    a, b = LAYOUTS[left](square), LAYOUTS[right](other)
    kept = square.double().tril() if lower else square.double().triu()
    strict = square.double().tril(-1) if lower else square.double().triu(1)
    eye, wide = torch.eye(n, dtype=F64), other.double()
    outer, mirrored = wide @ wide.mT, wide.flip(0)
    both = wide @ mirrored.mT + mirrored @ wide.mT
    # Two computed results in double precision: each within its own bound.
    for got, expected, size in (
        (symm(1.0, a, b, lower=lower), (kept + strict.mT) @ wide, (kept + strict.mT).abs() @ wide.abs()),
        (trmm(1.0, a, b, lower=lower), kept @ wide, kept.abs() @ wide.abs()),
        (
            trmm(1.0, a, b, lower=lower, trans_a="t", diag="u"),
            (strict + eye).mT @ wide,
            (strict.abs() + eye).mT @ wide.abs(),
        ),
        (
            symv(1.0, a, b[:, 0], lower=lower),
            ((kept + strict.mT) @ wide)[:, 0],
            ((kept + strict.mT).abs() @ wide.abs())[:, 0],
        ),
        (trmv(a, b[:, 0], lower), (kept @ wide)[:, 0], (kept.abs() @ wide.abs())[:, 0]),
        (
            syr2k(1.0, b, b.flip(0), lower=lower),
            (both.tril() if lower else both.triu()),
            wide.abs() @ mirrored.abs().mT + mirrored.abs() @ wide.abs().mT,
        ),
        (syrk(1.0, b, lower=lower), outer.tril() if lower else outer.triu(), wide.abs() @ wide.abs().mT),
    ):
        assert got.dtype == dtype
        assert_within(got, expected, 2 * sum_bound(max(n, columns), size, dtype))


@pytest.mark.grid(1)
@pytest.mark.parametrize(
    ("lower", "layouts", "size", "flags"),
    pairs(
        [0, 1],
        [("by rows", "by columns"), ("by columns", "by rows"), ("strided", "strided")],
        [(5, 3), (300, 40), (7, 1)],
        [("n", "n"), ("t", "n"), ("n", "u"), ("t", "u")],
    ),
    ids=str,
)
def test_solves_of_every_layout(library, lower, layouts, size, flags):
    (left, right), (n, columns), (trans, diag) = layouts, size, flags
    square = gaussian((n, n), 1, F64) / (2 * n**0.5) + 2 * torch.eye(n, dtype=F64)
    other = gaussian((n, columns), 2, F64)
    full = square.tril() if lower else square.triu()
    full = full - torch.diag(full.diagonal() - 1) if diag == "u" else full
    full = full.mT if trans == "t" else full
    expected = torch.from_numpy(np.linalg.solve(full.numpy(), other.numpy()))
    got = trsm(1.0, LAYOUTS[left](square), LAYOUTS[right](other), 0, lower, trans, diag)
    inverse = torch.linalg.inv(full).abs()
    assert_within(got, expected, 4 * gamma(n + 2, F64) * (inverse @ full.abs() @ expected.abs()))


def test_operands_are_left_alone(library):
    a, x = gaussian((6, 6), 1), gaussian((6,), 2)
    trsm(1.0, a, x.unsqueeze(1).mT.contiguous().mT)
    b = gaussian((6, 3), 3).mT.contiguous().mT
    kept = b.clone()
    trsm(1.0, a, b)
    assert torch.equal(b, kept)
    before = a.clone(), x.clone()
    trmv(a, x)
    symv(1.0, a, x)
    assert torch.equal(a, before[0])
    assert torch.equal(x, before[1])


@together(("dtype", "n", "layout"), pairs([F32, F64], [5, 1030], sorted(LAYOUTS)))
def test_bands(library, dtype, n, layout):
    kl, ku, k = 3, 2, 2
    m = n + 2
    band, x, z = gaussian((kl + ku + 1, n), 1, dtype), gaussian((2 * n,), 2, dtype)[::2], gaussian((m,), 3, dtype)
    half = gaussian((k + 1, n), 4, dtype)
    vector = x.contiguous()
    for trans, right in ((0, vector), (1, z)):
        got = gbmv(m, n, kl, ku, 1.5, LAYOUTS[layout](band), x if trans == 0 else z, trans=trans)
        expected = scipy_blas("gbmv", m, n, kl, ku, 1.5, band, right, trans=trans)
        size = scipy_blas("gbmv", m, n, kl, ku, 1.5, band.abs(), right.abs(), trans=trans)
        assert_within(got, expected, sum_bound(kl + ku + 1, size, dtype))
    for lower in (0, 1):
        got = sbmv(k, 1.0, LAYOUTS[layout](half), x, lower=lower)
        size = scipy_blas("sbmv", k, 1.0, half.abs(), vector.abs(), lower=lower)
        assert_within(got, scipy_blas("sbmv", k, 1.0, half, vector, lower=lower), sum_bound(2 * k + 1, size, dtype))
        for trans in (0, 1):
            for diag in (0, 1):
                flags = {"lower": lower, "trans": trans, "diag": diag}
                size = scipy_blas("tbmv", k, half.abs(), vector.abs(), **flags)
                got = tbmv(k, LAYOUTS[layout](half), x, lower, trans, diag)
                assert_within(got, scipy_blas("tbmv", k, half, vector, **flags), sum_bound(k + 1, size, dtype))
                _solves(LAYOUTS[layout](_dominant(half, lower)), x, k, flags, dtype)


def _dominant(half, lower):
    small = half / 8
    small[0 if lower else -1] = 1.5
    return small


def _solves(a, x, k, flags, dtype):
    got = tbsv(k, a, x, flags["lower"], flags["trans"], flags["diag"])
    expected = scipy_blas("tbsv", k, a.contiguous(), x.contiguous(), **flags)
    # Substitution has a small backward error: the residual is bounded, and what the inverse makes of it.
    size = scipy_blas("tbmv", k, a.abs().contiguous(), expected.abs(), **flags)
    comparison = -a.abs().contiguous().double()
    comparison[0 if flags["lower"] else -1] *= -1
    spread = scipy_blas("tbsv", k, comparison, size, **flags)
    assert_within(got, expected, sum_bound(k + 2, spread, dtype))


@together(("dtype", "n", "lower"), pairs([F32, F64], [1, 40], [0, 1]))
def test_packed_triangles(library, dtype, n, lower):
    ap, x, y = gaussian((n * (n + 1) // 2,), 1, dtype), gaussian((n,), 2, dtype), gaussian((n,), 3, dtype)
    kept = ap.clone(), x.clone()
    size = scipy_blas("spmv", n, 1.5, ap.abs(), x.abs(), lower=lower)
    expected = scipy_blas("spmv", n, 1.5, ap, x, lower=lower)
    assert_within(spmv(n, 1.5, ap, x, lower=lower), expected, sum_bound(n, size, dtype))
    size = scipy_blas("spr2", n, 1.5, x.abs(), y.abs(), ap.abs(), lower=lower)
    expected = scipy_blas("spr2", n, 1.5, x, y, ap.clone(), lower=lower)
    assert_within(spr2(n, 1.5, x, y, ap, lower), expected, sum_bound(4, size, dtype))
    size = scipy_blas("spr", n, 1.5, x.abs(), ap.abs(), lower=lower)
    assert_within(
        spr(n, 1.5, x, ap, lower), scipy_blas("spr", n, 1.5, x, ap.clone(), lower=lower), sum_bound(4, size, dtype)
    )
    for trans in (0, 1):
        flags = {"lower": lower, "trans": trans}
        size = scipy_blas("tpmv", n, ap.abs(), x.abs(), **flags)
        assert_within(tpmv(n, ap, x, lower, trans), scipy_blas("tpmv", n, ap, x, **flags), sum_bound(n, size, dtype))
        unit = flags | {"diag": 1}
        small = ap / (4 * n)
        size = scipy_blas("tpmv", n, small.abs(), scipy_blas("tpsv", n, small, x, **unit).abs(), **unit)
        spread = scipy_blas("tpsv", n, -small.abs(), size, **unit)
        assert_within(
            tpsv(n, small, x, lower, trans, 1), scipy_blas("tpsv", n, small, x, **unit), sum_bound(n, spread, dtype)
        )
    assert torch.equal(ap, kept[0])
    assert torch.equal(x, kept[1])


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_vectors(library, dtype):
    x, y = gaussian((2000,), 1, dtype)[::2], gaussian((1000,), 2, dtype)
    wide, other = x.double().numpy(), y.double().numpy()
    assert_within(asum(x), np.abs(wide).sum(), sum_bound(1000, x.abs().double().sum(), dtype))
    assert_within(nrm2(x), np.linalg.norm(wide), sum_bound(503, x.double().norm(), dtype))
    assert (int(iamax(x)), int(iamin(x))) == (int(np.abs(wide).argmax()), int(np.abs(wide).argmin()))
    x_size, y_size = x.abs().double(), y.abs().double()
    for got, matrix in (
        (rot(x, y, 0.6, 0.8), [0.6, 0.8, -0.8, 0.6]),
        (rotm(x, y, torch.tensor([-1.0, 2.0, 3.0, 4.0, 5.0])), [2.0, 4.0, 3.0, 5.0]),
    ):
        for part, p, q in ((got[0], *matrix[:2]), (got[1], *matrix[2:])):
            assert_within(part, p * wide + q * other, sum_bound(2, abs(p) * x_size + abs(q) * y_size, dtype))


def test_positions_of_nan_come_first(library):
    x = torch.tensor([1.0, torch.nan, 9.0, torch.nan])
    assert (int(iamax(x)), int(iamin(x))) == (1, 1)


def _step(function, *args):
    """The one step of the outer call, which with and without a listener gives the same."""
    alone = function(*args)
    with ledger() as book:
        heard = function(*args)
    assert torch.equal(alone, heard)
    (step,) = [entry.step for entry in book if entry.depth == 0]
    return step


def test_plans_and_the_ledger_name_the_routine():
    a, x, band = gaussian((9, 9), 1, F64) + 5, gaussian((9,), 2, F64), gaussian((3, 9), 3, F64) + 5
    packed = gaussian((45,), 4, F64) + 5
    for routine, function, *args in (
        ("dsymv", symv, 2.0, a, x),
        ("dsymm", symm, 2.0, a, a),
        ("dtrmv", trmv, a, x),
        ("dtrsv", trsv, a, x),
        ("dtrsm", trsm, 2.0, a, a),
        ("dsyrk", syrk, 1.0, a),
        ("dsyr2k", syr2k, 1.0, a, a.clone()),
        ("dgbmv", gbmv, 9, 9, 1, 1, 1.0, band, x),
        ("dsbmv", sbmv, 2, 2.0, band, x),
        ("dtbsv", tbsv, 2, band, x),
        ("dspmv", spmv, 9, 2.0, packed, x),
        ("dspr", spr, 9, 2.0, x, packed),
        ("dasum", asum, x),
    ):
        step = _step(function, *args)
        assert (step.implementation, step.calls) == ("host", f"scipy.linalg.blas.{routine}")
        assert trnsci.plan(function, *args).steps[0].calls == step.calls


@together(
    ("change", "reason"),
    [
        (lambda a: a.clone().requires_grad_(), "requires grad"),
        (lambda a: a.bfloat16(), "no such routine for bfloat16"),
        (lambda a: a[:0, :0], "empty"),
        (lambda a: a.expand(2, 2, 2), "not a batch"),
        (lambda a: a + 0j, "no such routine for complex64"),
    ],
)
def test_what_is_not_for_scipy_says_why(change, reason):
    a = change(torch.ones(2, 2))
    judged = trnsci.explain(symm, 1.0, a, a)
    assert reason in str(judged)
    with ledger() as book:
        symm(1.0, a, a)
    assert "host" not in {entry.step.implementation for entry in book if entry.step.op == "trnblas::symm"}


@pytest.mark.parametrize("lower", [0, 1])
def test_a_zero_on_the_diagonal_is_named_whatever_it_divides(library, lower):
    a, band = torch.ones(4, 4, dtype=F64), torch.ones(2, 4, dtype=F64)
    a[2, 2] = a[3, 3] = band[0 if lower else 1, 2] = 0
    # by columns
    ap = a.mT[torch.ones(4, 4, dtype=torch.bool).triu() if lower else torch.ones(4, 4, dtype=torch.bool).tril()]
    for x in (torch.ones(4, dtype=F64), torch.zeros(4, dtype=F64), torch.full((4,), 1e308, dtype=F64)):
        out = torch.full((4,), 7.0, dtype=F64)
        for call in (
            lambda x=x, out=out: trsv(a, x, lower, out=out),
            lambda x=x, out=out: tbsv(1, band, x, lower, out=out),
            lambda x=x, out=out: tpsv(4, ap, x, lower, out=out),
        ):
            with pytest.raises(Singular, match="diagonal entry 2 is zero"):
                call()
        assert torch.equal(out, torch.full((4,), 7.0, dtype=F64))


def test_zeros_and_infinities_of_a_solution_are_no_zeros_of_the_diagonal(library):
    eye = torch.eye(3, dtype=F64)
    for x in ([0.0, 1.0, 5e-324], [float("inf"), 1.0, 0.0], [float("nan"), 1.0, 1.0]):
        right = torch.tensor(x, dtype=F64)
        assert torch.equal(trsv(eye, right).isfinite(), right.isfinite())
