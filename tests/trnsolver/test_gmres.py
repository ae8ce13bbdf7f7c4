"""Solvers of general and indefinite systems against their residuals."""

import pytest
import torch

import trnsolver as ts
from trnsci.testing import gaussian

GENERAL = (ts.bicgstab, ts.gmres)


def _residual(a, x, b):
    left = torch.linalg.vector_norm(b - a @ x, dim=0) / torch.linalg.vector_norm(b, dim=0)
    return float(left.max())


# the residual asked for, relative to b; the true one may be twice what a recurrence says
TOL = 1e-10


@pytest.mark.parametrize("solver", GENERAL, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_general_matrices(solver, dtype):
    a = gaussian((30, 30), 1, dtype) / 30**0.5 + 3 * torch.eye(30, dtype=dtype)
    b = gaussian((30,), 2, dtype)
    steps = []
    found = solver(a, b, tol=TOL, callback=lambda step, residual: steps.append(step))
    assert found.converged
    assert _residual(a, found.x, b) <= 2 * TOL
    assert steps == list(range(found.iterations + 1))


def test_minres_on_an_indefinite_matrix():
    a = torch.diag(torch.linspace(-3, 4, 20, dtype=torch.float64) + 0.05)
    b = gaussian((20,), 1, torch.float64)
    found = ts.minres(a, b, tol=TOL)
    assert found.converged
    assert _residual(a, found.x, b) <= 2 * TOL


def test_restarts_and_flexible_preconditioners():
    a, b = (
        gaussian((40, 40), 1, torch.float64) / 9 + 2 * torch.eye(40, dtype=torch.float64),
        gaussian((40,), 2, torch.float64),
    )
    short = ts.gmres(a, b, restart=5, tol=TOL, maxiter=400)
    changing = iter(range(1000))
    flexible = ts.gmres(a, b, flexible=True, preconditioner=lambda r: r / (1 + next(changing) % 3), tol=TOL)
    assert short.converged
    assert flexible.converged
    assert _residual(a, flexible.x, b) <= 2 * TOL
