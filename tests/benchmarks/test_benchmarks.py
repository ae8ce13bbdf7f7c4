"""The benchmark driver: what it refuses, what it computes, what it writes."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from benchmarks import predictions, registry, report, run, timing, verify
from benchmarks.registry import Bench, Case, Kernel, Peer


def make(**changes):
    fields = {
        "op": "trnblas.gemm",
        "run": lambda a: a + a,
        "tests": "tests/conftest.py",
        "cases": (Case(name="4", inputs=lambda: (torch.ones(4),), flops=4, bytes=32),),
        "peers": (Peer(name="torch.mul", run=lambda a: 2 * a),),
    }
    return Bench(**(fields | changes))


def test_every_benchmark_file_declares_its_own_op():
    names = registry.names()
    assert "trnblas.gemm" in names
    for op in names:
        bench = registry.load(op)
        assert bench.tests.startswith(f"tests/{op.split('.')[0]}/")


def test_a_benchmark_without_tests_is_refused():
    with pytest.raises(ValueError, match=r"tests are missing: tests/nowhere\.py does not exist"):
        make(tests="tests/nowhere.py")


def test_names_must_be_unique():
    with pytest.raises(ValueError, match="peer names must be unique, these occur twice: torch"):
        make(peers=(Peer(name="torch", run=abs), Peer(name="torch", run=abs)))


@pytest.fixture
def taking(monkeypatch):
    """``taking(seconds, function)``: a function that takes so long by the benchmarks' clock."""
    now = [0.0]
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def taking(seconds, function):
        def run(*args):
            now[0] += seconds
            return function(*args)

        return run

    return taking


def timed(taking, **changes):
    peer = Peer(name="torch.mul", run=taking(2e-5, lambda a: 2 * a))
    return make(run=taking(3e-5, lambda a: a + a), peers=(peer,), **changes)


def test_a_row_has_ratio_difference_and_rates(taking):
    bench = timed(taking)
    row = run.time_case(bench, bench.cases[0], device="cpu", rounds=3)
    (peer,) = row.against
    assert (row.seconds, peer.seconds) == pytest.approx((3e-5, 2e-5))
    assert (peer.ratio, peer.difference) == pytest.approx((1.5, 1e-5))
    assert peer.absent is None


def test_a_peer_that_computes_something_else_stops_the_run():
    wrong = make(peers=(Peer(name="torch.mul", run=lambda a: 3 * a),))
    with pytest.raises(run.Disagreement, match=r"we differ from torch\.mul by 3\.3e-01, allowed is 1\.0e-03"):
        run.time_case(wrong, wrong.cases[0], device="cpu", rounds=2)


def test_a_peer_with_another_shape_stops_the_run():
    wrong = make(peers=(Peer(name="sum", run=lambda a: a.sum()),))
    with pytest.raises(run.Disagreement, match=r"our result has shape \(4,\), sum gives \(\)"):
        run.time_case(wrong, wrong.cases[0], device="cpu", rounds=2)


def test_nan_is_a_disagreement():
    wrong = make(run=lambda a: a * float("nan"))
    with pytest.raises(run.Disagreement):
        run.time_case(wrong, wrong.cases[0], device="cpu", rounds=2)


def test_absent_peers_are_named_not_dropped():
    bench = make(peers=(Peer(name="x", run=abs, requires="no_such_module"), Peer(name="y", run=abs, devices=("cuda",))))
    row = run.time_case(bench, bench.cases[0], device="cpu", rounds=2)
    assert [(a.name, a.absent) for a in row.against] == [("x", "not installed"), ("y", "not on cpu")]


def test_preparation_is_outside_the_clock():
    prepared = []

    def to_numpy(a):
        prepared.append(1)
        return (a.numpy(),)

    bench = make(peers=(Peer(name="numpy", run=lambda a: np.add(a, a), prepare=to_numpy),))
    run.time_case(bench, bench.cases[0], device="cpu", rounds=2)
    assert prepared == [1]


def test_contenders_take_turns_and_start_with_an_untimed_call(monkeypatch):
    monkeypatch.setattr(timing, "_calibrate", lambda call, wait: 1)
    order = []
    contenders = {name: lambda name=name: order.append(name) for name in "abc"}
    timing.interleave(contenders, rounds=3)
    assert "".join(order) == "".join(2 * name for name in "abcbcacab")


def test_ratios_are_medians_of_neighbouring_samples():
    ours = timing.Samples(seconds=(1.0, 10.0, 3.0), calls=1)
    peer = timing.Samples(seconds=(2.0, 20.0, 3.0), calls=1)
    assert ours.over(peer) == 0.5
    assert ours.minus(peer) == -1.0
    assert ours.median == 3.0


def test_short_calls_are_timed_in_batches(taking):
    samples = timing.interleave({"x": taking(1e-4, lambda: None)}, rounds=2)["x"]
    assert samples.calls == 32
    assert samples.median == pytest.approx(1e-4)


def test_a_red_gate_reports_no_speed(monkeypatch):
    monkeypatch.setattr(registry, "load", lambda op: make())
    monkeypatch.setattr(verify, "verify", lambda bench, device: verify.Verdict(bench.op, False, "1 failed, 3 passed"))
    found = run.measure("trnblas.gemm", device="cpu", rounds=2)
    assert (found.green, found.timed, found.predicted) == (False, (), ())
    printed = report.text([found])
    assert "1 failed, 3 passed" in printed
    assert "no speed is reported" in printed


def test_the_gate_reads_pytest(tmp_path, monkeypatch):
    (tmp_path / "test_red.py").write_text("def test_red():\n    assert 1 == 2\n")
    (tmp_path / "test_green.py").write_text("def test_green():\n    pass\n")
    monkeypatch.setattr(registry, "ROOT", tmp_path)
    monkeypatch.setattr(verify, "WORKERS", ())
    assert not verify.verify(make(tests="test_red.py")).green
    verdict = verify.verify(make(tests="test_green.py"))
    assert verdict.green
    assert "1 passed" in verdict.line


def prediction(cycles, kernel="64x64", target="trn2"):
    return predictions.Predicted(
        kernel=kernel, target=target, cycles=cycles, seconds=cycles / 2.4e9, binding="tensor", busy=0.9, hbm_bytes=49152
    )


def test_a_recorded_prediction_agrees_with_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(predictions, "FOLDER", tmp_path)
    predictions.record("trnblas.gemm", [prediction(1000)])
    assert predictions.compare("trnblas.gemm", [prediction(1000)]) == []


def test_one_cycle_is_a_difference(tmp_path, monkeypatch):
    monkeypatch.setattr(predictions, "FOLDER", tmp_path)
    predictions.record("trnblas.gemm", [prediction(1000)])
    (line,) = predictions.compare("trnblas.gemm", [prediction(1001)])
    assert line == "trnblas.gemm 64x64 trn2: 1000 cycles recorded, 1001 now (+0.10%)"


def test_a_new_baseline_keeps_the_one_it_replaces(tmp_path, monkeypatch):
    monkeypatch.setattr(predictions, "FOLDER", tmp_path)

    def cell(cycles):
        found = report.OpReport(op="a.b", tests="", green=True, notes="", timed=(), predicted=(prediction(cycles),))
        return report.text([found]).splitlines()[-1].split("  ")

    predictions.record("a.b", [prediction(1000)])
    assert predictions.before("a.b", prediction(1000)) is None
    assert [c.strip() for c in cell(1100) if c][2:5] == ["1,100", "1,000", "+10.0%"]
    for _ in range(2):
        predictions.record("a.b", [prediction(1100)])
        assert predictions.before("a.b", prediction(1100)) == 1000
    assert [c.strip() for c in cell(1100) if c][2:5] == ["1,100", "1,000", "+10.0%"]


def test_baselines_and_registry_must_list_the_same_kernels(tmp_path, monkeypatch):
    monkeypatch.setattr(predictions, "FOLDER", tmp_path)
    assert predictions.compare("trnblas.gemm", [prediction(1)]) == ["trnblas.gemm has no baseline yet"]
    predictions.record("trnblas.gemm", [prediction(1, "old")])
    assert predictions.compare("trnblas.gemm", [prediction(1, "new")]) == [
        "trnblas.gemm old trn2: recorded, but no longer registered",
        "trnblas.gemm new trn2: registered, but not recorded",
    ]
    left_out = Kernel(name="old", kernel=abs, inputs=tuple)
    assert predictions.compare("trnblas.gemm", [prediction(1, "new")], [left_out]) == [
        "trnblas.gemm new trn2: registered, but not recorded"
    ]


# Their whole programs take seconds to time; `make bench` times them too.
EXPENSIVE = ("trnblas.gemm", "trnblas.mp2", "trnfft.exact", "trnfft.fft", "trnsolver.batched_eigh", "trnsolver.eigh")
EXPENSIVE += ("trnsolver.householder", "trnsolver.lu", "trnsolver.svd", "trnsparse.bsr_spmm")


@pytest.mark.sim
@pytest.mark.parametrize(
    "op", [pytest.param(op, marks=pytest.mark.slow) if op in EXPENSIVE else op for op in registry.names()]
)
def test_predicted_cycles_are_those_recorded(op):
    quick, rest = divided(op)
    assert predictions.compare(op, list(predictions.predict(quick)), rest.kernels) == []


@pytest.mark.sim
@pytest.mark.slow
@pytest.mark.parametrize("op", registry.names())
def test_predicted_cycles_of_long_programs_and_other_generations_are_those_recorded(op):
    quick, rest = divided(op)
    assert predictions.compare(op, list(predictions.predict(rest)), quick.kernels) == []


def divided(op):
    """The short programs of a benchmark on one generation, and everything else."""
    bench = registry.load(op)
    quick, rest = [], []
    for kernel in bench.kernels:
        first = "trn2" if "trn2" in kernel.targets else kernel.targets[0]
        others = tuple(target for target in kernel.targets if target != first)
        (rest if kernel.slow else quick).append(dataclasses.replace(kernel, targets=(first,)))
        rest += [dataclasses.replace(kernel, targets=others)] if others else []
    return dataclasses.replace(bench, kernels=tuple(quick)), dataclasses.replace(bench, kernels=tuple(rest))


def test_results_are_written_for_programs_and_people(tmp_path, monkeypatch, taking):
    monkeypatch.setattr(report, "ROOT", tmp_path)
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "docs").mkdir()
    overhead = Case(name="overhead", inputs=lambda: (torch.ones(4),), flops=4, bytes=32, overhead=True)
    bench = timed(taking, cases=(*make().cases, overhead))
    rows = tuple(run.time_case(bench, case, device="cpu", rounds=2) for case in bench.cases)
    found = report.OpReport(
        op="trnblas.gemm", tests="1 passed", green=True, notes="Why.", timed=rows, predicted=(prediction(2400),)
    )
    written = report.write([found], device="cpu")
    assert [str(path) for path in written] == ["benchmarks/results/cpu.json", "docs/benchmarks.md"]
    data = json.loads((tmp_path / written[0]).read_text())
    assert data["ops"][0]["timed"][0]["case"] == "4"
    assert data["machine"]["torch"] == torch.__version__
    page = (tmp_path / written[1]).read_text()
    # predictions stand as they are recorded, whatever this run found
    assert f"| {' | '.join(report.recorded_table('trnblas.gemm')[1])} |" in page
    assert "2,400" not in page
    assert "64x64" in report.text([found])
    assert "| overhead |" in page
    assert " µs |" in page
    assert "Why." in page


def test_the_table_of_a_gpu_says_why_a_call_is_slower():
    against = (report.Against(name="torch", seconds=1e-4, ratio=2.0, difference=1e-4),)
    row = report.TimedRow(
        case="8", overhead=False, flops=1, bytes=1, seconds=2e-4, spread=0.1, against=against, busy=3e-5
    )
    plain = dataclasses.replace(row, case="9", busy=None)
    found = report.OpReport(op="a.b", tests="", green=True, notes="", timed=(row, plain), predicted=(), slower="Waits.")
    page = report._gpu_part([found], {"GPU": "one"})
    assert "| a.b | 8 | 200 µs | 10% | 2.00 | torch | 30 µs on the GPU; Waits. |" in page
    assert "| a.b | 9 | 200 µs | 10% | 2.00 | torch |  |" in page
    assert "A call of more than 100 µs that takes more than 1.2 times as long as its peer says why" in page


def test_the_page_counts_calls_that_take_longer_than_the_library_they_make():
    slow, fast = (report.Against(name="lib", called=True, seconds=1e-3, ratio=r, difference=0.0) for r in (1.5, 1.05))
    rows = [
        report.TimedRow(case=case, overhead=False, flops=1, bytes=1, seconds=seconds, spread=0.1, against=(against,))
        for case, seconds, against in (("8", 2e-3, slow), ("9", 2e-3, fast), ("short", 5e-5, slow))
    ]
    found = report.OpReport(op="a.b", tests="", green=True, notes="", timed=tuple(rows), predicted=())
    page = report._page([found], {})
    assert "Of 2 rows of more than 100 µs with one, 1 takes more than 1.1 times" in page
    assert "| a.b | 8 | 2 ms | 1.50 | lib |" in page
    assert "| 9 | 2 ms | 10% | 5e-07 | 5e-07 | 1.05 † |" in page


@pytest.mark.parametrize(("op", "library"), [("trnblas.syr", "scipy.linalg.blas"), ("trnblas.dot", "torch.dot")])
def test_the_library_called_is_the_one_in_the_ledger(op, library):
    bench = registry.load(op)
    row = run.time_case(bench, bench.cases[0], device="cpu", rounds=2)
    assert [against.name for against in row.against if against.called] == [library]


def test_a_busy_machine_is_mentioned():
    row = run.time_case(make(), make().cases[0], device="cpu", rounds=2)
    calm, busy = dataclasses.replace(row, spread=0.02), dataclasses.replace(row, spread=0.8)

    def printed(*rows):
        found = report.OpReport(op="trnblas.gemm", tests="", green=True, notes="", timed=rows, predicted=())
        return report.text([found])

    assert "busy" not in printed(calm)
    assert "1 of 2 rows vary by more than 25%: the machine was busy" in printed(calm, busy)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["trnblas.gem"], "no benchmark for trnblas.gem; there are: "),
        (["--rounds", "1"], "--rounds is 1; the spread needs at least 2"),
        (["--write", "trnblas.gemm"], "--write keeps the whole table"),
    ],
)
def test_the_command_says_no_in_one_sentence(capsys, arguments, sentence):
    with pytest.raises(SystemExit):
        run.main(arguments)
    assert sentence in capsys.readouterr().err


def test_kernels_default_to_every_target():
    kernel = Kernel(name="x", kernel=abs, inputs=tuple)
    assert kernel.targets == ("trn1", "trn2", "trn3")
