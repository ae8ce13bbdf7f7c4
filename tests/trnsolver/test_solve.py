import contextlib
import warnings

import numpy as np
import pytest
import torch

import trnsci
from tests.together import together
from trnsci import ArgumentError, NotConverged, NumericalError
from trnsci.testing import BACKENDS, gaussian, in_float64
from trnsolver import det, inv, lstsq, lu_solve, slogdet, solve, solve_sparse
from trnsolver.dense.target_error import solve_to

# relative error that is asked for
TARGET = 1e-12


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


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize(("cond", "method"), [(1e2, "refinement"), (1e5, "refinement"), (1e9, "gmres")])
def test_a_target_error_is_met(backend, cond, method):
    a, b = _cond(20, cond), gaussian((20,), 2, torch.float64)
    expected = _exact(a, b)
    with backend:
        found = solve_to(a, b, TARGET)
        x, stated = trnsci.achieved(solve, a, b, target_error=TARGET)
    assert torch.equal(x, found.x)
    assert stated == found.bound
    error = float(torch.linalg.vector_norm(found.x - expected) / torch.linalg.vector_norm(expected))
    assert error <= TARGET
    # the oracle is rounded once
    assert error <= found.bound + 2.0**-53
    assert found.bound <= TARGET
    assert found.method == f"{method} from float32 factors"
    assert found.trajectory[-1] <= TARGET
    assert cond / 100 <= found.condition


@pytest.mark.parametrize("cond", [1e6, 1e7, 1e10])
def test_float32_factors_suffice(cond):
    a, b = _cond(30, cond), gaussian((30, 2), 2, torch.float64)
    found = solve_to(a, b, TARGET)
    for column in range(2):
        expected = _exact(a, b[:, column])
        assert float((found.x[:, column] - expected).norm()) <= TARGET * float(expected.norm())
    assert "float32 factors" in found.method


def _met(x, a, b, target):
    """Whether a target was met, beside what an elimination in float64 knows."""
    expected = in_float64(np.linalg.solve, a, b)
    limit = target + 20 * a.shape[-1] * 2.0**-53 * np.linalg.cond(a.numpy())
    return float((x - expected).norm()) <= limit * float(expected.norm())


def test_single_precision_and_complex_operands():
    a, b = gaussian((12, 12), 1), gaussian((12,), 2)
    x = solve(a, b, target_error=TARGET)
    assert _met(x, a, b, TARGET)
    a, b = gaussian((12, 12), 1, torch.complex64), gaussian((12, 3), 2, torch.complex64)
    x = solve(a, b, target_error=1e-11)
    assert _met(x, a, b, 1e-11)


def _hilbert(n):
    return torch.tensor([[1.0 / (i + j + 1) for j in range(n)] for i in range(n)], dtype=torch.float64)


@pytest.mark.parametrize("n", [4, 8, 11])
def test_hilbert_matrices_keep_the_promise(n):
    a, b = _hilbert(n), torch.ones(n, dtype=torch.float64)
    x = solve(a, b, target_error=TARGET)
    expected = _exact(a, b, 120)
    assert float(torch.linalg.vector_norm(x - expected)) <= TARGET * float(torch.linalg.vector_norm(expected))


@pytest.mark.parametrize("n", range(12, 24))
@together("target", [1e-3, 1e-12])
def test_hilbert_matrices_beyond_float64_claim_nothing_wrong(n, target):
    # corrections shrink with factors of noise, too
    a = _hilbert(n)
    for b in (torch.ones(n, dtype=torch.float64), a.sum(-1), gaussian((n,), 3, torch.float64)):
        with contextlib.suppress(NotConverged):
            x, expected = solve(a, b, target_error=target), _exact(a, b, 200)
            assert float(torch.linalg.vector_norm(x - expected)) <= target * float(torch.linalg.vector_norm(expected))


def test_a_target_out_of_reach():
    with pytest.raises(NotConverged) as caught:
        solve(_hilbert(11), torch.ones(11, dtype=torch.float64), target_error=1e-17)
    assert 1e-17 < caught.value.residual < 1e-12
    assert caught.value.iterations > 0
    assert "the target error 1e-17 was not verified" in str(caught.value)
    assert "the condition number is about" in str(caught.value)


def test_options_of_the_contract():
    with pytest.raises(ArgumentError, match="a positive number"):
        solve(torch.eye(2), torch.ones(2), target_error=0.0)
    with pytest.raises(ArgumentError, match="one matrix"):
        solve(torch.eye(2).repeat(2, 1, 1), torch.ones(2, 2, 1), target_error=1e-8)
    with pytest.raises(NotConverged):
        solve(torch.ones(3, 3), torch.ones(3), target_error=1e-8)


def test_definite_systems_by_option(norm):
    a = 2 * torch.eye(3)
    assert torch.equal(solve(a, torch.ones(3), assume="pos"), torch.full((3,), 0.5))
    with pytest.raises(ArgumentError, match="one of 'gen', 'pos'"):
        solve(a, torch.ones(3), assume="sym")


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


@pytest.mark.parametrize("n", [3, 40])
def test_determinants_are_numbers(n):
    diagonal = torch.full((n,), 1e30)
    assert det(torch.diag(diagonal)) == float("inf")
    diagonal[-1] = 0.0
    # what overflows on the way to a zero is still zero
    assert det(torch.diag(diagonal)) == 0.0
    with pytest.raises(NumericalError, match=r"the determinant overflows torch\.complex64"):
        det((1e30 + 1e30j) * torch.eye(n, dtype=torch.complex64))
    a = gaussian((n, n), 1, torch.complex128)
    assert abs(complex(det(a)) - np.linalg.det(a.numpy())) <= 20 * n * 2.0**-53 * abs(np.linalg.det(a.numpy())) * n


@pytest.mark.parametrize(("n", "cond", "seed"), [(40, 1e18, 1), (40, 1e18, 2), (12, 1e18, 3), (30, 1e20, 4)])
def test_a_promise_beyond_float64_is_kept_or_not_given(n, cond, seed):
    a, b = _cond(n, cond, seed), torch.from_numpy(np.random.default_rng(9).standard_normal(n))
    with contextlib.suppress(NotConverged):
        x, expected = solve(a, b, target_error=TARGET), _exact(a, b, 90)
        assert float(torch.linalg.vector_norm(x - expected)) <= TARGET * float(torch.linalg.vector_norm(expected))


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_entries_that_grow_are_solved_by_qr_and_leave_the_batch_alone(backend, norm):
    n = 60
    wilkinson = torch.eye(n) - torch.ones(n, n).tril(-1)
    wilkinson[:, -1] = 1.0
    # whichever of a matrix and its transpose is factored
    a, b = torch.stack([gaussian((n, n), 1), wilkinson, wilkinson.mT]), gaussian((3, n, 3), 2)
    with backend:
        for fn, right in ((lambda a, b: solve(a, b), b), (lambda a, _: inv(a), torch.eye(n).expand(3, n, n))):
            x, alone = fn(a, right), fn(a[:1], right[:1])
            assert torch.equal(x[0], alone[0])
            for wide, of, found in zip(a.double(), right.double(), x.double(), strict=True):
                assert norm(of - wide @ found) <= 20 * n * 2.0**-24 * (norm(wide) * norm(found) + norm(of))


@together("scale", [1e-200, 1e-40, 1e160])
def test_entries_that_grow_are_seen_at_any_scale(scale, norm):
    n = 60
    a = torch.eye(n, dtype=torch.float64) - torch.ones(n, n, dtype=torch.float64).tril(-1)
    a[:, -1] = 1.0
    b = gaussian((n, 3), 2).double()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = solve(a * scale, b * scale)
    assert norm(b - a @ x) <= 20 * n * 2.0**-53 * (norm(a) * norm(x) + norm(b))


@together(("size", "right"), [(1e100, 1e-100), (1e-200, 1e-300), (1e150, 1e150), (1e193, 1e-160), (1e-200, 1e150)])
@pytest.mark.parametrize("kind", ["dense", "least squares", "lu", "cholesky"])
def test_a_target_is_met_at_any_scale_or_refused(kind, size, right):
    """Solutions and residuals that underflow or overflow are not claimed, and sizes alone are no reason to refuse."""
    m = 4 if kind == "least squares" else 3
    a = (torch.ones(m, 3, dtype=torch.float64) + 3 * torch.eye(m, 3, dtype=torch.float64)) * size
    b = torch.linspace(1, 2, m, dtype=torch.float64) * right
    calls = {
        "dense": lambda: solve(a, b, target_error=1e-10),
        "least squares": lambda: lstsq(a, b, target_error=1e-10).solution,
        "lu": lambda: solve_sparse(a.to_sparse_csr(), b, target_error=1e-10),
        "cholesky": lambda: solve_sparse(a.to_sparse_csr(), b, kind="cholesky", target_error=1e-10),
    }
    import mpmath

    with mpmath.workdps(400):
        matrix, vector = mpmath.matrix(a.tolist()), mpmath.matrix(b.tolist())
        exact = mpmath.lu_solve(matrix.T * matrix, matrix.T * vector)
    if not 1e-300 < mpmath.norm(exact) < 1e300:
        with pytest.raises(NotConverged, match="range of float64"):
            calls[kind]()
        return
    error = mpmath.norm(mpmath.matrix(calls[kind]().tolist()) - exact)
    assert error <= 1e-10 * mpmath.norm(exact)


@pytest.mark.parametrize("given", [torch.tensor(1.0), torch.ones(2)])
def test_rows_of_a_system_need_a_matrix(given):
    rows, pivots = torch.ones(3, 2), torch.ones(2, dtype=torch.int32)
    for call in (lambda: solve(given, rows, left=False), lambda: lu_solve(given, pivots, rows, left=False)):
        with pytest.raises(ArgumentError, match="at least 2 dimensions"):
            call()
