"""A few eigenpairs of nearly diagonal matrices, against NumPy."""

import numpy as np
import pytest
import torch

import trnsolver as ts
from trnsci import ArgumentError, NotConverged
from trnsci.testing import gaussian


def _spd(n, seed=0, dtype=torch.float64):
    x = gaussian((n, n), seed, dtype)
    return x @ x.mH / n + torch.eye(n, dtype=dtype)


@pytest.mark.grid(2)
@pytest.mark.parametrize("which", ["smallest", "largest"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("operand", ["matrix", "function"])
def test_davidson(which, dtype, operand):
    x = gaussian((120, 120), 3, dtype)
    a = torch.diag(torch.linspace(1, 60, 120, dtype=torch.float64)).to(dtype) + 0.05 * (x + x.mH)
    exact = np.linalg.eigvalsh(a.numpy())
    chosen = exact[:4] if which == "smallest" else exact[::-1][:4]
    if operand == "matrix":
        found = ts.davidson(a, 4, which=which, tol=1e-9, space=16).require()
    else:
        found = ts.davidson(lambda v: a @ v, 4, which=which, tol=1e-9, diagonal=a.diagonal()).require()
    # An eigenvalue is as near as its residual.
    assert np.abs(found.values.numpy() - chosen).max() <= 2e-9 * 62
    left = torch.linalg.matrix_norm(a @ found.vectors - found.vectors * found.values)
    assert float(left) <= 2 * 2e-9 * 62


def test_davidson_says_what_it_lacks():
    with pytest.raises(ArgumentError, match="the diagonal of a, because a is not a matrix"):
        ts.davidson(lambda v: v, 2)
    with pytest.raises(ArgumentError, match="k is 9, expected 1 to 3"):
        ts.davidson(torch.eye(3), 9)
    found = ts.davidson(_spd(40), 3, maxiter=1, tol=1e-14)
    assert not found.converged
    with pytest.raises(NotConverged):
        found.require()


@pytest.mark.parametrize("n", range(2, 12))
def test_matrices_that_fit_into_the_space_are_solved_whole(n):
    # with no room to restart in, a search of 5 to 10 rows went on for 200 steps
    for seed in range(5):
        a = gaussian((n, n), seed, torch.float64)
        a = a + a.mT
        for k in range(1, min(n, 4)):
            values = ts.davidson(a, k).require().values
            assert (values - torch.linalg.eigvalsh(a)[:k]).abs().max() <= 1e-5 * torch.linalg.matrix_norm(a, 2)
