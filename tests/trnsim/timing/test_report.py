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
from trnsim.constants import INTERVALS, LAUNCH_UNCERTAINTY, LEVEL, RESOURCES, WIDENING
from trnsim.errors import WrongArgument
from trnsim.timing.costs import FORMULAS
from trnsim.timing.text import advice

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
    assert lines[1].endswith("%) less.")
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
        "kernel", "target", "cores", "predicted", "total_s", "active_s", "benchmark_s", "interval", "nearest",
        "engines", "instructions",
        "instruction_count", "hbm_read_bytes", "hbm_written_bytes", "flops", "flops_per_s", "peak_flops_per_s",
        "fraction_of_peak", "intensity", "binds", "reliefs", "spent_s", "critical_path", "sbuf_bytes", "psum_banks",
        "throttled_s", "table_loads", "assumed", "uncosted", "warnings", "constants",
    ]  # fmt: skip
    assert json.loads(json.dumps(made))["engines"]["tensor"]["instructions"] == 128


def test_an_interval_surrounds_the_total_and_is_the_widest_of_its_traits(gemm):
    low, high, level = gemm.interval
    assert low < gemm.total_s < high
    assert level == LEVEL == 0.8
    assert gemm.traits == ("trn2", "one core", "fp32", RESOURCES[next(iter(gemm.spent_s))], "fits SBUF")
    assert gemm.nearest.distance == 0
    pairs = [INTERVALS[trait] for trait in gemm.traits[1:]]
    factors = min(low for low, _ in pairs), max(high for _, high in pairs)
    long = replace(gemm, total_s=1.0).interval
    assert (long.low_s, long.high_s) == pytest.approx(factors)
    # the launch is as uncertain for a short kernel as for a long one
    short = replace(gemm, total_s=2e-5).interval
    assert short.low_s == pytest.approx(2e-5 - math.hypot(2e-5 * (1 - factors[0]), LAUNCH_UNCERTAINTY))
    assert gemm.to_dict()["interval"] == {"low_s": low, "high_s": high, "level": level}
    assert "80% interval" in str(gemm)
    assert "Unlike" not in str(gemm)


def test_a_kernel_unlike_any_measured_says_so_and_its_interval_is_wider(gemm):
    newer = trnsim.profile(matmul.hoisted, target="trn3", numerics=False)(SQUARE, SQUARE)[1]
    assert newer.nearest.differs == ("trn3",)
    assert "Unlike anything measured: trn3, so the interval is wider." in str(newer)
    known, strange = (replace(report, total_s=1.0, spent_s=gemm.spent_s).interval for report in (gemm, newer))
    assert math.log(strange.high_s) == pytest.approx((1 + WIDENING) * math.log(known.high_s), rel=1e-3)


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
    assert "0 cores" not in str(report)


def _halves(x, turns=1, stores=True, back=False):
    y, z = (nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm) for _ in range(2))
    half = x.shape[0] // 2
    first = half * nl.program_id(0) if nl.num_programs(0) > 1 else 0
    for _ in range(turns):
        t = nl.ndarray((half, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x[first : first + half, :])
        nisa.dma_copy(dst=y[first : first + half, :], src=t)
        if stores:
            nisa.dma_copy(dst=z[first : first + half, :], src=t)
    return (y, x) if back else (y, z)


@pytest.mark.parametrize("cores", [1, 2])
def test_results_that_nothing_writes_are_said(cores):
    def warnings(**options):
        costed = trnsim.profile(trnsim.jit(_halves)[cores], target="trn2", numerics=False, lint="off")
        return [w for w in costed(shaped(256, 64), **options)[1].warnings if "never written" in w]

    assert warnings() == warnings(back=True) == []
    assert warnings(stores=False)[0].startswith("A result is never written")
    assert warnings(turns=0)[0].startswith("2 results are never written")


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
    said = advice(gemm, binds)
    assert says in said
    assert bool(said) == bool(says)


def normalised(x_hbm):
    y_hbm = nl.ndarray(x_hbm.shape, dtype=x_hbm.dtype, buffer=nl.shared_hbm)
    for r in range(0, x_hbm.shape[0], 128):
        x, y, largest, total = (tile(columns=n) for n in (x_hbm.shape[1], x_hbm.shape[1], 1, 1))
        nisa.dma_copy(dst=x, src=x_hbm[r : r + 128, :])
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=x, axis=1, negate=True)
        nisa.activation_reduce(dst=x, op=nl.exp, data=x, bias=largest, reduce_op=nl.add, reduce_res=total)
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=y, data=x, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=y_hbm[r : r + 128, :], src=y)
    return y_hbm


def copied(x_hbm):
    y_hbm = nl.ndarray(x_hbm.shape, dtype=x_hbm.dtype, buffer=nl.shared_hbm)
    for r in range(0, x_hbm.shape[0], 128):
        x = tile(columns=x_hbm.shape[1])
        nisa.dma_copy(dst=x, src=x_hbm[r : r + 128, :])
        nisa.dma_copy(dst=y_hbm[r : r + 128, :], src=x)
    return y_hbm


def test_a_softmax_as_long_as_a_copy_of_its_bytes_is_bound_by_dma():
    softmax, copy = (report_of(kernel, shaped(1024, 2048)) for kernel in (normalised, copied))
    assert softmax.total_s == pytest.approx(copy.total_s, rel=0.01)
    # most of its critical path is the Vector Engine's
    assert next(iter(softmax.spent_s)) == "vector"
    assert softmax.binds == copy.binds == "DMA bandwidth"
    assert "Bound by DMA bandwidth" in str(softmax)


def test_reliefs_come_in_order_and_leave_the_report_as_it_was(gemm):
    before = gemm.recording.report(gemm.target).total_s
    assert [r.saved_s for r in gemm.reliefs] == sorted((r.saved_s for r in gemm.reliefs), reverse=True)
    assert all(0 <= r.saved_s < gemm.total_s for r in gemm.reliefs)
    assert gemm.recording.report(gemm.target).total_s == before


def test_moving_more_with_each_transfer_saves_what_was_said():
    x = shaped(8192, 1)
    bad, good = (report_of(streams.add_rows.function, x, x, rows) for rows in (8, 128))
    assert bad.binds == "DMA issue"
    assert "move more with each" in str(bad)
    assert bad.total_s - good.total_s == pytest.approx(15 / 16 * bad.reliefs[0].saved_s, rel=0.1)


def test_moving_half_the_bytes_saves_half_of_what_the_dma_engines_took():
    whole, half = (
        report_of(streams.add_tiles.function, *2 * [shaped(128, 65536, dtype=dtype)], 2048)
        for dtype in (np.float32, np.float16)
    )
    assert whole.binds == "DMA bandwidth"
    saved = whole.total_s - half.total_s
    assert saved == pytest.approx(whole.engines["dma"].busy_s / 2, rel=0.1)
    assert saved < whole.reliefs[0].saved_s


def test_fewer_and_larger_instructions_save_what_the_engine_was_busy_for():
    def kernel(x, columns):
        t = zeroed(128, 8192)
        for c in range(0, 8192, columns):
            nisa.tensor_scalar(dst=tile(columns=columns), data=t[:, c : c + columns], op0=nl.multiply, operand0=2.0)
        return x

    bad, good = (report_of(kernel, shaped(1, 1), columns) for columns in (16, 512))
    assert bad.binds == "vector"
    assert "fewer and larger ones" in str(bad)
    saved = bad.total_s - good.total_s
    assert saved == pytest.approx(bad.engines["vector"].busy_s - good.engines["vector"].busy_s, rel=0.05)
    assert saved < bad.reliefs[0].saved_s


def test_independent_work_saves_the_latency_of_a_chain():
    """The engine is on the whole of the critical path, and idle two thirds of it."""

    def kernel(x, chains):
        tiles = [zeroed(128, 1) for _ in range(chains)]
        for _ in range(240 // chains):
            for t in tiles:
                nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
        return x

    bad, good = (report_of(kernel, shaped(1, 1), chains) for chains in (1, 4))
    assert bad.binds == "latency"
    assert "independent work" in str(bad)
    assert bad.total_s - good.total_s == pytest.approx(bad.reliefs[0].saved_s, rel=0.05)


def test_smaller_tiles_save_what_waiting_for_memory_costs():
    """Two tiles of 96 KB fill SBUF: nothing is loaded while they are in use."""

    def kernel(x, columns):
        y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for c in range(0, x.shape[1], columns):
            t, u = tile(columns=columns), tile(columns=columns)
            nisa.dma_copy(dst=t, src=x[:, c : c + columns])
            nisa.activation(dst=u, op=nl.exp, data=t)
            nisa.dma_copy(dst=y[:, c : c + columns], src=u)
        return y

    bad, good = (report_of(kernel, shaped(128, 120_000), columns) for columns in (24_000, 12_000))
    (relief,) = (relief for relief in bad.reliefs if relief.resource == "memory")
    assert relief.saved_s > 0.2 * bad.total_s
    assert bad.total_s - good.total_s == pytest.approx(relief.saved_s, rel=0.05)


def test_two_that_bind_together_are_named_together():
    def kernel(x):
        t = zeroed(128, 600)
        for _ in range(200):
            u, v = tile(columns=1), tile(columns=600)
            nisa.tensor_reduce(dst=u, op=nl.add, data=t[:, :512], axis=1)
            nisa.activation(dst=v, op=nl.copy, data=t)
        return x

    report = report_of(kernel, shaped(1, 1))
    # each engine is as long without the other
    assert all(relief.saved_s < 0.05 * report.total_s for relief in report.reliefs[1:])
    assert sorted(report.binds.split(" and ")) == ["scalar", "vector"]
    assert report.reliefs[0].saved_s > 0.5 * report.total_s
    assert "the Vector Engine" in str(report).splitlines()[1]
    assert "the Scalar Engine" in str(report).splitlines()[1]
