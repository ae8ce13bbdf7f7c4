"""Sparse factors against NumPy's dense answers: kinds, methods, dtypes, batches, gradients, hard matrices, errors."""

import itertools
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import trnsci
import trnsolver as ts
import trnsparse
from tests.together import together
from trnsci import (
    ArgumentError,
    BackendUnavailable,
    DtypeError,
    NotConverged,
    NotPositiveDefinite,
    Singular,
    UnsupportedError,
)
from trnsci.testing import gaussian
from trnsolver.arguments import roundoff

WAYS = [
    ("lu", "superlu"),
    ("lu", "multifrontal"),
    ("cholesky", "superlu"),
    ("cholesky", "multifrontal"),
    ("qr", "auto"),
]
NAMES = {torch.float32: "f", torch.float64: "d", torch.complex64: "F", torch.complex128: "D"}


def grid(k, dtype=torch.float64):
    """The five-point Laplacian of a square, Hermitian positive definite, with phases where complex."""
    line = sp.diags_array([-np.ones(k - 1), 2 * np.ones(k), -np.ones(k - 1)], offsets=[-1, 0, 1])
    eye = sp.eye_array(k)
    a = sp.csr_array(sp.kron(line, eye) + sp.kron(eye, line))
    if dtype.is_complex:
        phase = sp.diags_array(np.exp(1j * np.arange(k * k)))
        a = phase @ a @ phase.conj()
    return sp.csr_array(a).astype(NAMES[dtype])


def general(n, dtype=torch.float64, seed=0):
    """A random pattern with an empty diagonal in places, and a well-conditioned matrix on it."""
    rng = np.random.default_rng(seed)
    a = sp.random_array((n, n), density=min(1.0, 4 / max(1, n)), random_state=rng, format="csr")
    a = a + sp.csr_array(sp.eye_array(n))[rng.permutation(n)] * 4
    values = a.data * (rng.standard_normal(a.nnz) if not dtype.is_complex else np.exp(1j * rng.uniform(0, 7, a.nnz)))
    a.data = np.where(np.abs(values) < 2, values, 4.0)
    return sp.csr_array(a).astype(NAMES[dtype])


def _residual(a, x, b):
    wide = np.asarray(sp.csr_array(a).todense(), dtype=complex)
    r = np.linalg.norm(wide @ x - b)
    return r / (np.linalg.norm(wide, 2) * np.linalg.norm(x) + np.linalg.norm(b))


def _agree(x, exact, condition, n):
    """Whether two solutions in float64, each with the stated backward error, can be of one system."""
    x, exact = np.asarray(x), np.asarray(exact)
    assert x.shape == exact.shape
    return np.linalg.norm(x - exact) <= 2 * 200 * n * 2.0**-53 * condition * np.linalg.norm(exact)


@together("dtype", NAMES)
@pytest.mark.parametrize(("kind", "method"), WAYS)
def test_solutions_stay_within_the_stated_bound(kind, method, dtype):
    a = grid(9, dtype) if kind == "cholesky" else general(70, dtype)
    n = a.shape[0]
    factor = ts.factor_sparse(a, kind=kind, method=method)
    b = gaussian((n, 3), 1, dtype=dtype)
    full = np.asarray(a.todense())
    for trans, matrix in (("n", full), ("t", full.T), ("c", full.conj().T)):
        x = factor.solve(b, trans=trans).numpy()
        # random matrices of this kind grow by less than 10
        assert _residual(matrix, x, b.numpy()) <= 20 * n * 10 * roundoff(dtype)
    assert torch.equal(factor.solve(b[:, 0]), factor.solve(b[:, :1])[:, 0])
    if kind != "qr":
        sign, logarithm = np.linalg.slogdet(full.astype(complex))
        found = factor.slogdet()
        assert abs(found.logabsdet - logarithm) <= 20 * n * n * roundoff(dtype)
        assert abs(found.sign - sign) <= 20 * n * n * roundoff(dtype)


@pytest.mark.parametrize(("kind", "method"), WAYS)
@together("n", [0, 1, 2, 17])
def test_small_and_empty_systems(kind, method, n):
    a = sp.csr_array(np.diag(np.arange(2.0, 2.0 + n)) if n else np.zeros((0, 0)))
    x = ts.solve_sparse(a, torch.ones(n, 2, dtype=torch.float64), kind=kind, method=method)
    # a diagonal matrix is divided by, or by its root twice
    rounding = 4 * 2.0**-53
    np.testing.assert_allclose(x, np.repeat(1 / np.arange(2.0, 2.0 + n)[:, None], 2, 1), rtol=rounding)
    assert ts.solve_sparse(a, torch.ones(n, 0, dtype=torch.float64), kind=kind, method=method).shape == (n, 0)
    many = torch.from_numpy(a.data).expand(2, 1, a.nnz)
    factor = ts.factor_sparse(a, kind=kind, method=method, values=many)
    np.testing.assert_allclose(
        factor.solve(torch.ones(2, 1, n, 3, dtype=torch.float64))[1, 0, :, 2], x[:, 0], rtol=rounding
    )
    assert factor.diagonal().shape == (2, 1, n)


@pytest.mark.parametrize("ordering", ["natural", "amd", "rcm", "colamd", "given"])
def test_every_order_gives_the_same_solution_and_a_good_one_less_fill(ordering):
    a, n = grid(12), 144
    order = torch.arange(n - 1, -1, -1) if ordering == "given" else ordering
    fills = {}
    for method in ("superlu", "multifrontal"):
        for kind in ("lu", "cholesky"):
            factor = ts.factor_sparse(a, kind=kind, ordering=order, method=method)
            b = gaussian((n,), 3, dtype=torch.float64)
            assert _residual(a, factor.solve(b).numpy(), b.numpy()) <= 20 * n * 2.0**-53
            assert sorted(factor.order.tolist()) == list(range(n))
            fills[kind, method] = factor.fill
    if ordering == "amd":
        natural = ts.factor_sparse(a, kind="cholesky", ordering="natural", method="superlu").fill
        assert fills["cholesky", "superlu"] < 0.8 * natural


def test_orders_from_the_public_functions():
    a = general(40)
    rows = ts.zero_free_diagonal(a)
    assert (np.abs(a[rows].diagonal()) > 0).all()
    # the product of the diagonal is the largest: no two rows should change places
    logs = np.log(np.maximum(np.abs(a[rows].toarray()), 1e-300))
    pairs = logs.diagonal()[:, None] + logs.diagonal()[None, :]
    assert (pairs + 1e-9 >= logs + logs.T).all()
    for method in ("natural", "amd", "rcm", "colamd"):
        assert sorted(ts.fill_ordering(a, method=method).tolist()) == list(range(40))
    with pytest.raises(Singular, match="structurally singular"):
        ts.zero_free_diagonal(sp.csr_array(np.array([[1.0, 1.0], [0.0, 0.0]])))


def test_nested_dissection_is_metis(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "pymetis", None)
        with pytest.raises(BackendUnavailable, match="pip install pymetis"):
            ts.fill_ordering(grid(3), method="metis")
    a = grid(40)
    order = ts.fill_ordering(a, method="metis")
    assert sorted(order.tolist()) == list(range(1600))
    factor = ts.factor_sparse(a, kind="cholesky", ordering="metis")
    assert factor.fill < 0.6 * ts.factor_sparse(a, kind="cholesky", ordering="rcm").fill
    assert _residual(a, factor.solve(np.ones(1600)), np.ones(1600)) <= 20 * 1600 * 2.0**-53
    # an unsymmetric pattern with an empty row of a + a.T beside the diagonal
    lone = sp.block_diag([general(20), sp.eye_array(1)], format="csr")
    assert sorted(ts.fill_ordering(lone, method="metis").tolist()) == list(range(21))


@pytest.mark.parametrize("source", ["scipy", "coo", "trnsparse", "bsr", "torch"])
def test_matrices_of_every_library_are_read(source):
    a = general(20)
    given = {
        "scipy": lambda: a,
        "coo": lambda: sp.coo_array(a),
        "trnsparse": lambda: trnsparse.CSRMatrix.from_scipy(a),
        "bsr": lambda: trnsparse.CSRMatrix.from_scipy(a).to_bsr(4),
        "torch": lambda: torch.from_numpy(a.toarray()).to_sparse(),
    }[source]()
    x = ts.solve_sparse(given, torch.ones(20, dtype=torch.float64))
    assert _agree(x, np.linalg.solve(a.toarray(), np.ones(20)), np.linalg.cond(a.toarray()), 20)


@pytest.mark.parametrize(("kind", "method"), WAYS)
def test_many_matrices_of_one_pattern_and_new_values(kind, method):
    a = grid(5) if kind == "cholesky" else general(25)
    n, scale = a.shape[0], torch.tensor([1.0, 3.0, 0.5], dtype=torch.float64)
    values = torch.from_numpy(a.data) * scale[:, None]
    factor = ts.factor_sparse(a, kind=kind, method=method, values=values)
    b = gaussian((3, n, 2), 1, dtype=torch.float64)
    each = torch.stack([ts.factor_sparse(a, kind=kind, method=method).solve(row) for row in b]) / scale[:, None, None]
    condition = np.linalg.cond(a.toarray())
    assert _agree(factor.solve(b), each, condition, n)
    assert _agree(factor.solve(b[..., 0]), each[..., 0], condition, n)
    again = factor.refactor(2 * values)
    assert again.fill == factor.fill
    assert _agree(again.solve(b), each / 2, condition, n)
    # one matrix takes any batch of right-hand sides
    alone = factor.refactor(a)
    assert _agree(alone.solve(b), each * scale[:, None, None], condition, n)


def test_least_squares_and_shortest_solutions_are_those_of_numpy():
    rng = np.random.default_rng(4)
    dense = np.where(rng.uniform(size=(60, 23)) < 0.15, rng.standard_normal((60, 23)), 0)
    dense[:23] += np.diag(np.arange(1.0, 24.0))
    for full in (dense, dense + 0.1j * dense):
        factor = ts.factor_sparse(sp.csr_array(full), kind="qr")
        b, c = rng.standard_normal((60, 2)) + 0 * full[0, 0], rng.standard_normal((23, 2)) + 0 * full[0, 0]
        condition = np.linalg.cond(full)
        # residuals are not small: the square of the condition number takes part
        assert _agree(factor.solve(b), np.linalg.lstsq(full, b)[0], condition**2, 60)
        assert _agree(factor.solve(c, trans="c"), np.linalg.lstsq(full.conj().T, c)[0], condition, 60)
        assert _agree(factor.solve(c, trans="t"), np.linalg.lstsq(full.T, c)[0], condition, 60)


@pytest.mark.parametrize(("trans", "complex_"), [("n", False), ("n", True), ("t", True), ("c", True)])
@pytest.mark.parametrize(("kind", "method"), [*WAYS, ("qr", "tall")])
def test_gradients_of_solutions(kind, method, complex_, trans):
    dtype = torch.complex128 if complex_ else torch.float64
    a = grid(2, dtype) if kind == "cholesky" else general(5, dtype, seed=2)
    if method == "tall":
        a = sp.csr_array(sp.vstack([a, general(5, dtype, seed=3)]))
    values = torch.from_numpy(a.data).clone().requires_grad_()
    b = gaussian((a.shape[0 if trans == "n" else 1], 2), 1, dtype=dtype).requires_grad_()

    def solved(values, b):
        way = "auto" if method == "tall" else method
        return ts.factor_sparse(a, kind=kind, method=way, values=values).solve(b, trans=trans)

    # the matrix stays Hermitian: gradcheck moves entries of the triangle that is read
    assert torch.autograd.gradcheck(solved, (values, b), fast_mode=True)
    if not complex_:
        assert torch.autograd.gradcheck(solved, (values, b))
        assert torch.autograd.gradgradcheck(solved, (values, b), fast_mode=True)


@pytest.mark.parametrize(("kind", "method"), WAYS[:4])
def test_gradients_of_determinants(kind, method):
    for dtype in (torch.float64, torch.complex128):
        a = grid(3, dtype) if kind == "cholesky" else general(6, dtype)
        values = torch.from_numpy(a.data).clone().requires_grad_()
        call = lambda v: ts.factor_sparse(a, kind=kind, method=method, values=v).slogdet().logabsdet  # noqa: B023, E731
        assert torch.autograd.gradcheck(call, (values,), fast_mode=True)


def _multiply_to(lower, upper, a):
    """Whether a product of factors is a matrix: n roundings of each sum (Higham 2002, 9.3)."""
    lower, upper = np.asarray(lower.to_dense()), np.asarray(upper.to_dense())
    return (np.abs(lower @ upper - a) <= 2 * len(a) * 2.0**-53 * (np.abs(lower) @ np.abs(upper))).all()


def test_triangles_multiply_to_the_matrix():
    a = general(30)
    lower, upper, rows, columns = ts.factor_sparse(a, method="superlu").triangles()
    assert _multiply_to(lower, upper, a.toarray()[rows][:, columns])
    a = grid(4)
    factor = ts.factor_sparse(a, kind="cholesky", method="superlu")
    lower, upper, rows, columns = factor.triangles()
    assert _multiply_to(lower, upper, a.toarray()[rows][:, columns])
    np.testing.assert_allclose(factor.diagonal(), lower.to_dense().diagonal(), rtol=4 * 2.0**-53)
    with pytest.raises(UnsupportedError, match="superlu"):
        ts.factor_sparse(a, kind="cholesky", method="multifrontal").triangles()


@pytest.mark.parametrize("kind", ["lu", "cholesky", "qr"])
def test_target_errors_are_met(kind):
    import mpmath

    with mpmath.workdps(40):
        n = 30
        a = grid(6) if kind == "cholesky" else general(n)
        n = a.shape[0]
        # badly scaled, so that float32 factors need corrections
        scale = sp.diags_array(np.logspace(0, 2, n))
        a = sp.csr_array(scale @ a @ scale).astype(np.float32)
        b = gaussian((n,), 1)
        exact = mpmath.lu_solve(mpmath.matrix(a.toarray().tolist()), mpmath.matrix(b.double().tolist()))
        factor = ts.factor_sparse(a, kind=kind)
        target = 1e-13
        x, error = trnsci.achieved(factor.solve, b, target_error=target)
        assert x.dtype == torch.float64
        assert mpmath.norm(mpmath.matrix(x.tolist()) - exact) <= error * mpmath.norm(exact)
        assert error <= target
        with pytest.raises(NotConverged, match="target error"):
            factor.solve(b, target_error=1e-40)


@pytest.mark.parametrize(("of_a", "of_b"), [(1e23, 1e-18), (1e-30, 1e-36), (1.0, 1e-37), (1e35, 1e-3)])
def test_target_errors_are_met_where_corrections_leave_the_range_of_float32(of_a, of_b):
    a = sp.csr_array(general(12).astype(np.float64) * of_a).astype(np.float32)
    b = gaussian((12,), 1) * of_b
    target = 1e-13
    x = ts.solve_sparse(a, b, target_error=target)
    scaled = a.toarray().astype(np.float64) / of_a
    exact = np.linalg.solve(scaled, b.double().numpy() / of_b)
    # the oracle is an elimination in float64
    limit = target + 20 * 12 * 2.0**-53 * np.linalg.cond(scaled)
    assert np.linalg.norm(x.numpy() * (of_a / of_b) - exact) <= limit * np.linalg.norm(exact)


@pytest.mark.sim
@pytest.mark.parametrize("scale", [1e-15, 1e15])
@pytest.mark.parametrize("kind", ["cholesky", "lu"])
def test_rows_that_round_blocks_up_have_the_size_of_the_matrix(kind, scale):
    a = sp.csr_array((grid(3) if kind == "cholesky" else general(7)) * scale)
    b = gaussian((a.shape[0],), 1, dtype=torch.float64)
    with trnsci.backend("simulator"):
        x = ts.solve_sparse(a, b, kind=kind, method="multifrontal")
    assert _residual(a, x.numpy(), b.numpy()) <= 20 * a.shape[0] * 2.0**-53


@pytest.mark.parametrize("kind", ["lu", "qr"])
def test_target_errors_are_claimed_only_where_they_hold(kind):
    import mpmath

    claimed = set()
    with mpmath.workdps(60):
        # Hilbert matrices: condition numbers from 500 to beyond what float64 can hold
        for n in (3, 6, 9, 12, 15):
            rows = [[1 / (i + j + 1) for j in range(n)] for i in range(n)]
            a = np.array(rows) * (1 + 0.5j) + 1j * np.eye(n) * 1e-9 if n == 6 else np.array(rows)
            b = gaussian((n,), n, dtype=torch.complex128 if n == 6 else torch.float64)
            for letter, taken in (("n", a), ("t", a.T), ("c", a.conj().T)):
                exact = mpmath.lu_solve(mpmath.matrix(taken.tolist()), mpmath.matrix(b.tolist()))
                try:
                    x, error = trnsci.achieved(
                        ts.factor_sparse(sp.csr_array(a), kind=kind).solve, b, trans=letter, target_error=1e-10
                    )
                except (NotConverged, Singular):
                    continue
                assert mpmath.norm(mpmath.matrix(x.tolist()) - exact) <= error * mpmath.norm(exact)
                claimed.add((n, letter))
    assert {(n, letter) for n in (3, 6, 9) for letter in "ntc"} <= claimed


@pytest.mark.sim
@pytest.mark.parametrize("kind", ["cholesky", "lu"])
def test_blocks_run_as_kernels_where_the_settings_say_so(kind):
    a = grid(12, torch.float32)
    b = gaussian((144,), 1)
    with trnsci.backend("simulator"), trnsci.ledger() as book:
        factor = ts.factor_sparse(a, kind=kind)
        x = factor.solve(b)
    assert factor.method == "multifrontal"
    assert {entry.step.implementation for entry in book} == {"nki"}
    assert _residual(a, x.numpy(), b.numpy()) <= 20 * 144 * 2.0**-24
    plan = trnsci.plan(ts.factor_sparse, a, kind=kind, method="multifrontal")
    assert "groups of fronts" in plan.reason
    assert {"trn1", "trn2", "trn3"} <= set(plan.predicted)


def test_settings_that_admit_kernels_only_are_obeyed(monkeypatch):
    monkeypatch.setenv("TRNSOLVER_REQUIRE_NKI", "1")
    a = grid(3)
    for options in ({"kind": "qr"}, {"method": "superlu"}):
        with pytest.raises(UnsupportedError, match="TRNSOLVER_REQUIRE_NKI=1 admits kernels only"):
            ts.factor_sparse(a, **options)


def test_errors_name_what_is_wrong():
    a = grid(3)
    for given, part in itertools.product((a.tocsr(), a.tocsc()), ("indptr", "indices")):
        own = given.copy()
        getattr(own, part)[3] = 10**6
        with pytest.raises(ArgumentError, match=r"pattern is .* pointers that rise from 0"):
            ts.solve_sparse(own, np.ones(9))
    own = trnsparse.CSRMatrix.from_scipy(a)
    own.indices.numpy()[:] = 10**6
    with pytest.raises(ArgumentError, match="indices from 0 to 1000000"):
        ts.factor_sparse(own)
    for dtype in NAMES:
        broken = torch.eye(2, dtype=dtype).to_sparse_csr()
        broken.values()[0] = float("nan")
        with pytest.raises(ArgumentError, match="nan"):
            ts.factor_sparse(broken)
    with pytest.raises(ArgumentError, match="Dense matrices"):
        ts.factor_sparse(torch.eye(3))
    with pytest.raises(ArgumentError, match="square"):
        ts.factor_sparse(a[:4])
    with pytest.raises(ArgumentError, match="transpose"):
        ts.factor_sparse(a[:4], kind="qr")
    with pytest.raises(DtypeError, match="float32"):
        ts.factor_sparse(a.astype(np.int64))
    with pytest.raises(ArgumentError, match=r"\[\.\.\., 33\]"):
        ts.factor_sparse(a, values=torch.ones(4, dtype=torch.float64))
    with pytest.raises(ArgumentError, match="permutation"):
        ts.factor_sparse(a, ordering=torch.zeros(9, dtype=torch.int64))
    with pytest.raises(ArgumentError, match="permutation"):
        ts.factor_sparse(a, ordering=torch.arange(9) + 0.5)
    with pytest.raises(ArgumentError, match="finite"):
        ts.factor_sparse(a * float("nan"))
    with pytest.raises(ArgumentError, match="entries that were factored"):
        ts.factor_sparse(a).refactor(grid(4))
    with pytest.raises(ArgumentError, match="M"):
        ts.factor_sparse(a).solve(torch.ones(4, dtype=torch.float64))
    with pytest.raises(ArgumentError, match="one square matrix"):
        ts.factor_sparse(a).solve(torch.ones(2, 9, 1, dtype=torch.float64), target_error=1e-3)
    minus = sp.csr_array(-a)
    for method in ("superlu", "multifrontal"):
        with pytest.raises(NotPositiveDefinite) as caught:
            ts.factor_sparse(minus, kind="cholesky", method=method)
        assert 0 <= caught.value.index < 9
        singular = sp.csr_array(np.array([[1.0, 1.0], [1.0, 1.0]]))
        with pytest.raises(Singular):
            ts.factor_sparse(singular, method=method)
    with pytest.raises(Singular, match="column"):
        ts.factor_sparse(singular, kind="qr").solve(torch.ones(2, dtype=torch.float64))


@together(("kind", "method"), WAYS)
def test_the_same_bits_again_and_arrays_of_numpy(kind, method):
    a, b = grid(8), gaussian((64,), 1, dtype=torch.float64)
    first, second = (ts.solve_sparse(a, b, kind=kind, method=method) for _ in range(2))
    assert torch.equal(first, second)
    found = ts.solve_sparse(a, b.numpy(), kind=kind, method=method)
    assert isinstance(found, np.ndarray)
    assert np.array_equal(found, first)


def test_right_hand_sides_under_vmap_are_refused_by_name():
    factor = ts.factor_sparse(torch.eye(3, dtype=torch.float64).to_sparse_csr())
    with pytest.raises(UnsupportedError, match=r"SparseFactor\.solve"):
        torch.func.vmap(factor.solve)(torch.ones(2, 3, dtype=torch.float64))
