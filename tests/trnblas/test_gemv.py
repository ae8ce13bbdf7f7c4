import sys

import pytest
import torch

import trnsci
from tests.together import together
from tests.trnblas.oracles import C64, C128, F32, F64, KERNELS, gradient_bound, rounded_once, scipy_blas, sum_bound
from trnblas import gemm, gemv, ger, gerc, geru
from trnsci import ArgumentError
from trnsci.testing import BACKENDS, assert_within, gaussian, pairs

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)


@pytest.mark.parametrize(
    ("backend", "dtype", "trans", "size"),
    pairs(BACKENDS, [F32, C64, F64], ["n", "t", "c"], [(1, 1), (127, 129), (128, 513), (9, 2100)]),
    ids=str,
)
def test_gemv(backend, dtype, trans, size):
    m, n = size
    a = gaussian((m, n), 1, dtype)
    x, y = gaussian((n if trans == "n" else m,), 2, dtype), gaussian((m if trans == "n" else n,), 3, dtype)
    alpha, beta = (0.5 - 1j, 2j) if dtype.is_complex else (0.5, -2.0)
    options = {"trans": {"n": 0, "t": 1, "c": 2}[trans], "complex_valued": dtype.is_complex}
    with backend:
        got = gemv(alpha, a, x, beta, y, trans)
    size = scipy_blas("gemv", abs(alpha), a.abs(), x.abs(), beta=abs(beta), y=y.abs(), trans=options["trans"])
    bound = 2 * sum_bound(len(x), size, dtype)
    assert_within(got, scipy_blas("gemv", alpha, a, x, beta=beta, y=y, **options), bound)


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("dtype", [F32, C64], ids=str)
@pytest.mark.parametrize(("m", "n"), [(1, 1), (130, 7), (3, 600)])
def test_outer_products(backend, dtype, m, n):
    x, y, a = gaussian((m,), 1, dtype), gaussian((n,), 2, dtype), gaussian((m, n), 3, dtype)
    alpha = 1 - 2j if dtype.is_complex else 1.5
    bound = sum_bound(2, abs(alpha) * x.abs().unsqueeze(1) * y.abs() + a.abs(), dtype)
    with backend:
        plain, conjugated, bare = ger(alpha, x, y, a), gerc(alpha, x, y, a), geru(alpha, x, y)
    names = ("geru", "gerc") if dtype.is_complex else ("ger", "ger")
    options = {"complex_valued": dtype.is_complex}
    assert_within(plain, scipy_blas(names[0], alpha, x, y, a=a, **options), bound)
    assert_within(conjugated, scipy_blas(names[1], alpha, x, y, a=a, **options), bound)
    assert_within(bare, scipy_blas(names[0], alpha, x, y, **options), bound)


@on_backends
@pytest.mark.parametrize("trans", [False, True])
def test_batches_strides_and_out(backend, trans):
    a, x = gaussian((2, 1, 7, 10), 1)[..., ::2], gaussian((3, 5), 2)
    a = a.mT if trans else a
    expected = (a.mT if trans else a).double() @ x.double().unsqueeze(-1)
    bound = sum_bound(5, (a.mT if trans else a).abs().double() @ x.abs().double().unsqueeze(-1), F32)
    out = torch.empty(2, 3, 7)
    with backend:
        assert gemv(1.0, a, x, trans=trans, out=out) is out
    assert_within(out.unsqueeze(-1), expected, bound)


@pytest.mark.parametrize("backend", KERNELS, ids=str)
def test_vectors_longer_than_the_chip_holds_are_taken_in_parts(backend, monkeypatch):
    monkeypatch.setattr(sys.modules["trnblas.gemv"], "_LONGEST", 32)
    a, x = gaussian((2, 20, 100), 1), gaussian((100,), 2)
    with backend:
        got = gemv(1.0, a, x)
    assert_within(got, a.double() @ x.double(), sum_bound(100, a.abs().double() @ x.abs().double(), F32))


@on_backends
def test_zero_coefficients_do_not_read(backend):
    nan, ones = torch.full((3, 3), torch.nan), torch.ones(3)
    with backend:
        assert torch.equal(gemv(0.0, nan, nan[0], 2.0, ones), 2 * ones)
        assert torch.equal(gemv(1.0, torch.eye(3), ones, 0.0, nan[0]), ones)
        assert torch.equal(gemv(1.0, torch.ones(3, 0), torch.ones(0)), torch.zeros(3))


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize("precision", ["fast", "compensated", "fp64"])
def test_precisions_are_those_of_gemm(backend, precision):
    a, x = gaussian((20, 300), 1), gaussian((300,), 2)
    with backend:
        got = gemv(1.0, a, x, precision=precision)
        assert torch.equal(got, gemm(1.0, a, x.unsqueeze(-1), precision=precision)[:, 0])
    if precision != "fast":
        expected = a.double() @ x.double()
        assert_within(got, expected, rounded_once(expected, a.abs().double() @ x.abs().double(), 302))


@pytest.mark.grid(1)
@pytest.mark.parametrize("dtype", [F64, C128], ids=str)
@pytest.mark.parametrize("trans", ["n", "t", "c"])
def test_gradients(dtype, trans):
    a = gaussian((3, 4), 1, dtype).requires_grad_()
    x, y = (gaussian((s,), i, dtype).requires_grad_() for i, s in enumerate((4, 3) if trans == "n" else (3, 4)))
    assert torch.autograd.gradcheck(lambda a, x, y: gemv(0.5, a, x, 2.0, y, trans), (a, x, y))
    operator, flag = torch.ops.trnblas.gemv.default, trans != "n"
    assert torch.autograd.gradcheck(lambda a, x, y: operator(a, x, y, 0.5, 2.0, flag), (a, x, y))
    assert torch.autograd.gradcheck(lambda x, y: gerc(0.5, x, y), (x, y))


@pytest.mark.parametrize("backend", KERNELS, ids=str)
def test_gradients_through_kernels(backend):
    a, x = gaussian((5, 7), 1).requires_grad_(), gaussian((7,), 2).requires_grad_()
    with backend, trnsci.ledger() as book:
        gemv(2.0, a, x).square().sum().backward()
    assert {entry.step.backend for entry in book} == {backend.name}
    b, z = (t.detach().double().requires_grad_() for t in (a, x))
    (2 * b @ z).square().sum().backward()
    limits = gradient_bound(lambda a, x: (2 * a @ x).square().sum(), (a, x), 20)
    for got, expected, limit in zip((a, x), (b, z), limits, strict=True):
        assert_within(got.grad, expected.grad, limit)


def test_opcheck():
    args = gaussian((3, 4), 1, F64).requires_grad_(), gaussian((4,), 2, F64), None
    torch.library.opcheck(torch.ops.trnblas.gemv.default, (*args, 2.0, 0.0, False))


@together(
    ("call", "text"),
    [
        (lambda: gemv(1.0, torch.ones(2, 3), torch.ones(2)), "gemv: N differs: a has N=3, x has N=2"),
        (lambda: gemv(1.0, torch.ones(2, 3), torch.ones(3), trans=1), "gemv: M differs: a has M=2, x has M=3"),
        (
            lambda: gemv(1.0, torch.ones(2, 3), torch.ones(3), 1.0),
            "y is None, expected a tensor [..., M], because beta",
        ),
        (
            lambda: gemv(1.0, torch.ones(2, 3), torch.ones(3), 1.0, torch.ones(3)),
            "gemv: M differs: a has M=2, y has M=3",
        ),
        (lambda: gemv(1.0, torch.ones(2, 3), torch.ones(3), trans="q"), "trans is 'q', expected one of"),
        (lambda: gemv(1.0, torch.ones(3), torch.ones(3)), "shape of a is (3,), expected at least 2"),
        (lambda: ger(1.0, torch.ones(2), torch.ones(3), torch.ones(2, 2)), "y has N=3, a has N=2"),
    ],
)
def test_bad_arguments_are_named(call, text):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert text in str(caught.value)
