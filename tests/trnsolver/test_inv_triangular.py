import numpy as np
import pytest
import torch

import trnsci
from trnsci import Singular
from trnsci.testing import BACKENDS, gaussian, unit_roundoff
from trnsolver import inv_triangular


def _triangle(shape, seed=0, dtype=torch.float32):
    n = shape[-1]
    return gaussian(shape, seed, dtype) / max(1, n) + 2 * torch.eye(n, dtype=dtype)


@pytest.mark.grid(2)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (130, 130), (2, 33, 33)])
def test_times_the_matrix_is_one(backend, lower, unit, shape, norm):
    a = _triangle(shape)
    kept = a.tril() if lower else a.triu()
    if unit:
        kept = kept - torch.diag_embed(kept.diagonal(dim1=-2, dim2=-1)) + torch.eye(shape[-1])
    with backend:
        x = inv_triangular(a, lower=lower, unit=unit)
    limit = 20 * shape[-1] * 2.0**-24 * norm(x) * norm(kept)
    assert norm(x.double() @ kept.double() - torch.eye(shape[-1])) <= limit
    assert not (x.triu(1) if lower else x.tril(-1)).any()


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64, torch.complex128], ids=str)
def test_other_dtypes(backend, dtype, norm):
    a = _triangle((80, 80), 1, dtype).triu()
    expected = torch.from_numpy(np.linalg.inv(a.numpy().astype(np.complex128)))
    with backend:
        x = inv_triangular(a)
    assert norm(x - expected) <= 20 * 80 * unit_roundoff(dtype) * norm(expected) ** 2 * norm(a)


def test_gradients():
    a = _triangle((4, 4), 2, torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda a: inv_triangular(a, lower=True), (a,))
    narrow = _triangle((6, 6)).requires_grad_()
    with trnsci.backend("simulator"):
        inv_triangular(narrow).sum().backward()
    wide = narrow.detach().double().requires_grad_()
    torch.linalg.inv(wide.triu()).sum().backward()
    assert float((narrow.grad - wide.grad).abs().max()) <= 20 * 6 * 2.0**-24 * float(wide.grad.abs().max())


def test_a_zero_on_the_diagonal_is_named():
    a = torch.eye(4)
    a[2, 2] = 0.0
    with pytest.raises(Singular) as caught:
        inv_triangular(a)
    assert caught.value.index == 2
    assert "diagonal entry 2" in str(caught.value)


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_empty(backend):
    with backend:
        assert inv_triangular(torch.empty(2, 0, 0)).shape == (2, 0, 0)
