import numpy as np
import pytest
import scipy.linalg
import torch

import trnsci
from tests.together import together
from trnsci import ArgumentError, DtypeError, NotPositiveDefinite, Singular
from trnsci.testing import BACKENDS, assert_within, gaussian, in_float64, unit_roundoff
from trnsolver import cholesky, cholesky_inverse, cholesky_solve, inv_spd, solve_spd

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def _spd(shape, seed=0, dtype=torch.float32):
    x = gaussian(shape, seed, dtype)
    a = x @ x.mH / shape[-1] + 0.1 * torch.eye(shape[-1], dtype=dtype)
    return 0.5 * (a + a.mH)


def _bound(a):
    return 20 * a.shape[-1] * unit_roundoff(a.dtype)


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (31, 31), (129, 129), (3, 17, 17), (2, 2, 5, 5)])
def test_the_factor_multiplies_back(backend, shape, norm):
    a = _spd(shape)
    with backend:
        factor = cholesky(a)
    assert_within(factor.triu(1), torch.zeros(shape), 0.0)
    assert norm(factor.double() @ factor.double().mT - a.double()) <= _bound(a) * norm(a)


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_agrees_with_numpy(backend, dtype, norm):
    a = _spd((70, 70), 3, dtype)
    expected = in_float64(np.linalg.cholesky, a)
    with backend:
        factor, upper = cholesky(a), cholesky(a, upper=True)
    # Perturbation of the factor: the backward error times the condition of a.
    limit = _bound(a) * np.linalg.cond(expected.numpy()) ** 2
    assert norm(factor.to(expected.dtype) - expected) <= limit * norm(expected)
    assert norm(upper - factor.mH) <= limit * norm(expected)
    assert factor.dtype == dtype


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_ill_conditioned_but_definite(backend, norm):
    q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((150, 150)))
    a = torch.from_numpy((q * np.logspace(0, -5, 150)) @ q.T).float()
    a = 0.5 * (a + a.mT)
    with backend:
        factor = cholesky(a).double()
    assert norm(factor @ factor.mT - a.double()) <= _bound(a) * norm(a)


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("index", [0, 3, 128])
def test_a_pivot_that_is_not_positive_is_named(backend, index):
    a = torch.eye(130)
    a[index, index] = -1.0
    with backend, pytest.raises(NotPositiveDefinite) as caught:
        cholesky(a)
    assert caught.value.index == index
    assert f"pivot {index}" in str(caught.value)


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_the_place_in_a_batch_is_named(backend):
    a = torch.eye(3).repeat(2, 2, 1, 1)
    a[1, 0, 2, 2] = 0.0
    with backend, pytest.raises(NotPositiveDefinite) as caught:
        cholesky(a)
    assert (caught.value.index, caught.value.batch) == (2, (1, 0))


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_only_the_lower_triangle_is_read(backend):
    a = _spd((20, 20))
    other = a.tril() + 5.0 * torch.ones(20, 20).triu(1)
    with backend:
        assert torch.equal(cholesky(other), cholesky(a))


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("shape", [(0, 0), (3, 0, 0), (0, 4, 4)])
def test_empty(backend, shape):
    with backend:
        assert cholesky(torch.empty(shape)).shape == shape


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_solutions(backend, norm):
    a, b = _spd((2, 40, 40)), gaussian((2, 40, 3), 1)
    with backend:
        x = cholesky_solve(b, cholesky(a))
        y = cholesky_solve(b, cholesky(a, upper=True), upper=True)
        z = solve_spd(a, b)
        v = solve_spd(a[0], b[0, :, 0])
    for found in (x, y, z):
        left = a.double() @ found.double() - b.double()
        assert norm(left) <= _bound(a) * (norm(a) * norm(found) + norm(b))
    assert v.shape == (40,)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_complex_systems_are_right(dtype, norm):
    a, b = _spd((30, 30), 1, dtype), gaussian((30,), 2, dtype)
    expected = in_float64(lambda a, b: scipy.linalg.solve(a, b, assume_a="pos"), a, b)
    limit = _bound(a) * np.linalg.cond(in_float64(lambda a: a, a).numpy())
    assert float((solve_spd(a, b) - expected).abs().max()) <= limit * float(expected.abs().max())


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_the_inverse_is_hermitian(backend, norm):
    a = _spd((50, 50))
    with backend:
        inverse = inv_spd(a)
    assert torch.equal(inverse, inverse.mH)
    assert norm(inverse.double() @ a.double() - torch.eye(50)) <= _bound(a) * norm(inverse) * norm(a)


def test_gradients():
    a = _spd((4, 4), dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda a: cholesky(0.5 * (a + a.mT)), (a,))
    assert torch.autograd.gradcheck(lambda a: inv_spd(0.5 * (a + a.mT)), (a,))
    # the triangle that is not read has none, forward or backward
    factor, b = cholesky(a.detach()), gaussian((4, 2), 1, torch.float64)
    for upper, read in ((False, factor), (True, factor.mT.clone())):
        for call in (lambda f, u=upper: cholesky_solve(b, f, upper=u), lambda f, u=upper: cholesky_inverse(f, upper=u)):
            assert torch.autograd.gradcheck(call, (read.clone().requires_grad_(),))
            unread = torch.ones_like(read).tril(-1) if upper else torch.ones_like(read).triu(1)
            assert not torch.func.jvp(call, (read,), (unread,))[1].any()


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, pytest.param(torch.complex128, marks=pytest.mark.slow)], ids=str)
def test_gradients_of_solutions_and_inverses(backend, dtype):
    a, b = _spd((4, 4), dtype=dtype).requires_grad_(), gaussian((2, 4, 2), 1, dtype).requires_grad_()
    fast = backend.runs_kernels
    with backend:
        assert torch.autograd.gradcheck(lambda a, b: solve_spd(0.5 * (a + a.mH), b), (a, b), fast_mode=fast)
        assert torch.autograd.gradcheck(lambda a: inv_spd(0.5 * (a + a.mH)), (a,), fast_mode=fast)


@pytest.mark.grid(2)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_inverses_from_factors(backend, upper, dtype, norm):
    a = _spd((2, 9, 9), 1, dtype)
    with backend:
        x = cholesky_inverse(cholesky(a, upper=upper), upper=upper)
    wide = torch.complex128
    assert norm(x.to(wide) @ a.to(wide) - torch.eye(9)) <= _bound(a) * norm(x) * norm(a)
    with pytest.raises(Singular, match="diagonal entry 1"):
        cholesky_inverse(torch.diag(torch.tensor([1.0, 0.0])))
    with pytest.raises(Singular):
        cholesky_solve(torch.ones(2), torch.diag(torch.tensor([1.0, 0.0])))


def test_kernel_gradients():
    a, weights = _spd((12, 12)), gaussian((12, 12), 5)
    wide = a.double().requires_grad_()
    (torch.linalg.cholesky(0.5 * (wide + wide.mT)) * weights).sum().backward()
    narrow = a.clone().requires_grad_()
    with trnsci.backend("simulator"):
        (cholesky(0.5 * (narrow + narrow.mT)) * weights).sum().backward()
    limit = 20 * 12 * 2.0**-24 * np.linalg.cond(a.numpy()) ** 2
    assert float((narrow.grad - wide.grad).abs().max()) <= limit * float(wide.grad.abs().max())


def test_compiled_and_registered():
    a = _spd((5, 5))
    torch.library.opcheck(torch.ops.trnsolver.cholesky.default, (a,))
    assert trnsci.plan(cholesky, a).op


def test_numpy_in_numpy_out():
    assert isinstance(cholesky(np.eye(3)), np.ndarray)


@together(
    ("bad", "error", "text"),
    [
        (torch.ones(2, 3), ArgumentError, "2 rows and 3 columns"),
        (torch.ones(3), ArgumentError, "at least 2 dimensions"),
        (torch.eye(3).to(torch.float8_e4m3fn), DtypeError, "float8"),
        (torch.eye(3).int(), DtypeError, "int32"),
        (torch.tensor([[1.0, 0.0], [float("nan"), 1.0]]), ArgumentError, "a[1, 0] is nan"),
    ],
)
def test_bad_input(bad, error, text):
    with pytest.raises(error) as caught:
        cholesky(bad)
    assert text in str(caught.value)


def test_mismatched_right_hand_side():
    with pytest.raises(ArgumentError) as caught:
        solve_spd(torch.eye(3), torch.ones(4, 1))
    assert caught.value.got == {"a": 3, "b": 4}
