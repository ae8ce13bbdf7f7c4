import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg
import torch

import trnsci
import trnsolver as ts
import trnsparse
from tests.together import together
from trnsci import ArgumentError, DtypeError, NotConverged, NotPositiveDefinite, Singular
from trnsci.testing import BACKENDS, gaussian, pairs


def _spd(n, seed=0, dtype=torch.float64):
    x = gaussian((n, n), seed, dtype)
    return x @ x.mH / n + torch.eye(n, dtype=dtype)


def _residual(a, x, b):
    left = torch.linalg.vector_norm(b - a @ x, dim=0) / torch.linalg.vector_norm(b, dim=0)
    return float(left.max())


@pytest.mark.grid(2)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("n", [1, 5, 130])
@pytest.mark.parametrize("k", [None, 3])
def test_cg_reaches_its_tolerance(backend, n, k):
    a, b = _spd(n, dtype=torch.float32), gaussian((n,) if k is None else (n, k), 1)
    with backend:
        found = ts.cg(a, b, tol=1e-5)
    assert found.converged
    assert found.x.shape == b.shape
    # the residual that stopped it was computed in float32
    rounding = 20 * n * 2.0**-24 * float(torch.linalg.matrix_norm(a, 2) * found.x.norm() / b.norm())
    assert _residual(a.double(), found.x.double(), b.double()) <= 1e-5 + rounding
    assert len(found.residuals) == found.iterations + 1


SYMMETRIC = [ts.cg, ts.block_cg, ts.minres]
GENERAL = [ts.bicgstab, ts.gmres]


@pytest.mark.grid(1)
@pytest.mark.parametrize("solver", SYMMETRIC + GENERAL, ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "kind", ["matrix", "function", "LinearOperator", "scipy sparse", "torch sparse", "trnsparse", "numpy"]
)
def test_every_kind_of_operand(solver, kind):
    a, b = _spd(25), gaussian((25, 2), 1, torch.float64)
    operand = {
        "matrix": lambda: a,
        "function": lambda: lambda x: a @ x,
        "LinearOperator": lambda: scipy.sparse.linalg.aslinearoperator(a.numpy()),
        "scipy sparse": lambda: scipy.sparse.csr_array(a.numpy()),
        "torch sparse": lambda: a.to_sparse_csr(),
        "trnsparse": lambda: trnsparse.CSRMatrix.from_dense(a),
        "numpy": lambda: a.numpy(),
    }[kind]()
    found = solver(operand, b, tol=1e-9)
    assert found.converged
    assert _residual(a, found.require(), b) <= 2e-9


@pytest.mark.parametrize("name", ["jacobi", "block_jacobi", "ssor", "ic0", "ilu0", "chebyshev"])
def test_preconditioners_save_steps(name):
    n = 60
    a = torch.diag(torch.logspace(0, 3, n, dtype=torch.float64)) + 0.3 * (
        torch.diag(torch.ones(n - 1, dtype=torch.float64), 1) + torch.diag(torch.ones(n - 1, dtype=torch.float64), -1)
    )
    b = gaussian((n,), 1, torch.float64)
    m = {
        "jacobi": lambda: ts.jacobi_preconditioner(a),
        "block_jacobi": lambda: ts.block_jacobi_preconditioner(a, 7),
        "ssor": lambda: ts.ssor_preconditioner(a, omega=1.1),
        "ic0": lambda: ts.ic0_preconditioner(a),
        "ilu0": lambda: ts.ilu0_preconditioner(a),
        "chebyshev": lambda: ts.chebyshev_preconditioner(a, 0.5, 1001.0, degree=8),
    }[name]()
    plain, better = ts.cg(a, b, tol=1e-8), ts.cg(a, b, tol=1e-8, preconditioner=m)
    assert better.converged
    assert better.iterations < plain.iterations / 2
    assert _residual(a, better.x, b) <= 2e-8
    if name in ("ic0", "ilu0"):
        # A tridiagonal matrix has no fill: the incomplete factors are the factors.
        assert better.iterations <= 2


PRECONDITIONERS = {
    "jacobi": ts.jacobi_preconditioner,
    "block_jacobi": lambda a: ts.block_jacobi_preconditioner(a, 7),
    "ssor": lambda a: ts.ssor_preconditioner(a, omega=1.2),
    "ic0": ts.ic0_preconditioner,
    "ilu0": ts.ilu0_preconditioner,
}


@together("dtype", [torch.float64, torch.complex64])
@together("name", PRECONDITIONERS)
def test_preconditioners_of_sparse_matrices_are_those_of_dense_ones(name, dtype):
    make, a = PRECONDITIONERS[name], _spd(30, 1, dtype)
    keep = gaussian((30, 30), 5).abs() > 1.2
    a = torch.where(keep | keep.mT | torch.eye(30, dtype=torch.bool), a, 0.0) + 20 * torch.eye(30, dtype=dtype)
    r = gaussian((30, 2), 2, dtype)
    expected = make(a)(r)
    for operand in (trnsparse.CSRMatrix.from_dense(a), a.to_sparse_csr(), a.to_sparse(), sp.csc_array(a.numpy())):
        torch.testing.assert_close(make(operand)(r), expected)
        leaf = r.clone().requires_grad_()
        make(operand)(leaf).abs().sum().backward()
        assert leaf.grad is not None
    broken = a.clone()
    broken[3] = broken[:, 3] = 0.0
    with pytest.raises((Singular, NotPositiveDefinite)) as caught:
        make(trnsparse.CSRMatrix.from_dense(broken))
    assert caught.value.index == 3


def test_preconditioners_of_sparse_matrices_take_the_memory_of_their_entries():
    # as a dense matrix it would have 20 GB
    n = 50_000
    a = trnsparse.CSRMatrix.from_scipy(
        sp.diags_array([-1.0, 4.0, -1.0], offsets=[-1, 0, 1], shape=(n, n), format="csr")
    )
    r = torch.ones(n, dtype=torch.float64)
    for make in PRECONDITIONERS.values():
        assert bool(make(a)(r).isfinite().all())


@together(
    ("solver", "name", "dtype"),
    pairs(
        SYMMETRIC + GENERAL,
        ["jacobi", "block_jacobi", "ssor", "ic0", "ilu0", "chebyshev", "callable"],
        [torch.float64, torch.complex128],
    ),
)
def test_every_solver_takes_every_preconditioner(solver, name, dtype):
    a = _spd(20, 1, dtype) + torch.diag(torch.linspace(0, 50, 20, dtype=torch.float64)).to(dtype)
    b = gaussian((20, 2), 2, dtype)
    m = {
        "jacobi": lambda: ts.jacobi_preconditioner(a),
        "block_jacobi": lambda: ts.block_jacobi_preconditioner(a, 6),
        "ssor": lambda: ts.ssor_preconditioner(a),
        "ic0": lambda: ts.ic0_preconditioner(a),
        "ilu0": lambda: ts.ilu0_preconditioner(a),
        "chebyshev": lambda: ts.chebyshev_preconditioner(a, 0.9, 60.0),
        "callable": lambda: lambda r: 0.1 * r,
    }[name]()
    found = solver(a, b, tol=1e-9, preconditioner=m)
    assert found.converged
    assert _residual(a, found.x, b) <= 2e-9


def test_what_was_not_reached_is_said():
    a, b = _spd(50), gaussian((50,), 1, torch.float64)
    found = ts.cg(a, b, tol=1e-14, maxiter=2)
    assert not found.converged
    with pytest.raises(NotConverged) as caught:
        found.require()
    assert caught.value.iterations == 2
    assert caught.value.residual == found.residuals[-1]
    assert "after 2 iterations" in str(caught.value)


def test_zero_right_hand_side_and_start():
    a = _spd(6)
    assert ts.cg(a, torch.zeros(6, dtype=torch.float64)).iterations == 0
    b = gaussian((6,), 1, torch.float64)
    assert ts.gmres(a, b, x0=torch.linalg.solve(a, b), tol=1e-8).iterations == 0


def test_mistakes():
    a, b = _spd(4), torch.ones(4, dtype=torch.float64)
    with pytest.raises(ArgumentError) as caught:
        ts.cg(a, torch.ones(5, dtype=torch.float64))
    assert caught.value.got == {"a": 4, "b": 5}
    with pytest.raises(ArgumentError, match="a square matrix"):
        ts.gmres(torch.ones(4, 3, dtype=torch.float64), b)
    with pytest.raises(DtypeError, match="a has dtype=float64, b has dtype=float32"):
        ts.cg(a, torch.ones(4))
    with pytest.raises(DtypeError, match="a matrix, a LinearOperator"):
        ts.cg(3.0, b)
    with pytest.raises(ArgumentError, match="the map and its adjoint"):
        ts.lsqr(lambda x: x, b)
    with pytest.raises(ArgumentError, match="restart"):
        ts.gmres(a, b, restart=0)


@pytest.mark.sim
def test_a_chunk_of_steps_is_one_program():
    a, b = _spd(20, dtype=torch.float32), gaussian((20,), 1)
    with trnsci.backend("simulator"), trnsci.ledger() as book:
        ts.cg(a, b, tol=1e-30, maxiter=16)
    (entry,) = [entry for entry in book if entry.depth == 0]
    assert (entry.step.op, entry.step.implementation) == ("trnsolver::cg", "nki")
    assert entry.products >= 16


@together(
    "name",
    ["cg", "block_cg", "minres", "bicgstab", "gmres", "lsqr", "lsmr", "lanczos", "arnoldi", "davidson", "lobpcg"],
)
def test_numpy_in_numpy_out(name):
    a, b = 2 * np.eye(6) + 0.1, np.ones((6, 2))
    if name in ("lanczos", "arnoldi", "davidson"):
        found = getattr(ts, name)(a, 1)
        assert isinstance(found.values, np.ndarray)
        assert isinstance(found.vectors, np.ndarray)
        return
    if name == "lobpcg":
        assert isinstance(ts.lobpcg(a, b[:, :1] + np.arange(6)[:, None]).vectors, np.ndarray)
        return
    found = getattr(ts, name)(a, b if name == "block_cg" else b[:, 0])
    assert isinstance(found.x, np.ndarray)
    assert np.allclose(a @ found.x, b if name == "block_cg" else b[:, 0], atol=1e-4)
    assert isinstance(getattr(ts, name)(torch.from_numpy(a), torch.from_numpy(b)).x, torch.Tensor)


@pytest.mark.parametrize("method", ["cg", "block_cg", "bicgstab", "minres", "gmres"])
def test_what_is_claimed_holds_for_columns_of_any_size(method):
    """A recurrence started far from a small column's solution drifts by more than its tolerance; zeros have zeros."""
    generator = torch.Generator().manual_seed(12)
    a = _spd(24, dtype=torch.float32)
    b = torch.randn(24, 4, generator=generator) * torch.tensor([1e-4, 1e-3, 1e3, 0.0])
    start = torch.randn(24, 4, generator=generator)
    weights = a.diagonal().reciprocal().unsqueeze(-1)
    found = getattr(ts, method)(a, b, x0=start, tol=1e-4, preconditioner=lambda r: weights * r)
    left = torch.linalg.vector_norm(b.double() - a.double() @ found.x.double(), dim=0)
    sizes = torch.linalg.vector_norm(b.double(), dim=0)
    assert not found.converged or bool((left <= 1.1e-4 * sizes).all()), left / sizes
    assert not found.x[:, 3].any()


def test_columns_that_converge_early_wait_for_the_others():
    # what rounding lets one column reach is computed afresh again and again, and with it columns that were done
    q, _ = torch.linalg.qr(gaussian((32, 32), 1))
    a = (q * torch.logspace(0, -3, 32)) @ q.mT
    a = 0.5 * (a + a.mT)
    for seed in range(8):
        b, x0 = gaussian((32, 3), seed), 1e3 * gaussian((32, 3), seed + 100)
        b[:, 0] = 1e-3 * a[:, 0]
        result = ts.cg(a, b, x0=x0, tol=1e-5)
        assert result.iterations < 320, "the directions of columns that are done made the solution grow"
