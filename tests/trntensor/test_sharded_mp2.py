"""mp2_energy and ao_to_mo_transform on spread arrays against NumPy in float64; the pair kernel behind them."""

import math
import sys

import numpy as np
import pytest
import torch

import trnsci
from trnsci import distributed, programs
from trnsci.distributed import Layout
from trnsci.memory import MemoryMeter
from trnsci.testing import BACKENDS, assert_within, gamma
from trntensor import MP2Energy, ao_to_mo_transform, mp2_energy
from trntensor.kernels import mp2_energy as kernels
from trntensor.mp2_energy import mp2_between

F32, F64 = torch.float32, torch.float64
# fewer orbitals than ranks, as many, more; none at all; sizes that do not divide
SHAPES = [(1, 3, 4), (3, 4, 5), (4, 5, 6), (7, 3, 8), (10, 2, 3), (0, 3, 4), (3, 0, 4), (2, 3, 0)]


def _data(*shape, seed=0, dtype=F64):
    made = torch.from_numpy(np.random.default_rng(seed).standard_normal((2, *shape)))
    return torch.complex(*made).to(dtype) if dtype.is_complex else made[0].to(dtype)


def _operands(shape, dtype=F64):
    nocc, nvir, _ = shape
    occ, vir = -torch.linspace(0.5, 2.0, nocc, dtype=F64), torch.linspace(0.1, 3.0, nvir, dtype=F64)
    return _data(*shape, dtype=dtype), occ.to(dtype), vir.to(dtype)


def _sums(left, right, occ_left, occ_right, vir, vir_right=None):
    """Both sums and the size of their terms, by NumPy, every pair once; of different spins the second is zero."""
    spins, vir_right = vir_right is not None, vir if vir_right is None else vir_right
    operands = (left, right, occ_left, occ_right, vir, vir_right)
    left, right, one, other, vir, vir_right = (x.double().numpy(force=True) for x in operands)
    t = np.einsum("iap,jbp->ijab", left, right)
    d = one[:, None, None, None] + other[:, None, None] - vir[:, None] - vir_right
    size = np.einsum("iap,jbp->ijab", abs(left), abs(right)) ** 2 / abs(d)
    return (t * t / d).sum(), 0.0 if spins else (t * t.swapaxes(2, 3) / d).sum(), size.sum()


def _bound(size, B, dtype):
    return 6 * gamma(3 * B.shape[2] + 12 + B.shape[1] + B.shape[0] ** 2 + 8, dtype) * size


def _energy(mesh_shape, shape, places, dtype):
    mesh = distributed.mesh(*mesh_shape)
    cuts = [p if isinstance(p, tuple) else (p,) for p in places]
    spread = [distributed.shard(x, mesh, *p) for x, p in zip(_operands(shape, dtype), cuts, strict=True)]
    parts = mp2_energy(*spread, parts=True)
    assert isinstance(parts, MP2Energy)
    assert all(p.is_replicate() for p in parts.total.placements)
    return [distributed.gather(x).item() for x in (*parts, mp2_energy(*spread))]


@pytest.mark.parametrize("size", [2, *(pytest.param(size, marks=pytest.mark.slow) for size in (1, 3, 4))])
def test_energy_of_every_cut(ranks, size):
    cuts = ((0, 0, None), (1, None, 0), (2, 0, None), (None, None, None))
    cases = [((size,), shape, places, F64) for shape in SHAPES for places in cuts]
    for (_, shape, places, _), found in zip(cases, ranks(size).each(_energy, cases), strict=True):
        B, occ, vir = _operands(shape)
        square, cross, scale = _sums(B, B, occ, occ, vir)
        exact = (2 * square - cross, square, square - cross, 2 * square - cross)
        # the same bits on every rank
        assert all(each == found[0] for each in found)
        assert np.all(abs(np.array(found[0]) - exact) <= 3 * _bound(scale, B, F64)), (shape, places)


@pytest.mark.parametrize("dtype", [F32, torch.bfloat16], ids=str)
def test_energy_in_less_precision_and_on_a_grid(ranks, dtype):
    shape = (5, 4, 6)
    B, occ, vir = _operands(shape, dtype)
    square, cross, scale = _sums(B, B, occ, occ, vir)
    # half precision is rounded once per block, and in the parts
    limit = 3 * _bound(scale, B, F32) + (8 * 2.0**-8 * scale if dtype is torch.bfloat16 else 0)
    for found in ranks(4).run(_energy, (2, 2), shape, (0, 0, None), dtype):
        assert abs(found[0] - (2 * square - cross)) <= limit


@pytest.mark.parametrize("mesh", [(2, 2), *(pytest.param(m, marks=pytest.mark.slow) for m in ((4, 1), (1, 3), (2, 3)))])
def test_energy_of_pairs_cut_both_ways(ranks, mesh):
    cuts = ((0, 2), (0, None), (2, 0), (None, None))
    cases = [(mesh, shape, (places, None, 0), F64) for shape in SHAPES for places in cuts]
    for (_, shape, places, _), found in zip(cases, ranks(math.prod(mesh)).each(_energy, cases), strict=True):
        B, occ, vir = _operands(shape)
        square, cross, scale = _sums(B, B, occ, occ, vir)
        exact = (2 * square - cross, square, square - cross, 2 * square - cross)
        assert all(each == found[0] for each in found)
        assert np.all(abs(np.array(found[0]) - exact) <= 3 * _bound(scale, B, F64)), (shape, places)


def _gradients(shape, places, parts):
    mesh = distributed.mesh()
    spread = [distributed.shard(x, mesh, p).requires_grad_() for x, p in zip(_operands(shape), places, strict=True)]
    if parts:
        made = mp2_energy(*spread, parts=True)
        assert isinstance(made, MP2Energy)
        (2 * made.opposite_spin + 3 * made.same_spin).backward()
    else:
        mp2_energy(*spread).backward()
    return [distributed.gather(x.grad).numpy(force=True) for x in spread]


@pytest.mark.grid(1)
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("parts", [False, True])
def test_gradients_of_the_energy(ranks, size, parts):
    for shape in ((3, 4, 5), (7, 3, 4)):
        B, occ, vir = (x.requires_grad_() for x in _operands(shape))
        t = torch.einsum("iap,jbp->ijab", B, B)
        d = occ[:, None, None, None] + occ[:, None, None] - vir[:, None] - vir
        opposite, same = (t * t / d).sum(), (t * (t - t.mT) / d).sum()
        (2 * opposite + 3 * same if parts else opposite + same).backward()
        for found in ranks(size).run(_gradients, shape, (0, None, 0), parts):
            for grad, x in zip(found, (B, occ, vir), strict=True):
                assert np.allclose(grad, x.grad.numpy(force=True), rtol=1e-11, atol=1e-11 * float(x.grad.abs().max()))


def _closing():
    mesh = distributed.mesh()
    B, occ, vir = _operands((3, 4, 5))
    said = []
    for operands in ((B, -occ, vir), (B, occ[:2], vir)):
        try:
            mp2_energy(*(distributed.shard(x, mesh, 0) for x in operands))
        except trnsci.ArgumentError as error:
            said.append(str(error))
    return said, distributed.gather(mp2_energy(*(distributed.shard(x, mesh, 0) for x in (B, occ, vir)))).item()


def test_refusals_are_those_of_the_function(ranks):
    B, occ, vir = _operands((3, 4, 5))
    for said, energy in ranks(2).run(_closing):
        assert "makes a denominator vanish" in said[0]
        assert "nocc" in said[1]
        assert energy == pytest.approx(float(mp2_energy(B, occ, vir)), rel=1e-13)


def _observed(shape):
    mesh = distributed.mesh()
    spread = [distributed.shard(x, mesh, 0) for x in _operands(shape, F32)]
    mp2_energy(*spread)
    with trnsci.ledger() as book, MemoryMeter([x.to_local() for x in spread], "cpu") as meter:
        mp2_energy(*spread)
    agreed = 16 * (mesh.size() - 1)
    return sum(exchange.nbytes for exchange in book.exchanges) - agreed, meter.peak


@pytest.mark.parametrize("size", [2, 3, 4])
def test_volume_and_peak_are_as_planned(ranks, size):
    shape = (9, 40, 1000)
    layouts = [Layout(s, F32, (size,), (0,)) for s in (shape, shape[:1], shape[1:2])]
    plan = distributed.plan(mp2_energy, *layouts)
    alone = trnsci.plan(mp2_energy, *(torch.empty(s, device="meta") for s in (shape, shape[:1], shape[1:2])))
    assert plan.flops == alone.flops
    for rank, (volume, peak) in zip(plan.ranks, ranks(size).run(_observed, shape), strict=True):
        assert rank.volume == volume
        assert abs(rank.peak_bytes - peak) <= 0.1 * peak
    # half the ring, whole blocks of the largest size, and a few numbers
    blocks = size // 2 * -(-9 // size) * 40 * 1000 * 4
    assert blocks <= plan.volume <= blocks + 1000
    # no rank does more than its share by more than the pairs of one row of blocks
    work = [rank.flops for rank in plan.ranks]
    assert max(work) <= sum(work) / size + 2 * -(-9 // size) * 9 * 40 * 40 * 1003


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize(
    ("rows", "columns", "nvir", "naux"), [(1, 1, 1, 1), (2, 3, 20, 130), (3, 2, 130, 40), (1, 2, 520, 9)]
)
def test_pairs_of_two_sets(backend, rows, columns, nvir, naux):
    left, right = _data(rows, nvir, naux, dtype=F32), _data(columns, nvir, naux, seed=1, dtype=F32)
    one, other = -torch.linspace(0.5, 2.0, rows), -torch.linspace(0.4, 1.0, columns)
    vir = torch.linspace(0.1, 3.0, nvir)
    for of_right in (None, vir.flip(0) + 0.5):
        square, cross, scale = _sums(left, right, one, other, vir, of_right)
        with backend:
            found = mp2_between(left, right, one, other, vir, of_right)
        for got, exact in zip(found, (square, cross), strict=True):
            assert_within(got, exact, _bound(scale, left, F32))


@pytest.mark.sim
@pytest.mark.parametrize("once", [True, False])
def test_sums_that_do_not_fit_are_added_up_in_groups(monkeypatch, once):
    # one row block and one tile: two columns of sums a pair, so that groups are of two pairs
    monkeypatch.setattr(kernels, "COLUMNS", 2 * 8 * 2)
    B, occ, vir = _operands((5, 19, 30), F32)
    other = B if once else _data(5, 19, 30, seed=1, dtype=F32)
    square, cross, scale = _sums(B, other, occ, occ, vir)
    with trnsci.backend("simulator"):
        parts = mp2_energy(B, occ, vir, parts=True)
        found = (parts.opposite_spin, parts.opposite_spin - parts.same_spin)
        found = found if once else mp2_between(B, other, occ, occ, vir)
    for got, exact in zip(found, (square, cross), strict=True):
        assert_within(got, exact, 3 * _bound(scale, B, F32))


# operands of one pair of orbitals, of two sets
PAIR = ((1, 19, 30), (1, 1), (1, 19), (19, 1), (1, 19, 30), (1, 1))


@pytest.mark.sim
@pytest.mark.parametrize("side", [1, 2, 5])
def test_many_pairs_are_several_programs(monkeypatch, side):
    module = sys.modules["trntensor.mp2_energy"]
    pair = programs.size_of(kernels.mp2_energy, tuple(map(torch.empty, PAIR)), {})
    monkeypatch.setenv("TRNSCI_PROGRAM_INSTRUCTIONS", str(side**2 * pair.instructions))
    assert module.piece(19, 30) == side
    B, occ, vir = _operands((5, 19, 30), F32)
    other = _data(3, 19, 30, seed=1, dtype=F32)
    square, cross, scale = _sums(B, B, occ, occ, vir)
    apart = _sums(B, other, occ, occ[:3], vir)
    with trnsci.backend("simulator"):
        parts = mp2_energy(B, occ, vir, parts=True)
        between = mp2_between(B, other, occ, occ[:3], vir)
    assert_within(parts.opposite_spin, square, _bound(scale, B, F32))
    assert_within(parts.total, 2 * square - cross, 3 * _bound(scale, B, F32))
    for got, exact in zip(between, apart[:2], strict=True):
        assert_within(got, exact, _bound(apart[2], B, F32))


def _transformed(shape, places, dtype, backward):
    mesh = distributed.mesh()
    operands = (
        _data(*shape, dtype=dtype),
        _data(shape[0], 2, seed=1, dtype=dtype),
        _data(shape[0], 3, seed=2, dtype=dtype),
    )
    spread = [distributed.shard(x, mesh, p) for x, p in zip(operands, places, strict=True)]
    spread = [x.requires_grad_(backward) for x in spread]
    made = ao_to_mo_transform(*spread)
    if not backward:
        return distributed.gather(made).numpy(force=True)
    weight = distributed.shard(_data(*made.shape, seed=9, dtype=dtype), mesh, None)
    made.backward(weight.redistribute(mesh, made.placements))
    return [distributed.gather(x.grad).resolve_conj().numpy(force=True) for x in spread]


FORMULAS = {3: "mnx,mi,na->iax", 4: "mnls,mi,na,lj,sb->iajb"}


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_transformation(ranks, size):
    for shape, dtype in (
        ((4, 4, 6), F64),
        ((5, 5, 1), F64),
        ((3, 3, 0), F64),
        ((4, 4, 4, 4), F64),
        ((3, 3, 3, 3), torch.complex128),
    ):
        eri, C_occ, C_vir = (_data(*shape, dtype=dtype), *(_data(shape[0], 1 + n, seed=n, dtype=dtype) for n in (1, 2)))
        factors = [
            x.numpy(force=True) for x in ([eri, C_occ, C_vir] if len(shape) == 3 else [eri, C_occ, C_vir, C_occ, C_vir])
        ]
        exact = np.einsum(FORMULAS[len(shape)], *factors, optimize=True)
        scale = np.einsum(FORMULAS[len(shape)], *map(abs, factors), optimize=True)
        limit = 4 * gamma(4 * shape[0] + 8, F64) * scale
        for places in ((2, None, None), (0, 1, 0), (None, 0, 1)):
            for found in ranks(size).run(_transformed, shape, places, dtype, False):
                assert found.shape == exact.shape
                assert np.all(abs(found - exact) <= limit), (shape, places)


@pytest.mark.parametrize("shape", [(4, 4, 6), (4, 4, 4, 4)])
@pytest.mark.parametrize("dtype", [F64, torch.complex128], ids=str)
def test_gradients_of_the_transformation(ranks, shape, dtype):
    leaves = [_data(*shape, dtype=dtype), *(_data(4, 1 + n, seed=n, dtype=dtype) for n in (1, 2))]
    eri, C_occ, C_vir = (x.requires_grad_() for x in leaves)
    factors = [eri, C_occ, C_vir] if len(shape) == 3 else [eri, C_occ, C_vir, C_occ, C_vir]
    made = torch.einsum(FORMULAS[len(shape)], *factors)
    weights = _data(*made.shape, seed=9, dtype=dtype)
    made.backward(weights)
    # the same of absolute values is what a gradient's terms add up to
    sizes = [x.detach().abs().requires_grad_() for x in leaves]
    torch.einsum(FORMULAS[len(shape)], *sizes, *sizes[1:] * (len(shape) == 4)).backward(weights.abs())
    for found in ranks(3).run(_transformed, shape, (2, 0, None), dtype, True):
        for grad, x, size in zip(found, leaves, sizes, strict=True):
            assert_within(grad, x.grad.resolve_conj(), gamma(4 * eri.numel(), F64) * size.grad)


def test_transforming_columns_where_they_are_moves_nothing():
    layouts = [Layout((40, 40, 120), F32, (4,), (2,)), *(Layout((40, n), F32, (4,), (None,)) for n in (5, 30))]
    assert distributed.plan(ao_to_mo_transform, *layouts).volume == 0
