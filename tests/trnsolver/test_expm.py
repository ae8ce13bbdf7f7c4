"""The matrix exponential against mpmath and SciPy."""

import mpmath
import pytest
import scipy.linalg
import torch

from tests.together import together
from trnsci import NumericalError
from trnsci.testing import BACKENDS, gaussian, unit_roundoff
from trnsolver import expm

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)

FAR_FROM_NORMAL = {
    "jordan": [[0.0, 1e30], [0.0, 0.0]],
    "halved": [[1.0, 126.0], [0.0, -1.0]],
    "halved three": [[0.3, 60.0, 60.0], [0.0, 0.2, 60.0], [0.0, 0.0, 0.1]],
    "two": [[1.0, 1e6], [0.0, -1.0]],
    "three": [[0.3, 1e4, 1e4], [0.0, 0.2, 1e4], [0.0, 0.0, 0.1]],
    "four": [[0.3, 3e4, 3e4, 3e4], [0.0, 0.2, 3e4, 3e4], [0.0, 0.0, 0.1, 3e4], [0.0, 0.0, 0.0, 0.2]],
}


@pytest.mark.grid(2)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [1e-6, 1.0, 30.0])
def test_exponentials_of_any_norm(backend, dtype, size, norm):
    x = gaussian((3, 8, 8), 1, dtype)
    a = size * torch.tensor([1.0, 0.1, 3.0]).reshape(3, 1, 1).to(dtype) * (x - x.mH) / 8
    with backend:
        found = expm(a)
    wide = a.to(torch.complex128)
    expected = torch.stack([torch.from_numpy(scipy.linalg.expm(one.numpy())) for one in wide])
    assert found.dtype == dtype
    assert norm(found.to(torch.complex128) - expected) <= 20 * 8 * unit_roundoff(dtype) * max(1.0, norm(a)) * norm(
        expected
    )


def test_an_exponential_that_overflows():
    with pytest.raises(NumericalError, match=r"overflows torch\.float32: norm"):
        expm(200 * torch.eye(3))
    assert expm(torch.zeros(2, 0, 0)).shape == (2, 0, 0)


@pytest.mark.grid(1)
@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
@pytest.mark.parametrize("name", FAR_FROM_NORMAL)
def test_exponentials_far_from_normal(name, dtype, norm):
    a = torch.tensor(FAR_FROM_NORMAL[name], dtype=dtype)
    with mpmath.workdps(120):
        exact = mpmath.expm(mpmath.matrix(a.tolist()), method="taylor")
        expected = torch.tensor([[float(x) for x in row] for row in exact.tolist()], dtype=torch.float64)
    # what counts is the size of powers: the norm, a million times theirs, would cost six digits
    size = max(norm(torch.linalg.matrix_power(a.double(), p)) ** (1 / p) for p in (4, 6))
    limit = 20 * len(a) * unit_roundoff(dtype) * max(1.0, size)
    assert norm(expm(a).double() - expected) <= limit * norm(expected)


@together("norm", [1.9, 2.5, 4.0, 8.0, 15.5, 127.0])
def test_small_symmetric_matrices_near_the_ends_of_an_approximation(norm):
    """Where SciPy's own, with as many squarings as it takes, leaves errors of thirty times the bound."""
    values = torch.linspace(-norm, norm, 3, dtype=torch.float64)
    turn, _ = torch.linalg.qr(torch.arange(1.0, 10).reshape(3, 3).double() + torch.eye(3))
    a = (turn * values) @ turn.mT
    with mpmath.workdps(40):
        exact = mpmath.expm(mpmath.matrix(a.tolist()), method="taylor")
        expected = torch.tensor([[float(exact[i, j]) for j in range(3)] for i in range(3)], dtype=torch.float64)
    size = torch.linalg.matrix_norm(expected, 2)
    assert torch.linalg.matrix_norm(expm(a) - expected, 2) <= 20 * 3 * 2.0**-53 * max(1.0, norm) * size
