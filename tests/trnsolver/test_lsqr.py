"""Iterative least squares against NumPy and SciPy."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.linalg
import torch

import trnsolver as ts
import trnsparse
from trnsci.testing import gaussian


@pytest.mark.grid(1)
@pytest.mark.parametrize("solver", [ts.lsqr, ts.lsmr], ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", ["function", "LinearOperator", "scipy sparse", "torch sparse", "trnsparse", "numpy"])
def test_least_squares_with_every_kind_of_operand(solver, kind):
    a, b = gaussian((30, 10), 1, torch.float64), gaussian((30,), 2, torch.float64)
    operand = {
        "function": lambda: (lambda x: a @ x, lambda x: a.mT @ x),
        "LinearOperator": lambda: scipy.sparse.linalg.aslinearoperator(a.numpy()),
        "scipy sparse": lambda: scipy.sparse.csr_array(a.numpy()),
        "torch sparse": lambda: a.to_sparse(),
        "trnsparse": lambda: trnsparse.CSRMatrix.from_dense(a),
        "numpy": lambda: a.numpy(),
    }[kind]()
    expected = np.linalg.lstsq(a.numpy(), b.numpy(), rcond=None)[0]
    assert np.abs(solver(operand, b, tol=1e-12).require().numpy() - expected).max() <= 1e-9


@pytest.mark.parametrize("solver", [ts.lsqr, ts.lsmr], ids=lambda f: f.__name__)
@pytest.mark.parametrize("damp", [0.0, 0.5])
def test_least_squares(solver, damp):
    a, b = gaussian((40, 12), 1, torch.float64), gaussian((40, 2), 2, torch.float64)
    tall = np.vstack([a.numpy(), damp * np.eye(12)])
    expected = np.linalg.lstsq(tall, np.vstack([b.numpy(), np.zeros((12, 2))]), rcond=None)[0]
    found = solver(a, b, damp=damp, tol=1e-11)
    assert found.converged
    assert np.abs(found.x.numpy() - expected).max() <= 1e-8


@pytest.mark.parametrize("name", ["lsqr", "lsmr"])
@pytest.mark.parametrize("damp", [0.0, 0.7])
def test_least_squares_start_where_scipy_does(name, damp):
    a, b = gaussian((30, 8), 1, torch.float64), gaussian((30,), 2, torch.float64)
    x0 = gaussian((8,), 3, torch.float64)
    expected = scipy.sparse.linalg.lsqr(a.numpy(), b.numpy(), damp=damp, x0=x0.numpy(), atol=1e-14, btol=1e-14)[0]
    for operand in (a, (lambda x: a @ x, lambda x: a.mT @ x)):
        found = getattr(ts, name)(operand, b, x0=x0, damp=damp, tol=1e-13)
        assert np.abs(found.require().numpy() - expected).max() <= 1e-10


@pytest.mark.parametrize("name", ["lsqr", "lsmr"])
def test_a_start_far_beyond_the_solution_leaves_rounding_that_is_not_claimed_away(name):
    a, b = torch.tensor([[-3.6]]), torch.tensor([-3.8113e-04])
    result = getattr(ts, name)(a, b, x0=torch.tensor([0.9116]), tol=1e-4)
    left = float((b.double() - a.double() @ result.x.double()).abs() / b.double().abs())
    assert result.converged == (left <= 1e-4), (result, left)
