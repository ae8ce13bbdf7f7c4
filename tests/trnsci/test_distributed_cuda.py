"""Sharded algorithms on CUDA tensors: a world of one rank on nccl, and two gloo ranks that share a GPU."""

import functools

import numpy as np
import pytest
import torch

import trnblas
import trnfft
import trnrand
import trnsci
import trnsolver
import trnsparse
import trntensor
from benchmarks.ranks import Ranks
from trnsci import distributed
from trnsci.distributed.calls import run
from trnsci.distributed.team import LiveTeam, _gather_into, _unpad, as_bytes
from trnsci.distributed.world import world

F64 = torch.float64


def _data(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def _algorithms(put, get, sparse):
    """Every function that has a sharded algorithm, on arrays that ``put`` places; what has one answer, by name."""
    a, b, x = put(_data(9, 6), 0), put(_data(6, 7, seed=1), 1), put(_data(6, seed=2), 0)
    m = _data(8, 8, seed=3)
    spd, low, square = (
        put(m @ m.T + 8 * torch.eye(8, dtype=F64), 0),
        put(m.tril() + 9 * torch.eye(8, dtype=F64), 1),
        put(m, 0),
    )
    right = put(_data(8, 3, seed=4), 0)
    q, r = trnsolver.qr(put(_data(20, 4, seed=5), 0))
    thin = _data(20, 3, seed=6) @ _data(3, 8, seed=7)
    small = trnsolver.svd_randomized(put(thin, 0), 3)
    near = trnsolver.eigh_randomized(put(thin @ thin.T, 0), 3)
    wave = put(_data(6, 10, seed=8), 0)
    B, occ = put(_data(5, 4, 6, seed=9), 0), put(-torch.linspace(0.5, 2, 5, dtype=F64), 0)
    vir = put(torch.linspace(0.1, 3, 4, dtype=F64), 0)
    found = {
        "gemm": trnblas.gemm(1.5, a, b),
        "gemv": trnblas.gemv(1.5, a, x),
        "symm": trnblas.symm(1.0, square, right, lower=True),
        "trmm": trnblas.trmm(1.0, low, right, lower=True),
        "syrk": trnblas.syrk(1.0, a, lower=True),
        "trsm": trnblas.trsm(1.0, low, right, lower=True),
        "cholesky": trnsolver.cholesky(spd),
        "cholesky_solve": trnsolver.cholesky_solve(right, low),
        "solve_spd": trnsolver.solve_spd(spd, right),
        "inv_spd": trnsolver.inv_spd(spd),
        "solve_triangular": trnsolver.solve_triangular(low, right, upper=False),
        "lstsq": trnsolver.lstsq(put(_data(20, 4, seed=5), 0), put(_data(20, 2, seed=7), 0)).solution,
        "qr": trnblas.gemm(1.0, q, r),
        "svd_randomized": trnblas.gemm(1.0, small.u * small.s, small.vh),
        "eigh_randomized": near.s,
        "cg": trnsolver.cg(spd, right, tol=1e-13).x,
        "einsum": trntensor.einsum("ij,jk->ki", a, b),
        "ao_to_mo_transform": trntensor.ao_to_mo_transform(
            put(_data(4, 4, 6), 2), put(_data(4, 2), 0), put(_data(4, 3), 0)
        ),
        "mp2_energy": trntensor.mp2_energy(B, occ, vir),
        "fft": trnfft.fft(wave),
        "rfftn": trnfft.rfftn(wave),
        "spmm": sparse @ put(_data(6, 3), 0),
    }
    return {name: get(value) for name, value in found.items()}


def _sparse():
    dense = _data(9, 6, seed=11)
    return trnsparse.CSRMatrix.from_dense(torch.where(dense > 0.3, dense, torch.zeros_like(dense)))


def _expected():
    return _algorithms(lambda x, place: x, lambda x: x.numpy(), _sparse())


def _spread_over_cuda():
    mesh = distributed.mesh(device="cuda")

    def get(x):
        assert x.device.type == "cuda"
        return distributed.gather(x).cpu().numpy()

    sparse = trnsparse.shard_rows(_sparse().to("cuda"), mesh)
    found = _algorithms(lambda x, place: distributed.shard(x.cuda(), mesh, place), get, sparse)
    out = distributed.shard(torch.empty(100, device="cuda"), mesh, 0)
    trnrand.Generator(7).normal(100, out=out)
    leaf = distributed.shard(_data(9, 6).cuda(), mesh, 0).requires_grad_()
    distributed.gather(trnblas.gemm(1.0, leaf, distributed.shard(_data(6, 7).cuda(), mesh, 0))).sum().backward()
    found |= {"normal": get(out), "gradient": get(leaf.grad)}
    return found


def _agree(found):
    expected = _expected()
    expected["normal"] = trnrand.Generator(7).normal(100).numpy()
    expected["gradient"] = (torch.ones(9, 7, dtype=F64) @ _data(6, 7).T).numpy()
    assert set(found) == set(expected)
    for name, value in expected.items():
        scale = max(1.0, float(abs(value).max()))
        # random numbers are the same bits but for the logarithm of the device; the rest is float64
        limit = 1e-6 if name == "normal" else 1e-11
        assert np.allclose(found[name], value, rtol=0, atol=limit * scale), name


@pytest.mark.cuda
def test_every_algorithm_in_a_world_of_one_on_nccl():
    try:
        mesh = distributed.mesh()
        assert mesh.device_type == "cuda"
        _agree(_spread_over_cuda())
        assert "nccl" in torch.distributed.get_backend_config()
    finally:
        distributed.leave()


def _messages(team, x):
    """What a team of one never sends: the engine's own collectives, with itself."""
    sent = as_bytes(x.local)
    gathered, swapped, nbytes = torch.empty_like(sent), torch.empty_like(sent), len(sent)
    team._start("all_gather", 0, nbytes, _gather_into, gathered, sent)()
    team._start("all_to_all", 0, nbytes, torch.distributed.all_to_all_single, swapped, sent, [nbytes], [nbytes])()
    team._start("broadcast", 0, 0, functools.partial(torch.distributed.broadcast, group_src=0), sent)()
    received = (_unpad(data, x.local.shape, x.dtype) for data in (gathered, swapped, sent))
    return all(torch.equal(y, x.local) for y in received)


@pytest.mark.cuda
def test_messages_travel_on_nccl():
    try:
        mesh = distributed.mesh()
        for dtype in (F64, torch.complex64, torch.bfloat16, torch.bool):
            x = distributed.shard(_data(5, 3).cuda().to(dtype), mesh, 0)
            assert run("messages", _messages, mesh, (x,), {})
    finally:
        distributed.leave()


@pytest.mark.cuda
def test_a_failure_gives_up_the_group_on_nccl():
    try:
        mesh = distributed.mesh()

        def fails(team):
            assert isinstance(team, LiveTeam)
            _messages(team, distributed.Part.of("fails", distributed.shard(torch.ones(3, device="cuda"), mesh, 0)))
            raise MemoryError("no room")

        for _ in range(2):
            with pytest.raises(MemoryError):
                run("fails", fails, mesh, (), {})
            assert not world().groups._groups
            x = distributed.shard(_data(5, 3).cuda(), mesh, 0)
            assert run("messages", _messages, mesh, (x,), {})
    finally:
        distributed.leave()


@pytest.mark.cuda
@pytest.mark.parametrize("size", [2, 3])
def test_gloo_ranks_share_a_gpu(size):
    team = Ranks(size)
    try:
        for found in team.run(_spread_over_cuda):
            _agree(found)
    finally:
        team.close()


def _refused_on_cuda():
    mesh = distributed.mesh(device="cuda")
    said = []
    a = distributed.shard(torch.eye(6, dtype=F64).cuda(), mesh, 0)
    b = distributed.shard(-torch.eye(6, dtype=F64).cuda(), mesh, 0)
    try:
        trnsolver.cholesky(b)
    except trnsci.NotPositiveDefinite as error:
        said.append(error.index)
    return said, distributed.gather(trnsolver.cholesky(a)).sum().item()


@pytest.mark.cuda
def test_ranks_on_a_gpu_go_on_after_an_error():
    team = Ranks(2)
    try:
        assert team.run(_refused_on_cuda) == [([0], 6.0)] * 2
    finally:
        team.close()


def test_the_same_on_cpus(ranks):
    """The list above is what it says, where there is no GPU too."""
    expected = _expected()
    for found in ranks(2).run(_spread_over_cpus):
        for name, value in expected.items():
            assert np.allclose(found[name], value, rtol=0, atol=1e-11 * max(1.0, float(abs(value).max()))), name


def _spread_over_cpus():
    mesh = distributed.mesh()
    sparse = trnsparse.shard_rows(_sparse(), mesh)
    return _algorithms(
        lambda x, place: distributed.shard(x, mesh, place), lambda x: distributed.gather(x).numpy(), sparse
    )
