import numpy as np
import pytest
import torch

from trnsci import ArgumentError, NotConverged, NumericalError
from trnsci.testing import BACKENDS, gaussian, in_float64
from trnsolver import det, inv, lstsq, slogdet, solve


def _cond(n, cond, seed=1, dtype=torch.float64):
    rng = np.random.default_rng(seed)
    u, _ = np.linalg.qr(rng.standard_normal((n, n)))
    v, _ = np.linalg.qr(rng.standard_normal((n, n)))
    return torch.from_numpy((u * np.logspace(0, -np.log10(cond), n)) @ v).to(dtype)


def _exact(a, b, digits=60):
    import mpmath

    with mpmath.workdps(digits):
        x = mpmath.lu_solve(mpmath.matrix(a.tolist()), mpmath.matrix(b.tolist()))
        return torch.tensor([float(value) for value in x], dtype=torch.float64)


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize(("cond", "method"), [(1e2, "refinement"), (1e5, "refinement"), (1e9, "gmres")])
def test_a_target_error_is_met(backend, cond, method):
    a, b = _cond(20, cond), gaussian((20,), 2, torch.float64)
    expected = _exact(a, b)
    with backend:
        found = solve(a, b, target_error=1e-12)
    error = float(torch.linalg.vector_norm(found.x - expected) / torch.linalg.vector_norm(expected))
    assert error <= 1e-12
    assert found.bound <= 1e-12
    assert found.method == f"{method} from float32 factors"
    assert found.trajectory[-1] <= 1e-12
    assert cond / 100 <= found.condition


@pytest.mark.parametrize("cond", [1e6, 1e7, 1e10])
def test_float32_factors_suffice(cond):
    a, b = _cond(30, cond), gaussian((30, 2), 2, torch.float64)
    found = solve(a, b, target_error=1e-12)
    for column in range(2):
        expected = _exact(a, b[:, column])
        assert float((found.x[:, column] - expected).abs().max()) <= 1e-12 * float(expected.abs().max()) * 30**0.5
    assert "float32 factors" in found.method


def test_single_precision_and_complex_operands():
    a, b = gaussian((12, 12), 1), gaussian((12,), 2)
    found = solve(a, b, target_error=1e-12)
    expected = in_float64(np.linalg.solve, a, b)
    assert float((found.x - expected).abs().max()) <= 1e-11 * float(expected.abs().max())
    a, b = gaussian((12, 12), 1, torch.complex64), gaussian((12, 3), 2, torch.complex64)
    found = solve(a, b, target_error=1e-11)
    expected = in_float64(np.linalg.solve, a, b)
    assert float((found.x - expected).abs().max()) <= 1e-10 * float(expected.abs().max())


def _hilbert(n):
    return torch.tensor([[1.0 / (i + j + 1) for j in range(n)] for i in range(n)], dtype=torch.float64)


@pytest.mark.parametrize("n", [4, 8, 11])
def test_hilbert_matrices_keep_the_promise(n):
    a, b = _hilbert(n), torch.ones(n, dtype=torch.float64)
    found = solve(a, b, target_error=1e-12)
    expected = _exact(a, b, 120)
    assert float(torch.linalg.vector_norm(found.x - expected)) <= 1e-12 * float(torch.linalg.vector_norm(expected))


def test_a_target_out_of_reach():
    with pytest.raises(NotConverged) as caught:
        solve(_hilbert(11), torch.ones(11, dtype=torch.float64), target_error=1e-17)
    assert 1e-17 < caught.value.residual < 1e-12
    assert caught.value.iterations > 0
    assert "the target error 1e-17 was not reached" in str(caught.value)
    assert "the condition number is about" in str(caught.value)


def test_options_of_the_contract():
    with pytest.raises(ArgumentError, match="a positive number"):
        solve(torch.eye(2), torch.ones(2), target_error=0.0)
    with pytest.raises(ArgumentError, match="one matrix"):
        solve(torch.eye(2).repeat(2, 1, 1), torch.ones(2, 2, 1), target_error=1e-8)
    with pytest.raises(NotConverged):
        solve(torch.ones(3, 3), torch.ones(3), target_error=1e-8)


@pytest.mark.parametrize("cond", [1e2, 1e6])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_least_squares_to_a_target(cond, noise):
    import mpmath

    a = torch.cat([_cond(12, cond), _cond(12, cond, 3)])
    b = a @ gaussian((12,), 2, torch.float64) + noise * gaussian((24,), 5, torch.float64)
    found = lstsq(a, b, target_error=1e-12)
    with mpmath.workdps(60):
        wide, right = mpmath.matrix(a.tolist()), mpmath.matrix(b.tolist())
        exact = mpmath.lu_solve(wide.T * wide, wide.T * right)
    expected = torch.tensor([float(value) for value in exact], dtype=torch.float64)
    assert float(torch.linalg.vector_norm(found.x - expected)) <= 1e-12 * float(torch.linalg.vector_norm(expected))
    assert found.bound <= 1e-12
    assert "float32 factors" in found.method


def test_least_squares_that_keep_no_promise():
    with pytest.raises(NotConverged):
        lstsq(torch.ones(4, 2), torch.ones(4), target_error=1e-10)
    with pytest.raises(ArgumentError, match="as many rows as columns"):
        lstsq(torch.ones(2, 4), torch.ones(2), target_error=1e-10)
    with pytest.raises(ArgumentError, match="None with target_error"):
        lstsq(torch.ones(4, 2), torch.ones(4), rcond=1e-3, target_error=1e-10)
    assert lstsq(torch.ones(4, 0), torch.ones(4), target_error=1e-10).x.shape == (0,)


def test_definite_systems_by_option(norm):
    a = 2 * torch.eye(3)
    assert torch.equal(solve(a, torch.ones(3), assume="pos"), torch.full((3,), 0.5))
    with pytest.raises(ArgumentError, match="one of 'gen', 'pos'"):
        solve(a, torch.ones(3), assume="sym")


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_gradients_of_least_squares(backend):
    a = gaussian((6, 3), 1, torch.float64).requires_grad_()
    b = gaussian((6, 1), 2, torch.float64).requires_grad_()
    with backend:
        assert torch.autograd.gradcheck(lstsq, (a, b))


def test_results_that_are_not_numbers_are_errors():
    bad = torch.eye(3)
    bad[1, 2] = float("nan")
    for call in (lambda: solve(bad, torch.ones(3)), lambda: inv(bad), lambda: det(bad), lambda: slogdet(bad)):
        with pytest.raises(ArgumentError, match=r"a\[1, 2\] is nan"):
            call()
    with pytest.raises(ArgumentError, match=r"b\[0\] is inf"):
        solve(torch.eye(2), torch.tensor([float("inf"), 0.0]))
    with pytest.raises(NumericalError, match=r"the result overflows torch\.float32"):
        solve(1e-30 * torch.eye(2), 1e30 * torch.ones(2))
