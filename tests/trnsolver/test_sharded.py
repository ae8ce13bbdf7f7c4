"""Factorisations and solvers on spread matrices, against float64 LAPACK through NumPy, by the bounds of the ops."""

import numpy as np
import pytest
import torch

import trnsci
import trnsolver
from trnsci import distributed
from trnsci.distributed import Layout

SIZES = (1, 2, 3, 4)
U = {torch.float64: 2**-53, torch.complex128: 2**-53, torch.float32: 2**-24}


def _data(*shape, seed=0, dtype=torch.float64):
    real = torch.from_numpy(np.random.default_rng(seed).standard_normal((2, *shape)))
    return torch.complex(*real).to(dtype) if dtype.is_complex else real[0].to(dtype)


def _spd(n, dtype=torch.float64):
    x = _data(n, n, dtype=dtype)
    return x @ x.mH + n * torch.eye(n, dtype=dtype)


def _cholesky(n, place, upper, dtype):
    mesh = distributed.mesh()
    made = trnsolver.cholesky(distributed.shard(_spd(n, dtype), mesh, place), upper=upper)
    return distributed.gather(made).resolve_conj().numpy()


@pytest.mark.parametrize("size", SIZES)
def test_cholesky(ranks, size):
    for n, place, upper, dtype in (
        (1, 0, False, torch.float64),
        (7, 1, False, torch.complex128),
        (40, 0, True, torch.complex128),
        (37, None, False, torch.float32),
        (2, 0, True, torch.float64),
    ):
        a = _spd(n, dtype).numpy().astype(np.complex128)
        for factor in ranks(size).run(_cholesky, n, place, upper, dtype):
            lower = (factor.conj().T if upper else factor).astype(np.complex128)
            assert np.array_equal(lower, np.tril(lower))
            assert np.linalg.norm(lower @ lower.conj().T - a) <= 20 * n * U[dtype] * np.linalg.norm(a)


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
        assert torch.allclose(a @ x, torch.ones_like(x), rtol=1e-12)
    return factor.numpy()


@pytest.mark.parametrize("upper", [False, True])
def test_one_triangle_is_read(ranks, upper):
    exact = np.linalg.cholesky(_spd(20, torch.complex128).numpy())
    for factor in ranks(3).run(_one_triangle, upper):
        assert np.allclose(factor.conj().T if upper else factor, exact, rtol=1e-12, atol=1e-12)


def _indefinite(n, at):
    mesh = distributed.mesh()
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


def _solve_spd(n, columns, places):
    mesh = distributed.mesh()
    b = _data(n, columns, seed=1) if columns else _data(n, seed=1)
    made = trnsolver.solve_spd(distributed.shard(_spd(n), mesh, places[0]), distributed.shard(b, mesh, places[1]))
    return distributed.gather(made).numpy()


@pytest.mark.parametrize("size", SIZES)
def test_solve_spd(ranks, size):
    a = _spd(23).numpy()
    for columns, places in ((5, (0, 0)), (1, (1, 1)), (0, (0, 0)), (3, (None, None))):
        b = (_data(23, columns, seed=1) if columns else _data(23, seed=1)).numpy()
        for x in ranks(size).run(_solve_spd, 23, columns, places):
            bound = 20 * 23 * 2**-53 * (np.linalg.norm(a) * np.linalg.norm(x) + np.linalg.norm(b))
            assert np.linalg.norm(b - a @ x) <= bound


def _batched():
    mesh = distributed.mesh()
    a = torch.stack([_spd(5) + i * torch.eye(5, dtype=torch.float64) for i in range(4)])
    return distributed.gather(trnsolver.cholesky(distributed.shard(a, mesh, 1))).numpy()


def test_batches_are_cut_between_ranks(ranks):
    a = torch.stack([_spd(5) + i * torch.eye(5, dtype=torch.float64) for i in range(4)]).numpy()
    for factor in ranks(3).run(_batched):
        assert np.allclose(factor, np.linalg.cholesky(a), rtol=1e-13, atol=1e-13)


def _qr(m, n, place, dtype):
    mesh = distributed.mesh()
    q, r = trnsolver.qr(distributed.shard(_data(m, n, dtype=dtype), mesh, place))
    return distributed.gather(q).numpy(), distributed.gather(r).numpy()


@pytest.mark.parametrize("size", SIZES)
def test_qr(ranks, size):
    for m, n, place in ((50, 6, 0), (7, 5, 1), (3, 3, 0), (4, 9, None), (1, 1, 0)):
        a = _data(m, n, dtype=torch.complex128).numpy()
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
    return [distributed.gather(part).numpy() for part in (made.u, made.s, made.vh, made.error)]


@pytest.mark.parametrize("kind", ["svd", "eigh"])
def test_low_rank(ranks, kind):
    x = _data(40, 4, seed=2)
    a = (x @ x.T if kind == "eigh" else x @ _data(4, 30, seed=3)).numpy()
    exact = np.linalg.svd(a, compute_uv=False)
    for u, s, vh, error in ranks(3).run(_low_rank, kind):
        assert np.allclose(s, exact[:3], rtol=1e-12)
        assert np.linalg.norm(u * s @ vh - a, 2) <= exact[3] * (1 + 1e-10) + error


def _cg(columns, maxiter):
    mesh = distributed.mesh()
    b = _data(30, columns, seed=1) if columns else _data(30, seed=1)
    made = trnsolver.cg(distributed.shard(_spd(30), mesh, 1), distributed.shard(b, mesh, 0), tol=1e-12, maxiter=maxiter)
    return distributed.gather(made.x).numpy(), made.converged, made.iterations, made.residuals


def test_cg(ranks):
    a = _spd(30).numpy()
    for columns in (0, 2):
        b = (_data(30, columns, seed=1) if columns else _data(30, seed=1)).numpy()
        for x, converged, iterations, residuals in ranks(3).run(_cg, columns, None):
            assert converged
            assert len(residuals) == iterations + 1
            assert np.linalg.norm(b - a @ x) <= 1e-11 * np.linalg.norm(b)
        for _, converged, iterations, _ in ranks(3).run(_cg, columns, 2):
            assert not converged
            assert iterations == 2


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
