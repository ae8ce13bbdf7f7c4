"""Iterations with vectors on chip, beside dense solves in float64."""

import numpy as np
import pytest
import torch

import trnsparse as ts
from trnsci import ArgumentError
from trnsci.errors import NotConverged
from trnsci.testing import BACKENDS, gaussian


def laplacian(n, dtype=torch.float32):
    """Of a path, shifted: eigenvalues between 0.5 and 4.5."""
    dense = torch.diag(torch.full((n,), 2.5)) - torch.diag(torch.ones(n - 1), 1) - torch.diag(torch.ones(n - 1), -1)
    return dense.to(dtype)


SOLVERS = {
    "cg": lambda a, b, **more: ts.cg(a, b, **more),
    "chebyshev": lambda a, b, **more: ts.chebyshev(a, b, smallest=0.5, largest=4.5, **more),
    "richardson": lambda a, b, **more: ts.richardson(a, b, omega=0.4, **more),
}


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("n", [1, 128, 300])
def test_solutions_are_those_of_dense_solves(backend, name, n):
    dense, b = laplacian(n), gaussian((n,), 1)
    with backend:
        found = SOLVERS[name](ts.CSRMatrix.from_dense(dense), b, tol=1e-5)
    wanted = np.linalg.solve(dense.double().numpy(), b.double().numpy())
    # |x - wanted| <= |a^-1| |r|, and |a^-1| is at most 2
    assert np.linalg.norm(found.x.numpy() - wanted) <= 2 * 1.1e-5 * float(b.norm())
    assert found.residual <= 1e-5 * float(b.norm())
    assert found.iterations > 0


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_the_largest_eigenvalue(backend):
    values = torch.linspace(0.1, 1, 140).square()
    vectors = torch.linalg.qr(gaussian((140, 140), 1, torch.float64))[0]
    dense = ((vectors * values) @ vectors.T).float()
    dense[:1] += 0
    a = ts.BSRMatrix.from_dense(dense + 3 * torch.outer(vectors[:, 0], vectors[:, 0]).float())
    with backend:
        found = ts.power_iteration(a, tol=1e-4)
    wanted = np.linalg.eigvalsh(a.to_dense().double().numpy())[-1]
    # for symmetric matrices an eigenvalue lies within the residual
    assert abs(float(found.value) - wanted) <= 1.1e-4 * wanted
    assert abs(float(found.vector.norm()) - 1) < 1e-5


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_steps_past_the_solution_stay_there(backend):
    with backend:
        found = ts.cg(ts.eye(130), torch.ones(130), x0=torch.zeros(130), tol=1e-6)
    assert torch.allclose(found.x, torch.ones(130))


def test_float64_on_the_host():
    dense, b = laplacian(60, torch.float64), gaussian((60,), 1, torch.float64)
    found = ts.cg(ts.CSRMatrix.from_dense(dense), b, tol=1e-13)
    assert np.allclose(found.x, np.linalg.solve(dense, b), rtol=1e-11, atol=1e-12)


def test_a_solution_to_start_from_takes_no_iteration():
    b = gaussian((20,), 1)
    assert ts.cg(ts.eye(20), b, x0=b).iterations == 0


def test_what_does_not_converge_says_so():
    with pytest.raises(NotConverged) as caught:
        ts.richardson(ts.CSRMatrix.from_dense(laplacian(50)), torch.ones(50), omega=1e-3, max_iterations=20)
    assert caught.value.iterations == 20
    assert caught.value.residual > 0
    with pytest.raises(NotConverged):
        ts.richardson(ts.CSRMatrix.from_dense(laplacian(50)), torch.ones(50), omega=10.0)
    with pytest.raises(ArgumentError, match="smallest is -1"):
        ts.chebyshev(ts.eye(3), torch.ones(3), smallest=-1, largest=2)
    with pytest.raises(ArgumentError, match="N differs"):
        ts.cg(ts.eye(3), torch.ones(4))


def test_the_op_is_well_registered():
    a = ts.CSRMatrix.from_dense(laplacian(5)).to_bsr(128)
    x = torch.ones(5)
    args = (a.indptr, a.indices, a.values, x, x.clone(), x.clone(), torch.ones(3, 2), 3, "fixed")
    torch.library.opcheck(torch.ops.trnsparse.iterate.default, args, test_utils=("test_schema", "test_faketensor"))


def test_new_values_in_the_same_matrix_are_seen():
    a = ts.CSRMatrix.from_dense(torch.diag(torch.full((40,), 2.0)))
    b = torch.ones(40)
    assert torch.allclose(ts.cg(a, b, tol=1e-6).x, b / 2, rtol=1e-6, atol=0)
    a.values.mul_(2)
    assert torch.allclose(ts.cg(a, b, tol=1e-6).x, b / 4, rtol=1e-6, atol=0)
