"""syrk and trsm on spread arrays against NumPy in float64, batches and half precision."""

import itertools

import numpy as np
import pytest
import torch

import trnblas
import trnsci
from trnsci import distributed
from trnsci.testing import assert_within, gamma

SIZES = (pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(3, marks=pytest.mark.slow), 4)
PLACES = (0, 1, None)


def _data(*shape, seed=0, dtype=torch.float64):
    real = torch.from_numpy(np.random.default_rng(seed).standard_normal((2, *shape)))
    return torch.complex(*real).to(dtype) if dtype.is_complex else real[0].to(dtype)


def _syrk(lower, trans, place, dtype):
    mesh = distributed.mesh()
    a, c = _data(*((6, 5) if trans == "n" else (5, 6)), dtype=dtype), _data(6, 6, seed=3, dtype=dtype)
    made = trnblas.syrk(
        2.0, distributed.shard(a, mesh, place), 0.5, distributed.shard(c, mesh, 1), trans=trans, lower=lower
    )
    return distributed.gather(made).numpy(force=True)


@pytest.mark.parametrize("size", SIZES)
def test_syrk(ranks, size):
    cases = list(itertools.product((False, True), "nt", PLACES, [torch.float64]))
    for (lower, trans, *_), results in zip(cases, ranks(size).each(_syrk, cases), strict=True):
        a, c = _data(*((6, 5) if trans == "n" else (5, 6))).numpy(force=True), _data(6, 6, seed=3).numpy(force=True)
        full, magnitude = (2 * (x @ x.T if trans == "n" else x.T @ x) + 0.5 * y for x, y in ((a, c), (abs(a), abs(c))))
        exact = np.where(np.tri(6, dtype=bool) if lower else np.tri(6, dtype=bool).T, full, c)
        for result in results:
            # as much again for NumPy's own
            assert_within(result, exact, 2 * trnblas.error_bound(6, torch.float64, "fp64") * magnitude)


def _triangle(n, dtype=torch.float64):
    return _data(n, n, seed=5, dtype=dtype) * 0.3 + 2 * torch.eye(n, dtype=dtype)


def _trsm(side, lower, trans, diag, places, dtype):
    mesh = distributed.mesh()
    a, b = _triangle(7, dtype), _data(*((5, 7) if side else (7, 5)), seed=6, dtype=dtype)
    made = trnblas.trsm(
        1.5, distributed.shard(a, mesh, places[0]), distributed.shard(b, mesh, places[1]), side, lower, trans, diag
    )
    return distributed.gather(made).numpy(force=True)


@pytest.mark.parametrize("size", SIZES)
def test_trsm(ranks, size):
    cases = []
    for side, lower, trans, diag in itertools.product((0, 1), (0, 1), "ntc", (0, 1)):
        dtype = torch.complex128 if trans == "c" else torch.float64
        cases.append((side, lower, trans, diag, (0, 1) if side else (1, 0), dtype))
    for (side, lower, trans, diag, _, dtype), results in zip(cases, ranks(size).each(_trsm, cases), strict=True):
        a, b = (
            _triangle(7, dtype).numpy(force=True),
            _data(*((5, 7) if side else (7, 5)), seed=6, dtype=dtype).numpy(force=True),
        )
        t = np.tril(a) if lower else np.triu(a)
        if diag:
            t = t - np.diag(np.diag(t)) + np.eye(7)
        op = {"n": t, "t": t.T, "c": t.conj().T}[trans]
        exact = 1.5 * (np.linalg.solve(op.T, b.T).T if side else np.linalg.solve(op, b))
        for result in results:
            # ours and the oracle's elimination, each with g(n) |inv(t)| |t| |x|
            inverse, t_size, x_size = abs(np.linalg.inv(op)), abs(op), abs(exact)
            limit = 2 * gamma(7 + 4, dtype) * (x_size @ t_size @ inverse if side else inverse @ t_size @ x_size)
            assert_within(result, exact, limit, what=f"{side, lower, trans, diag}")


def _singular():
    mesh = distributed.mesh()
    a = torch.eye(6, dtype=torch.float64)
    a[4, 4] = 0
    trnblas.trsm(1.0, distributed.shard(a, mesh, 0), distributed.shard(a, mesh, 1), lower=True)


def test_a_singular_triangle_names_the_row_of_the_whole(ranks):
    with pytest.raises(Exception, match="singular") as caught:
        ranks(3).run(_singular)
    assert {error.index for error in caught.value.errors.values()} == {4}
    assert all(isinstance(error, trnsci.Singular) for error in caught.value.errors.values())


def _batches(mesh_shape):
    """Batches of every function of triangles, with operands that are broadcast, and how far they are off."""
    mesh = distributed.mesh(*mesh_shape)
    a, b, c = _triangle(4) + _data(3, 4, 4) / 9, _data(4, 5, seed=1), _data(1, 4, 4, seed=2)
    calls = {
        "syrk": (lambda x, y: trnblas.syrk(2.0, x, 0.5, y, lower=True), (a, c)),
        "trsm": (lambda x, y: trnblas.trsm(2.0, x, y, lower=True), (a, b)),
        "trmm": (lambda x, y: trnblas.trmm(2.0, x, y), (a, b)),
        "symm": (lambda x, y, z: trnblas.symm(2.0, x, y, 0.5, z), (c[0], a, a)),
        "hemm": (lambda x, y: trnblas.hemm(2.0, x, y, side=True), (a, b.mT[:, :4].contiguous())),
        "gemm": (lambda x, y, z: trnblas.gemm(2.0, x, y, 0.5, z), (c[0], c[0], a)),
        "gemv": (lambda x, y, z: trnblas.gemv(2.0, x, y, 0.5, z), (a, b[:, 0].clone(), b[:, 1].clone())),
    }
    wrong = {}
    for name, (call, operands) in calls.items():
        exact = call(*operands)
        for place in (0, 1, None, "sum"):
            spread = [distributed.shard(x, mesh, 0 if place == 1 and x.ndim == 1 else place) for x in operands]
            made = call(*spread)
            error = (distributed.gather(made) - exact).abs().max().item()
            if error > 1e-13 * exact.abs().max().item():
                wrong[name, place] = error
    return wrong


@pytest.mark.parametrize("mesh", [(2,), (2, 2)])
def test_batches_are_what_one_rank_makes_of_them(ranks, mesh):
    size = mesh[0] * len(mesh)
    assert ranks(size).run(_batches, mesh) == [{}] * size


def _kept():
    """A triangle written into memory leaves the other one as it is."""
    mesh, a = distributed.mesh(), _data(6, 3)
    found = []
    for place, lower in itertools.product((0, 1, None), (0, 1)):
        out = distributed.shard(torch.full((6, 6), 7.0, dtype=a.dtype), mesh, place)
        trnblas.syrk(1.0, distributed.shard(a, mesh, 1), lower=lower, out=out)
        alone = trnblas.syrk(1.0, a, lower=lower, out=torch.full((6, 6), 7.0, dtype=a.dtype))
        found.append(((distributed.gather(out) - alone).abs() <= 2 * gamma(3, a.dtype) * a.abs() @ a.abs().mT).all())
        found.append(torch.equal((distributed.gather(out) == 7), alone == 7))
    return all(found)


def test_syrk_leaves_the_other_triangle_of_out_alone(ranks):
    assert all(ranks(3).run(_kept))


def _half_solve():
    mesh, n = distributed.mesh(), 24
    a, b = _triangle(n).tril().bfloat16(), _data(n, 3, seed=6).bfloat16()
    made = distributed.gather(trnblas.trsm(1.0, *(distributed.shard(x, mesh, 0) for x in (a, b)), lower=True)).double()
    exact = torch.linalg.solve_triangular(a.double(), b.double(), upper=False)
    inverse = torch.linalg.inv(a.double()).abs()
    # one rounding of the result, and the substitution in float32
    bound = 2**-8 * exact.abs() + 2 * (n + 2) * 2**-24 * inverse @ a.double().abs() @ exact.abs()
    return bool(((made - exact).abs() <= bound).all())


def test_a_solve_in_half_precision_is_rounded_once(ranks):
    assert all(ranks(4).run(_half_solve))


def _into_terms():
    mesh = distributed.mesh()
    a, out = distributed.shard(torch.eye(4), mesh, 0), distributed.shard(torch.zeros(4, 4), mesh, "sum")
    trnblas.trsm(1.0, a, a, out=out)


def test_terms_are_no_place_for_a_result(ranks):
    with pytest.raises(Exception, match="not taken apart into terms") as caught:
        ranks(2).run(_into_terms)
    assert all(isinstance(error, trnsci.ArgumentError) for error in caught.value.errors.values())
