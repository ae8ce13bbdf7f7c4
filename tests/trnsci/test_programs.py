"""Programs of a size that compiles: launches are cut into equal pieces, and their results are those of one program."""

import pytest
import torch

import trnblas
import trnrand
import trnsci
import trnsim
import trnsolver
import trnsparse
import trntensor
from tests.together import together
from trnblas.kernels import gemm as kernels
from trnblas.trsm import doubling_masks
from trnsci import kernel_launcher, programs, specs
from trnsci.nki import Axis, launch
from trnsci.testing import gaussian
from trnsolver.eigen.divide import constants, rotation
from trnsolver.eigen.jacobi import masks
from trnsolver.kernels import eigh, inv_sqrt_spd, svd


@pytest.fixture
def small(monkeypatch):
    """A limit that a few tiles exceed."""
    monkeypatch.setenv("TRNSCI_PROGRAM_MATMULS", "20")
    monkeypatch.setenv("TRNSCI_PROGRAM_INSTRUCTIONS", "1000")


class Counting(kernel_launcher.Simulator):
    """The simulator, with what it launched."""

    def __init__(self):
        super().__init__("trn2")
        self.shapes = []

    def launch(self, kernel, tensors, grid, static):
        self.shapes.append(tuple(tuple(t.shape) for t in tensors if t is not None))
        return super().launch(kernel, tensors, grid, static)


def launched(*tensors, **static):
    with kernel_launcher.using(Counting()) as used:
        return launch(kernels.gemm, *tensors, **static), used.shapes


def test_a_short_program_is_one_launch():
    a, b = gaussian((1, 130, 700), 1), gaussian((1, 130, 600), 2)
    _, shapes = launched(a, b)
    assert shapes == [((1, 130, 700), (1, 130, 600))]


def test_a_long_one_is_cut_into_equal_pieces_with_the_same_bits(small):
    a, b = gaussian((1, 300, 2048), 1), gaussian((1, 300, 1024), 2)
    whole = kernel_launcher.Simulator("trn2").launch(kernels.gemm, (a, b), 1, {})
    made, shapes = launched(a, b)
    assert torch.equal(made, whole)
    assert len(shapes) > 1
    assert len(set(shapes)) == 1
    for left, right in shapes:
        assert programs.size_of(kernels.gemm, (torch.empty(left), torch.empty(right)), {}).fits


def test_batches_are_cut_first_and_a_shared_operand_serves_all(small):
    a, b = gaussian((6, 300, 64), 1), gaussian((1, 300, 64), 2)
    made, shapes = launched(a, b)
    assert torch.equal(made, kernel_launcher.Simulator("trn2").launch(kernels.gemm, (a, b), 1, {}))
    assert {right for _, right in shapes} == {(1, 300, 64)}
    assert sum(left[0] for left, _ in shapes) == 6


def test_epilogues_are_cut_with_what_they_add_to(small):
    a, b, c = gaussian((1, 300, 1024), 1), gaussian((1, 300, 1024), 2), gaussian((1, 1024, 1024), 3)
    scale, bias = (
        torch.tensor([[0.5, 2.0]]).expand(128, 2).contiguous(),
        gaussian((1, 1024), 4).expand(128, -1).contiguous(),
    )
    made, shapes = launched(a, b, c, scale, bias, activation="relu")
    whole = kernel_launcher.Simulator("trn2").launch(kernels.gemm, (a, b, c, scale, bias), 1, {"activation": "relu"})
    assert len(shapes) > 1
    assert torch.equal(made, whole)


def test_a_plan_counts_launches_programs_and_instructions(small):
    plan = trnsci.plan(trnblas.gemm, 1.0, torch.empty(2048, 300), torch.empty(300, 1024))
    found = plan.programs
    assert found.launches > 1
    assert found.compilations == 1
    assert found.most_matmuls <= 20
    assert f"{found.launches} launches of 1 program" in str(plan)


def test_a_plan_says_how_full_the_chip_is():
    a, b = torch.empty(1, 256, 300), torch.empty(1, 256, 512)
    _, report = trnsim.profile(kernels.gemm, target="trn2", numerics=False)(a, b)
    plan = trnsci.plan(trnblas.gemm, 1.0, a[0].mT, b[0])
    assert (plan.programs.sbuf_bytes, plan.programs.psum_banks) == (report.sbuf_bytes, report.psum_banks)
    assert f"{report.psum_banks} PSUM banks are in use" in str(plan)
    assert report.sbuf_bytes > 0


def test_a_plan_estimates_compile_time_with_its_source():
    plan = trnsci.plan(trnblas.gemm, 1.0, torch.empty(2048, 300), torch.empty(300, 1024))
    found = plan.programs
    assert found.compile_seconds == pytest.approx(found.longest * found.compilations * 1800 / 794_624)
    assert "or more (one public report, aws-neuron-sdk issue 1374" in str(plan)


def test_the_limit_is_a_setting(monkeypatch):
    assert programs.limits() == programs.Size(30_000, 10_000)
    monkeypatch.setenv("TRNSCI_PROGRAM_MATMULS", "5")
    assert not programs.Size(1, 6).fits
    assert programs.Size(1, 5).fits


@together(
    ("shapes", "broadcasts", "extent"),
    [
        (((6, 2), (6, 3)), True, 6),
        (((6, 2), (1, 3)), True, 6),
        (((6, 2), (1, 3)), False, 1),
        (((8, 2), (2, 3)), True, 2),
        (((8, 2), (3, 3)), True, 1),
    ],
)
def test_tensors_of_an_axis_have_one_extent_or_multiples_of_it(shapes, broadcasts, extent):
    tensors = tuple(map(torch.empty, shapes))
    assert programs._extent(tensors, ("a", "b"), Axis(1, {"a": 0, "b": 0}, (0,), broadcasts)) == extent


def test_grouped_heads_travel_with_their_keys():
    cut = programs.Cut(((Axis(1, {"q": 0, "k": 0}, (0,)), 2, 1),), ("q", "k"))
    q, k = torch.arange(8.0).reshape(8, 1), torch.arange(2.0).reshape(2, 1)
    seen = []
    made = cut.run((q, k), lambda piece: seen.append([t.flatten().tolist() for t in piece]) or piece[0])
    assert seen == [[[0, 1, 2, 3], [0]], [[4, 5, 6, 7], [1]]]
    assert torch.equal(made, q)
    assert cut.launches == 2


def _symmetric(n, seed, batch=()):
    a = gaussian((*batch, n, n), seed)
    return a @ a.mT / n + torch.eye(n)


def _attention():
    q, k, v = (gaussian((1, 4, 256, 32), seed).requires_grad_() for seed in (1, 2, 3))
    made = trnsparse.attention(q, k, v, trnsparse.causal())
    made.sum().backward()
    return made.detach(), q.grad, k.grad, v.grad


def _start(n, batch):
    labels = torch.zeros(batch, n, 1)
    return rotation(n, 0, CPU).expand(batch, n, n).contiguous(), labels, *constants(n, CPU)


CPU = torch.device("cpu")
ENERGIES = gaussian((6,), 3).abs() + 1
SPARSE = trnsparse.CSRMatrix.from_dense(torch.where(gaussian((500, 500), 8) > 1, gaussian((500, 500), 7), 0.0))
BLOCKS = trnsparse.BSRMatrix.from_dense(gaussian((512, 512), 8), (128, 128))
TRIANGLE = gaussian((3, 40, 40), 9).tril() + 40 * torch.eye(40)
# every kernel with axes, cut as small as it can be
CALLS = {
    "gemm": lambda: trnblas.gemm(1.0, gaussian((600, 40), 1), gaussian((40, 700), 2)),
    "split": lambda: trnblas.gemm(1.0, gaussian((300, 40), 1).double(), gaussian((40, 600), 2).double()),
    "symm": lambda: trnblas.symm(1.0, _symmetric(40, 1), gaussian((40, 600), 2)),
    "syrk": lambda: trnblas.syrk(1.0, gaussian((3, 40, 50), 1)),
    "trmm": lambda: trnblas.trmm(1.0, TRIANGLE, gaussian((3, 40, 600), 2)),
    "trsm": lambda: trnblas.trsm(1.0, TRIANGLE, gaussian((3, 40, 600), 2)),
    "gemv": lambda: trnblas.gemv(1.0, gaussian((3, 40, 50), 1), gaussian((3, 50), 2)),
    "iamax": lambda: trnblas.iamax(gaussian((3, 300), 1)),
    "cholesky": lambda: trnsolver.cholesky(_symmetric(70, 1, (3,))),
    "qr": lambda: trnsolver.qr(gaussian((3, 70, 40), 1)),
    "svd": lambda: launch(svd.svd, _symmetric(20, 1, (3,)), *masks(20, CPU), sweeps=2),
    "eigh": lambda: launch(eigh.eigh, _symmetric(70, 1, (9,)), *_start(70, 9), levels=2),
    "inv_sqrt_spd": lambda: launch(inv_sqrt_spd.inv_sqrt_spd, _symmetric(40, 1, (3,)), doubling_masks(CPU), steps=3),
    "attention": _attention,
    "axpy": lambda: trnblas.axpy(gaussian((1 << 20,), 1), gaussian((1 << 20,), 2), 2.0),
    "dgmm": lambda: trnblas.dgmm(gaussian((300, 40), 1), gaussian((300,), 2), "l"),
    "gemv of rows": lambda: trnblas.gemv(1.0, gaussian((400, 50), 1), gaussian((50,), 2)),
    "gemv of columns": lambda: trnblas.gemv(1.0, gaussian((50, 7000), 1), gaussian((50,), 2), trans=True),
    "iamax of one": lambda: trnblas.iamax(gaussian((1 << 20,), 1)),
    "syrk of one": lambda: trnblas.syrk(1.0, gaussian((1100, 40), 1), lower=True),
    "grouped": lambda: trnblas.grouped_gemm(
        1.0, [gaussian((40, 30), i) for i in range(4)], [gaussian((30, 20), 9)] * 4
    ),
    "mp2": lambda: trnblas.mp2_pairs(gaussian((24, 24), 1), -ENERGIES[:4], -ENERGIES[:4], ENERGIES),
    "spmm": lambda: trnsparse.spmm(SPARSE, gaussian((500, 40), 1)),
    "sddmm": lambda: trnsparse.sddmm(SPARSE, gaussian((500, 40), 1), gaussian((40, 500), 2)).values,
    "bsr_spmm": lambda: trnsparse.spmm(BLOCKS, gaussian((512, 40), 1), format="stored"),
    "bsr_sddmm": lambda: trnsparse.sddmm(BLOCKS, gaussian((512, 40), 1), gaussian((40, 512), 2)).values,
    "halton": lambda: trnrand.Halton(20).random(70000),
    "sobol": lambda: trnrand.Sobol(20).random(70000),
    "sketch": lambda: trnrand.sketch(gaussian((100, 1200), 1), 8, generator=trnrand.Generator(1)),
    "fuse": lambda: trntensor.fuse("ik,jk->ij", epilogue=torch.exp)(gaussian((200, 30), 1), gaussian((600, 30), 2)),
    "ao_to_mo_transform": lambda: trntensor.ao_to_mo_transform(gaussian((20, 20, 300), 1), *gaussian((2, 20, 6), 2)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_in_pieces_has_the_bits_of_the_whole(name, monkeypatch):
    launches = []
    simulate = kernel_launcher.Simulator.launch
    monkeypatch.setattr(
        kernel_launcher.Simulator,
        "launch",
        lambda self, kernel, *rest: launches.append(kernel) or simulate(self, kernel, *rest),
    )
    with trnsci.backend("simulator"), kernel_launcher.using(kernel_launcher.Simulator("trn2")):
        whole = CALLS[name]()
        before = len(launches)
        monkeypatch.setenv("TRNSCI_PROGRAM_MATMULS", "1")
        monkeypatch.setenv("TRNSCI_PROGRAM_INSTRUCTIONS", "1")
        pieces = CALLS[name]()
    assert len(launches) > 2 * before
    for one, two in zip(specs.tensors_in(whole), specs.tensors_in(pieces), strict=True):
        assert torch.equal(one, two)


def test_sums_that_come_in_parts_are_as_accurate_as_whole_ones(monkeypatch):
    monkeypatch.setenv("TRNSCI_PROGRAM_INSTRUCTIONS", "200")
    x, y, a = gaussian((1 << 20,), 1), gaussian((1 << 20,), 2), gaussian((20000, 3), 3)
    wide, sizes = x.double() * y.double(), (x.double() * y.double()).abs().sum()
    with trnsci.backend("simulator"):
        compensated = trnblas.dot(x, y, precision="compensated")
        plain, norm, tall = trnblas.dot(x, y), trnblas.nrm2(x), trnblas.gemv(1.0, a, x[:20000], trans=True)
    assert trnsci.plan(trnblas.dot, x, y, precision="compensated").programs.launches > 1
    assert trnsci.plan(trnblas.gemv, 1.0, a, x[:20000], trans=True).programs.launches > 1
    assert abs(compensated.double() - wide.sum()) <= 2.0**-24 * abs(wide.sum()) + 1e-12 * sizes
    assert abs(plain.double() - wide.sum()) <= 1e-6 * sizes
    assert abs(norm.double() - x.double().norm()) <= 1e-6 * norm
    assert torch.allclose(tall.double(), a.double().mT @ x[:20000].double(), rtol=0, atol=1e-6 * 20000)


def test_a_plan_predicts_two_cores(monkeypatch):
    a = torch.empty(2048, 2048)
    alone = trnsci.plan(trnblas.gemm, 1.0, a, a).predicted["trn2"]
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    assert trnsci.plan(trnblas.gemm, 1.0, a, a).predicted["trn2"] < 0.7 * alone
