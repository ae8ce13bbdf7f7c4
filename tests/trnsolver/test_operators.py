"""What every iterative solver takes and refuses: operands, right-hand sides, starts, preconditioners."""

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
import torch
from torch._subclasses import FakeTensorMode

import trnsci
import trnsolver as ts
import trnsparse
from tests.together import together
from trnsci import ArgumentError, DtypeError, NotConverged, NumericalError, UnsupportedError
from trnsci.testing import gaussian, pairs

N = 20
SOLVERS = ["cg", "block_cg", "minres", "bicgstab", "gmres", "lsqr", "lsmr", "chebyshev"]


def _spd(dtype=torch.float64):
    m = gaussian((N, N), 1, dtype)
    m = torch.where(gaussian((N, N), 2) > 0.5, m, torch.zeros((), dtype=dtype))
    return 0.5 * (m @ m.mH + (m @ m.mH).mH) + 4 * torch.eye(N, dtype=dtype)


KINDS = {
    "matrix": lambda a: a,
    "function": lambda a: lambda x: a @ x,
    "LinearOperator": lambda a: scipy.sparse.linalg.aslinearoperator(a.numpy()),
    "SciPy": lambda a: scipy.sparse.csr_matrix(a.numpy()),
    "trnsparse": trnsparse.CSRMatrix.from_dense,
    "torch": lambda a: a.to_sparse(),
}


def _solve(name, a, b, **options):
    if name == "chebyshev":
        options |= {"low": 1.0, "high": 100.0}
    return getattr(ts, name)(a, b, **options)


@together(("dtype", "kind", "name"), pairs([torch.float64, torch.complex128], [*KINDS], [*SOLVERS]))
def test_every_solver_takes_every_operand(name, kind, dtype):
    a, b = _spd(dtype), gaussian((N, 3), 3, dtype)
    exact = torch.from_numpy(np.linalg.solve(a.numpy(), b.numpy()))
    operand, steps = KINDS[kind](a), []
    if kind == "function" and name in ("lsqr", "lsmr"):
        operand = (operand, lambda x: a.mH @ x)
    for right, wanted in ((b, exact), (b[:, 0], exact[:, 0])):
        steps.clear()
        found = _solve(name, operand, right, tol=1e-11, maxiter=500, callback=lambda *step: steps.append(step))
        assert found.converged
        assert found.x.shape == right.shape
        assert float((found.x - wanted).norm() / wanted.norm()) <= 1e-8
        assert [step for step, _ in steps] == list(range(found.iterations + 1))
        # the last one may be replaced by that of the solution itself
        assert tuple(size for _, size in steps)[:-1] == found.residuals[:-1]
        # the end is the beginning, nothing is solved by nothing, and few steps are few
        assert _solve(name, operand, right, x0=wanted, tol=1e-8).iterations == 0
        assert _solve(name, operand, right, tol=1e-14, maxiter=1).iterations == 1
    zero = _solve(name, operand, torch.zeros(N, dtype=dtype))
    assert (zero.converged, float(zero.x.abs().max())) == (True, 0.0)


@pytest.mark.grid(1)
@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.int64, torch.bool], ids=str)
def test_dtypes_that_solvers_lack(name, dtype):
    with pytest.raises(DtypeError, match="float32, float64, complex64 or complex128"):
        _solve(name, torch.eye(4).to(dtype), torch.ones(4))
    with pytest.raises(DtypeError, match="float32, float64, complex64 or complex128"):
        _solve(name, torch.eye(4), torch.ones(4).to(dtype))


@pytest.mark.parametrize("call", [lambda a: ts.lanczos(a, 1), lambda a: ts.davidson(a, 1), lambda a: ts.arnoldi(a, 1)])
def test_dtypes_that_eigensolvers_lack(call):
    for dtype in (torch.bool, torch.int64):
        with pytest.raises(DtypeError, match="float32, float64, complex64 or complex128"):
            call(torch.eye(4).to(dtype))


@together("name", SOLVERS)
def test_dtypes_that_do_not_go_together(name):
    a = _spd()
    for kind in ("matrix", "trnsparse", "torch"):
        with pytest.raises(DtypeError):
            _solve(name, KINDS[kind](a), torch.ones(N))
    for kind in ("LinearOperator", "SciPy"):
        with pytest.raises(DtypeError, match="Convert b to a complex dtype"):
            _solve(name, KINDS[kind](_spd(torch.complex128)), torch.ones(N, dtype=torch.float64))


@together("name", SOLVERS)
def test_starts_are_checked(name):
    a, b = _spd(), torch.ones(N, dtype=torch.float64)
    with pytest.raises(ArgumentError, match=r"x0\[2\] is nan"):
        _solve(name, a, b, x0=torch.where(torch.arange(N) == 2, float("nan"), b))
    with pytest.raises(ArgumentError, match=r"shape of x0 is \(3,\), expected \(20,\)"):
        _solve(name, a, b, x0=b[:3])
    with pytest.raises(DtypeError, match="x0"):
        _solve(name, a, b, x0=b.float())


def test_functions_answer_in_kind():
    a, b = _spd(), torch.ones(N, 1, dtype=torch.float64)
    with pytest.raises(ArgumentError, match=r"shape of what a returns is \(20,\), expected \(20, 1\)"):
        ts.cg(lambda x: (a @ x)[:, 0], b)
    with pytest.raises(DtypeError, match="what a returns"):
        ts.gmres(lambda x: (a @ x).float(), b)
    with pytest.raises(DtypeError, match="what a returns"):
        ts.bicgstab(lambda x: (a @ x).numpy(), b)
    for name in ("cg", "block_cg", "minres", "bicgstab", "gmres"):
        with pytest.raises(ArgumentError, match="shape of what preconditioner returns"):
            getattr(ts, name)(a, b, preconditioner=lambda r: r[:, 0])
    with pytest.raises(ArgumentError, match="shape of what preconditioner returns"):
        ts.lobpcg(a, gaussian((N, 2), 5, torch.float64), preconditioner=lambda r: r[:, 0])


@pytest.mark.parametrize(
    "make",
    [
        ts.jacobi_preconditioner,
        lambda a: ts.block_jacobi_preconditioner(a, 6),
        ts.ssor_preconditioner,
        ts.ic0_preconditioner,
        ts.ilu0_preconditioner,
        lambda a: ts.chebyshev_preconditioner(a, 1.0, 100.0),
    ],
)
def test_preconditioners_take_vectors_and_columns(make):
    apply, r = make(_spd()), gaussian((N, 3), 4, torch.float64)
    columns = apply(r)
    assert columns.shape == r.shape
    assert torch.allclose(apply(r[:, 1]), columns[:, 1], rtol=1e-13, atol=1e-15)
    with pytest.raises(ArgumentError, match=r"shape of r is \(3,\), expected \[20\] or \[20, K\]"):
        apply(r[:3, 0])


def test_an_indefinite_preconditioner_is_told():
    a = _spd()
    with pytest.raises(NumericalError, match="the preconditioner is not positive definite"):
        ts.minres(a, torch.ones(N, dtype=torch.float64), preconditioner=lambda r: -r)


ITERATIONS = {
    **{name: lambda f, a: f(a, a[:, 0]) for name in ("cg", "block_cg", "bicgstab", "gmres", "minres", "lsqr", "lsmr")},
    "chebyshev": lambda f, a: f(a, a[:, 0], low=0.5, high=9.0),
    **{name: lambda f, a: f(a, 1) for name in ("lanczos", "arnoldi", "davidson")},
    "lobpcg": lambda f, a: f(a, a[:, :1]),
    "cond_estimate": lambda f, a: f(a),
}


@together("name", ITERATIONS)
def test_steps_that_depend_on_data_say_so_where_there_is_none(name):
    a = torch.eye(6) * 3 + 0.1
    for call in (
        lambda: ITERATIONS[name](getattr(ts, name), a.to("meta")),
        lambda: torch.func.vmap(lambda x: ITERATIONS[name](getattr(ts, name), x))(torch.stack([a, a])),
        lambda: ITERATIONS[name](getattr(ts, name), FakeTensorMode().from_tensor(a)),
    ):
        with pytest.raises(UnsupportedError, match="depend on the data of"):
            call()


SYSTEMS = ("cg", "block_cg", "minres", "gmres", "bicgstab", "lsqr", "lsmr")
PAIRS = ("lanczos", "arnoldi", "davidson", "lobpcg")


@pytest.mark.parametrize("name", [*SYSTEMS, "chebyshev", *PAIRS])
def test_data_whose_squares_leave_the_range(name):
    n = 12
    x = gaussian((n, n), 3, torch.float64)
    whole, right = x @ x.mT + torch.eye(n), gaussian((n, 3), 4, torch.float64)
    spectrum = torch.linalg.eigvalsh(whole)
    for of_a, of_b in ((-25, -25), (25, 25), (-25, 0), (0, -25), (0, 25), (12, -12)):
        # columns of very different sizes, too
        sizes = 10.0**of_b * torch.tensor([1.0, 1e-8, 0.0])
        a, b, start = (whole * 10.0**of_a).float(), (right * sizes).float(), torch.eye(n)[:, :2] + 0.1
        options = {"low": float(spectrum[0]) * 10.0**of_a, "high": 1.01 * float(spectrum[-1]) * 10.0**of_a}
        if name in PAIRS:
            wanted = spectrum[-2:] if name in ("lanczos", "arnoldi") else spectrum[:2]
            more = {"diagonal": a.diagonal()} if name == "davidson" else {"n": n, "dtype": a.dtype}
            function, scipys = a.__matmul__, scipy.sparse.linalg.aslinearoperator(a.numpy())
            for operand in (a, function, scipys):
                options = {} if operand is a or name == "lobpcg" else more
                found = getattr(ts, name)(operand, start if name == "lobpcg" else 2, tol=1e-5, **options)
                values = torch.as_tensor(found.values).real.double().sort().values * 10.0**-of_a
                assert found.converged
                assert (values - wanted).abs().max() <= 1e-4 * spectrum[-1]
            continue
        found = getattr(ts, name)(a, b, tol=1e-5, maxiter=2000, **(options if name == "chebyshev" else {}))
        exact = torch.linalg.solve(a.double() * 10.0**-of_a, b.double() * 10.0**-of_b)
        error = (found.x.double() * 10.0 ** (of_a - of_b) - exact).norm(dim=0)
        assert found.converged
        assert (error <= 1e-5 * spectrum[-1] / spectrum[0] * exact.norm(dim=0)).all(), (of_a, of_b)


@pytest.mark.parametrize("name", ["cg", "minres", "bicgstab", "lsqr", "lsmr"])
def test_steps_on_arrays_leave_operands_alone_and_gradients_to_torch(name):
    a, b = _spd(), gaussian((N,), 3, torch.float64)
    kept, weight = b.clone(), torch.ones((), dtype=torch.float64, requires_grad=True)
    one, column = _solve(name, a, b, tol=1e-10), _solve(name, a, b.unsqueeze(-1), tol=1e-10)
    assert torch.equal(b, kept)
    assert torch.equal(one.x, column.x[:, 0])
    # of a function with a parameter, the solution has its gradient: that of 1 / weight
    times = (lambda x: weight * (a @ x), lambda x: weight * (a @ x))
    found = _solve(name, times if name.startswith("ls") else times[0], b, tol=1e-12)
    (slope,) = torch.autograd.grad(found.x.sum(), weight)
    assert abs(float(slope + one.x.sum())) <= 1e-6
    broken = a.clone()
    broken[2, 1] = float("nan")
    with pytest.raises(ArgumentError, match=r"a\[2, 1\] is nan"):
        _solve(name, broken, b)


@pytest.mark.parametrize("name", ["cg", "block_cg", "minres", "bicgstab", "gmres"])
def test_a_preconditioner_that_is_not_finite_is_reported(name):
    a, b = torch.eye(4, dtype=torch.float64), torch.ones((4, 2), dtype=torch.float64)
    for bad in (float("nan"), float("inf")):
        with pytest.raises(NotConverged, match="not finite"):
            getattr(ts, name)(a, b, preconditioner=lambda r, bad=bad: r * bad)


@together(("name", "kind"), pairs([*SYSTEMS, "lanczos", "arnoldi"], ["matrix", "SciPy", "trnsparse", "torch"]))
def test_the_largest_entry_decides_whether_a_matrix_is_scaled(name, kind):
    for dtype, size in ((torch.float32, 1e25), (torch.float64, 1e-200), (torch.complex128, 1e200)):
        # what one looks at first is near 1, or zero, and lies in a space of its own
        first, rest = torch.tensor([[float(size > 1)]], dtype=dtype), _spd(dtype)
        a, b = torch.block_diag(first, rest * size), torch.cat([first[0] * 0, gaussian((N,), 3, dtype)])
        if name in ("lanczos", "arnoldi"):
            value = getattr(ts, name)(KINDS[kind](a), 1, dtype=dtype).values[0] / size
            assert abs(complex(value) - float(torch.linalg.eigvalsh(rest)[-1])) <= 1e-4 * abs(value)
            continue
        found = getattr(ts, name)(KINDS[kind](a), b, tol=1e-6, maxiter=500)
        assert found.converged
        exact = torch.linalg.solve(rest, b[1:])
        assert (found.x[1:] * size - exact).norm() <= 1e-4 * exact.norm()


@pytest.mark.parametrize("name", SYSTEMS)
def test_steps_do_not_depend_on_the_scales_of_matrix_function_and_right_hand_side(name):
    # two eigenvalues: two steps, whatever the scales
    a, b = torch.ones(8, 8, dtype=torch.float64) + 0.05 * torch.eye(8), gaussian((8, 2), 1, torch.float64)
    for right in (b, b[:, 0]):
        scales = ((600, 500), (-600, -300), (0, 300), (-600, 0), (333, 333), (-333, -333))
        for of_a, of_b in ((2.0**p, 2.0**q) for p, q in scales):
            for kind in ("matrix", "function"):
                whole = a * of_a
                given = whole if kind == "matrix" else (lambda x, m=whole: m @ x,) * 2
                given = given if kind == "matrix" or name.startswith("ls") else given[0]
                alone, found = (
                    getattr(ts, name)(m, r, tol=1e-8, maxiter=50) for m, r in ((a, right), (given, right * of_b))
                )
                assert found.converged
                assert abs(found.iterations - alone.iterations) <= 1, (kind, of_a, of_b)


@together("kind", KINDS)
def test_a_listener_changes_no_bit(kind):
    for dtype in (torch.float32, torch.complex128):
        a, b = _spd(dtype), gaussian((N,), 3, dtype)
        for operand in (KINDS[kind](a), KINDS[kind](a.mT.contiguous().mT)):
            quiet, pair = ts.cg(operand, b).x, None if kind == "function" else ts.lanczos(operand, 1, dtype=dtype)
            with trnsci.ledger() as book:
                assert torch.equal(quiet, ts.cg(operand, b).x)
                assert pair is None or np.array_equal(pair.values, ts.lanczos(operand, 1, dtype=dtype).values)
            ops = [entry.step.op for entry in book if entry.depth == 0 and entry.products]
            assert ops == ["trnsolver::cg", "trnsolver::lanczos"][: 1 if pair is None else 2]


@together(("name", "kind"), pairs([*SOLVERS, *PAIRS], [*KINDS]))
def test_a_plan_tells_what_an_iteration_costs_and_how_many_there_are_at_most(name, kind):
    a, b = _spd(), gaussian((N,), 3, torch.float64)
    operand, options = KINDS[kind](a), {"maxiter": 123}
    if name in PAIRS:
        b = gaussian((N, 2), 3, torch.float64) if name == "lobpcg" else 2
        options |= {"diagonal": a.diagonal()} if name == "davidson" else {"n": N} if name != "lobpcg" else {}
    elif kind == "function" and name.startswith("ls"):
        operand = (operand, operand)
    options |= {"low": 1.0, "high": 100.0} if name == "chebyshev" else {}
    with trnsci.ledger() as book:
        ran = getattr(ts, name)(operand, b, **options)
    planned = trnsci.plan(getattr(ts, name), operand, b, **options)
    (entry,) = [entry for entry in book if entry.depth == 0]
    (step,) = planned.steps
    assert step.op == entry.step.op == f"trnsolver::{name}"
    assert step.implementation == entry.step.implementation
    assert step.iterations == 123
    assert "at most 123 iterations" in str(planned)
    assert entry.products >= max(1, ran.iterations)
    # a matrix is read at least once in an iteration, a function shows nothing to count
    shown = {"matrix": N * N, "function": 0, "LinearOperator": 0}.get(kind, int((a != 0).sum()))
    assert step.cost.flops >= 2 * shown
    assert bool(shown) != any("shows no entries" in remark for remark in planned.remarks)
    explained = trnsci.explain(getattr(ts, name), operand, b, **options)
    assert [call.op for call in explained.calls] == [step.op]


_PLANNED = {
    **{f"solver {name}": (getattr(ts, name), 1) for name in ("cg", "gmres", "lsqr", "solve_sparse")},
    **{f"solver {name}": (getattr(ts, name), 0) for name in ("factor_sparse", "fill_ordering", "zero_free_diagonal")},
    **{f"with {kind}": (getattr(ts, f"{kind}_preconditioner"), 0) for kind in ("jacobi", "ssor", "ic0", "ilu0")},
    "with blocks": (lambda a: ts.block_jacobi_preconditioner(a, 8), 0),
    "target": (lambda a, b: ts.solve_sparse(a, b, target_error=1e-8), 1),
    "qr": (lambda a, b: ts.solve_sparse(a, b, kind="qr"), 1),
    "lanczos": (lambda a: ts.lanczos(a, 2), 0),
    "eigsh": (lambda a: ts.eigsh(a, 2), 0),
    "shifted": (lambda a: ts.eigsh(a, 2, sigma=1.234), 0),
    "count_eigenvalues": (lambda a: ts.count_eigenvalues(a, (0.0, 5.0)), 0),
    **{name: (lambda a, name=name: getattr(trnsparse, name)(a, a), 0) for name in ("add", "kron", "spgemm")},
    **{name: (getattr(trnsparse, name), 0) for name in ("norm", "ic0", "ilu0", "triangle", "coloring", "bandwidth")},
    **{name: (getattr(trnsparse, name), 1) for name in ("spmv", "spmm_op", "solve_triangular", "scale_rows", "cg")},
}


@pytest.mark.parametrize("backend", ["simulator", "pytorch"])
def test_calls_with_sparse_operands_are_planned_or_refused(backend):
    a, b = _spd(), gaussian((N,), 3, torch.float64)
    refused = set()
    for kind in ("SciPy", "trnsparse", "torch"):
        for name, (function, operands) in _PLANNED.items():
            try:
                with trnsci.backend(backend):
                    trnsci.plan(function, KINDS[kind](a), *[b][:operands])
            except UnsupportedError:
                refused.add(name)
            except Exception as error:
                raise AssertionError(f"{name} of a matrix of {kind}") from error
    assert not refused & {"spmv", "spgemm", "add", "solver factor_sparse", "solver solve_sparse", "with blocks"}
    assert not refused & {"solver cg", "solver gmres", "solver lsqr", "lanczos", "eigsh"}
