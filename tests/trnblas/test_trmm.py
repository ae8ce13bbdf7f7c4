import functools
import sys

import pytest
import torch

import trnsci
from tests.together import together
from tests.trnblas.oracles import C64, C128, F32, F64, KERNELS, gradient_bound, rounded_once, scipy_blas, sum_bound
from trnblas import symm, symv, trmm, trmv, trsm, trsv
from trnsci import ArgumentError
from trnsci.testing import BACKENDS, assert_within, gaussian, pairs

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)
TRANS = {"n": 0, "t": 1, "c": 2}


def spoiled(a, lower, unit):
    """The same matrix with NaN wherever it must not be read."""
    everywhere = torch.ones(a.shape[-2:], dtype=torch.bool)
    hidden = everywhere.triu(0 if unit else 1) if lower else everywhere.tril(0 if unit else -1)
    return torch.where(hidden, torch.nan, a)


@pytest.mark.parametrize(
    ("backend", "lower", "side", "trans", "unit", "size"),
    pairs(BACKENDS, [0, 1], [0, 1], ["n", "t", "c"], [0, 1], [(F32, 129, 131), (C64, 5, 7), (F64, 6, 3)]),
    ids=str,
)
def test_products(backend, lower, side, trans, unit, size):
    dtype, m, n = size
    size = n if side else m
    a, b = gaussian((size, size), 1, dtype), gaussian((m, n), 2, dtype)
    alpha = 0.5 - 1j if dtype.is_complex else 0.5
    options = {"side": side, "lower": lower, "trans_a": TRANS[trans], "diag": unit}
    with backend:
        got = trmm(alpha, spoiled(a, lower, unit), b, side, lower, trans, unit)
    assert got.dtype == dtype
    magnitude = scipy_blas("trmm", abs(alpha), a.abs(), b.abs(), **options)
    expected = scipy_blas("trmm", alpha, a, b, complex_valued=dtype.is_complex, **options)
    assert_within(got, expected, 2 * sum_bound(size, magnitude, dtype))


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("lower", [0, 1])
@pytest.mark.parametrize("unit", [0, 1])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (128, 513), (700, 40)])
def test_shapes(backend, lower, unit, m, n):
    a, b = gaussian((m, m), 1), gaussian((m, n), 2)
    full = (
        (a.double().tril(-1) if lower else a.double().triu(1))
        if unit
        else a.double().tril()
        if lower
        else a.double().triu()
    )
    full = full + torch.eye(m, dtype=F64) if unit else full
    with backend:
        got = trmm(1.0, a, b, lower=lower, diag=unit)
    assert_within(got, full @ b.double(), sum_bound(m, full.abs() @ b.abs().double(), F32))


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("trans", ["n", "t", "c"])
@pytest.mark.parametrize("lower", [0, 1])
def test_vectors(backend, trans, lower):
    for dtype in (F32, C64):
        a, x = gaussian((20, 20), 1, dtype), gaussian((20,), 2, dtype)
        options = {"lower": lower, "trans": TRANS[trans]}
        out = torch.empty(20, dtype=dtype)
        with backend:
            assert trmv(a, x, lower, trans, out=out) is out
        bound = sum_bound(20, scipy_blas("trmv", a.abs(), x.abs(), **options), dtype)
        assert_within(out, scipy_blas("trmv", a, x, complex_valued=dtype.is_complex, **options), bound)


@on_backends
def test_batches_and_empties(backend):
    a, b = gaussian((2, 1, 4, 4), 1), gaussian((3, 4, 5), 2)
    with backend:
        got = trmm(2.0, a, b, lower=1)
        assert trmm(1.0, torch.ones(0, 0), torch.ones(0, 3)).shape == (0, 3)
        assert torch.equal(trmm(0.0, torch.full((2, 2), torch.nan), torch.ones(2, 2)), torch.zeros(2, 2))
    full = 2 * a.double().tril()
    assert_within(got, full @ b.double(), sum_bound(4, full.abs() @ b.abs().double(), F32))


@pytest.mark.parametrize("backend", KERNELS, ids=str)
def test_matrices_larger_than_the_chip_holds_go_through_the_whole_product(backend, monkeypatch):
    a, b = gaussian((40, 40), 1), gaussian((40, 5), 2)
    with backend:
        expected = trmm(1.0, a, b, lower=1)
        monkeypatch.setattr(sys.modules["trnblas.trmm"], "_LARGEST", 16)
        got = trmm(1.0, a, b, lower=1)
    assert_within(got, expected, 2 * sum_bound(40, a.abs().double() @ b.abs().double() * 2, F32))


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize("precision", ["fast", "compensated", "fp64"])
def test_precisions(backend, precision):
    a, b = gaussian((60, 60), 1), gaussian((60, 5), 2)
    with backend:
        got = trmm(1.0, a, b, lower=1, precision=precision)
    operands = (a.bfloat16(), b.bfloat16()) if precision == "fast" else (a, b)
    full, right = operands[0].double().tril(), operands[1].double()
    exact = full @ right
    bound = (
        sum_bound(60, full.abs() @ right.abs(), F32)
        if precision == "fast"
        else rounded_once(exact, full.abs() @ right.abs(), 62)
    )
    assert_within(got, exact, bound)


@pytest.mark.grid(1)
@pytest.mark.parametrize("dtype", [F64, C128], ids=str)
@pytest.mark.parametrize(
    ("lower", "side", "trans", "unit"), [(0, 0, "n", 0), (1, 1, "t", 1), (1, 0, "c", 0), (0, 1, "c", 1)]
)
def test_gradients(dtype, lower, side, trans, unit):
    a, b = gaussian((3, 3), 1, dtype).requires_grad_(), gaussian((3, 3), 2, dtype).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: trmm(0.5, a, b, side, lower, trans, unit), (a, b))
    operator = torch.ops.trnblas.trmm.default
    assert torch.autograd.gradcheck(lambda a, b: operator(a, b, 0.5, bool(lower), bool(unit), "fp64"), (a, b))


@pytest.mark.parametrize("backend", KERNELS, ids=str)
def test_gradients_through_kernels(backend):
    a, b = gaussian((5, 5), 1).requires_grad_(), gaussian((5, 3), 2).requires_grad_()
    with backend:
        trmm(1.0, a, b, lower=1).square().sum().backward()
    c, d = (t.detach().double().requires_grad_() for t in (a, b))
    (c.tril() @ d).square().sum().backward()
    limits = gradient_bound(lambda a, b: (a.tril() @ b).square().sum(), (a, b), 20)
    for got, expected, limit in zip((a, b), (c, d), limits, strict=True):
        assert_within(got.grad, expected.grad, limit)


@on_backends
def test_one_vector_is_one_column(backend):
    for vector, matrix in (
        (trmv, functools.partial(trmm, 1.0)),
        (trsv, functools.partial(trsm, 1.0)),
        (functools.partial(symv, 2.0), functools.partial(symm, 2.0)),
    ):
        results = []
        for call, columns in ((vector, 0), (matrix, 1)):
            a = (gaussian((5, 5), 1) / 4 + 2 * torch.eye(5)).requires_grad_()
            x = gaussian((5, *[1] * columns), 2).requires_grad_()
            with backend:
                value = call(a, x)
                value.square().sum().backward()
            results.append([value.squeeze(-1) if columns else value, a.grad, x.grad.squeeze(-1) if columns else x.grad])
        for one, other in zip(*results, strict=True):
            assert torch.equal(one, other)


def test_opcheck_and_plan():
    a, b = gaussian((3, 3), 1, F64).requires_grad_(), gaussian((3, 2), 2, F64)
    torch.library.opcheck(torch.ops.trnblas.trmm.default, (a, b, 0.5, True, False, "fp64"))
    assert trnsci.plan(trmm, 1.0, a.detach(), b).flops == 3 * 3 * 2


@together(
    ("call", "text"),
    [
        (lambda: trmm(1.0, torch.ones(2, 3), torch.ones(3, 3)), "shape of a is (2, 3), expected [..., N, N]"),
        (lambda: trmm(1.0, torch.ones(2, 2), torch.ones(3, 2)), "trmm: M differs: a has M=2, b has M=3"),
        (lambda: trmm(1.0, torch.ones(2, 2), torch.ones(2, 2), diag="x"), "diag is 'x', expected one of"),
        (lambda: trmm(1.0, torch.ones(2, 2), torch.ones(2, 2), trans_a="x"), "trans_a is 'x', expected one of"),
        (lambda: trmv(torch.ones(2, 2), torch.ones(3)), "trmv: M differs: a has M=2, x has M=3"),
        (lambda: trmm(1.0, torch.ones(2, 2), b := torch.ones(2, 2), out=b), "memory shared with b"),
    ],
)
def test_bad_arguments_are_named(call, text):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert text in str(caught.value)
