"""Iterations with vectors on chip, beside dense solves in float64."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import trnsci
import trnsparse as ts
from tests.together import together
from trnsci import ArgumentError
from trnsci.errors import NotConverged
from trnsci.testing import BACKENDS, gamma, gaussian, stated_and_used
from trnsparse.iterate import Iterate


def laplacian(n, dtype=torch.float32):
    """Of a path, shifted: eigenvalues between 0.5 and 4.5."""
    dense = torch.diag(torch.full((n,), 2.5)) - torch.diag(torch.ones(n - 1), 1) - torch.diag(torch.ones(n - 1), -1)
    return dense.to(dtype)


TOL = 1e-5


def residual(x, b, tol=TOL, row=3, norm=4.5):
    """The stated bound of a residual, and the rounding of its own computation: entries a row, and a norm of ``|a|``."""
    size = norm * float(np.linalg.norm(x)) + float(b.norm())
    return tol * float(b.norm()) + gamma(row + 2, b.dtype) * size


SOLVERS = {
    "cg": lambda a, b, **more: ts.cg(a, b, **more),
    "chebyshev": lambda a, b, **more: ts.chebyshev(a, b, smallest=0.5, largest=4.5, **more),
    "richardson": lambda a, b, **more: ts.richardson(a, b, omega=0.4, **more),
}


@pytest.mark.grid(2)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("n", [1, 128, 300])
def test_solutions_are_those_of_dense_solves(backend, name, n):
    dense, b = laplacian(n), gaussian((n,), 1)
    with backend:
        found = SOLVERS[name](ts.CSRMatrix.from_dense(dense), b, tol=TOL)
    wanted = np.linalg.solve(dense.double().numpy(), b.double().numpy())
    # |x - wanted| <= |a^-1| |r|, and |a^-1| is at most 2
    assert np.linalg.norm(found.x.numpy() - wanted) <= 2 * residual(wanted, b)
    assert found.residual <= TOL * float(b.norm())
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
    rounding = gamma(140 + 2, torch.float32)
    assert abs(float(found.value) - wanted) <= 1e-4 * wanted + rounding * float(a.to_dense().abs().norm())
    assert abs(float(found.vector.double().norm()) - 1) <= rounding


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_steps_past_the_solution_stay_there(backend):
    with backend:
        found = ts.cg(ts.eye(130), torch.ones(130), x0=torch.zeros(130), tol=1e-6)
    assert float((found.x.double() - 1).norm()) <= residual(found.x, torch.ones(130), 1e-6)


def test_float64_on_the_host():
    dense, b = laplacian(60, torch.float64), gaussian((60,), 1, torch.float64)
    found = ts.cg(ts.CSRMatrix.from_dense(dense), b, tol=1e-13)
    wanted = np.linalg.solve(dense.numpy(), b.numpy())
    # the oracle's own error: its condition number is at most 9
    error = 2 * residual(wanted, b, 1e-13) + 9 * gamma(3 * 60, b.dtype) * np.linalg.norm(wanted)
    assert np.linalg.norm(found.x.numpy() - wanted) <= error


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


ITERATIONS = SOLVERS | {"power_iteration": lambda a, b, **more: ts.power_iteration(a, x0=b, **more)}


@pytest.mark.grid(1)
@pytest.mark.parametrize("name", ITERATIONS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_no_solution(name, value):
    b, run = torch.ones(5), ITERATIONS[name]
    b[2] = value
    with pytest.raises(ArgumentError, match="expected a finite number") as caught:
        run(ts.eye(5), b)
    assert caught.value.argument in ("b[2]", "x0[2]")
    a = ts.eye(5)
    a.values[3] = value
    with pytest.raises(NotConverged):
        run(a, torch.ones(5))


@pytest.mark.grid(1)
@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_squares_of_the_right_hand_side_may_leave_the_dtype(name, size):
    dense, b = laplacian(40), gaussian((40,), 1)
    found = SOLVERS[name](ts.CSRMatrix.from_dense(dense), b * size)
    wanted = np.linalg.solve(dense.double().numpy(), b.double().numpy())
    assert np.linalg.norm(found.x.double().numpy() / size - wanted) <= 2 * residual(wanted, b) * (1 + 2**-20)


def test_the_eigenpair_of_zero_and_no_right_hand_side():
    found = ts.power_iteration(ts.eye(4) * 0)
    assert float(found.value) == found.residual == 0
    assert abs(float(found.vector.norm()) - 1) <= gamma(6, torch.float32)
    with pytest.raises(ArgumentError, match="x0 is 'zeros'"):
        ts.power_iteration(ts.eye(4), x0=torch.zeros(4))
    assert ts.cg(ts.eye(4), torch.zeros(4), x0=torch.ones(4)) == (pytest.approx(torch.zeros(4)), 0, 0.0)


OPTIONS = [
    (lambda: ts.cg(ts.eye(3), torch.ones(3), tol=-1.0), "tol is -1.0"),
    (lambda: ts.cg(ts.eye(3), torch.ones(3), tol=float("nan")), "tol is nan"),
    (lambda: ts.cg(ts.eye(3), torch.ones(3), max_iterations=2.5), "max_iterations is float, expected an integer"),
    (lambda: ts.cg(ts.eye(3), torch.ones(3, 1)), "shape of b is (3, 1)"),
    (lambda: ts.cg(ts.eye(3), torch.ones(3), x0=torch.ones(4)), "N differs: a has N=3, x0 has N=4"),
    (lambda: ts.cg(ts.eye(3), [1.0, 1.0, 1.0]), "b is list"),
    (lambda: ts.richardson(ts.eye(3), torch.ones(3), omega=1j), "omega is 1j"),
]


@together(("call", "text"), OPTIONS)
def test_options_are_checked(call, text):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert text in str(caught.value)


def test_the_op_is_well_registered():
    a = ts.CSRMatrix.from_dense(laplacian(5)).to_bsr(128)
    x = torch.ones(5)
    args = (a.indptr, a.indices, a.values, x, x.clone(), x.clone(), torch.ones(3, 2), 3, "fixed", 0.0, [])
    torch.library.opcheck(torch.ops.trnsparse.iterate.default, args)


def test_new_values_in_the_same_matrix_are_seen():
    a = ts.CSRMatrix.from_dense(torch.diag(torch.full((40,), 2.0)))
    b = torch.ones(40)
    assert float((ts.cg(a, b, tol=1e-6).x - b / 2).norm()) <= residual(b / 2, b, 1e-6) / 2
    a.values.mul_(2)
    assert float((ts.cg(a, b, tol=1e-6).x - b / 4).norm()) <= residual(b / 4, b, 1e-6) / 4


@pytest.mark.parametrize("backend", ["pytorch", "simulator"])
def test_the_plan_states_the_memory_that_is_used(backend):
    a = ts.BSRMatrix.from_dense(laplacian(1024) + torch.ones(1024, 1024))
    x, r, p = (gaussian((1024,), i) for i in range(3))
    args = (a.indptr, a.indices, a.values, x, r, p, torch.zeros(0, 2), 4, "cg")
    stated, used = stated_and_used(Iterate, backend, *args)
    assert 0.95 * stated <= used <= 1.01 * stated + 4096


@pytest.mark.parametrize("block", [(2, 3), (3, 2), (5, 5), (1, 12)])
def test_blocks_of_any_shape_iterate(block):
    # Blocks that are not square were multiplied as if their columns were as many as their rows.
    dense = torch.diag(torch.linspace(1.0, 2.0, 12)) + 0.01
    a, b = ts.BSRMatrix.from_dense(dense, block), torch.ones(12)
    for solve in (ts.cg, lambda a, b: ts.richardson(a, b, omega=0.6)):
        x = solve(a, b).x.double()
        assert float((dense.double() @ x - b).norm()) <= residual(x, b, row=12, norm=float(dense.norm()))
    largest = float(torch.linalg.eigvalsh(dense.double())[-1])
    rounding = gamma(12 + 2, torch.float32) * float(dense.norm())
    assert abs(float(ts.power_iteration(a, tol=1e-4).value) - largest) <= 1e-4 * largest + rounding


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_norms_and_powers_of_data_whose_squares_leave_the_range(scale):
    dense = gaussian((9, 9), 1)
    dense = dense + dense.mT
    a = ts.CSRMatrix.from_dense(dense * scale)
    exact = torch.linalg.matrix_norm(dense.double())
    assert abs(float(ts.norm(a)) / scale - exact) <= gamma(81 + 3, torch.float32) * exact
    value = float(ts.power_iteration(a, tol=1e-5, max_iterations=4000).value) / scale
    largest = torch.linalg.eigvalsh(dense.double()).abs().max()
    assert abs(abs(value) - largest) <= 1e-5 * largest + gamma(9 + 3, torch.float32) * exact


def _grid(*sizes):
    total = sp.csr_array((1, 1))
    for size in sizes:
        line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(size, size))
        total = sp.kron(total, sp.eye_array(size)) + sp.kron(sp.eye_array(total.shape[0]), line)
    return sp.csr_array(total + 0.1 * sp.eye_array(total.shape[0])).astype(np.float32)


@pytest.mark.sim
@pytest.mark.parametrize("sizes", [(1,), (130,), (18, 19), (6, 7, 8)], ids=str)
def test_iterations_with_diagonals_stay_on_chip(sizes):
    a, b = _grid(*sizes), gaussian((int(np.prod(sizes)),), 3)
    exact = sp.linalg.spsolve(sp.csc_array(a.astype(np.float64)), b.double().numpy())
    with trnsci.backend("simulator"), trnsci.ledger() as book:
        found = [
            ts.cg(a, b, tol=1e-5),
            ts.chebyshev(a, b, smallest=0.1, largest=0.1 + 4 * len(sizes), tol=1e-5),
        ]
        ts.power_iteration(a, tol=0.1)
    for solution in found:
        # the smallest eigenvalue is at least 0.1
        limit = 1e-5 * float(b.norm()) / 0.1
        assert float(np.linalg.norm(solution.x.double().numpy() - exact)) <= limit
    entries = [entry.step for entry in book if entry.step.op == "trnsparse::iterate"]
    assert {step.implementation for step in entries} == {"nki"}


@pytest.mark.sim
@pytest.mark.parametrize("sizes", [(60, 60), (100, 100), (300, 230), (10, 80, 90)], ids=str)
def test_runs_that_products_shift_and_longer_ones_take_the_same_steps(sizes):
    a = ts.CSRMatrix.from_scipy(sp.csr_array(_grid(*sizes) + 12 * sp.eye_array(int(np.prod(sizes)))).astype(np.float32))
    b = gaussian((a.shape[0],), 3)
    with trnsci.backend("simulator"), trnsci.ledger() as book:
        found = [
            ts.cg(a, b, tol=TOL),
            ts.chebyshev(a, b, smallest=12.0, largest=12.2 + 4 * len(sizes), tol=TOL),
        ]
        with pytest.raises(NotConverged):
            ts.power_iteration(a, x0=b, tol=1e-9, max_iterations=2)
    entries = [entry.step for entry in book if entry.step.op == "trnsparse::iterate"]
    assert {step.implementation for step in entries} == {"nki"}
    exact = a.to(torch.float64).to_scipy()
    for solution in found:
        r = b.double().numpy() - exact @ solution.x.double().numpy()
        assert np.linalg.norm(r) <= residual(solution.x, b, row=7, norm=12.2 + 4 * len(sizes))


@pytest.mark.sim
@pytest.mark.parametrize("method", ["cg", "fixed", "power"])
def test_a_few_steps_are_those_of_float64(method):
    a = ts.CSRMatrix.from_scipy(_grid(260, 260))
    b, p = gaussian((a.shape[0],), 3), gaussian((a.shape[0],), 4)
    table = torch.tensor([[0.1, 0.3], [0.2, 0.5], [0.15, 0.4]])
    offsets = (-260, -1, 0, 1, 260)
    call = Iterate(a.indptr, a.indices, a.values.reshape(-1, 1, 1), p, b, b, table, 3, method, 0.0, offsets)
    with trnsci.backend("simulator"):
        results = trnsci.run(call)[:3]
    exact, (x, r, q) = a.to(torch.float64).to_scipy(), (y.double().numpy() for y in (p, b, b))
    for first, second in table.double().numpy():
        if method == "power":
            r = exact @ x
            x = r / np.linalg.norm(r)
            continue
        q = q if method == "cg" else r + second * q
        image, square = exact @ q, r @ r
        alpha = square / (q @ image) if method == "cg" else first
        x, r = x + alpha * q, r - alpha * image
        q = r + r @ r / square * q if method == "cg" else q
    wanted = (x, exact @ x if method == "power" else r, q)
    for result, vector in zip(results, wanted[: 2 if method == "power" else 3], strict=False):
        # a step multiplies once by a matrix of norm 8.1, sums 67,600 squares and combines four vectors
        limit = 3 * 9 * gamma(64, torch.float32) * (float(b.norm()) + float(p.norm()))
        assert np.linalg.norm(result.double().numpy() - vector) <= limit


@pytest.mark.sim
def test_a_matrix_of_diagonals_on_both_paths_takes_the_same_steps():
    a, b = ts.CSRMatrix.from_scipy(_grid(9, 10)), gaussian((90,), 4)
    with trnsci.backend("simulator"):
        on_chip = ts.cg(a, b, tol=1e-5)
    host = ts.cg(a, b, tol=1e-5)
    # a launch is sixteen steps, and the host stops at the goal
    assert on_chip.iterations == -(-host.iterations // 16) * 16
