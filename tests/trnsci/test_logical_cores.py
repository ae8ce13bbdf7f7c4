"""Every kernel on logical cores of one and of two cores: the bits are the same, whatever the environment says."""

import importlib
import pkgutil

import numpy as np
import pytest
import torch

import trnblas
import trnfft
import trnrand
import trnsci
import trnsim
import trnsolver
import trnsparse
import trntensor
from tests.trnsci.test_programs import BLOCKS, CALLS, SPARSE, TRIANGLE, _symmetric
from trnblas.kernels.sharded import sharded_gemm
from trnblas.trsm import doubling_masks
from trnsci import kernel_launcher, specs
from trnsci.nki import launch
from trnsci.testing import gaussian
from trnsolver.eigen.divide import constants, rotation
from trnsolver.kernels import (
    batched_cholesky,
    batched_eigh,
    batched_lu,
    batched_qr,
    batched_svd,
    batched_triangular,
    cg,
    chebyshev,
    householder,
    inv_triangular,
    polar_factor,
)

CPU = torch.device("cpu")
LIBRARIES = (trnblas, trnfft, trnrand, trnsolver, trnsparse, trntensor)
VECTORS = gaussian((70, 6), 1)
MANY = _symmetric(3, 1, (200,))
SPD = trnsparse.BSRMatrix.from_dense(_symmetric(256, 1), (128, 128))


def _energy(count):
    energies = gaussian((9,), 3).abs() + 1
    return trntensor.mp2_energy(gaussian((count, 9, 20), 1), -energies[:count], energies)


def _ranks():
    a, b = gaussian((64, 12), 1), gaussian((64, 20), 2)
    halves = [trnsim.per_rank(list(x.split(32))) for x in (a, b)]
    return torch.cat(trnsim.simulate_ranks(sharded_gemm, 2)(*halves, ranks=2))


# beside those that can be cut into pieces
MORE = {
    "banded": lambda: trnblas.sbmv(2, 1.0, gaussian((3, 1 << 20), 1), gaussian((1 << 20,), 2)),
    "bits": lambda: trnrand.bits(1, 0, 1 << 21),
    "philox": lambda: trnrand.philox4x32(torch.arange(1 << 21).view(-1, 4), torch.tensor([1, 2])),
    "threefry": lambda: trnrand.threefry4x32(torch.arange(1 << 21).view(-1, 4), torch.tensor([1, 2, 3, 4])),
    "uniform": lambda: trnrand.uniform(1 << 21, generator=trnrand.Generator(1)),
    "normal": lambda: trnrand.normal(1 << 21, generator=trnrand.Generator(1)),
    "spmm": lambda: trnsparse.spmm(SPARSE, gaussian((500, 40), 1), format="stored"),
    "sharded": _ranks,
    "dot": lambda: trnblas.dot(gaussian((5, 300), 1), gaussian((5, 300), 2)),
    "dot of one": lambda: trnblas.nrm2(gaussian((300,), 1)),
    "gemm of one row block": lambda: trnblas.gemm(1.0, gaussian((3, 40), 1), gaussian((40, 1100), 2)),
    "split of rows": lambda: trnblas.gemm(1.0, gaussian((600, 40), 1).double(), gaussian((40, 60), 2).double()),
    "symm of rows": lambda: trnblas.symm(1.0, _symmetric(600, 1), gaussian((600, 4), 2)),
    "trmm of rows": lambda: trnblas.trmm(1.0, _symmetric(600, 1).tril(), gaussian((600, 4), 2)),
    "trmm of columns": lambda: trnblas.trmm(1.0, TRIANGLE[0], gaussian((40, 600), 2)),
    "trsm of one": lambda: trnblas.trsm(1.0, TRIANGLE[0], gaussian((40, 4), 2)),
    "trsm of a shared one": lambda: trnblas.trsm(1.0, TRIANGLE[:1], gaussian((3, 40, 4), 2)),
    "sketch of rows": lambda: trnrand.sketch(gaussian((100, 20), 1), 200, generator=trnrand.Generator(1)),
    "fft": lambda: trnfft.fft(gaussian((3, 360), 1)),
    "fft of several passes": lambda: trnfft.fft(gaussian((1 << 15,), 1)),
    "exact": lambda: trnfft.fft(gaussian((2, 60), 1).double()),
    "lu": lambda: trnsolver.lu_factor(gaussian((3, 70, 70), 1)),
    "cholesky of one": lambda: trnsolver.cholesky(_symmetric(70, 1)),
    "householder": lambda: launch(householder.householder, gaussian((3, 70, 40), 1), doubling_masks(CPU)),
    "inv_triangular": lambda: launch(inv_triangular.inv_triangular, TRIANGLE.mT.contiguous(), doubling_masks(CPU)),
    "polar_factor": lambda: launch(
        polar_factor.polar_factor, _symmetric(40, 1, (5,)), rotation(40, 0, CPU), constants(40, CPU)[0]
    ),
    "cg": lambda: launch(cg.cg, _symmetric(70, 1), *(VECTORS,) * 3, steps=3),
    "cg of one": lambda: launch(cg.cg, _symmetric(70, 1), *(VECTORS[:, :1].contiguous(),) * 3, steps=3),
    "chebyshev": lambda: launch(
        chebyshev.chebyshev, _symmetric(70, 1), *(VECTORS,) * 3, gaussian((1, 6), 2).expand(128, 6).contiguous()
    ),
    "batched_cholesky": lambda: launch(batched_cholesky.batched_cholesky, MANY, group=1),
    "batched_eigh": lambda: launch(batched_eigh.batched_eigh, MANY, sweeps=2, group=2),
    "batched_lu": lambda: launch(batched_lu.batched_lu, MANY, group=2),
    "batched_qr": lambda: launch(batched_qr.batched_qr, MANY, group=2),
    "batched_svd": lambda: launch(batched_svd.batched_svd, MANY, sweeps=2, group=2),
    "batched_triangular": lambda: launch(
        batched_triangular.batched_triangular, MANY, gaussian((200, 3, 2), 2), group=2
    ),
    "iterate": lambda: trnsparse.cg(SPD, gaussian((256,), 1), tol=1e-3),
    "dia_spmm": lambda: trnsparse.spmm(trnsparse.eye(300), gaussian((300, 3), 1), format="dia"),
    "sell_spmm": lambda: trnsparse.spmm(SPD, gaussian((256, 3), 1), format="sell"),
    "bsr_spmm of two panels": lambda: trnsparse.spmm(BLOCKS, gaussian((512, 600), 1), format="stored"),
    "mp2_energy": lambda: _energy(3),
    "fuse of a batch": lambda: trntensor.fuse("bik,bjk->bij", epilogue=torch.exp)(
        gaussian((3, 20, 30), 1), gaussian((3, 60, 30), 2)
    ),
    "fuse to one sum": lambda: trntensor.fuse("ik,jk->ij", epilogue=torch.exp, reduce="ij->")(
        gaussian((200, 30), 1), gaussian((600, 30), 2)
    ),
    "fuse to columns": lambda: trntensor.fuse("ik,jk->ij", epilogue=torch.exp, reduce="ij->j")(
        gaussian((200, 30), 1), gaussian((600, 30), 2)
    ),
    "fuse to rows": lambda: trntensor.fuse("ik,jk->ij", epilogue=torch.exp, reduce="ij->i")(
        gaussian((200, 30), 1), gaussian((600, 30), 2)
    ),
}
EVERY = CALLS | MORE
# products with ones, whose order of summation the host's BLAS chooses by their shape
SUMMED = ("dot",)


@pytest.fixture
def launches(monkeypatch):
    """Grids and kernels of the simulator's launches."""
    seen = []
    simulate = kernel_launcher.Simulator.launch

    def launch(self, kernel, tensors, grid, static):
        seen.append((kernel.__name__, grid))
        return simulate(self, kernel, tensors, grid, static)

    monkeypatch.setattr(kernel_launcher.Simulator, "launch", launch)
    return seen


@pytest.mark.sim
@pytest.mark.parametrize("name", EVERY)
def test_two_cores_have_the_bits_of_one(name, launches, monkeypatch):
    monkeypatch.delenv("NEURON_LOGICAL_NC_CONFIG", raising=False)
    results, grids = {}, {}
    for cores in ("", "1", "2"):
        monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", cores)
        launches.clear()
        with trnsci.backend("simulator"):
            results[cores] = EVERY[name]()
        grids[cores] = {grid for _, grid in launches}
    if name != "sharded":
        assert grids == {"": {1}, "1": {1}, "2": {2}}
    for cores in ("1", "2"):
        for one, two in zip(specs.tensors_in(results[""]), specs.tensors_in(results[cores]), strict=True):
            if name in SUMMED:
                torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-4)
            else:
                assert torch.equal(one, two), cores


def _kernels():
    for library in LIBRARIES:
        folder = importlib.import_module(f"{library.__name__}.kernels")
        yield from (found.name for found in pkgutil.iter_modules(folder.__path__) if not found.name.startswith("_"))


@pytest.mark.sim
def test_every_kernel_is_tried(launches):
    wanted = set(_kernels())
    # a name of a case is its kernel's, which `launches` proves for those whose op has a choice
    assert wanted <= {name.partition(" ")[0] for name in EVERY} | {"attention_backward"}
    with trnsci.backend("simulator"):
        for name in ("iterate", "lu", "exact", "fuse", "spmm", "fft", "split"):
            launches.clear()
            EVERY[name]()
            assert name in {kernel for kernel, _ in launches}


@pytest.mark.sim
def test_two_cores_take_less_time_where_there_is_work_for_both():
    a = np.ones((4, 256, 256), np.float32)
    from trnsolver.kernels.inv_sqrt_spd import inv_sqrt_spd

    masks = doubling_masks(CPU).numpy()
    _, one = trnsim.profile(inv_sqrt_spd, target="trn2", numerics=False)(a, masks, steps=3)
    _, two = trnsim.profile(inv_sqrt_spd[2], target="trn2", numerics=False)(a, masks, steps=3)
    assert two.active_s < 0.6 * one.active_s
