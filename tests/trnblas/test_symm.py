import sys

import pytest
import torch

import trnsci
from tests.together import together
from tests.trnblas.oracles import C64, C128, F32, F64, KERNELS, gradient_bound, rounded_once, scipy_blas, sum_bound
from trnblas import hemm, hemv, symm, symv
from trnsci import ArgumentError
from trnsci.testing import BACKENDS, assert_within, gaussian, pairs

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)
both_triangles = pytest.mark.parametrize("lower", [0, 1])


def whole(a, lower):
    return a.tril() + a.tril(-1).mT if lower else a.triu() + a.triu(1).mT


@pytest.mark.parametrize(
    ("backend", "lower", "side", "dtype", "size"),
    pairs(BACKENDS, [0, 1], [0, 1], [F32, C64, F64], [(1, 1), (127, 3), (129, 130), (2, 520)]),
    ids=str,
)
def test_products(backend, lower, side, dtype, size):
    m, n = size
    size = n if side else m
    a, b, c = gaussian((size, size), 1, dtype), gaussian((m, n), 2, dtype), gaussian((m, n), 3, dtype)
    alpha, beta = (0.5 - 1j, 2j) if dtype.is_complex else (0.5, -2.0)
    options = {"beta": beta, "c": c, "side": side, "lower": lower, "complex_valued": dtype.is_complex}
    full = whole(a.abs().double(), lower)
    magnitude = b.abs().double() @ full if side else full @ b.abs().double()
    bound = 2 * sum_bound(size, abs(alpha) * magnitude + abs(beta) * c.abs(), dtype)
    other = torch.ones(size, size, dtype=torch.bool)
    spoiled = torch.where(other.triu(1) if lower else other.tril(-1), torch.nan, a)
    with backend:
        got = symm(alpha, spoiled, b, beta, c, side, lower)
        assert got.dtype == dtype
        assert_within(got, scipy_blas("symm", alpha, a, b, **options), bound)
        if dtype.is_complex:
            got = hemm(alpha, spoiled, b, beta, c, side, lower)
            assert_within(got, scipy_blas("hemm", alpha, a, b, **options), bound)


@on_backends
@both_triangles
def test_vectors(backend, lower):
    a, x, y = gaussian((40, 40), 1), gaussian((40,), 2), gaussian((40,), 3)
    bound = sum_bound(40, whole(a.abs().double(), lower) @ x.abs().double() + y.abs(), F32)
    out = torch.empty(40)
    with backend:
        got = symv(0.5, a, x, 0.25, y, lower)
        assert symv(0.5, a, x, 0.25, y, lower, out=out) is out
    assert torch.equal(out, got)
    assert_within(got, scipy_blas("symv", 0.5, a, x, beta=0.25, y=y, lower=lower), bound)
    z, u = gaussian((40, 40), 1, C64), gaussian((40,), 2, C64)
    with backend:
        got = hemv(1j, z, u, lower=lower)
    bound = sum_bound(40, whole(z.abs().double(), lower) @ u.abs().double(), C64)
    assert_within(got, scipy_blas("hemv", 1j, z, u, lower=lower, complex_valued=True), bound)


@on_backends
def test_batches_out_and_empties(backend):
    a, b = gaussian((3, 1, 6, 6), 1), gaussian((2, 6, 4), 2)
    out = torch.empty(3, 2, 6, 4)
    full = whole(a.double(), 1)
    with backend:
        assert symm(1.0, a, b, lower=1, out=out) is out
        assert symm(1.0, torch.ones(0, 0), torch.ones(0, 3)).shape == (0, 3)
    assert_within(out, full @ b.double(), sum_bound(6, full.abs() @ b.abs().double(), F32))


@pytest.mark.parametrize("backend", KERNELS, ids=str)
def test_matrices_larger_than_the_chip_holds_go_through_the_whole_product(backend, monkeypatch):
    a, b = gaussian((40, 40), 1), gaussian((40, 5), 2)
    with backend:
        expected = symm(1.0, a, b, lower=1)
        monkeypatch.setattr(sys.modules["trnblas.symm"], "_LARGEST", 16)
        got = symm(1.0, a, b, lower=1)
    assert_within(got, expected, 2 * sum_bound(40, a.abs().double() @ b.abs().double() * 2, F32))


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize("precision", ["fast", "compensated", "fp64"])
def test_precisions(backend, precision):
    a, b = gaussian((60, 60), 1), gaussian((60, 5), 2)
    with backend:
        got = symm(1.0, a, b, lower=1, precision=precision)
    operands = (a.bfloat16(), b.bfloat16()) if precision == "fast" else (a, b)
    full, right = whole(operands[0].double(), 1), operands[1].double()
    size = full.abs() @ right.abs()
    bound = sum_bound(60, size, F32) if precision == "fast" else rounded_once(full @ right, size, 62)
    assert_within(got, full @ right, bound)


@pytest.mark.parametrize("dtype", [F64, C128], ids=str)
@both_triangles
def test_gradients(dtype, lower):
    a, b = gaussian((3, 3), 1, dtype).requires_grad_(), gaussian((3, 2), 2, dtype).requires_grad_()
    for function in (symm, hemm):
        assert torch.autograd.gradcheck(lambda a, b, f=function: f(0.5, a, b, lower=lower), (a, b))
    operator = torch.ops.trnblas.symm.default
    for hermitian in (False, dtype.is_complex):
        assert torch.autograd.gradcheck(
            lambda a, b, h=hermitian: operator(a, b, None, 0.5, 0.0, bool(lower), h, "fp64"), (a, b)
        )


@pytest.mark.parametrize("backend", KERNELS, ids=str)
def test_gradients_through_kernels(backend):
    a, b = gaussian((5, 5), 1).requires_grad_(), gaussian((5, 3), 2).requires_grad_()
    with backend:
        symm(1.0, a, b, lower=1).square().sum().backward()
    c, d = (t.detach().double().requires_grad_() for t in (a, b))
    (whole(c, 1) @ d).square().sum().backward()
    limits = gradient_bound(lambda a, b: (whole(a, 1) @ b).square().sum(), (a, b), 20)
    for got, expected, limit in zip((a, b), (c, d), limits, strict=True):
        assert_within(got.grad, expected.grad, limit)


def test_opcheck_and_plan():
    a, b = gaussian((3, 3), 1, F64).requires_grad_(), gaussian((3, 2), 2, F64)
    torch.library.opcheck(torch.ops.trnblas.symm.default, (a, b, None, 0.5, 0.0, True, False, "fp64"))
    assert trnsci.plan(symm, 1.0, a.detach(), b).flops == 2 * 3 * 3 * 2


@together(
    ("call", "text"),
    [
        (lambda: symm(1.0, torch.ones(2, 3), torch.ones(3, 3)), "shape of a is (2, 3), expected [..., N, N]"),
        (lambda: symm(1.0, torch.ones(2, 2), torch.ones(3, 2)), "symm: M differs: a has M=2, b has M=3"),
        (lambda: symm(1.0, torch.ones(2, 2), torch.ones(2, 3), side=1), "symm: N differs: a has N=2, b has N=3"),
        (lambda: symm(1.0, torch.ones(2, 2), torch.ones(2, 3), 1.0), "c is None, expected a tensor"),
        (lambda: symm(1.0, torch.ones(2, 2), torch.ones(2, 3), side="x"), "side is 'x', expected one of"),
        (lambda: symv(1.0, torch.ones(2, 2), torch.ones(3)), "symv: N differs: a has N=2, x has N=3"),
    ],
)
def test_bad_arguments_are_named(call, text):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert text in str(caught.value)
