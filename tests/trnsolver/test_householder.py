"""Reflections: LAPACK's forms of QR factors against NumPy and SciPy."""

import numpy as np
import pytest
import scipy.linalg
import torch

import trnsci
from tests.together import together
from trnsci import ArgumentError, UnsupportedError
from trnsci.testing import gaussian, pairs
from trnsolver import geqrf, householder_product, ormqr, qr
from trnsolver.arguments import roundoff

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
SHAPES = [(1, 1), (5, 3), (3, 5), (40, 40), (3, 7, 4), (2, 2, 6, 6)]


def drawn(shape, dtype, seed=1):
    real = gaussian(shape, seed, dtype=torch.float64)
    made = torch.complex(real, gaussian(shape, seed + 99, dtype=torch.float64)) if dtype.is_complex else real
    return made.to(dtype)


def norm(x):
    return float(torch.linalg.matrix_norm(x.to(torch.complex128)).max())


@together(("dtype", "shape"), pairs(DTYPES, SHAPES))
def test_q_from_its_reflections(dtype, shape):
    a = drawn(shape, dtype)
    m, n = shape[-2:]
    k, bound = min(m, n), 20 * m * roundoff(dtype)
    factors, tau = geqrf(a)
    assert factors.shape == a.shape
    assert tau.shape == (*shape[:-2], k)
    q = householder_product(factors[..., :k], tau)
    assert norm(q @ factors[..., :k, :].triu() - a) <= bound * norm(a)
    assert norm(q.mH @ q - torch.eye(k, dtype=dtype)) <= bound
    # r is that of numpy, signs included
    expected = np.linalg.qr(a.to(torch.complex128 if dtype.is_complex else torch.float64).numpy(), mode="r")
    assert norm(factors[..., :k, :].triu() - torch.from_numpy(expected)) <= 40 * bound * norm(a)


@together(("dtype", "shape", "left", "transpose"), pairs(DTYPES, SHAPES, [True, False], [True, False]))
def test_products_with_q(dtype, shape, left, transpose):
    a = drawn(shape, dtype)
    m = shape[-2]
    other = drawn((*shape[:-2], m, 3) if left else (*shape[:-2], 3, m), dtype, 5)
    q = qr(a.to(torch.complex128 if dtype.is_complex else torch.float64), mode="complete").q
    wide = other.to(q.dtype)
    q = q.mH if transpose else q
    expected = q @ wide if left else wide @ q
    found = ormqr(*geqrf(a), other, left=left, transpose=transpose)
    # the basis beyond the columns of a is the same product of reflections
    assert found.shape == other.shape
    assert norm(found - expected) <= 200 * m * roundoff(dtype) * norm(other)


def test_it_is_lapacks():
    a = drawn((6, 4), torch.float64)
    (raw, tau), _ = scipy.linalg.qr(a.numpy(), mode="raw")
    factors, ours = geqrf(a.numpy())
    # each column of factors is relative to one of a, and the last rows to what is left of it
    bound = 2 * 20 * 6 * 2.0**-53 * np.linalg.cond(a.numpy())
    assert np.linalg.norm(factors - raw) <= bound * np.linalg.norm(a.numpy())
    assert np.linalg.norm(ours - tau) <= bound * np.linalg.norm(tau)


def test_nothing():
    factors, tau = geqrf(torch.empty(0, 3))
    assert factors.shape == (0, 3)
    assert tau.shape == (0,)
    factors, tau = geqrf(torch.empty(4, 0))
    assert householder_product(factors, tau).shape == (4, 0)
    other = torch.ones(4, 2)
    assert torch.equal(ormqr(factors, tau, other), other)


def test_gradients():
    factors, tau = geqrf(drawn((5, 3), torch.float64))
    other = drawn((5, 2), torch.float64, 3)
    assert torch.autograd.gradcheck(householder_product, (factors.tril(-1).requires_grad_(), tau.requires_grad_()))
    assert torch.autograd.gradcheck(lambda x: ormqr(factors, tau.detach(), x), (other.requires_grad_(),))
    few = tau.detach()[:2].requires_grad_()
    assert torch.autograd.gradcheck(ormqr, (factors.requires_grad_(), few, other))
    batch = ormqr(factors.detach().expand(2, 5, 3), few.detach().expand(2, 2), other.detach().expand(2, 5, 2))
    torch.testing.assert_close(batch[1], ormqr(factors, few, other))
    with pytest.raises(UnsupportedError, match="no gradient"):
        geqrf(drawn((3, 3), torch.float64).requires_grad_())


def test_bad_arguments_are_named():
    factors, tau = geqrf(torch.ones(4, 3))
    with pytest.raises(ArgumentError) as caught:
        householder_product(factors.mT, tau)
    assert "3 and 4" in str(caught.value)
    with pytest.raises(ArgumentError) as caught:
        householder_product(factors, torch.ones(4))
    assert caught.value.got == (4,)
    assert "at most 3" in str(caught.value)
    with pytest.raises(ArgumentError) as caught:
        ormqr(factors, tau, torch.ones(3, 2))
    assert caught.value.got == {"factors": 4, "other": 3}
    with pytest.raises(ArgumentError, match="finite"):
        geqrf(torch.full((2, 2), float("nan")))
    with pytest.raises(ArgumentError) as caught:
        ormqr(factors, tau, torch.full((4, 1), float("inf")))
    assert caught.value.argument == "other[0, 0]"


def test_plans_say_where_and_why():
    plan = trnsci.plan(geqrf, torch.ones(30, 20))
    assert plan.backend == "pytorch"
    assert "kernel of qr forms" in plan.reason
    assert plan.steps[0].cost.flops == 2 * 400 * 30 - 2 * 8000 // 3
    with trnsci.backend("simulator"):
        assert geqrf(torch.ones(3, 2)).tau.shape == (2,)
