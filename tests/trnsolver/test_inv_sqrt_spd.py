import numpy as np
import pytest
import torch

from trnsci import NotConverged, NotPositiveDefinite
from trnsci.testing import BACKENDS, Backend, gaussian, unit_roundoff
from trnsolver import inv_sqrt_spd


def _spd(shape, cond, dtype=torch.float32):
    q = torch.linalg.qr(gaussian(shape, 1, torch.complex128 if dtype.is_complex else torch.float64)).Q
    a = (q * torch.logspace(0, -np.log10(cond), shape[-1], dtype=torch.float64)) @ q.mH
    return (0.5 * (a + a.mH)).to(dtype)


@pytest.mark.grid(2)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("method", ["eigen", "newton_schulz"])
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (19, 19), (2, 8, 8)])
@pytest.mark.parametrize("cond", [10.0, 1e3])
def test_on_both_sides_it_gives_one(backend, method, shape, cond, norm):
    a = _spd(shape, cond)
    with backend:
        x = inv_sqrt_spd(a, method=method).double()
    assert norm(x @ a.double() @ x - torch.eye(shape[-1])) <= 20 * shape[-1] * 2.0**-24 * cond


@pytest.mark.grid(1)
@pytest.mark.parametrize("method", ["eigen", "newton_schulz"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64, torch.complex128], ids=str)
def test_other_dtypes(method, dtype, norm):
    a = _spd((12, 12), 100.0, dtype)
    x = inv_sqrt_spd(a, method=method)
    assert norm(x @ a @ x - torch.eye(12, dtype=dtype)) <= 20 * 12 * unit_roundoff(dtype) * 100


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("method", ["eigen", "newton_schulz"])
@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_squares_of_entries_may_leave_the_range(backend, method, scale, norm):
    a = _spd((5, 5), 10.0, torch.float64)
    with backend:
        x = inv_sqrt_spd((a * scale).float(), method=method).double() * scale**0.5
    assert norm(x @ a @ x - torch.eye(5)) <= 20 * 5 * 2.0**-24 * 10


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_more_than_one_tile(backend, norm):
    a = _spd((130, 130), 50.0)
    with backend:
        x = inv_sqrt_spd(a, method="newton_schulz").double()
    assert norm(x @ a.double() @ x - torch.eye(130)) <= 20 * 130 * 2.0**-24 * 50


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_matrices_that_have_none(backend):
    a = torch.diag(torch.tensor([1.0, -2.0, 3.0]))
    with backend:
        with pytest.raises(NotPositiveDefinite) as caught:
            inv_sqrt_spd(a)
        assert "eigenvalue 0 is -2" in str(caught.value)
        with pytest.raises(NotConverged, match="use method='eigen'"):
            inv_sqrt_spd(a, method="newton_schulz")


@pytest.mark.parametrize("method", ["eigen", "newton_schulz"])
def test_gradients(method, gradient):
    a = _spd((4, 4), 10.0, torch.float64)

    def fn(a):
        return inv_sqrt_spd(0.5 * (a + a.mT), method=method)

    assert torch.autograd.gradcheck(fn, (a.clone().requires_grad_(),))
    expected, found = gradient(fn, a, Backend("pytorch")), gradient(fn, a.float(), Backend("simulator"))
    # The derivative is as large as cond(a)**1.5, and so is what it makes of rounding errors.
    assert float((found - expected).abs().max()) <= 20 * 4 * 2.0**-24 * 10**1.5 * float(expected.abs().max())
