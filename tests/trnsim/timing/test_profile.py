"""The call itself: options, timing-only mode, cost of profiling."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import trnsim
import trnsim.isa as nisa
import trnsim.language as nl
from benchmarks.calibration import attention, matmul, streams
from tests.trnsim.rounded import rounded, within
from tests.trnsim.timing.kernels import shaped
from trnsim.errors import WrongArgument


def test_timing_only_needs_no_values_and_agrees_with_a_full_run():
    a, b = (np.random.default_rng(s).standard_normal((256, 512)).astype(np.float32) for s in (1, 2))
    made, full = trnsim.profile(matmul.tiled, target="trn2")(a, b)
    within(made, rounded(a.T) @ b)
    empty, light = trnsim.profile(matmul.tiled, target="trn2", numerics=False)(shaped(256, 512), shaped(256, 512))
    assert light.to_dict() == full.to_dict()
    assert empty.shape == (512, 512)
    assert empty.dtype == np.float32


def test_torch_and_meta_tensors_in_torch_tensors_out():
    a = torch.ones(128, 512)
    made, report = trnsim.profile(streams.add_tiles, target="trn2")(a, a)
    assert isinstance(made, torch.Tensor)
    assert float(made.sum()) == 2 * 128 * 512
    meta = torch.empty(128, 512, device="meta")
    result, light = trnsim.profile(streams.add_tiles, target="trn2", numerics=False)(meta, meta)
    assert result.is_meta
    assert result.shape == (128, 512)
    assert light.total_s == report.total_s


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_every_target_is_predicted(target):
    _, report = trnsim.profile(streams.exp, target=target, numerics=False)(shaped(128, 2048))
    assert report.target.name == target
    assert 1e-6 < report.active_s < 1e-4


def test_target_and_rules_are_those_of_simulate(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")

    @trnsim.jit
    def kernel(x):
        y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x)
        nisa.dma_copy(dst=y, src=t)
        return y

    assert trnsim.profile(kernel, numerics=False)(shaped(128, 4))[1].target.name == "trn1"
    with pytest.raises(trnsim.errors.HardwareLimit):
        trnsim.profile(kernel, numerics=False)(shaped(129, 4))
    with pytest.raises(WrongArgument, match="trn9"):
        trnsim.profile(kernel, target="trn9")


def test_progress_is_told():
    seen = []
    trnsim.profile(streams.add_rows, target="trn2", numerics=False, progress=lambda *step: seen.append(step))(
        shaped(12800, 1), shaped(12800, 1), rows=4
    )
    phases = [phase for phase, _, _ in seen]
    assert phases == sorted(phases)
    assert set(phases) == {"recording", "scheduling"}
    assert all(done <= total for phase, done, total in seen if phase == "scheduling")


def shrinking(x_hbm):
    """Elimination: every step reads and writes what is right of a column, so that regions overlap all before them."""
    y_hbm = nl.ndarray(x_hbm.shape, dtype=x_hbm.dtype, buffer=nl.shared_hbm)
    x_sb = nl.load(x_hbm)
    for j in range(x_hbm.shape[1] - 1):
        nisa.tensor_scalar(dst=x_sb[:, j + 1 :], data=x_sb[:, j + 1 :], op0=nl.add, operand0=x_sb[:, j : j + 1])
    nisa.dma_copy(dst=y_hbm, src=x_sb)
    return y_hbm


def columns(x_hbm):
    """A tile written column by column: thousands of regions that lie apart."""
    y_hbm = nl.ndarray(x_hbm.shape, dtype=x_hbm.dtype, buffer=nl.shared_hbm)
    x_sb = nl.load(x_hbm)
    y_sb = nl.ndarray(x_hbm.shape, dtype=x_hbm.dtype, buffer=nl.sbuf)
    for j in range(x_hbm.shape[1]):
        nisa.tensor_copy(dst=y_sb[:, j : j + 1], src=x_sb[:, j : j + 1])
    nisa.dma_copy(dst=y_hbm, src=y_sb)
    return y_hbm


def turned(x_hbm):
    """Rows written to HBM, columns read back: small accesses that all cross each other."""
    n = x_hbm.shape[1]
    scratch_hbm = nl.ndarray((n, n), dtype=x_hbm.dtype, buffer=nl.hbm)
    y_hbm = nl.ndarray((n, n), dtype=x_hbm.dtype, buffer=nl.shared_hbm)
    x_sb = nl.load(x_hbm)
    for i in range(0, n, 16):
        nisa.dma_copy(dst=scratch_hbm[i : i + 16, :], src=x_sb[0:16, :])
    for j in range(0, n, 16):
        for k in range(n // 128):
            part_sb = nl.ndarray((128, 16), dtype=x_hbm.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=part_sb, src=scratch_hbm[k * 128 : (k + 1) * 128, j : j + 16])
            nisa.dma_copy(dst=y_hbm[k * 128 : (k + 1) * 128, j : j + 16], src=part_sb)
    return y_hbm


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "shapes"),
    [
        (attention.fused, [(128, 2048)] * 3),
        (shrinking, [(128, 512)]),
    ],
    ids=["attention", "shrinking"],
)
@pytest.mark.parametrize("numerics", [True, False])
def test_profiling_costs_at_most_three_times_plain_simulation(kernel, shapes, numerics):
    inputs = [np.zeros(shape, np.float32) for shape in shapes]
    plain = trnsim.simulate(trnsim.jit(kernel), target="trn2", lint="off")
    profiled = trnsim.profile(trnsim.jit(kernel), target="trn2", numerics=numerics, lint="off")
    best = {plain: float("inf"), profiled: float("inf")}
    for _ in range(3):
        for run in best:
            begin = time.process_time()
            run(*inputs)
            best[run] = min(best[run], time.process_time() - begin)
    assert best[profiled] <= 3 * best[plain]


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "few", "many"), [(columns, 1000, 4000), (turned, 1024, 2048)])
def test_an_instruction_costs_no_more_among_many(kernel, few, many):
    def each(n):
        costed = trnsim.profile(trnsim.jit(kernel), target="trn2", numerics=False, lint="off")
        begin = time.process_time()
        _, report = costed(shaped(128, n))
        return (time.process_time() - begin) / report.instruction_count

    assert min(each(many) for _ in range(3)) <= 2 * min(each(few) for _ in range(3))


# In a process of its own: the peak of this one is that of every test before.
COSTED = """
import json, resource, time
import numpy as np, trnsim, trnsim.language as nl
from benchmarks.calibration import matmul

def costed(n):
    matrix = np.broadcast_to(np.zeros((), nl.bfloat16), (n, n))
    begin = time.process_time()
    _, report = trnsim.profile(matmul.fully_blocked, target="trn2", numerics=False)(matrix, matrix, n_tiles=1)
    return (time.process_time() - begin) / report.instruction_count, report

few, _ = min((costed(4096) for _ in range(2)), key=lambda found: found[0])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
many, report = costed(16384)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(json.dumps([many / few, peak, report.flops, report.fraction_of_peak, report.warnings[0]]))
"""


@pytest.mark.slow
def test_a_product_too_large_to_hold_is_costed_quickly():
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", COSTED], capture_output=True, text=True, check=True, cwd=root)
    ratio, peak, flops, fraction, warning = json.loads(done.stdout)
    # of an instruction among 64 times as many: seconds would be those of the machine
    assert ratio < 2
    # kilobytes that the call adds; the product itself would take 1.5 GB
    assert peak < 768 * 1024
    assert flops == 2 * 16384**3
    assert 0.9 < fraction < 1.0
    assert "instructions: static loops are unrolled" in warning
