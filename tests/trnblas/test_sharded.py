"""gemm on spread arrays: what one rank computes, within the op's bound; volume and memory as planned."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch

import trnblas
import trnsci
import trnsim
import trntensor
from trnblas.kernels import sharded as kernels
from trnsci import distributed
from trnsci.distributed import Layout
from trnsci.memory import MemoryMeter
from trnsci.testing import assert_within, gamma
from trnsci.testing.bounds import gemm_bound
from trnsci.testing.data import pairs
from trnsim.targets import TARGETS

ROOT = Path(__file__).parents[2]
SIZES = (*(pytest.param(size, marks=pytest.mark.slow) for size in (1, 2, 4)), 3)
PLACES = (0, 1, None)
ROUNDOFF = {torch.complex128: 2**-52, torch.float32: 2**-24, torch.bfloat16: 2**-8}


def _data(*shape, seed=0, dtype=torch.float64):
    real = torch.from_numpy(np.random.default_rng(seed).standard_normal((2, *shape)))
    return torch.complex(*real).to(dtype) if dtype.is_complex else real[0].to(dtype)


def _gemm(mesh_shape, shapes, places, dtype, options):
    mesh = distributed.mesh(*mesh_shape)
    a, b = (_data(*shape, seed=i, dtype=dtype) for i, shape in enumerate(shapes))
    spread = [distributed.shard(x, mesh, *p) for x, p in zip((a, b), places, strict=True)]
    made = trnblas.gemm(1.5, *spread, **options)
    return distributed.gather(made).numpy(force=True)


@pytest.mark.parametrize("size", SIZES)
def test_gemm_of_every_placement(ranks, size):
    sizes, places = ((7, 5, 6), (2, 9, 3), (1, 1, 1), (6, 0, 4)), (*PLACES, "sum")
    cases = [
        ((size,), ((m, k), (k, n)), [(left,), (right,)], torch.float64, {})
        for (m, k, n), left, right in pairs(sizes, places, places)
    ]
    for case, results in zip(cases, ranks(size).each(_gemm, cases), strict=True):
        left, right = case[1]
        a, b = _data(*left), _data(*right, seed=1)
        exact, bound = 1.5 * (a.numpy(force=True) @ b.numpy(force=True)), 1.5 * gemm_bound(a, b).numpy(force=True)
        for result in results:
            assert np.all(np.abs(result - exact) <= bound), case


@pytest.mark.parametrize("mesh", [(2, 2), (1, 4), (4, 1), (3, 1), (1, 2)])
def test_summa(ranks, mesh):
    size = mesh[0] * mesh[1]
    a, b = _data(9, 10), _data(10, 7, seed=1)
    exact, bound = 1.5 * (a.numpy(force=True) @ b.numpy(force=True)), 1.5 * gemm_bound(a, b).numpy(force=True)
    for places in (((0, 1), (0, 1)), ((1, 0), (None, 1)), ((None, None), (0, 0))):
        for result in ranks(size).run(_gemm, mesh, ((9, 10), (10, 7)), places, torch.float64, {}):
            assert np.all(np.abs(result - exact) <= bound), places


@pytest.mark.parametrize("dtype", [torch.complex128, torch.float32, torch.bfloat16])
def test_dtypes_and_transposes(ranks, dtype):
    wide = torch.complex128 if dtype.is_complex else torch.float64
    cases = []
    for kinds in itertools.product("ntc", "ntc"):
        shapes = [(5, 6) if kinds[0] == "n" else (6, 5), (6, 4) if kinds[1] == "n" else (4, 6)]
        cases.append(((2,), shapes, [(0,), (1,)], dtype, {"trans_a": kinds[0], "trans_b": kinds[1]}))
    for case, results in zip(cases, ranks(2).each(_gemm_wide, cases), strict=True):
        kinds = case[-1].values()
        a, b = (_data(*shape, seed=i, dtype=dtype).to(wide) for i, shape in enumerate(case[1]))
        a, b = ({"n": x, "t": x.mT, "c": x.mH}[kind] for x, kind in zip((a, b), kinds, strict=True))
        # alpha is one more product
        bound = 1.5 * (trnblas.error_bound(6, dtype) + ROUNDOFF[dtype]) * (a.abs() @ b.abs()).numpy(force=True)
        for result in results:
            assert np.all(np.abs(result - 1.5 * (a @ b).numpy(force=True)) <= bound), kinds


def _gemm_wide(mesh_shape, shapes, places, dtype, options):
    mesh = distributed.mesh(*mesh_shape)
    a, b = (_data(*shape, seed=i, dtype=dtype) for i, shape in enumerate(shapes))
    spread = [distributed.shard(x, mesh, *p) for x, p in zip((a, b), places, strict=True)]
    made = distributed.gather(trnblas.gemm(1.5, *spread, **options))
    return made.to(torch.complex128 if dtype.is_complex else torch.float64).numpy(force=True)


def _halves(dtype, places):
    """How far products whose K is cut are from exact ones, by the bound of one product."""
    mesh, k, worst = distributed.mesh(), 32, 0.0
    a, b = _data(64, k, dtype=dtype), _data(k, 64, seed=1, dtype=dtype)
    left, right = (distributed.shard(x, mesh, place) for x, place in zip((a, b), places, strict=True))
    column = distributed.shard(b[:, 0].clone(), mesh, 0)
    exact, scale = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    for made, columns in (
        (trnblas.gemm(1.0, left, right), slice(None)),
        (trnblas.gemv(1.0, left, column), 0),
        (trntensor.einsum("ij,jk->ik", left, right), slice(None)),
    ):
        error = (distributed.gather(made).double() - exact[:, columns]).abs() / scale[:, columns]
        worst = max(worst, error.max().item() / trnblas.error_bound(k, dtype))
    return worst


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_rounded_once_however_many_ranks_add_up(ranks, dtype):
    places = [(1, 0), (0, 0), (1, 1), (0, 1)]
    for results in ranks(4).each(_halves, [(dtype, pair) for pair in places]):
        assert max(results) <= 1, (results, places)


def _accumulated(places, out_place):
    mesh = distributed.mesh()
    a, b, c = _data(5, 6), _data(6, 4, seed=1), _data(5, 4, seed=2)
    spread = [distributed.shard(x, mesh, p) for x, p in zip((a, b, c), places, strict=True)]
    out = distributed.shard(torch.zeros(5, 4, dtype=torch.float64), mesh, out_place)
    made = trnblas.gemm(2.0, spread[0], spread[1], -0.5, spread[2], out=out)
    return distributed.gather(made).numpy(force=True), distributed.gather(out).numpy(force=True)


def test_gemm_adds_c_and_writes_out(ranks):
    a, b, c = _data(5, 6), _data(6, 4, seed=1), _data(5, 4, seed=2)
    exact = 2 * (a @ b).numpy(force=True) - 0.5 * c.numpy(force=True)
    bound = 3 * gemm_bound(a, b).numpy(force=True) + 2**-50 * abs(c.numpy(force=True))
    for made, out in ranks(3).run(_accumulated, (1, 0, None), 1):
        assert np.all(abs(made - exact) <= bound)
        assert np.array_equal(made, out)


def _cancelled(places):
    """Errors of results near zero in units of their one rounding, for every function that adds to a product."""
    mesh, dtype = distributed.mesh(), torch.bfloat16
    square = _data(6, 6, seed=1)
    a, b = (_data(6, 6).to(dtype)), (square + square.mT).to(dtype)
    worst = 0.0
    for name, exact in (
        ("gemm", a.double() @ b.double()),
        ("symm", b.double() @ a.double()),
        ("gemv", a.double() @ b.double()[:, 0]),
        ("syrk", (a.double() @ a.double().mT).tril()),
    ):
        c = (-exact).to(dtype)
        left, right, addend = (distributed.shard(x, mesh, p) for x, p in zip((a, b, c), places, strict=True))
        if name == "gemv":
            made = trnblas.gemv(1.0, left, distributed.shard(b[:, 0], mesh, 0), 0.25, distributed.shard(c, mesh, 0))
        elif name == "symm":
            made = trnblas.symm(1.0, right, left, 0.25, addend, lower=1)
        elif name == "syrk":
            made = trnblas.syrk(1.0, left, 0.25, addend, lower=1)
        else:
            made = trnblas.gemm(1.0, left, right, 0.25, addend)
        expected = exact + 0.25 * c.double()
        error = (distributed.gather(made).double() - expected).abs()
        worst = max(worst, float((error / (2.0**-8 * expected.abs() + 1e-5)).max()))
    return worst


def test_addends_are_added_before_the_one_rounding(ranks):
    for results in ranks(3).each(_cancelled, [((p, q, r),) for p in (0, 1) for q in (0, 1, None) for r in (0, None)]):
        assert max(results) <= 1, results


def _batched(place):
    mesh = distributed.mesh()
    a, b = _data(5, 3, 4), _data(5, 4, 2, seed=1)
    return distributed.gather(
        trnblas.gemm(1.0, distributed.shard(a, mesh, place), distributed.shard(b, mesh, 0))
    ).numpy(force=True)


@pytest.mark.parametrize("place", [0, 1, None])
def test_batches_are_cut_between_ranks(ranks, place):
    a, b = _data(5, 3, 4), _data(5, 4, 2, seed=1)
    for result in ranks(3).run(_batched, place):
        assert np.all(abs(result - (a @ b).numpy(force=True)) <= gemm_bound(a, b).numpy(force=True))


def _gradients(places, kinds, dtype):
    mesh = distributed.mesh()
    shapes = [(5, 6) if kinds[0] == "n" else (6, 5), (6, 4) if kinds[1] == "n" else (4, 6)]
    a, b = (_data(*shape, seed=i, dtype=dtype) for i, shape in enumerate(shapes))
    spread = [distributed.shard(x, mesh, p).requires_grad_() for x, p in zip((a, b), places, strict=True)]
    made = trnblas.gemm(1.5, *spread, trans_a=kinds[0], trans_b=kinds[1])
    weight = distributed.shard(_data(5, 4, seed=7, dtype=dtype), mesh, 0).redistribute(mesh, made.placements)
    made.backward(weight)
    return [distributed.gather(x.grad).resolve_conj().numpy(force=True) for x in spread]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_gradients_flow_between_ranks(ranks, dtype):
    every = list(itertools.product("ntc", "ntc"))
    results = ranks(2).each(_gradients, [((0, 1), kinds, dtype) for kinds in every])
    for kinds, of_ranks in zip(every, results, strict=True):
        shapes = [(5, 6) if kinds[0] == "n" else (6, 5), (6, 4) if kinds[1] == "n" else (4, 6)]
        a, b = (_data(*shape, seed=i, dtype=dtype).requires_grad_() for i, shape in enumerate(shapes))
        turned = [{"n": x, "t": x.mT, "c": x.mH}[kind] for x, kind in zip((a, b), kinds, strict=True)]
        weight = _data(5, 4, seed=7, dtype=dtype)
        (1.5 * turned[0] @ turned[1]).backward(weight)
        sizes = [weight.abs() @ turned[1].abs().mT, turned[0].abs().mT @ weight.abs()]
        for found in of_ranks:
            for grad, x, size, kind in zip(found, (a, b), sizes, kinds, strict=True):
                limit = 1.5 * gamma(6 + 4, dtype) * (size if kind == "n" else size.mT)
                assert_within(grad, x.grad.resolve_conj(), limit.detach())


def _compensated(places):
    mesh = distributed.mesh()
    a, b = _data(6, 50, dtype=torch.float32), _data(50, 4, seed=1, dtype=torch.float32)
    made = trnblas.gemm(
        1.0, distributed.shard(a, mesh, places[0]), distributed.shard(b, mesh, places[1]), precision="compensated"
    )
    return distributed.gather(made).numpy(force=True)


@pytest.mark.parametrize("places", [(1, 0), (0, 0), (0, 1)])
def test_a_compensated_sum_is_not_cut(ranks, places):
    a, b = _data(6, 50, dtype=torch.float32), _data(50, 4, seed=1, dtype=torch.float32)
    alone = trnblas.gemm(1.0, a, b, precision="compensated").numpy(force=True)
    for result in ranks(3).run(_compensated, places):
        assert np.array_equal(result, alone)


def _observed(places, shape):
    mesh = distributed.mesh()
    a, b = (distributed.shard(torch.ones(*s), mesh, p) for s, p in zip(shape, places, strict=True))
    local = [a.to_local(), b.to_local()]
    trnblas.gemm(1.0, a, b)
    with trnsci.ledger() as book, MemoryMeter(local, "cpu") as meter:
        trnblas.gemm(1.0, a, b)
    # two words per rank to agree on the call
    agreed = 16 * (mesh.size() - 1)
    return sum(exchange.nbytes for exchange in book.exchanges) - agreed, meter.peak


@pytest.mark.parametrize("places", [(0, 0), (0, 1), (1, 0), (1, 1), (0, None)])
def test_volume_and_peak_are_as_planned(ranks, places):
    shape = ((300, 200), (200, 250))
    layouts = [Layout(s, torch.float32, (3,), (p,)) for s, p in zip(shape, places, strict=True)]
    plan = distributed.plan(trnblas.gemm, 1.0, *layouts)
    assert plan.flops == 2 * 300 * 200 * 250
    for rank, (volume, peak) in zip(plan.ranks, ranks(3).run(_observed, places, shape), strict=True):
        assert rank.volume == volume
        assert abs(rank.peak_bytes - peak) <= 0.1 * peak
    assert "predicted" in str(plan)


def test_a_plan_needs_no_ranks():
    big = Layout((65536, 65536), torch.bfloat16, (8, 8), (0, 1))
    plan = distributed.plan(trnblas.gemm, 1.0, big, big)
    assert len(plan.ranks) == 64
    assert plan.flops == 2 * 65536**3
    # seven panels of a and seven of b come from elsewhere
    assert plan.volume == 2 * 7 * 8192 * 8192 * 2


def _mixed():
    mesh = distributed.mesh()
    trnblas.gemm(1.0, distributed.shard(torch.ones(4, 4), mesh, 0), torch.ones(4, 4))


def test_a_tensor_of_one_rank_is_refused(ranks):
    with pytest.raises(Exception, match="shard") as caught:
        ranks(2).run(_mixed)
    error = caught.value.errors[1]
    assert isinstance(error, trnsci.ArgumentError)
    assert error.argument == "b"


def _wrong_shapes():
    mesh = distributed.mesh()
    trnblas.gemm(1.0, distributed.shard(torch.ones(4, 3), mesh, 0), distributed.shard(torch.ones(4, 4), mesh, 0))


def test_checks_are_those_of_the_function(ranks):
    with pytest.raises(Exception, match="K") as caught:
        ranks(2).run(_wrong_shapes)
    with pytest.raises(trnsci.ArgumentError) as alone:
        trnblas.gemm(1.0, torch.ones(4, 3), torch.ones(4, 4))
    assert str(caught.value.errors[0]) == str(alone.value)


def _error_asked():
    a = distributed.shard(torch.eye(4), distributed.mesh(), 0)
    trnblas.trsm(1.0, a, a, target_error=1e-3)


def test_a_solve_between_ranks_has_no_target(ranks):
    with pytest.raises(Exception, match="errors are bounded") as caught:
        ranks(2).run(_error_asked)
    assert isinstance(caught.value.errors[1], trnsci.UnsupportedError)


def _no_algorithm():
    trnblas.syr2k(1.0, *[distributed.shard(torch.ones(4, 4), distributed.mesh(), 0)] * 2)


def test_a_function_without_a_sharded_algorithm_says_so(ranks):
    with pytest.raises(Exception, match="gather") as caught:
        ranks(2).run(_no_algorithm)
    assert isinstance(caught.value.errors[0], trnsci.UnsupportedError)
    assert "trnblas has one for gemm, gemv, hemm, symm, syrk, trmm, trsm" in str(caught.value.errors[0])


def _cut(x, ranks):
    return trnsim.per_rank(list(torch.tensor_split(x, ranks)))


@pytest.mark.sim
@pytest.mark.parametrize("count", [2, 3, 4, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_kernel_adds_up_what_ranks_computed(count, dtype):
    # rows in one tile, in several panels, over the edge; K shorter and longer than a tile; columns past a bank
    for m, k, n in ((1, 1, 1), (130, 3, 515), (300, 140, 70), (65, 300, 520)):
        a, b = _data(count * m, count * k, dtype=dtype), _data(count * k, n, seed=1, dtype=dtype)
        run = trnsim.simulate_ranks(kernels.sharded_gemm, count)
        made = torch.cat(run(_cut(a.mT.contiguous(), count), _cut(b, count), ranks=count))
        exact = a.double().numpy(force=True) @ b.double().numpy(force=True)
        # products of bfloat16 are exact in float32, where everything is added
        bound = gemm_bound(a.float(), b.float()).numpy(force=True)
        assert np.all(np.abs(made.numpy(force=True) - exact) <= bound), (m, k, n)


@pytest.mark.sim
def test_the_kernel_where_neither_operand_stays_in_sbuf():
    k = 2 * 6400
    assert k // 2 // 128 * 512 * 4 > kernels.PANEL
    assert k // 2 // 128 * 400 * 4 > kernels.RESIDENT
    a, b = _data(600, k, dtype=torch.float32), _data(k, 400, seed=1, dtype=torch.float32)
    made = torch.cat(trnsim.simulate_ranks(kernels.sharded_gemm, 2)(_cut(a.mT.contiguous(), 2), _cut(b, 2), ranks=2))
    exact = a.double().numpy(force=True) @ b.double().numpy(force=True)
    assert np.all(np.abs(made.numpy(force=True) - exact) <= gemm_bound(a, b).numpy(force=True))


@pytest.mark.sim
def test_the_exchange_runs_behind_the_next_product():
    k, m, n = 1024, 2048, 2048
    shapes = [torch.empty(k, size, dtype=torch.bfloat16, device="meta") for size in (m, n)]
    for count in (2, 4):
        _, report = trnsim.profile(kernels.sharded_gemm, target="trn2", numerics=False, ranks=count)(
            *shapes, ranks=count
        )
        product, exchange = (report.engines[engine].busy_s / count for engine in ("tensor", "cc"))
        # all but the last of four panels can hide; what was not hidden is less than half of the exchange
        assert report.active_s < product + 0.5 * exchange + 10e-6, (count, product, exchange, report.active_s)


def _cut_along_k(m, k, n, count, dtype, **options):
    a, b = Layout((m, k), dtype, (count,), (1,)), Layout((k, n), dtype, (count,), (0,))
    return distributed.plan(trnblas.gemm, options.pop("alpha", 1.0), a, b, **options)


@pytest.mark.sim
def test_the_page_quotes_the_recorded_predictions():
    size, clock = "2048x2048x2048) bfloat16", TARGETS["trn2"].clock_ghz["tensor"] * 1e3
    page = (ROOT / "docs/how-to/many-chips.md").read_text().replace("\n", " ")
    apart = _cut_along_k(2048, 2048, 2048, 4, torch.bfloat16).predicted["trn2"]
    assert f"203 µs against {1e6 * apart:.0f} µs for products and exchange one after the other" in page
    for op, kernel, where in (
        ("gemm", f"1x({size}", "on one core"),
        ("sharded", f"2 ranks ({size}", "on two"),
        ("sharded", f"4 ranks ({size}", "on four"),
    ):
        recorded = json.loads((ROOT / f"benchmarks/baselines/trnblas.{op}.json").read_text())
        assert f"{recorded[kernel]['trn2']['cycles'] / clock:.0f} µs {where}" in page


def _one_wants():
    mesh = distributed.mesh()
    a, b = distributed.shard(torch.ones(6, 4), mesh, 0).requires_grad_(), distributed.shard(torch.ones(4, 5), mesh, 1)
    made = trnblas.gemm(1.0, a, b)
    weight = distributed.shard(torch.ones(6, 5), mesh, 0).redistribute(mesh, made.placements)
    with trnsci.ledger() as book:
        made.backward(weight)
    return len(book.entries), b.grad


def test_only_gradients_that_are_wanted_are_made(ranks):
    for products, other in ranks(2).run(_one_wants):
        assert other is None
        # one product by panels: as many local products as there are panels, and none for b
        assert 1 <= products <= 2


def _broadcast_gradients():
    mesh = distributed.mesh()
    a, b, c = _data(3, 4), _data(5, 4, 2, seed=1), _data(1, 2, 3, seed=2)
    spread = [distributed.shard(x.clone().requires_grad_(), mesh, 0) for x in (a, b, c)]
    made = trnblas.gemm(1.0, trnblas.gemm(1.0, spread[0], spread[1]), spread[2])
    made.backward(distributed.shard(torch.ones(5, 3, 3, dtype=a.dtype), mesh, 0).redistribute(mesh, made.placements))
    return [distributed.gather(x.grad).numpy(force=True) for x in spread]


def test_gradients_are_added_up_over_broadcast_batches(ranks):
    leaves = [x.requires_grad_() for x in (_data(3, 4), _data(5, 4, 2, seed=1), _data(1, 2, 3, seed=2))]
    (leaves[0] @ leaves[1] @ leaves[2]).sum().backward()
    sizes = [x.detach().abs().requires_grad_() for x in leaves]
    (sizes[0] @ sizes[1] @ sizes[2]).sum().backward()
    for found in ranks(3).run(_broadcast_gradients):
        for grad, x, size in zip(found, leaves, sizes, strict=True):
            # products of two, a sum over the batch, and what ranks add
            assert_within(grad, x.grad, gamma(2 * (4 + 5 * 3 * 3), x.dtype) * size.grad)
