import numpy as np
import pytest
import scipy.sparse.linalg
import torch

import trnsci
import trnsolver as ts
from trnsci import ArgumentError, NotConverged
from trnsci.testing import BACKENDS, gaussian


def _spd(n, seed=0, dtype=torch.float64):
    x = gaussian((n, n), seed, dtype)
    return x @ x.mH / n + torch.eye(n, dtype=dtype)


def _interval(a):
    values = np.linalg.eigvalsh(a.to(torch.complex128).numpy())
    return 0.99 * values[0], 1.01 * values[-1]


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("shape", [(1,), (20,), (20, 3), (130, 2)])
def test_reaches_its_tolerance(backend, shape):
    a, b = _spd(shape[0], dtype=torch.float32), gaussian(shape, 1)
    low, high = _interval(a)
    seen = []
    with backend:
        found = ts.chebyshev(a, b, low=low, high=high, tol=1e-5, callback=lambda step, residual: seen.append(step))
    expected = np.linalg.solve(a.double().numpy(), b.double().numpy())
    # A residual of 2 tol bounds the error by that times the condition number, here high / low.
    error = np.linalg.norm(found.x.double().numpy() - expected) / np.linalg.norm(expected)
    assert found.converged
    assert error <= 4e-5 * high / low
    assert seen == list(range(found.iterations + 1))


def test_the_error_shrinks_at_the_stated_rate():
    a, b = _spd(40), gaussian((40,), 1, torch.float64)
    low, high = _interval(a)
    exact = np.linalg.solve(a.numpy(), b.numpy())
    rate = (np.sqrt(high / low) - 1) / (np.sqrt(high / low) + 1)
    for steps in (4, 9, 17):
        found = ts.chebyshev(a, b, low=low, high=high, tol=1e-30, maxiter=steps)
        assert np.linalg.norm(found.x.numpy() - exact) <= 2 * rate**steps * np.linalg.norm(exact)
        assert (found.converged, found.iterations) == (False, steps)


@pytest.mark.parametrize("kind", ["function", "LinearOperator", "sparse", "complex"])
def test_operands(kind):
    dtype = torch.complex128 if kind == "complex" else torch.float64
    a, b = _spd(25, 2, dtype), gaussian((25, 2), 1, dtype)
    low, high = _interval(a)
    operand = {
        "function": lambda: lambda x: a @ x,
        "LinearOperator": lambda: scipy.sparse.linalg.aslinearoperator(a.numpy()),
        "sparse": lambda: scipy.sparse.csr_array(a.numpy()),
        "complex": lambda: a,
    }[kind]()
    found = ts.chebyshev(operand, b, low=low, high=high, tol=1e-10)
    assert found.converged
    assert float(torch.linalg.matrix_norm(b - a @ found.x)) <= 2e-10 * float(torch.linalg.matrix_norm(b)) * 2**0.5


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("degree", [1, 2, 6])
def test_the_preconditioner_is_the_same_polynomial(backend, degree):
    a, r = _spd(30, dtype=torch.float32), gaussian((30, 2), 1)
    low, high = _interval(a)
    with backend:
        found = ts.chebyshev_preconditioner(a, low, high, degree=degree)(r)
    # 1 - a p(a) is the scaled Chebyshev polynomial of the interval.
    values, vectors = np.linalg.eigh(a.double().numpy())
    middle, half = (high + low) / 2, (high - low) / 2
    scaled = np.polynomial.chebyshev.Chebyshev.basis(degree)
    left = scaled((middle - values) / half) / scaled(middle / half)
    expected = (vectors * ((1 - left) / values)) @ vectors.T @ r.double().numpy()
    limit = 20 * 30 * degree * 2.0**-24 * high / low
    assert np.linalg.norm(found.double().numpy() - expected) <= limit * np.linalg.norm(expected)


def test_the_preconditioner_of_a_matrix_that_its_owner_resized_is_the_same():
    a, r = _spd(5), gaussian((5, 2), 1, torch.float64)
    apply = ts.chebyshev_preconditioner(a, 1.0, 2.0)
    before = apply(r)
    a.resize_(2, 2)
    assert torch.equal(apply(r), before)


@pytest.mark.sim
def test_a_chunk_of_steps_is_one_program():
    a, b = _spd(20, dtype=torch.float32), gaussian((20,), 1)
    with trnsci.backend("simulator"), trnsci.ledger() as book:
        ts.chebyshev(a, b, low=1.0, high=6.0, tol=1e-30, maxiter=16)
    assert sum(entry.step.op == "trnsolver::chebyshev" for entry in book) == 1


def test_mistakes():
    a, b = _spd(5), torch.ones(5, dtype=torch.float64)
    with pytest.raises(ArgumentError, match=r"low is 3.0, expected between 0 and high=2.0"):
        ts.chebyshev(a, b, low=3.0, high=2.0)
    with pytest.raises(ArgumentError, match="degree is 0"):
        ts.chebyshev_preconditioner(a, 1.0, 2.0, degree=0)
    with pytest.raises(ArgumentError) as caught:
        ts.chebyshev(a, torch.ones(4, dtype=torch.float64), low=1.0, high=2.0)
    assert caught.value.got == {"a": 5, "b": 4}
    with pytest.raises(NotConverged, match="not finite"):
        ts.chebyshev(1e6 * a, b, low=1.0, high=2.0, maxiter=400)


def test_the_residual_that_is_claimed_is_that_of_the_solution():
    # Residuals of this iteration rise again: one below the tolerance inside a chunk of steps is not that of its end.
    for seed in range(40):
        a = torch.diag(torch.tensor([0.05, 2.0])) + 1e-3
        b = gaussian((2,), seed)
        low, high = (float(x) for x in torch.linalg.eigvalsh(a))
        for tol in (1e-1, 1e-2, 1e-3):
            found = ts.chebyshev(a, b, low=0.99 * low, high=1.01 * high, tol=tol)
            residual = float((b - a @ found.x).norm() / b.norm())
            assert not found.converged or residual <= 1.001 * tol
