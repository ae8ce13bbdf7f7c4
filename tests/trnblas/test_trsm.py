import sys

import pytest
import torch
from scipy.linalg import solve_triangular

import trnsci
from tests.trnblas.oracles import C64, C128, F32, F64, KERNELS, scipy_blas
from trnblas import error_bound, trsm, trsv
from trnsci import ArgumentError, Singular
from trnsci.testing import BACKENDS, assert_within, gamma, gaussian, pairs

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)
TRANS = {"n": 0, "t": 1, "c": 2}


def system(n, dtype, seed=1):
    """Well conditioned, so that errors are those of the algorithm."""
    return gaussian((n, n), seed, dtype) / (2 * n**0.5) + 2 * torch.eye(n, dtype=dtype)


def factor_bound(full, x, dtype, terms):
    """``g |inv(a)| |a| |inv(a)| |a| |x|``: the stated bound, with ``|b| <= |a| |x|``."""
    inverse, size = torch.linalg.inv(full).abs(), full.abs()
    factor = gamma(terms, dtype) * (2**0.5 * 2 if dtype.is_complex else 1)
    return factor * (inverse @ size @ inverse @ size @ x.abs()) + torch.finfo(dtype).smallest_normal


@pytest.mark.parametrize(
    ("backend", "lower", "side", "trans", "unit", "size"),
    pairs(
        BACKENDS, [0, 1], [0, 1], ["n", "t", "c"], [0, 1], [(F32, 129, 131), (C64, 5, 7), (C64, 70, 66), (F64, 6, 3)]
    ),
    ids=str,
)
def test_systems(backend, lower, side, trans, unit, size):
    dtype, m, n = size
    size = n if side else m
    a, b = system(size, dtype), gaussian((m, n), 2, dtype)
    alpha = 0.5 - 1j if dtype.is_complex else 0.5
    everywhere = torch.ones(size, size, dtype=torch.bool)
    hidden = everywhere.triu(0 if unit else 1) if lower else everywhere.tril(0 if unit else -1)
    with backend:
        got = trsm(alpha, torch.where(hidden, torch.nan, a), b, side, lower, trans, unit)
    assert got.dtype == dtype
    options = {"side": side, "lower": lower, "trans_a": TRANS[trans], "diag": unit}
    expected = scipy_blas("trsm", alpha, a, b, complex_valued=dtype.is_complex, **options)
    full = torch.where(hidden, 0, a).to(expected.dtype)
    full = full + torch.eye(size) if unit else full
    full = {"n": full, "t": full.mT, "c": full.mH}[trans]
    terms = (4 if dtype.is_complex else 2) * size + 128
    bound = factor_bound(full.mT, expected.mT, dtype, terms).mT if side else factor_bound(full, expected, dtype, terms)
    assert_within(got, expected, 2 * bound)


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("lower", [0, 1])
@pytest.mark.parametrize(("n", "columns"), [(1, 1), (2, 3), (127, 2), (128, 1), (300, 520)])
def test_shapes(backend, lower, n, columns):
    a, b = system(n, F32), gaussian((n, columns), 2)
    full = a.double().tril() if lower else a.double().triu()
    expected = torch.from_numpy(solve_triangular(full.numpy(), b.double().numpy(), lower=bool(lower)))
    with backend:
        got = trsm(1.0, a, b, lower=lower)
    assert_within(got, expected, factor_bound(full, expected, F32, 2 * n + 128))


@on_backends
def test_blocks_are_inverted_stably(backend):
    """All ones: powers of the strict triangle overflow every word, its inverse is bidiagonal."""
    a, b = torch.ones(128, 128), torch.arange(1.0, 129.0).unsqueeze(1)
    with backend:
        got = trsm(1.0, a, b, lower=1)
    assert torch.equal(got, torch.ones(128, 1))


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("trans", ["n", "t", "c"])
@pytest.mark.parametrize("lower", [0, 1])
def test_vectors(backend, trans, lower):
    a, x, out = system(20, F32), gaussian((20,), 2), torch.empty(20)
    with backend:
        assert trsv(a, x, lower, trans, out=out) is out
    expected = scipy_blas("trsv", a, x, lower=lower, trans=TRANS[trans])
    full = a.double().tril() if lower else a.double().triu()
    full = full if trans == "n" else full.mT
    assert_within(out, expected, factor_bound(full, expected, F32, 168))


@on_backends
def test_batches_and_empties(backend):
    a, b = torch.stack([system(4, F32, s) for s in (1, 2)]).unsqueeze(1), gaussian((3, 4, 5), 3)
    with backend:
        got = trsm(1.0, a, b, lower=1)
        assert trsm(1.0, torch.ones(0, 0), torch.ones(0, 3)).shape == (0, 3)
    full = a.double().tril()
    expected = torch.linalg.inv(full) @ b.double()
    assert_within(got, expected, factor_bound(full, expected, F32, 136))


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize("precision", ["fast", "fp32", "compensated", "fp64"])
def test_precisions(backend, precision):
    a, b = system(150, F32), gaussian((150, 4), 2)
    expected = torch.from_numpy(solve_triangular(a.double().tril().numpy(), b.double().numpy(), lower=True))
    with backend:
        got = trsm(1.0, a, b, lower=1, precision=precision)
    full = a.double().tril()
    inverse = torch.linalg.inv(full).abs()
    size = inverse @ full.abs() @ inverse @ b.abs().double()
    limit = error_bound(2 * 150 + 128, F32, "fp32" if precision == "compensated" else precision) * size
    if precision == "compensated":
        # One rounding, and what the residual leaves: the first solution's error as often as the system amplifies it.
        limit = 2.0**-24 * expected.abs() + 2 * gamma(428, F32) * inverse @ full.abs() @ limit
    assert_within(got, expected, limit)


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("lower", [0, 1])
@pytest.mark.parametrize("dtype", [F64, C128], ids=str)
def test_double_precision_across_blocks(backend, lower, dtype):
    a, b = system(300, dtype), gaussian((300, 3), 2, dtype)
    full = a.tril() if lower else a.triu()
    expected = torch.from_numpy(solve_triangular(full.numpy(), b.numpy(), lower=bool(lower)))
    with backend:
        got = trsm(1.0, a, b, lower=lower)
    assert_within(got, expected, 2 * factor_bound(full, expected, dtype, 600))


@pytest.mark.parametrize("backend", KERNELS, ids=str)
@pytest.mark.parametrize("lower", [0, 1])
def test_systems_larger_than_the_chip_are_solved_in_blocks(backend, lower, monkeypatch):
    monkeypatch.setattr(sys.modules["trnblas.trsm"], "_LARGEST", 64)
    a, b = system(150, F32), gaussian((150, 3), 2)
    full = a.double().tril() if lower else a.double().triu()
    expected = torch.linalg.inv(full) @ b.double()
    with backend:
        got = trsm(1.0, a, b, lower=lower)
    assert_within(got, expected, factor_bound(full, expected, F32, 428))


@on_backends
def test_a_zero_on_the_diagonal_is_named(backend):
    a = torch.eye(5).repeat(2, 1, 1)
    a[1, 3, 3] = 0.0
    with backend:
        with pytest.raises(Singular) as caught:
            trsm(1.0, a, torch.ones(5, 2))
        assert torch.equal(trsm(1.0, a, torch.ones(5, 2), diag="u"), torch.ones(2, 5, 2))
    assert (caught.value.index, caught.value.batch) == (3, (1,))
    assert "trsm: the matrix is singular: diagonal entry 3 (batch (1,)) is zero" in str(caught.value)


@pytest.mark.grid(1)
@pytest.mark.parametrize("dtype", [F64, C128], ids=str)
@pytest.mark.parametrize(
    ("lower", "side", "trans", "unit"), [(0, 0, "n", 0), (1, 1, "t", 1), (1, 0, "c", 0), (0, 1, "c", 1)]
)
def test_gradients(dtype, lower, side, trans, unit):
    a, b = system(3, dtype).requires_grad_(), gaussian((3, 3), 2, dtype).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: trsm(0.5, a, b, side, lower, trans, unit), (a, b))
    operator = torch.ops.trnblas.trsm.default
    assert torch.autograd.gradcheck(lambda a, b: operator(a, b, 0.5, bool(lower), bool(unit), "fp64"), (a, b))


@pytest.mark.parametrize("backend", KERNELS, ids=str)
def test_gradients_through_kernels(backend):
    a, b = system(5, F32).requires_grad_(), gaussian((5, 3), 2).requires_grad_()
    with backend:
        trsm(1.0, a, b, lower=1).square().sum().backward()
    c, d = (t.detach().double().requires_grad_() for t in (a, b))
    (torch.linalg.inv(c.tril()) @ d).square().sum().backward()
    # x = inv(a) b, then the gradient of b is 2 inv(a).T x and that of a its product with x: two solves and a product.
    inverse, size = torch.linalg.inv(c.detach().tril()).abs(), c.detach().tril().abs()
    x = inverse @ size @ inverse @ d.detach().abs()
    of_b = 2 * inverse.mT @ size.mT @ inverse.mT @ x
    g = gamma(3 * (2 * 5 + 128) + 10, F32)
    assert_within(b.grad, d.grad, g * of_b)
    assert_within(a.grad, c.grad, g * (of_b @ x.mT).tril())


def test_opcheck_and_plan():
    a, b = system(3, F64).requires_grad_(), gaussian((3, 2), 2, F64)
    torch.library.opcheck(torch.ops.trnblas.trsm.default, (a, b, 0.5, True, False, "fp64"))
    assert trnsci.plan(trsm, 1.0, a.detach(), b).flops == 3 * 3 * 2


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: trsm(1.0, torch.ones(2, 3), torch.ones(3, 3)), "shape of a is (2, 3), expected [..., N, N]"),
        (lambda: trsm(1.0, torch.ones(2, 2), torch.ones(3, 2)), "trsm: M differs: a has M=2, b has M=3"),
        (lambda: trsv(torch.ones(2, 2), torch.ones(3)), "trsv: M differs: a has M=2, x has M=3"),
    ],
)
def test_bad_arguments_are_named(call, text):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert text in str(caught.value)
