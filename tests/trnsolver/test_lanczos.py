"""A few eigenpairs by Krylov spaces and by descent, against NumPy and SciPy."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.linalg
import torch

import trnsolver as ts
from trnsci import ArgumentError, DtypeError
from trnsci.testing import gaussian


def _spd(n, seed=0, dtype=torch.float64):
    x = gaussian((n, n), seed, dtype)
    return x @ x.mH / n + torch.eye(n, dtype=dtype)


@pytest.mark.parametrize("which", ["largest", "smallest", "magnitude"])
def test_lanczos(which):
    a = _spd(80, 3) - 1.5 * torch.eye(80, dtype=torch.float64)
    exact = np.linalg.eigvalsh(a.numpy())
    found = ts.lanczos(a, 3, which=which, tol=1e-9).require()
    chosen = {"largest": exact[::-1][:3], "smallest": exact[:3], "magnitude": sorted(exact, key=abs, reverse=True)[:3]}
    left = float(torch.linalg.matrix_norm(a @ found.vectors - found.vectors * found.values, 2))
    rounding = 20 * 80 * 2.0**-53 * abs(exact).max()
    # each residual as asked for; values are no farther off than residuals (Weyl)
    assert left <= 3**0.5 * 1e-9 * abs(exact).max() + rounding
    assert np.abs(found.values.numpy() - chosen[which]).max() <= left + rounding


def test_arnoldi():
    a = gaussian((60, 60), 4, torch.float64)
    exact = np.linalg.eigvals(a.numpy())
    found = ts.arnoldi(a, 4, tol=1e-9).require()
    largest = sorted(abs(exact), reverse=True)[:4]
    assert np.abs(found.values.abs().numpy() - largest).max() <= 1e-7
    assert float(found.residuals.max()) <= 1e-7


@pytest.mark.parametrize("largest", [False, True])
def test_lobpcg(largest):
    a, b = _spd(50, 1), _spd(50, 2)
    exact = scipy.linalg.eigh(a.numpy(), b.numpy(), eigvals_only=True)
    found = ts.lobpcg(a, gaussian((50, 3), 3, torch.float64), b=b, largest=largest, tol=1e-9, maxiter=400).require()
    assert np.abs(found.values.numpy() - (exact[::-1][:3] if largest else exact[:3])).max() <= 1e-7


@pytest.mark.parametrize("start", [torch.zeros(9, 2), torch.ones(9, 2), torch.full((9, 2), float("nan"))])
def test_lobpcg_refuses_starts_that_span_too_little(start):
    with pytest.raises(ArgumentError, match="linearly independent"):
        ts.lobpcg(torch.diag(torch.arange(1.0, 10.0)), start)


def test_lobpcg_of_an_operator_with_nan_does_not_converge():
    found = ts.lobpcg(lambda x: x * float("nan"), gaussian((9, 2), 1))
    assert not found.converged


def test_preconditioners_take_arrays_and_refuse_lists():
    for make in (ts.jacobi_preconditioner, lambda a: ts.chebyshev_preconditioner(a, 0.5, 2.0), ts.ssor_preconditioner):
        near = make(torch.eye(3))
        assert np.array_equal(near(np.ones(3, np.float32)), near(torch.ones(3)).numpy())
        with pytest.raises(DtypeError, match="expected a tensor"):
            near([1.0, 1.0, 1.0])


@pytest.mark.parametrize("a", [torch.eye(2), torch.eye(2).to_sparse(), torch.eye(2).numpy()])
def test_lobpcg_refuses_a_matrix_of_another_size(a):
    for matrices in ({"a": a}, {"a": torch.eye(9), "b": a}):
        with pytest.raises(ArgumentError, match=r"is \(2, 2\), expected \(9, 9\)"):
            ts.lobpcg(x=torch.ones(9, 1), **matrices)
