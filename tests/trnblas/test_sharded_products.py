"""gemv, symm, hemm and trmm on spread arrays against NumPy in float64, by the bound of gemm."""

import itertools

import numpy as np
import pytest
import torch

import trnblas
from trnsci import distributed
from trnsci.distributed import Layout
from trnsci.testing import assert_within
from trnsci.testing.bounds import gemm_bound

SIZES = (pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(3, marks=pytest.mark.slow), 4)
F64, C128 = torch.float64, torch.complex128


def _data(*shape, seed=0, dtype=F64):
    real = torch.from_numpy(np.random.default_rng(seed).standard_normal((2, *shape)))
    return torch.complex(*real).to(dtype) if dtype.is_complex else real[0].to(dtype)


def _gemv(mesh_shape, shape, places, kind, dtype, options):
    mesh = distributed.mesh(*mesh_shape)
    m, n = shape if kind == "n" else shape[::-1]
    a, x, y = _data(*shape, dtype=dtype), _data(n, seed=1, dtype=dtype), _data(m, seed=2, dtype=dtype)
    a, x, y = (distributed.shard(t, mesh, *p) for t, p in zip((a, x, y), places, strict=True))
    out = distributed.shard(torch.zeros(m, dtype=dtype), mesh, 0)
    assert trnblas.gemv(1.5, a, x, 0.5, y, kind, out=out, **options) is out
    plain = trnblas.gemv(1.5, a, x, trans=kind, **options)
    assert all(p.is_replicate() or p.is_shard(0) for p in plain.placements)
    return distributed.gather(out).numpy(force=True), distributed.gather(plain).numpy(force=True)


@pytest.mark.parametrize("size", SIZES)
def test_gemv(ranks, size):
    cases = [
        ((size,), shape, ((place,), (0,), (None,)), kind, C128 if kind == "c" else F64, {})
        for shape, kind, place in itertools.product(((7, 5), (1, 6), (2, 1), (4, 0)), "ntc", (0, 1, None))
    ]
    for (_, shape, places, kind, dtype, _), results in zip(cases, ranks(size).each(_gemv, cases), strict=True):
        m, n = shape if kind == "n" else shape[::-1]
        a, x, y = _data(*shape, dtype=dtype), _data(n, seed=1, dtype=dtype), _data(m, seed=2, dtype=dtype)
        turned = {"n": a, "t": a.mT, "c": a.mH}[kind].resolve_conj()
        exact = 1.5 * (turned.numpy(force=True) @ x.numpy(force=True))
        bound = 8 * gemm_bound(turned.abs(), x.abs()[:, None]).numpy(force=True)[:, 0] + 2**-50 * abs(
            y.numpy(force=True)
        )
        for added, plain in results:
            assert np.all(abs(plain - exact) <= bound), (shape, kind, places)
            assert np.all(abs(added - exact - 0.5 * y.numpy(force=True)) <= bound), (shape, kind, places)


def test_gemv_on_a_grid_and_with_whole_sums(ranks):
    a, x = _data(9, 10), _data(10, seed=1)
    exact, bound = 1.5 * (a @ x).numpy(force=True), 2 * gemm_bound(a, x[:, None]).numpy(force=True)[:, 0]
    for places in ((0, 1), (1, 0), (0, 0), (None, 1)):
        for _, plain in ranks(4).run(_gemv, (2, 2), (9, 10), (places, (0,), (0,)), "n", F64, {}):
            assert np.all(abs(plain - exact) <= bound), places
    alone = trnblas.gemv(
        1.5, _data(9, 10, dtype=torch.float32), _data(10, seed=1, dtype=torch.float32), precision="compensated"
    )
    options = {"precision": "compensated"}
    for _, plain in ranks(3).run(_gemv, (3,), (9, 10), ((1,), (0,), (0,)), "n", torch.float32, options):
        assert np.array_equal(plain, alone.numpy(force=True))


def test_gemv_leaves_the_matrix_where_it_is():
    a, x = Layout((4000, 1000), torch.float32, (4,), (1,)), Layout((1000,), torch.float32, (4,), (0,))
    # parts of the result, and nothing else
    assert distributed.plan(trnblas.gemv, 1.0, a, x).volume == 3 * 1000 * 4
    assert distributed.plan(trnblas.gemv, 1.0, Layout((4000, 1000), torch.float32, (4,), (0,)), x).volume == 3 * 250 * 4


def _batched():
    mesh = distributed.mesh()
    a, x = _data(5, 3, 4), _data(5, 4, seed=1)
    return distributed.gather(trnblas.gemv(1.0, *(distributed.shard(t, mesh, 0) for t in (a, x)))).numpy(force=True)


def test_batches_of_gemv(ranks):
    a, x = _data(5, 3, 4).numpy(force=True), _data(5, 4, seed=1).numpy(force=True)
    exact, size = (np.einsum("bij,bj->bi", *pair) for pair in ((a, x), (abs(a), abs(x))))
    for found in ranks(3).run(_batched):
        assert_within(found, exact, _rounding(4, F64) * size)


def _rounding(terms, dtype):
    """What a sum may be off, and as much again for NumPy's."""
    return 2 * trnblas.error_bound(terms, dtype, "fp64")


def _poisoned(n, lower, dtype):
    """A triangle whose other half nobody may read."""
    a = _data(n, n, dtype=dtype)
    return (
        a.tril() + torch.full_like(a, float("nan")).triu(1)
        if lower
        else a.triu() + torch.full_like(a, float("nan")).tril(-1)
    )


def _symmetric(op, side, lower, places, dtype):
    mesh = distributed.mesh()
    b, c = (
        _data(*((5, 7) if side else (7, 5)), seed=1, dtype=dtype),
        _data(*((5, 7) if side else (7, 5)), seed=2, dtype=dtype),
    )
    a, b, c = (distributed.shard(x, mesh, p) for x, p in zip((_poisoned(7, lower, dtype), b, c), places, strict=True))
    return distributed.gather(getattr(trnblas, op)(1.5, a, b, 0.5, c, side, lower)).numpy(force=True)


@pytest.mark.grid(1)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("op", ["symm", "hemm"])
def test_symmetric(ranks, size, op):
    cases = [
        (op, side, lower, places, C128)
        for side, lower, places in itertools.product((0, 1), (0, 1), ((0, 0, 0), (1, 1, None), (None, 0, 1)))
    ]
    for (_, side, lower, *_), results in zip(cases, ranks(size).each(_symmetric, cases), strict=True):
        a = _data(7, 7, dtype=C128).numpy(force=True)
        half = np.tril(a, -1) if lower else np.triu(a, 1)
        diagonal = np.diag(np.diag(a).real if op == "hemm" else np.diag(a))
        full = half + (half.conj().T if op == "hemm" else half.T) + diagonal
        b, c = (_data(*((5, 7) if side else (7, 5)), seed=s, dtype=C128).numpy(force=True) for s in (1, 2))
        exact = 1.5 * (b @ full if side else full @ b) + 0.5 * c
        magnitude = 1.5 * (abs(b) @ abs(full) if side else abs(full) @ abs(b)) + 0.5 * abs(c)
        for found in results:
            assert_within(found, exact, _rounding(8, C128) * magnitude)


def _trmm(side, lower, trans, diag, places, dtype):
    mesh = distributed.mesh()
    b = _data(*((5, 7) if side else (7, 5)), seed=1, dtype=dtype)
    a, b = (distributed.shard(x, mesh, p) for x, p in zip((_poisoned(7, lower, dtype), b), places, strict=True))
    out = distributed.shard(torch.zeros(tuple(b.shape), dtype=dtype), mesh, 1)
    trnblas.trmm(1.5, a, b, side, lower, trans, diag, out=out)
    return distributed.gather(out).numpy(force=True)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_trmm(ranks, size):
    cases = [
        (side, lower, trans, diag, (0, 1) if side else (1, 0), C128 if trans == "c" else F64)
        for side, lower, trans, diag in itertools.product((0, 1), (0, 1), "ntc", (0, 1))
    ]
    for (side, lower, trans, diag, _, dtype), results in zip(cases, ranks(size).each(_trmm, cases), strict=True):
        a, b = (
            _data(7, 7, dtype=dtype).numpy(force=True),
            _data(*((5, 7) if side else (7, 5)), seed=1, dtype=dtype).numpy(force=True),
        )
        t = np.tril(a) if lower else np.triu(a)
        if diag:
            t = t - np.diag(np.diag(t)) + np.eye(7)
        turned = {"n": t, "t": t.T, "c": t.conj().T}[trans]
        exact = 1.5 * (b @ turned if side else turned @ b)
        magnitude = 1.5 * (abs(b) @ abs(turned) if side else abs(turned) @ abs(b))
        for found in results:
            assert_within(found, exact, _rounding(7, dtype) * magnitude)
