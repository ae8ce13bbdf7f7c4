import sys

import pytest
import torch

import trnsci
from tests.together import together
from tests.trnblas.oracles import C64, C128, F32, F64, KERNELS, gradient_bound, rounded_once, scipy_blas, sum_bound
from trnblas import her2k, herk, syr2k, syrk, syrkx
from trnsci import ArgumentError, DtypeError
from trnsci.testing import BACKENDS, assert_within, gaussian, pairs

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)
both_triangles = pytest.mark.parametrize("lower", [0, 1])


def size_of(a, b, c, alpha, beta):
    product = a.abs().double() @ b.abs().double().mT
    return abs(alpha) * (product + product.mT) + abs(beta) * c.abs().double()


@pytest.mark.parametrize(
    ("backend", "lower", "dtype", "size"),
    pairs(BACKENDS, [0, 1], [F32, C64, F64], [(1, 1), (127, 5), (129, 130), (600, 3)]),
    ids=str,
)
def test_rank_k_updates(backend, lower, dtype, size):
    n, k = size
    a, b, c = gaussian((n, k), 1, dtype), gaussian((n, k), 2, dtype), gaussian((n, n), 3, dtype)
    alpha, beta = (0.5 - 1j, 2j) if dtype.is_complex else (0.5, -2.0)
    options = {"lower": lower, "complex_valued": dtype.is_complex}
    bound = 2 * sum_bound(2 * k, size_of(a, b, c, alpha, beta) + size_of(a, a, c, alpha, beta), dtype)
    with backend:
        one, two = syrk(alpha, a, beta, c, "n", lower), syr2k(alpha, a.mT.contiguous(), b.mT, beta, c, "t", lower)
        assert one.dtype == dtype
        assert_within(one, scipy_blas("syrk", alpha, a, beta=beta, c=c, **options), bound)
        assert_within(two, scipy_blas("syr2k", alpha, a, b, beta=beta, c=c, **options), bound)
        if dtype.is_complex:
            one, two = herk(0.5, a, 2.0, c, "n", lower), her2k(alpha, a.mH, b.mH.contiguous(), 2.0, c, "c", lower)
            assert_within(one, scipy_blas("herk", 0.5, a, beta=2.0, c=c, **options), bound)
            assert_within(two, scipy_blas("her2k", alpha, a, b, beta=2.0, c=c, **options), bound)
            assert bool((one.diagonal().imag == 0).all())


@on_backends
@both_triangles
def test_the_other_triangle_is_neither_read_nor_written(backend, lower):
    a, c = gaussian((140, 3), 1), gaussian((140, 140), 2)
    other = torch.ones(140, 140, dtype=torch.bool).triu(1) if lower else torch.ones(140, 140, dtype=torch.bool).tril(-1)
    spoiled = torch.where(other, torch.nan, c)
    out = torch.full((140, 140), 7.0)
    with backend:
        got = syrk(1.0, a, 2.0, spoiled, 0, lower)
        syrk(1.0, a, 2.0, spoiled, 0, lower, out=out)
        bare = syrk(1.0, a, lower=lower)
        unread = syrk(1.0, a, 0.0, torch.full((140, 140), torch.nan), 0, lower)
    assert bool(got[~other].isfinite().all())
    assert bool(got[other].isnan().all())
    assert torch.equal(out[~other], got[~other])
    assert bool((out[other] == 7.0).all())
    assert bool((bare[other] == 0).all())
    assert torch.equal(unread[~other], bare[~other])


@on_backends
@both_triangles
def test_large_blocks_agree(backend, lower):
    """Beyond the size where the PyTorch implementation halves the triangle."""
    a, b = gaussian((2, 700, 20), 1), gaussian((700, 20), 2)
    expected = a.double() @ b.double().mT
    expected = expected.tril() if lower else expected.triu()
    with backend:
        got = syrkx(1.0, a, b, lower=lower)
    assert_within(got, expected, sum_bound(20, a.abs().double() @ b.abs().double().mT, F32))


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize("precision", ["fast", "fp32", "compensated", "fp64"])
def test_precisions(backend, precision):
    a = gaussian((30, 200), 1)
    with backend:
        got = syrk(1.0, a, lower=1, precision=precision)
    operand = a.bfloat16().double() if precision == "fast" else a.double()
    expected, size = (operand @ operand.mT).tril(), operand.abs() @ operand.abs().mT
    bound = rounded_once(expected, size, 202) if precision in ("compensated", "fp64") else sum_bound(200, size, F32)
    assert_within(got, expected, bound)


@pytest.mark.parametrize("backend", KERNELS, ids=str)
@both_triangles
def test_sums_longer_than_the_chip_holds_are_added_up_in_parts(backend, lower, monkeypatch):
    monkeypatch.setattr(sys.modules["trnblas.syrk"], "_LONGEST", 32)
    a, b = gaussian((20, 100), 1), gaussian((20, 100), 2)
    with backend:
        found = syrk(1.0, a, lower=lower), syrkx(1.0, a, b, lower=lower)
    for got, other in zip(found, (a, b), strict=True):
        expected = a.double() @ other.double().mT
        bound = sum_bound(100, a.abs().double() @ other.abs().double().mT, F32)
        assert_within(got, expected.tril() if lower else expected.triu(), bound)


@on_backends
def test_empty(backend):
    with backend:
        assert torch.equal(syrk(1.0, torch.ones(3, 0)), torch.zeros(3, 3))
        assert syrk(1.0, torch.ones(0, 3)).shape == (0, 0)
        assert torch.equal(syrk(0.0, torch.full((2, 2), torch.nan), 2.0, torch.eye(2)), 2 * torch.eye(2))


@pytest.mark.parametrize("dtype", [F64, C128], ids=str)
@both_triangles
def test_gradients(dtype, lower):
    a, b = (gaussian((3, 2), i, dtype).requires_grad_() for i in (1, 2))
    c = gaussian((3, 3), 3, dtype).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, c: syrk(0.5, a, 2.0, c, 0, lower), (a, c))
    assert torch.autograd.gradcheck(lambda a, b, c: her2k(0.5, a, b, 2.0, c, 0, lower), (a, b, c))
    operator = torch.ops.trnblas.syrk.default
    alpha = 0.5 - 1j if dtype.is_complex else 0.5
    for hermitian in {False, dtype.is_complex}:
        for twice in (False, True):
            factor = alpha if twice or not hermitian else 0.5
            flags = (factor, 2.0, bool(lower), hermitian, "fp64", twice)
            assert torch.autograd.gradcheck(lambda a, b, c, f=flags: operator(a, b, c, *f), (a, b, c))
            assert torch.autograd.gradcheck(lambda a, f=flags: operator(a, None, None, *f), (a,))


@pytest.mark.parametrize("backend", KERNELS, ids=str)
@pytest.mark.parametrize("dtype", [F32, C64], ids=str)
def test_gradients_through_kernels(backend, dtype):
    a = gaussian((5, 7), 1, dtype).requires_grad_()
    with backend:
        herk(1.0, a, lower=1).abs().square().sum().backward()
    b = a.detach().to(C128 if dtype.is_complex else F64).requires_grad_()
    (b @ b.mH).tril().abs().square().sum().backward()
    (limit,) = gradient_bound(lambda a: (a @ a.mT).tril().square().sum(), (a,), 30)
    assert_within(a.grad, b.grad, limit)


def test_opcheck_and_plan():
    a = gaussian((3, 2), 1, F64).requires_grad_()
    torch.library.opcheck(torch.ops.trnblas.syrk.default, (a, None, None, 0.5, 0.0, True, False, "fp64", False))
    assert trnsci.plan(syrk, 1.0, torch.ones(10, 4)).flops == 10 * 11 * 4


@together(
    ("kind", "call", "text"),
    [
        (ArgumentError, lambda: syrk(1.0, torch.ones(2, 3), 1.0), "c is None, expected a tensor [..., N, N], because"),
        (
            ArgumentError,
            lambda: syrk(1.0, torch.ones(2, 3), 1.0, torch.ones(3, 3)),
            "syrk: N differs: a has N=2, c has N=3",
        ),
        (
            ArgumentError,
            lambda: syrk(1.0, torch.ones(2, 3), 1.0, torch.ones(2, 3)),
            "shape of c is (2, 3), expected [..., N, N]",
        ),
        (ArgumentError, lambda: syrk(1.0, torch.ones(2, 3) + 0j, trans="c"), "trans is 'c', expected 'n' or 't'"),
        (ArgumentError, lambda: herk(1.0, torch.ones(2, 3) + 0j, trans="t"), "trans is 't', expected 'n' or 'c'"),
        (DtypeError, lambda: herk(1j, torch.ones(2, 3) + 0j), "alpha is 1j, expected a real number"),
        (
            ArgumentError,
            lambda: syr2k(1.0, torch.ones(2, 3), torch.ones(3, 3)),
            "a has shape=(2, 3), b has shape=(3, 3)",
        ),
        (
            ArgumentError,
            lambda: syrk(1.0, torch.ones(2, 3), lower="x"),
            "lower is 'x', expected one of False, True, 'u', 'l'",
        ),
    ],
)
def test_bad_arguments_are_named(kind, call, text):
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value)
