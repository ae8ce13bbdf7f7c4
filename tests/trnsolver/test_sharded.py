"""Factorisations and solvers on spread matrices, against float64 LAPACK through NumPy, by the bounds of the ops."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch.distributed.tensor import Shard

import trnsci
import trnsolver
import trnsparse
from trnsci import distributed
from trnsci.distributed import Layout
from trnsci.memory import MemoryMeter
from trnsolver.sharded import eigh as sharded_eigh

SIZES = (*(pytest.param(size, marks=pytest.mark.slow) for size in (1, 2, 4)), 3)
U = {torch.float64: 2**-53, torch.complex128: 2**-53, torch.float32: 2**-24}


def _data(*shape, seed=0, dtype=torch.float64):
    real = torch.from_numpy(np.random.default_rng(seed).standard_normal((2, *shape)))
    return torch.complex(*real).to(dtype) if dtype.is_complex else real[0].to(dtype)


def _spd(n, dtype=torch.float64):
    x = _data(n, n, dtype=dtype)
    return x @ x.mH + n * torch.eye(n, dtype=dtype)


def _factored(lower, a, unit=2**-53):
    """Whether a triangle is the factor of a matrix, or of each of a batch, within the bound of `cholesky`."""
    left = np.linalg.norm(lower @ lower.conj().swapaxes(-2, -1) - a, axis=(-2, -1))
    within = left <= 20 * a.shape[-1] * unit * np.linalg.norm(a, axis=(-2, -1))
    return np.array_equal(lower, np.tril(lower)) and (lower.diagonal(0, -2, -1).real > 0).all() and within.all()


def _solved(a, x, b):
    """Whether a solution has the backward error of an elimination."""
    norm = np.linalg.norm
    return norm(b - a @ x) <= 20 * a.shape[-1] * 2**-53 * (norm(a) * norm(x) + norm(b))


def _cholesky(n, place, upper, dtype):
    mesh = distributed.mesh()
    made = trnsolver.cholesky(distributed.shard(_spd(n, dtype), mesh, place), upper=upper)
    return distributed.gather(made).resolve_conj().numpy(force=True)


@pytest.mark.parametrize("size", SIZES)
def test_cholesky(ranks, size):
    for n, place, upper, dtype in (
        (1, 0, False, torch.float64),
        (7, 1, False, torch.complex128),
        (40, 0, True, torch.complex128),
        (37, None, False, torch.float32),
        (2, 0, True, torch.float64),
    ):
        a = _spd(n, dtype).numpy(force=True).astype(np.complex128)
        for factor in ranks(size).run(_cholesky, n, place, upper, dtype):
            lower = (factor.conj().T if upper else factor).astype(np.complex128)
            assert _factored(lower, a, U[dtype])


def _on_a_grid(mesh, n, places, upper, dtype):
    made = trnsolver.cholesky(distributed.shard(_spd(n, dtype), distributed.mesh(*mesh), *places), upper=upper)
    return distributed.gather(made).resolve_conj().numpy(force=True)


@pytest.mark.parametrize("mesh", [(2, 2), *(pytest.param(m, marks=pytest.mark.slow) for m in ((1, 3), (3, 1), (4, 2)))])
def test_cholesky_on_a_grid(ranks, mesh):
    cases = [
        (mesh, 1, (0, 1), False, torch.float64),
        (mesh, 3, (1, 0), True, torch.complex128),
        (mesh, 37, (0, 1), False, torch.float32),
        (mesh, 50, (None, 0), True, torch.float64),
        (mesh, 0, (0, 1), False, torch.float32),
    ]
    for (_, n, _, upper, dtype), results in zip(cases, ranks(math.prod(mesh)).each(_on_a_grid, cases), strict=True):
        a = _spd(n, dtype).numpy(force=True).astype(np.complex128)
        for factor in results:
            lower = (factor.conj().T if upper else factor).astype(np.complex128)
            assert lower.shape == (n, n)
            assert _factored(lower, a, U[dtype])


def _one_triangle(upper):
    mesh = distributed.mesh()
    a = _spd(20, torch.complex128)
    kept = torch.triu(a) if upper else torch.tril(a)
    noise = torch.full_like(a, 7.0)
    poisoned = kept + (torch.tril(noise, -1) if upper else torch.triu(noise, 1))
    factor = distributed.gather(trnsolver.cholesky(distributed.shard(poisoned, mesh, 0), upper=upper))
    if not upper:
        right = distributed.shard(torch.ones(20, 2, dtype=a.dtype), mesh, 0)
        x = distributed.gather(trnsolver.solve_spd(distributed.shard(poisoned, mesh, 0), right))
        assert _solved(a.numpy(force=True), x.numpy(force=True), np.ones((20, 2)))
    return factor.numpy(force=True)


@pytest.mark.parametrize("upper", [False, True])
def test_one_triangle_is_read(ranks, upper):
    a = _spd(20, torch.complex128).numpy(force=True)
    for factor in ranks(3).run(_one_triangle, upper):
        assert _factored(factor.conj().T if upper else factor, a)


def _indefinite(n, at, *shape):
    mesh = distributed.mesh(*shape)
    a = torch.eye(n, dtype=torch.float64)
    a[at, at] = -1
    trnsolver.cholesky(distributed.shard(a, mesh, 0))


def test_a_matrix_that_is_not_positive_definite_names_the_pivot_of_the_whole(ranks):
    for at in (0, 11, 19):
        with pytest.raises(Exception, match="positive definite") as caught:
            ranks(3).run(_indefinite, 20, at)
        assert len(caught.value.errors) == 3
        for error in caught.value.errors.values():
            assert isinstance(error, trnsci.NotPositiveDefinite)
            assert error.index == at


def test_every_rank_of_a_grid_names_the_pivot(ranks):
    for at in (0, 11, 19):
        with pytest.raises(Exception, match="positive definite") as caught:
            ranks(4).run(_indefinite, 20, at, 2, 2)
        assert {error.index for error in caught.value.errors.values()} == {at}
        assert len(caught.value.errors) == 4


def _solve_spd(n, columns, places):
    mesh = distributed.mesh()
    b = _data(n, columns, seed=1) if columns else _data(n, seed=1)
    made = trnsolver.solve_spd(distributed.shard(_spd(n), mesh, places[0]), distributed.shard(b, mesh, places[1]))
    return distributed.gather(made).numpy(force=True)


@pytest.mark.parametrize("size", SIZES)
def test_solve_spd(ranks, size):
    a = _spd(23).numpy(force=True)
    for columns, places in ((5, (0, 0)), (1, (1, 1)), (0, (0, 0)), (3, (None, None))):
        b = (_data(23, columns, seed=1) if columns else _data(23, seed=1)).numpy(force=True)
        for x in ranks(size).run(_solve_spd, 23, columns, places):
            assert _solved(a, x, b)


def _batched():
    mesh = distributed.mesh()
    a = torch.stack([_spd(5) + i * torch.eye(5, dtype=torch.float64) for i in range(4)])
    return distributed.gather(trnsolver.cholesky(distributed.shard(a, mesh, 1))).numpy(force=True)


def test_batches_are_cut_between_ranks(ranks):
    a = torch.stack([_spd(5) + i * torch.eye(5, dtype=torch.float64) for i in range(4)]).numpy(force=True)
    for factor in ranks(3).run(_batched):
        assert _factored(factor, a)


def _broadcast():
    """Solves of batches, with operands and vectors that are broadcast, that differ from one rank's."""
    mesh = distributed.mesh()
    a = torch.stack([_spd(4) + i * torch.eye(4, dtype=torch.float64) for i in range(3)])
    matrix, batch = _data(4, 2, seed=1), _data(3, 4, 2, seed=2)
    calls = {
        "solve_spd": trnsolver.solve_spd,
        "cholesky_solve": lambda x, y: trnsolver.cholesky_solve(y, x),
        "solve_triangular": lambda x, y: trnsolver.solve_triangular(x, y, upper=False),
        "from the right": lambda x, y: trnsolver.solve_triangular(x, y.mT.contiguous(), upper=False, left=False),
    }
    wrong = []
    cases = list(itertools.product(calls, ((a, matrix), (a[0], batch), (a, batch))))
    cases += [(name, (a, batch[..., 0].clone())) for name in ("solve_spd", "cholesky_solve")]
    for name, operands in cases:
        exact = calls[name](*operands)
        # two solutions, and a factor that is multiplied with itself
        limit = 2 * 20 * 4 * 2**-53 * float(torch.linalg.cond(operands[0]).max()) ** 2 * exact.norm()
        for place in (0, 1, None):
            made = calls[name](*(distributed.shard(x, mesh, place) for x in operands))
            if not (distributed.gather(made) - exact).norm() <= limit:
                wrong.append((name, [tuple(x.shape) for x in operands], place))
    return wrong


def test_batches_are_solved_as_one_rank_solves_them(ranks):
    assert ranks(3).run(_broadcast) == [[]] * 3


def _qr(m, n, place, dtype):
    mesh = distributed.mesh()
    q, r = trnsolver.qr(distributed.shard(_data(m, n, dtype=dtype), mesh, place))
    return distributed.gather(q).numpy(force=True), distributed.gather(r).numpy(force=True)


@pytest.mark.parametrize("size", SIZES)
def test_qr(ranks, size):
    for m, n, place in ((50, 6, 0), (7, 5, 1), (3, 3, 0), (4, 9, None), (1, 1, 0)):
        a = _data(m, n, dtype=torch.complex128).numpy(force=True)
        for q, r in ranks(size).run(_qr, m, n, place, torch.complex128):
            assert q.shape == (m, min(m, n))
            assert np.array_equal(r, np.triu(r))
            assert np.linalg.norm(q @ r - a) <= 20 * m * 2**-53 * np.linalg.norm(a)
            assert np.linalg.norm(q.conj().T @ q - np.eye(q.shape[1])) <= 20 * m * 2**-53


def _low_rank(kind):
    mesh = distributed.mesh()
    x = _data(40, 4, seed=2)
    a = x @ x.T if kind == "eigh" else x @ _data(4, 30, seed=3)
    fn = trnsolver.eigh_randomized if kind == "eigh" else trnsolver.svd_randomized
    made = fn(distributed.shard(a, mesh, 0), 3, seed=5)
    return [distributed.gather(part).numpy(force=True) for part in (made.u, made.s, made.vh, made.error)]


@pytest.mark.parametrize("kind", ["svd", "eigh"])
def test_low_rank(ranks, kind):
    x = _data(40, 4, seed=2)
    a = (x @ x.T if kind == "eigh" else x @ _data(4, 30, seed=3)).numpy(force=True)
    exact = np.linalg.svd(a, compute_uv=False)
    for u, s, vh, error in ranks(3).run(_low_rank, kind):
        assert np.abs(s - exact[:3]).max() <= 20 * 40 * 2**-53 * exact[0] + error
        assert np.linalg.norm(u * s @ vh - a, 2) <= exact[3] * (1 + 1e-10) + error


def _cg(columns, maxiter):
    mesh = distributed.mesh()
    b = _data(30, columns, seed=1) if columns else _data(30, seed=1)
    made = trnsolver.cg(distributed.shard(_spd(30), mesh, 1), distributed.shard(b, mesh, 0), tol=1e-12, maxiter=maxiter)
    return distributed.gather(made.x).numpy(force=True), made.converged, made.iterations, made.residuals


def test_cg(ranks):
    a = _spd(30).numpy(force=True)
    for columns in (0, 2):
        b = (_data(30, columns, seed=1) if columns else _data(30, seed=1)).numpy(force=True)
        for x, converged, iterations, residuals in ranks(3).run(_cg, columns, None):
            assert converged
            assert len(residuals) == iterations + 1
            # what was asked for, and what the residual that is updated drifts from the true one
            rounding = 20 * 30 * 2**-53 * np.linalg.norm(a, 2) * np.linalg.norm(x)
            assert np.linalg.norm(b - a @ x) <= 1e-12 * np.linalg.norm(b) + rounding
        for _, converged, iterations, _ in ranks(3).run(_cg, columns, 2):
            assert not converged
            assert iterations == 2


def _cg_scaled(of_a, of_b, sparse):
    mesh = distributed.mesh()
    a, b = _spd(7).float() * of_a, _data(7, 2).float() * of_b
    spread = trnsparse.shard_rows(trnsparse.CSRMatrix.from_dense(a), mesh) if sparse else distributed.shard(a, mesh, 1)
    start = distributed.shard(torch.full((7, 2), of_b / of_a), mesh, 0)
    made = trnsolver.cg(spread, distributed.shard(b, mesh, 0), x0=start, tol=1e-5, maxiter=99)
    exact = torch.linalg.solve(_spd(7), _data(7, 2))
    return made.converged, float((distributed.gather(made.x).double() * (of_a / of_b) - exact).norm() / exact.norm())


def test_squares_of_sharded_data_may_leave_the_range(ranks):
    for of_a, of_b, sparse in ((1.0, 1e-25, False), (1e-25, 1e-25, True), (1e25, 1e10, False)):
        for converged, error in ranks(3).run(_cg_scaled, of_a, of_b, sparse):
            assert converged
            assert error <= 1e-3, (of_a, of_b, sparse)


def _cg_of_one_row(dtype):
    mesh = distributed.mesh()
    a, b = torch.full((1, 1), 4.0, dtype=dtype), torch.ones(1, 3, dtype=dtype)
    found = trnsolver.cg(distributed.shard(a, mesh, 0), distributed.shard(b, mesh, 0))
    return torch.equal(distributed.gather(found.x), b / 4)


def test_ranks_without_rows_take_part(ranks):
    for dtype in (torch.float32, torch.complex128):
        assert all(ranks(3).run(_cg_of_one_row, dtype))


def _cg_with(what):
    mesh = distributed.mesh()
    a, b = distributed.shard(_spd(6), mesh, 0), distributed.shard(_data(6), mesh, 0)
    if what == "rows":
        start, size = distributed.chunk(6, mesh.size(), mesh.get_rank())
        own = _spd(6).diagonal()[start : start + size, None]
        return trnsolver.cg(a, b, tol=1e-12, preconditioner=lambda r: r / own).converged
    options = {
        "the whole": {"preconditioner": trnsolver.jacobi_preconditioner(_spd(6))},
        "tolerance": {"tol": -1.0},
        "start": {"x0": distributed.shard(_data(5), mesh, 0)},
    }
    if what == "spread":
        trnsolver.jacobi_preconditioner(a)
    return trnsolver.cg(a, b, **options[what])


def test_a_preconditioner_works_on_rows_and_options_are_checked(ranks):
    assert ranks(3).run(_cg_with, "rows") == [True] * 3
    for what, kind, says in (
        ("spread", trnsci.UnsupportedError, "jacobi_preconditioner: no admitted backend takes this call: distributed"),
        ("tolerance", trnsci.ArgumentError, "tol is -1.0"),
        ("start", trnsci.ArgumentError, "shape of x0 is (5,)"),
        ("the whole", (trnsci.ArgumentError, RuntimeError), "size"),
    ):
        with pytest.raises(Exception, match="rank") as caught:
            ranks(3).run(_cg_with, what)
        for error in caught.value.errors.values():
            assert isinstance(error, kind)
            assert says in str(error) or what == "the whole"


def _watched(name):
    """What moves and what is held in a call, without the words ranks agree with."""
    mesh = distributed.mesh()
    a, b = distributed.shard(_spd(96), mesh, 0), distributed.shard(_data(96, 48), mesh, 1)
    operands = {"solve_spd": (a, b), "qr": (b.redistribute(mesh, [Shard(0)]),)}.get(name, (a,))
    getattr(trnsolver, name)(*operands)
    with trnsci.ledger() as book, MemoryMeter([x.to_local() for x in operands], "cpu") as meter:
        getattr(trnsolver, name)(*operands)
    return sum(exchange.nbytes for exchange in book.exchanges) - 16 * (mesh.size() - 1), meter.peak


@pytest.mark.parametrize("name", ["cholesky", "solve_spd", "inv_spd", "qr"])
def test_volume_and_peak_are_as_planned(ranks, name):
    a, b = Layout((96, 96), torch.float64, (3,), (0,)), Layout((96, 48), torch.float64, (3,), (1,))
    tall = Layout((96, 48), torch.float64, (3,), (0,))
    plan = distributed.plan(getattr(trnsolver, name), *{"solve_spd": (a, b), "qr": (tall,)}.get(name, (a,)))
    for rank, (volume, peak) in zip(plan.ranks, ranks(3).run(_watched, name), strict=True):
        assert rank.volume == volume
        # what LAPACK allocates inside a local factorisation is not planned
        limit = 0.2 if name == "qr" else 0.1
        assert abs(rank.peak_bytes - peak) <= limit * peak, (rank.peak_bytes, peak)


def test_plans():
    rows = Layout((4096, 4096), torch.float32, (4,), (0,))
    plan = distributed.plan(trnsolver.cholesky, rows)
    busiest, idlest = (f(rank.flops for rank in plan.ranks) for f in (max, min))
    # dealing blocks in turn keeps everyone at work
    assert busiest <= 1.3 * idlest
    assert plan.flops < 1.5 * 4096**3
    assert plan.volume < 2 * 4096**2 * 4
    tall = Layout((100_000, 64), torch.float32, (4,), (0,))
    assert distributed.plan(trnsolver.qr, tall).volume == 3 * 64 * 64 * 4
    vector = Layout((4096,), torch.float32, (4,), (0,))
    assert distributed.plan(trnsolver.cg, rows, vector).volume < 4 * 4096 * 4


def _inverse(n, place, dtype):
    mesh = distributed.mesh()
    return (
        distributed.gather(trnsolver.inv_spd(distributed.shard(_spd(n, dtype), mesh, place)))
        .resolve_conj()
        .numpy(force=True)
    )


@pytest.mark.parametrize("size", SIZES)
def test_inv_spd(ranks, size):
    for n, place, dtype in ((1, 0, torch.float64), (2, 0, torch.float64), (37, 1, torch.complex128)):
        a = _spd(n, dtype).numpy(force=True)
        for x in ranks(size).run(_inverse, n, place, dtype):
            assert np.array_equal(x, x.conj().T)
            limit = 20 * n * U[dtype] * np.linalg.norm(x) * np.linalg.norm(a)
            assert np.linalg.norm(x @ a - np.eye(n)) <= limit


def _triangles(what, upper, left, unit, vector, dtype):
    mesh = distributed.mesh()
    a = 0.3 * _data(9, 9, seed=5, dtype=dtype) + 2 * torch.eye(9, dtype=dtype)
    b = _data(*((9, 4) if left else (4, 9)), seed=6, dtype=dtype)
    if what == "cholesky_solve":
        b = b[:, 0] if vector else b
        factor = torch.triu(a) if upper else torch.tril(a)
        made = trnsolver.cholesky_solve(distributed.shard(b, mesh, 0), distributed.shard(factor, mesh, 1), upper=upper)
    else:
        operands = (distributed.shard(x, mesh, 0) for x in (a, b))
        made = trnsolver.solve_triangular(*operands, upper=upper, left=left, unitriangular=unit)
    return distributed.gather(made).numpy(force=True)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("upper", [False, True])
def test_solves_with_triangles(ranks, size, upper):
    for dtype in (torch.float64, torch.complex128):
        a = (0.3 * _data(9, 9, seed=5, dtype=dtype) + 2 * torch.eye(9, dtype=dtype)).numpy(force=True)
        t = np.triu(a) if upper else np.tril(a)
        kinds = ((True, False), (True, True), (False, False))
        cases = [("solve_triangular", upper, left, unit, False, dtype) for left, unit in kinds]
        for (left, unit), results in zip(kinds, ranks(size).each(_triangles, cases), strict=True):
            b = _data(*((9, 4) if left else (4, 9)), seed=6, dtype=dtype).numpy(force=True)
            u = t - np.diag(np.diag(t)) + np.eye(9) if unit else t
            exact = np.linalg.solve(u, b) if left else np.linalg.solve(u.T, b.T).T
            for found in results:
                limit = 2 * 20 * 9 * 2**-53 * np.linalg.cond(u) * np.linalg.norm(exact)
                assert np.linalg.norm(found - exact) <= limit, (left, unit)
        whole = t.conj().T @ t if upper else t @ t.conj().T
        b = _data(9, 4, seed=6, dtype=dtype).numpy(force=True)
        for vector in (False, True):
            right = b[:, 0] if vector else b
            for found in ranks(size).run(_triangles, "cholesky_solve", upper, True, False, vector, dtype):
                residual = np.linalg.norm(whole @ found - right)
                scale = np.linalg.norm(whole) * np.linalg.norm(found) + np.linalg.norm(right)
                assert residual <= 20 * 9 * U[dtype] * scale


def _least_squares(shape, rank, vector, places, rcond, driver=None):
    mesh = distributed.mesh()
    a, b = _low(shape, rank), _data(shape[0], 3, seed=7)
    b = b[:, 0] if vector else b
    a, b = (distributed.shard(x, mesh, p) for x, p in zip((a, b), places, strict=True))
    found = trnsolver.lstsq(a, b, rcond=rcond, driver=driver)
    assert type(found) is trnsolver.LeastSquares
    return [distributed.gather(part).numpy(force=True) for part in found]


def _low(shape, rank):
    return _data(*shape) if rank is None else _data(shape[0], rank) @ _data(rank, shape[1], seed=1)


@pytest.mark.parametrize("size", SIZES)
def test_lstsq(ranks, size):
    # tall, square, wide, short of rank, and fewer rows on a rank than columns
    for shape, rank in (((40, 5), None), ((6, 6), None), ((3, 8), None), ((20, 6), 3), ((9, 7), None)):
        for vector, places in ((False, (0, 0)), (True, (1, None))):
            a, b = _low(shape, rank).numpy(force=True), _data(shape[0], 3, seed=7).numpy(force=True)
            exact = np.linalg.lstsq(a, b[:, 0] if vector else b, rcond=1e-12)[0]
            condition = np.linalg.svd(a, compute_uv=False)
            condition = condition[0] / condition[(rank or min(shape)) - 1]
            limit = 20 * max(shape) * 2**-53 * condition**2 * (np.linalg.norm(exact) + np.linalg.norm(b))
            for found in ranks(size).run(_least_squares, shape, rank, vector, places, 1e-12 if rank else None):
                assert np.linalg.norm(found[0] - exact) <= limit, (shape, rank, vector)
                assert found[2] == (rank or min(shape))
                assert found[3].shape == (0,)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd"])
def test_the_other_fields_of_lstsq(ranks, size, driver):
    a, b = _data(20, 4), _data(20, 3, seed=7)
    exact = np.linalg.lstsq(a.numpy(force=True), b.numpy(force=True), rcond=None)
    rounding = 20 * 20 * 2**-53
    for _, residuals, rank, values in ranks(size).run(_least_squares, (20, 4), None, False, (0, 0), None, driver):
        assert (np.abs(residuals - exact[1]) <= rounding * np.linalg.norm(b.numpy(force=True), axis=0) ** 2).all()
        assert rank.tolist() == ([] if driver == "gels" else 4)
        assert values.shape == ((4,) if driver == "gelsd" else (0,))
        assert np.abs(values - exact[3][: values.size]).max(initial=0.0) <= rounding * exact[3][0]
    for _, residuals, rank, _ in ranks(size).run(_least_squares, (20, 4), 2, False, (0, 0), 1e-12, "gelsd"):
        assert (residuals.shape, rank) == ((0,), 2)


def _unmet(what):
    mesh = distributed.mesh()
    a = distributed.shard(torch.eye(4, dtype=torch.float64), mesh, 0)
    if what == "batch":
        trnsolver.svd_randomized(distributed.shard(torch.ones(2, 3, 3), mesh, 0), 1)
    else:
        trnsolver.lstsq(a, a, target_error=1e-12)


@pytest.mark.parametrize(("what", "says"), [("batch", "one sharded matrix"), ("lstsq", "refinement")])
def test_what_is_missing_says_what_there_is(ranks, what, says):
    with pytest.raises(Exception, match="rank 0") as caught:
        ranks(2).run(_unmet, what)
    assert isinstance(caught.value.errors[1], trnsci.UnsupportedError)
    assert says in str(caught.value.errors[1])


def _into_memory(place):
    mesh = distributed.mesh()
    a, b = distributed.shard(_spd(7), mesh, 0), distributed.shard(_data(7, 3), mesh, 0)

    def memory(*shape):
        return distributed.shard(torch.zeros(shape, dtype=torch.float64), mesh, place)

    factor, x, y = memory(7, 7), memory(7, 3), memory(7, 3)
    assert trnsolver.cholesky(a, out=factor) is factor
    assert trnsolver.cholesky_solve(b, factor, out=x) is x
    assert trnsolver.solve_triangular(factor, b, upper=False, out=y) is y
    q, r = memory(7, 3), memory(3, 3)
    trnsolver.qr(b, out=(q, r))
    return [distributed.gather(t).numpy(force=True) for t in (factor, x, y, q, r)]


@pytest.mark.parametrize("place", [0, 1, None])
def test_results_go_where_they_are_told(ranks, place):
    a, b = _spd(7).numpy(force=True), _data(7, 3).numpy(force=True)
    for factor, x, y, q, r in ranks(3).run(_into_memory, place):
        assert _factored(factor, a)
        assert _solved(a, x, b)
        assert _solved(factor, y, b)
        assert np.linalg.norm(q @ r - b) <= 20 * 7 * 2**-53 * np.linalg.norm(b)


def _general(n, columns, places, dtype):
    mesh = distributed.mesh()
    a, b = _data(n, n, dtype=dtype), _data(n, columns, seed=1, dtype=dtype)
    spread, right = distributed.shard(a, mesh, places[0]), distributed.shard(b, mesh, places[1])
    factors, pivots = trnsolver.lu_factor(spread)
    solutions = [
        trnsolver.solve(spread, right),
        trnsolver.lu_solve(factors, pivots, right),
        trnsolver.lu_solve(factors, pivots, right, adjoint=True),
        trnsolver.inv(spread),
        trnsolver.solve(spread, distributed.shard(b[:, 0].clone(), mesh, None)),
    ]
    packed = distributed.gather(factors)
    order = trnsolver.lu_solve(torch.eye(n, dtype=dtype), distributed.gather(pivots), torch.eye(n, dtype=dtype))
    return (
        [distributed.gather(x).resolve_conj().numpy(force=True) for x in solutions],
        packed.numpy(force=True),
        order.numpy(force=True),
    )


@pytest.mark.parametrize("size", SIZES)
def test_general_systems_by_lu(ranks, size):
    for n, columns, places, dtype in (
        (1, 1, (0, 0), torch.float64),
        (30, 5, (0, 1), torch.complex128),
        (41, 3, (1, None), torch.float64),
        (3, 2, (None, 0), torch.float64),
    ):
        a, b = _data(n, n, dtype=dtype).numpy(force=True), _data(n, columns, seed=1, dtype=dtype).numpy(force=True)
        for (solved, again, adjoint, inverse, vector), packed, order in ranks(size).run(
            _general, n, columns, places, dtype
        ):
            # entries of these matrices grow by less than 10
            factor = 20 * n * 10 * 2**-53 * np.linalg.norm(a)
            assert np.linalg.norm(order @ a - (np.tril(packed, -1) + np.eye(n)) @ np.triu(packed)) <= factor
            # LAPACK compares the sum of real and imaginary part
            assert np.abs(np.tril(packed, -1)).max() <= 2**0.5 + 1e-15
            for matrix, x, right in (
                (a, solved, b),
                (a, again, b),
                (a.conj().T, adjoint, b),
                (a, inverse, np.eye(n)),
                (a, vector, b[:, 0]),
            ):
                assert np.linalg.norm(matrix @ x - right) <= factor * np.linalg.norm(
                    x
                ) + 20 * n * 2**-53 * np.linalg.norm(right)


def _singular(n, at):
    a = torch.eye(n, dtype=torch.float64)
    a[at, at] = 0
    trnsolver.inv(distributed.shard(a, distributed.mesh(), 0))


def test_a_singular_matrix_names_the_pivot_of_the_whole(ranks):
    with pytest.raises(Exception, match="singular") as caught:
        ranks(3).run(_singular, 20, 11)
    assert {type(error) for error in caught.value.errors.values()} == {trnsci.Singular}
    assert {error.index for error in caught.value.errors.values()} == {11}


@pytest.mark.slow
def test_plans_of_general_systems_and_spectra_hold_parts_only(monkeypatch):
    layout = Layout((640, 640), torch.float64, (16,), (0,))
    right = Layout((640, 2), torch.float64, (16,), (0,))
    # several copies of a sixteenth, and never the whole
    assert distributed.plan(trnsolver.solve, layout, right).peak_bytes < 8 * 640 * 640
    # sixteen ranks rotate rows, of matrices that are long enough; fewer would solve the whole on each
    monkeypatch.setattr(sharded_eigh, "_SHORT", 0)
    spectrum = distributed.plan(trnsolver.eigvalsh, Layout((128, 128), torch.float64, (16,), (0,)))
    assert spectrum.peak_bytes < 8 * 128 * 128


def _eigenpairs(n, place, dtype, uplo, few):
    with pytest.MonkeyPatch.context() as patch:
        # from how many ranks on they rotate rows instead of solving the whole each
        patch.setattr(sharded_eigh, "_FEW", few)
        patch.setattr(sharded_eigh, "_SHORT", 0)
        return _all_eigenpairs(n, place, dtype, uplo)


def _all_eigenpairs(n, place, dtype, uplo):
    mesh = distributed.mesh()
    a = _data(n, n, dtype=dtype)
    a = a + a.mH
    a = a.diag().diag() if n == 8 else a
    noise = torch.full_like(a, 9.0)
    read = a.tril() + noise.triu(1) if uplo == "L" else a.triu() + noise.tril(-1)
    made = trnsolver.eigh(distributed.shard(read, mesh, place), UPLO=uplo)
    alone = trnsolver.eigvalsh(distributed.shard(read, mesh, place), uplo)
    return [distributed.gather(x).resolve_conj().numpy(force=True) for x in (*made, alone)]


@pytest.mark.parametrize("few", [2, 16])
@pytest.mark.parametrize("size", SIZES)
def test_whole_spectra(ranks, size, few):
    for n, place, dtype, uplo in (
        (1, 0, torch.float64, "L"),
        (8, 0, torch.float64, "L"),
        (25, 1, torch.complex128, "U"),
        (40, 0, torch.float64, "L"),
    ):
        a = _data(n, n, dtype=dtype).numpy(force=True)
        a = a + a.conj().T
        a = np.diag(np.diag(a)) if n == 8 else a
        bound = 20 * n * 2**-53 * max(np.linalg.norm(a, 2), 1e-300)
        for values, vectors, alone in ranks(size).run(_eigenpairs, n, place, dtype, uplo, few):
            assert np.abs(values - np.linalg.eigvalsh(a)).max() <= bound
            assert np.array_equal(values, alone)
            assert np.linalg.norm(a @ vectors - vectors * values, 2) <= bound
            assert np.linalg.norm(vectors.conj().T @ vectors - np.eye(n), 2) <= 20 * n * 2**-53


def _gradients(function, place, dtype, spread):
    """The gradients of a sum over the results, weighted, on spread matrices or on whole ones."""
    n = 12
    mesh = distributed.mesh()
    given = [_data(n, n, dtype=dtype), _data(n, 3, seed=1, dtype=dtype)][: 2 if function.startswith("solve") else 1]
    if function in ("eigh", "eigvalsh", "solve_pos"):
        given[0] = given[0] @ given[0].mH + n * torch.eye(n, dtype=dtype)
    if function == "solve_vector":
        given[1] = given[1][:, 0].clone()
    leaves = [x.requires_grad_() for x in given]
    if spread:
        places = (place, None if function == "solve_vector" else place)
        leaves = [distributed.shard(x, mesh, place) for x, place in zip(given, places, strict=False)]
    options = {"assume": "pos"} if function == "solve_pos" else {}
    result = getattr(trnsolver, function.split("_")[0])(*leaves, **options)
    whole = [distributed.gather(x) if spread else x for x in (result if isinstance(result, tuple) else (result,))]
    # no phase of an eigenvector is seen
    parts = [
        x @ torch.diag(torch.arange(1.0, n + 1).to(x)) @ x.mH if function == "eigh" and x.ndim > 1 else x for x in whole
    ]
    sum((x * torch.arange(1.0, x.numel() + 1).reshape(x.shape)).real.sum() for x in parts).backward()
    grads = [distributed.gather(x.grad) if spread else x.grad for x in leaves]
    return [grad.resolve_conj().numpy(force=True) for grad in grads]


@pytest.mark.parametrize(
    ("function", "place", "dtype"),
    [
        ("solve", 0, torch.complex128),
        ("solve_vector", 1, torch.float64),
        ("solve_pos", 0, torch.float64),
        ("inv", 1, torch.complex128),
        ("eigh", 0, torch.complex128),
        ("eigvalsh", 1, torch.float64),
    ],
)
def test_gradients_are_those_of_whole_matrices(ranks, function, place, dtype):
    mine, *_ = ranks(2).run(_gradients, function, place, dtype, True)
    theirs, *_ = ranks(2).run(_gradients, function, place, dtype, False)
    for found, exact in zip(mine, theirs, strict=True):
        if function in ("eigh", "eigvalsh", "solve_pos") and exact.shape[0] == exact.shape[-1]:
            # what a triangle stands for is seen as Hermitian
            found, exact = found + found.conj().T, exact + exact.conj().T
        assert np.linalg.norm(found - exact) <= 1e-9 * np.linalg.norm(exact)


def _differentiated_factors():
    a = distributed.shard(_data(4, 4).requires_grad_(), distributed.mesh(), 0)
    trnsolver.lu_factor(a)


def test_factors_without_a_gradient_say_what_to_do(ranks):
    with pytest.raises(Exception, match="rank 0") as caught:
        ranks(2).run(_differentiated_factors)
    assert isinstance(caught.value.errors[0], trnsci.UnsupportedError)
    assert "has no gradient, and a requires grad" in str(caught.value.errors[0])
    assert "torch.no_grad()" in str(caught.value.errors[0])


def _decompositions(shapes, mesh_shape, places, dtype):
    mesh, results = distributed.mesh(*mesh_shape), []
    for shape in shapes:
        a = distributed.shard(_data(*shape, dtype=dtype), mesh, *places)
        parts = trnsolver.svd(a, full_matrices=False)
        q, r = trnsolver.qr(a)
        every = (*parts, trnsolver.svdvals(a), q, r)
        results.append([distributed.gather(x).resolve_conj().numpy(force=True) for x in every])
    return results


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize(
    ("size", "mesh", "places"), [(3, (), (0,)), (3, (), (1,)), (4, (2, 2), (0, 0)), (4, (2, 2), (None, 0))]
)
def test_singular_values_and_triangles_of_trees(ranks, size, mesh, places, dtype):
    shapes = ((29, 4), (4, 29), (7, 7), (5, 3), (1, 3), (2, 1))
    for answers in ranks(size).run(_decompositions, shapes, mesh, places, dtype):
        for shape, (u, s, vh, values, q, r) in zip(shapes, answers, strict=True):
            a, least = _data(*shape, dtype=dtype).numpy(force=True), min(shape)
            bound = 20 * max(shape) * 2**-53
            expected = np.linalg.svd(a, compute_uv=False)
            assert np.linalg.norm(u * s @ vh - a) <= bound * np.linalg.norm(a)
            for x in (u, vh.conj().T, q):
                assert np.linalg.norm(x.conj().T @ x - np.eye(least)) <= bound
            for each in (s, values):
                assert np.all(np.diff(each) <= 0)
                assert np.abs(each - expected).max() <= bound * expected.max()
            assert np.linalg.norm(q @ r - a) <= bound * np.linalg.norm(a)
            assert np.array_equal(r, np.triu(r))


def _whole_factors():
    a = distributed.shard(_data(6, 4), distributed.mesh(), 0)
    try:
        trnsolver.svd(a)
    except trnsci.UnsupportedError as error:
        return str(error)


def test_square_factors_of_a_sharded_svd_are_refused(ranks):
    for said in ranks(2).run(_whole_factors):
        assert "full_matrices is True" in said
        assert "Pass full_matrices=False" in said


def test_a_tree_of_triangles_moves_and_stacks_less_than_all_of_them():
    flat, tree = (
        distributed.plan(trnsolver.qr, Layout((10**6, 16), torch.float32, mesh, places))
        for mesh, places in (((512,), (0,)), ((8, 8, 8), (0, 0, 0)))
    )
    assert tree.volume < flat.volume / 4
    assert tree.slowest("trn2").total < flat.slowest("trn2").total


def test_a_spectrum_is_never_predicted_to_take_longer_on_more_ranks():
    seconds = [
        distributed.plan(trnsolver.eigh, Layout((1024, 1024), torch.float32, (ranks,), (0,))).slowest("trn2").computing
        for ranks in (1, 2, 16)
    ]
    assert seconds[0] == seconds[1] == seconds[2]
