"""Rank-one and rank-two updates of one triangle."""

import pytest
import torch

import trnsci
from tests.trnblas.oracles import C64, F32, F64, scipy_blas, sum_bound
from trnblas import her, her2, host_blas, syr, syr2
from trnsci import ArgumentError
from trnsci.testing import BACKENDS, assert_within, gamma, gaussian, pairs

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)
both_triangles = pytest.mark.parametrize("lower", [0, 1])


def magnitude(x, y, a, alpha):
    outer = torch.outer(x.abs().double(), y.abs().double())
    return abs(alpha) * (outer + outer.mT) + (0 if a is None else a.abs().double())


@pytest.fixture(params=["scipy", "torch alone"])
def library(request, monkeypatch):
    if request.param == "torch alone":
        monkeypatch.setattr(host_blas, "refusal", lambda *tensors, **options: "not in this test")


@pytest.mark.grid(1)
@pytest.mark.parametrize(
    ("lower", "dtype", "n", "given", "transposed"),
    pairs([0, 1], [F32, F64], [1, 2, 129], [False, True], [False, True]),
    ids=str,
)
def test_against_scipy(library, lower, dtype, n, given, transposed):
    x, y, a = gaussian((2 * n,), 1, dtype)[::2], gaussian((n,), 2, dtype), gaussian((n, n), 3, dtype)
    a = a.mT if transposed else a
    addend, options = (a, {"a": a}) if given else (None, {})
    kept = a.clone(), x.clone()
    one, two = syr(1.5, x, lower, addend), syr2(-0.5, x, y, lower, addend)
    bound = sum_bound(4, magnitude(x, x, addend, 1.5), dtype), sum_bound(4, magnitude(x, y, addend, 0.5), dtype)
    assert one.dtype == dtype
    assert_within(one, scipy_blas("syr", 1.5, x.contiguous(), lower=lower, **options), bound[0])
    assert_within(two, scipy_blas("syr2", -0.5, x.contiguous(), y, lower=lower, **options), bound[1])
    assert torch.equal(a, kept[0])
    assert torch.equal(x, kept[1])


@on_backends
@both_triangles
def test_every_backend(backend, lower):
    for dtype, alpha in ((F32, 1.5), (C64, 0.5 - 1j)):
        x, y, a = gaussian((9,), 1, dtype), gaussian((9,), 2, dtype), gaussian((9, 9), 3, dtype)
        options = {"lower": lower, "a": a, "complex_valued": dtype.is_complex}
        bound = sum_bound(4, magnitude(x, y, a, alpha) + magnitude(x, x, a, 1), dtype)
        with backend:
            if dtype.is_complex:
                assert_within(her(0.5, x, lower, a), scipy_blas("her", 0.5, x, **options), bound)
                assert_within(her2(alpha, x, y, lower, a), scipy_blas("her2", alpha, x, y, **options), bound)
            else:
                assert_within(syr(alpha, x, lower, a), scipy_blas("syr", alpha, x, **options), bound)
                assert_within(syr2(alpha, x, y, lower, a), scipy_blas("syr2", alpha, x, y, **options), bound)


@both_triangles
def test_the_other_triangle_passes_through_unread(library, lower):
    n = 6
    a = torch.full((n, n), torch.nan)
    stored = torch.ones(n, n, dtype=torch.bool).tril() if lower else torch.ones(n, n, dtype=torch.bool).triu()
    a = torch.where(stored, 1.0, a)
    got = syr(1.0, torch.ones(n), lower, a)
    assert torch.equal(got[stored], torch.full((int(stored.sum()),), 2.0))
    assert bool(got[~stored].isnan().all())


@both_triangles
def test_gradients(lower):
    x, y = (gaussian((4,), i, F64).requires_grad_() for i in (1, 2))
    a = gaussian((4, 4), 3, F64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, a: syr(1.5, x, lower, a), (x, a))
    assert torch.autograd.gradcheck(lambda x, y, a: syr2(1.5, x, y, lower, a), (x, y, a))


def test_batches_out_and_plan():
    x, a, out = gaussian((2, 4), 1), gaussian((3, 1, 4, 4), 2), torch.full((3, 2, 4, 4), 7.0)
    assert syr(1.0, x, 1, a, out=out) is out
    for i in range(3):
        for j in range(2):
            expected = scipy_blas("syr", 1.0, x[j], lower=1, a=a[i, 0])
            bound = sum_bound(4, magnitude(x[j], x[j], a[i, 0], 1.0), F32)
            assert_within(out[i, j].tril(), expected.tril(), bound.tril() + torch.finfo(F32).tiny)
            assert bool((out[i, j].triu(1)[torch.ones(4, 4).triu(1) > 0] == 7.0).all())
    plan = trnsci.plan(syr, 1.0, torch.ones(10))
    assert plan.steps[0].op == "trnblas::syrk"
    assert plan.flops == 10 * 11


def test_one_vector_twice_counts_twice():
    x = gaussian((5,), 1, F64)
    assert_within(syr2(0.5, x, x), torch.outer(x, x).triu(), gamma(4, F64) * torch.outer(x, x).abs())


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: syr(1.0, torch.ones(2), 0, torch.ones(3, 3)), "syr: N differs: x has N=2, a has N=3"),
        (lambda: syr2(1.0, torch.ones(2), torch.ones(3)), "syr2: N differs: x has N=2, y has N=3"),
        (lambda: syr(1.0, torch.ones(2), "x"), "lower is 'x', expected one of False, True, 'u', 'l'"),
    ],
)
def test_bad_arguments_are_named(call, text):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert text in str(caught.value)
