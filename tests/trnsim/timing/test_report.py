"""What a report says."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import trnsim
import trnsim.isa as nisa
import trnsim.language as nl
from benchmarks.calibration import matmul, searched, streams
from tests.together import together
from tests.trnsim.timing.kernels import report_of, shaped, tile, zeroed
from trnsim.constants import INTERVALS, LAUNCH_UNCERTAINTY, LEVEL, RESOURCES
from trnsim.errors import WrongArgument
from trnsim.timing.costs import FORMULAS
from trnsim.timing.text import why

SQUARE = shaped(1024, 1024, dtype=np.float32)


@pytest.fixture(scope="module")
def gemm():
    return trnsim.profile(matmul.hoisted, target="trn2", numerics=False)(SQUARE, SQUARE)[1]


def test_result_and_report_come_together():
    a, b = (np.random.default_rng(s).standard_normal((128, 512)).astype(np.float32) for s in (1, 2))
    result, report = trnsim.profile(streams.add_tiles, target="trn2")(a, b)
    np.testing.assert_array_equal(result, a + b)
    assert report.kernel == "add_tiles"
    assert 0 < report.active_s < report.benchmark_s < report.total_s


def test_counts_bytes_and_flops(gemm):
    assert gemm.flops == 2 * 1024**3
    assert gemm.instructions == {"dma_copy": 64 + 128 + 16, "nc_matmul": 128, "tensor_copy": 16}
    assert gemm.instruction_count == 352
    assert gemm.hbm_read_bytes == 4 * 1024**2 + 8 * 4 * 1024**2
    assert gemm.hbm_written_bytes == 4 * 1024**2
    assert gemm.peak_flops_per_s == pytest.approx(2 * 128 * 128 * 2.4e9 / 4)
    assert gemm.fraction_of_peak == pytest.approx(gemm.flops_per_s / gemm.peak_flops_per_s)
    assert gemm.intensity == pytest.approx(gemm.flops / (gemm.hbm_read_bytes + gemm.hbm_written_bytes))


def test_utilisation_is_busy_over_active(gemm):
    for use in gemm.engines.values():
        assert use.utilisation == pytest.approx(use.busy_s / gemm.active_s)
        assert 0 <= use.utilisation <= 1.0001
    assert gemm.engines["tensor"].instructions == 128


def test_the_critical_path_covers_the_active_time(gemm):
    path = gemm.critical_path
    assert path[0].reason in ("start", "engine")
    assert [s.start_s for s in path] == sorted(s.start_s for s in path)
    assert path[-1].end_s == max(s.end_s for s in path)
    assert sum(s.decisive_s for s in path) == pytest.approx(path[-1].end_s - path[0].start_s)
    assert sum(gemm.spent_s.values()) == pytest.approx(path[-1].end_s, rel=1e-6)
    assert all(":" in s.line and "matmul.py" in s.line for s in path)


def test_what_binds():
    bound = {
        "DMA issue": report_of(streams.add_rows.function, shaped(2560, 1), shaped(2560, 1), rows=128),
        "tensor": trnsim.profile(matmul.fully_blocked, target="trn2", numerics=False)(
            shaped(2048, 2048), shaped(2048, 2048)
        )[1],
        "DMA bandwidth": report_of(streams.add_tiles.function, shaped(128, 65536), shaped(128, 65536), width=2048),
    }
    assert {name: report.binds for name, report in bound.items()} == {name: name for name in bound}


def test_the_tutorial_tells_its_stages_apart():
    reports = [
        trnsim.profile(kernel, target="trn2", numerics=False)(shaped(2048, 1024), shaped(2048, 2048))[1]
        for kernel in (matmul.tiled, matmul.hoisted, matmul.fully_blocked)
    ]
    times = [r.total_s for r in reports]
    assert times == sorted(times, reverse=True)
    assert reports[0].binds == "DMA issue"
    assert reports[-1].binds == "tensor"


def test_the_page_reads_well(gemm):
    page = str(gemm)
    lines = page.splitlines()
    assert lines[0].startswith("hoisted, trn2: predicted ")
    assert "active" in lines[0]
    assert lines[1].startswith("Bound by ")
    assert lines[1].endswith("% of the critical path.")
    for word in (
        "Tensor",
        "Vector",
        "GpSimd",
        "DMA engines",
        "HBM",
        "Math",
        "Memory",
        "Critical path:",
        "nc_matmul",
        "matmul.py:",
    ):
        assert word in page
    assert max(map(len, lines)) <= 132
    assert "measured" not in page


def test_to_dict_has_stable_keys_and_is_json(gemm):
    made = gemm.to_dict()
    assert list(made) == [
        "kernel", "target", "cores", "predicted", "total_s", "active_s", "benchmark_s", "interval", "engines",
        "instructions",
        "instruction_count", "hbm_read_bytes", "hbm_written_bytes", "flops", "flops_per_s", "peak_flops_per_s",
        "fraction_of_peak", "intensity", "binds", "spent_s", "critical_path", "sbuf_bytes", "psum_banks", "throttled_s",
        "table_loads", "assumed", "uncosted", "warnings", "constants",
    ]  # fmt: skip
    assert json.loads(json.dumps(made))["engines"]["tensor"]["instructions"] == 128


def test_an_interval_surrounds_the_total_and_is_that_of_what_binds(gemm):
    low, high, level = gemm.interval
    assert low < gemm.total_s < high
    assert level == LEVEL == 0.8
    factors = INTERVALS[RESOURCES[gemm.binds]]
    long = replace(gemm, total_s=1.0).interval
    assert (long.low_s, long.high_s) == pytest.approx(factors)
    # the launch is as uncertain for a short kernel as for a long one
    short = replace(gemm, total_s=2e-5).interval
    assert short.low_s == pytest.approx(2e-5 - math.hypot(2e-5 * (1 - factors[0]), LAUNCH_UNCERTAINTY))
    assert gemm.to_dict()["interval"] == {"low_s": low, "high_s": high, "level": level}
    assert "80% interval" in str(gemm)
    strange = replace(gemm, binds="something else", total_s=1.0).interval
    assert strange.high_s == pytest.approx(INTERVALS["all"][1])


def test_high_water_marks():
    report = report_of(
        searched.resident.function, shaped(512, 512, dtype=np.float32), shaped(512, 512, dtype=np.float32), banks=2
    )
    assert report.psum_banks == 2
    # aT and b 8 KiB each, the result another 8 KiB
    assert report.sbuf_bytes == 3 * 4 * 512 * 4


def test_an_instruction_without_a_law_is_named(monkeypatch):
    monkeypatch.delitem(FORMULAS, "tensor_reduce")

    def kernel(x):
        nisa.tensor_reduce(dst=tile(columns=1), op=nl.add, data=zeroed(128, 64), axis=1)
        return x

    report = report_of(kernel, shaped(1, 1))
    assert report.uncosted == {"tensor_reduce": 1}
    assert "tensor_reduce has no cost formula" in report.warnings[0]
    assert "tensor_reduce has no cost formula" in str(report)


def test_costs_without_a_measurement_are_owned_up_to():
    def kernel(x):
        t = zeroed(128, 4096)
        u = tile(columns=4096)
        for _ in range(4):
            nisa.tensor_tensor(dst=u, data1=t, data2=t, op=nl.add, engine=nisa.engine.gpsimd)
        return x

    report = report_of(kernel, shaped(1, 1))
    assert report.assumed > 0.5
    assert "without a public measurement" in str(report)


def test_many_instructions_are_warned_of(monkeypatch):
    monkeypatch.setattr("trnsim.timing.report.MANY_INSTRUCTIONS", 100)
    report = report_of(streams.add_rows.function, shaped(6400, 1), shaped(6400, 1))
    assert report.warnings[0].startswith("200 instructions: static loops are unrolled")


def test_an_empty_kernel():
    report = report_of(lambda x: x, shaped(4, 4))
    assert report.active_s == 0
    assert report.binds == "nothing"
    assert "no instructions" in str(report)


def test_save_refuses_other_suffixes(gemm, tmp_path):
    with pytest.raises(WrongArgument) as caught:
        gemm.save(tmp_path / "x.png")
    assert caught.value.got == ".png"
    assert caught.value.rule == "save"
    assert ".pftrace" in str(caught.value)
    assert json.loads(gemm.save(tmp_path / "x.json").read_text())["kernel"] == "hoisted"


@together(
    ("binds", "says"),
    [
        ("tensor", "at the peak rate the same products would take"),
        ("vector", "fewer and larger ones"),
        ("DMA issue", "move more with each"),
        ("DMA bandwidth", "In full packets"),
        ("latency", "independent work"),
        ("memory", "fewer alive at once"),
        ("table loads", ""),
    ],
)
def test_what_binds_is_explained(gemm, binds, says):
    said = why(replace(gemm, binds=binds))
    assert says in said
    assert bool(said) == bool(says)
    assert said in str(replace(gemm, binds=binds, spent_s={binds: 1.0}))
