"""The first hour on a Trainium, tried on a stand-in: every way a kernel can go, and what is said of it."""

import json
import os
import sys
import time
from types import SimpleNamespace

import pytest
import torch

from benchmarks.validation import __main__ as validate, cases, one, probes, profiler, refusals, report, walk
from benchmarks.validation.cases import Job
from tests.neuronx.machine import Machine
from tests.together import together
from trnsci import ArgumentError, cli, neuron
from trnsim.lint import RULES

SMALL = ("trnblas.gemm", "1x(200x300x77) float32")
LIMITS = walk.Limits(20.0, 2 << 30)


@pytest.fixture
def machine(tmp_path):
    """``machine(faults, **more)``: the description of a stand-in."""

    def described(faults=None, **more):
        path = tmp_path / "stand_in.json"
        path.write_text(json.dumps({"target": "trn2", "faults": faults or {}, **more}))
        return path

    return described


def stages(path, kind, name, case=""):
    """What one job says on a stand-in, in this process."""
    said = path.parent / "said.jsonl"
    said.unlink(missing_ok=True)
    with neuron.stand_in(Machine(path)):
        code = one.main([kind, name, case, str(said)])
    found = {line.pop("stage"): line for line in map(json.loads, said.read_text().splitlines())}
    return found, walk.verdict(found, code, "", "")


# Jobs


def test_jobs_begin_with_the_arithmetic_and_each_kernel_once_and_go_from_cheap_to_expensive():
    jobs = cases.jobs("trn2", ["trnblas", "probes"])
    assert [job.name for job in jobs[: len(cases.PROBES)]] == list(cases.PROBES)
    walked = jobs[len(cases.PROBES) :]
    count = len({job.name for job in walked})
    first, rest = walked[:count], walked[count:]
    assert {(job.kind, job.name) for job in first} == {("kernel", job.name) for job in walked}
    for part in (first, rest):
        assert [job.cost for job in part] == sorted(job.cost for job in part)
    assert {"kernel", "op"} == {job.kind for job in walked}
    # one device: kernels of several ranks are not started, nor what a generation does not have
    assert not any(job.name == "trnblas.sharded" for job in walked)
    assert len({job.key for job in jobs}) == len(jobs)
    assert {job.name for job in cases.jobs("trn1", ["trnfft.stft"])} == {"trnfft.stft"}


def test_an_unknown_part_is_refused_with_what_there_is():
    with pytest.raises(ArgumentError, match=r"only is 'trnblah', expected a library \(trnblas, .*or probes"):
        cases.jobs("trn2", ["trnblah"])


@together(("text", "seconds"), [("30m", 1800), ("1h", 3600), ("90", 90), ("1.5m", 90), ("45s", 45)])
def test_budgets_are_times(text, seconds):
    assert validate.duration(text, "budget") == seconds


@together("text", ["", "m", "0m", "-5m", "half an hour"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ArgumentError, match="expected a time such as 30m"):
        validate.duration(text, "budget")


# One job on the stand-in


def test_a_sound_kernel_is_compiled_measured_and_right(machine):
    found, said = stages(machine(noise=0.0), "kernel", *SMALL)
    assert said["status"] == "right"
    assert found["compare"]["error"] <= found["compare"]["limit"] == 1e-3
    assert found["measure"]["seconds"] == pytest.approx(found["predict"]["benchmark_s"], rel=1e-6)
    assert found["predict"]["launches"] == 1
    assert found["predict"]["lint"] == []
    assert found["predict"]["choices"].keys() <= {"row_tiles", "loads", "stores", "warm"}


@pytest.mark.parametrize(
    ("fault", "status", "words"),
    [
        ({"wrong": 0.002}, "wrong", "differs by 2.0e-03, allowed is 1.0e-03"),
        ({"refuse": "[NCC_EVRF007] too many"}, "refused", "NCC_EVRF007"),
        ({"fail": "NRT_EXEC_BAD_STATE"}, "failed", "NRT_EXEC_BAD_STATE"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_broken_kernel_is_named_with_what_it_did(machine, fault, status, words):
    _, said = stages(machine({"gemm": fault}), "kernel", *SMALL)
    assert said["status"] == status
    assert words in said["text"]


def test_an_op_is_held_to_the_bound_it_states(machine):
    found, said = stages(machine(), "op", "trnblas.gemm", "(8x8x8) float32")
    assert (said["status"], found["compare"]["against"]) == ("right", "the stated bound")
    _, said = stages(machine({"gemm": {"wrong": 1e-3}}), "op", "trnblas.gemm", "(8x8x8) float32")
    assert said["status"] == "wrong"


def test_times_follow_the_stand_ins_own_constants(machine, tmp_path):
    target = {"format": "trnsim target 1", "target": "trn2", "constants": {"launch": {"value": 1e6}}}
    (tmp_path / "own.json").write_text(json.dumps(target))
    found, _ = stages(machine(target_file="own.json"), "kernel", *SMALL)
    assert found["measure"]["seconds"] == pytest.approx(found["predict"]["active_s"] + 1e-3, rel=1e-6)


@pytest.mark.parametrize("name", cases.PROBES)
def test_probes_hold_on_the_simulator(name):
    assert getattr(probes, name)().holds


@pytest.mark.parametrize(
    ("name", "kernel", "words"),
    [
        ("sums", "summed", "expected 16516096"),
        ("rounding", "narrowed", "ties"),
        ("integers", "combined", "unsigned"),
        ("tables", "tabulated", "largest relative errors: exp"),
    ],
)
def test_a_probe_says_what_came_out_instead(machine, name, kernel, words):
    _, said = stages(machine({kernel: {"wrong": 0.01}}), "probe", name)
    assert said["status"] == "wrong"
    assert words in said["text"]


def test_the_machine_is_looked_at(machine):
    found, _ = stages(machine(), "about", "")
    about = found["about"]
    assert (about["device"], about["target"], about["instance"]) == ("emulated", "trn2", "")
    # a build's name, such as +cu130, is not always part of what is installed
    assert about["versions"]["torch"].partition("+")[0] == torch.__version__.partition("+")[0]


@together(
    ("text", "words"),
    [
        ("{", "expected a JSON file"),
        ('{"target": "trn9"}', "expected a target: trn1"),
        ('{"target": "trn2", "fault": {}}', r"\['fault'\], expected target"),
        ('{"target": "trn2", "faults": {"gemm": {"explode": 1}}}', "explode 1 of gemm"),
        ('{"target": "trn2", "faults": {"gemm": {"hang": "long"}}}', "hang 'long' of gemm"),
    ],
)
def test_a_stand_in_that_cannot_be_is_refused(tmp_path, text, words):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(ArgumentError, match=words):
        Machine(path)


def test_results_are_compared_by_their_largest_entry():
    a = torch.tensor([1.0, 100.0, torch.inf, torch.nan])
    assert one.difference(a, a, 1e-3)["error"] == 0
    assert one.difference(a + torch.tensor([0.05, 0, 0, 0]), a, 1e-3)["right"]
    assert not one.difference(a + torch.tensor([0.2, 0, 0, 0]), a, 1e-3)["right"]
    assert one.difference(torch.zeros(4), a, 1e-3)["error"] is None
    assert not one.difference(torch.zeros(3), a, 1e-3)["right"]
    # a half-precision result has half-precision rounding; integers are equal or wrong
    assert one.difference(a[:2].bfloat16() * 1.01, a[:2].bfloat16(), 1e-3)["right"]
    assert one.difference(torch.arange(3), torch.arange(3), 1e-3) == {
        "error": 0.0,
        "limit": 0.0,
        "right": True,
        "against": "the simulator",
    }
    assert not one.difference(torch.arange(3), torch.arange(1, 4), 1e-3)["right"]


# Processes and limits


def small_process(monkeypatch, program, until=None):
    """Run a program as a job, with an hour to run, or until it has said so many stages."""
    told = []

    def command(job, said):
        told.append(said)
        return [sys.executable, "-S", "-c", SAY + program, str(said)]

    def now():
        done = until is not None and told and told[0].exists() and told[0].read_text().count("\n") == until
        return time.monotonic() + 7200 * bool(done)

    monkeypatch.setattr(walk, "command", command)
    monkeypatch.setattr(walk, "time", SimpleNamespace(monotonic=now))
    return walk.run_one(Job("kernel", "lib.op", "case", 1e-5), walk.Limits(3600.0, 100 << 20), profile=False)


SAY = (
    "import json, os, sys, time; f = open(sys.argv[1], 'a'); say = lambda s: print(json.dumps(s), file=f, flush=True); "
)


@pytest.mark.parametrize(
    ("program", "until", "status", "words"),
    [
        ("say({'stage': 'compile begins'}); time.sleep(600)", 1, "hung", "after compile begins"),
        ("say({'stage': 'compile'}); say({'stage': 'measure'}); time.sleep(600)", 2, "uncompared", "after measure"),
        ("x = bytearray(200 << 20); time.sleep(600)", None, "memory", "after start"),
        ("say({'stage': 'predict'}); os.kill(os.getpid(), 11)", None, "crashed", "SIGSEGV in the stage after predict"),
        (
            "print('no such device', file=sys.stderr); sys.exit(3)",
            None,
            "crashed",
            "status 3 in the stage after start. no such",
        ),
    ],
    ids=["hangs", "slow to compare", "memory", "crashes", "exits"],
)
def test_nothing_a_job_does_ends_the_walk(monkeypatch, program, until, status, words):
    begun = time.monotonic()
    found = small_process(monkeypatch, program, until)
    assert found["status"] == status
    assert words in found["text"]
    # it was ended, and did not sleep to its end
    assert time.monotonic() - begun < 500


def test_a_walk_resumes_where_it_was_and_keeps_its_budget(monkeypatch, tmp_path):
    jobs = [Job("kernel", "lib.op", str(i), float(i)) for i in range(4)]
    ran, lines = [], []

    def pretend(job, limits, *, profile, nrtpy):
        ran.append(job.case)
        return {"job": job.key, **job._asdict(), "elapsed_s": 1.0, "stages": {}, "status": "right", "text": ""}

    monkeypatch.setattr(walk, "run_one", pretend)
    about = {"target": "trn2", "device": "emulated"}
    walk.append(tmp_path, {"about": about})
    assert len(walk.walk(jobs[:2], tmp_path, {}, LIMITS, None, lines.append, profile=False)) == 2
    assert lines[0] == "[1/2] kernel lib.op 0: right; about 1 s left"
    with (tmp_path / walk.RESULTS).open("a") as file:
        file.write('{"job": "kernel lib.op 2", "sta')
    known = walk.read(tmp_path, about)
    # a line that was cut short is run again
    assert sorted(known) == ["kernel lib.op 0", "kernel lib.op 1"]
    assert len(walk.walk(jobs, tmp_path, known, LIMITS, 1e-9, lines.append, profile=False)) == 2
    assert lines[-1] == "the budget is spent: 2 jobs are left for another time"
    assert len(walk.walk(jobs, tmp_path, known, LIMITS, None, lines.append, profile=False)) == 4
    assert ran == ["0", "1", "2", "3"]
    with pytest.raises(ArgumentError, match=r"another machine or other versions \(target differ\)"):
        walk.read(tmp_path, about | {"target": "trn1"})


def test_after_each_kernels_first_the_rest_goes_by_how_long_this_machine_compiles_it(monkeypatch, tmp_path):
    took = {"a": 30.0, "b": 2.0, "c": None}
    firsts = [Job("kernel", name, "small", 1.0, 1) for name in took]
    rest = [Job("op", name, "", 1.0) for name in took] + [Job("kernel", "a", "large", 9.0)]
    ran = []

    def pretend(job, limits, *, profile, nrtpy):
        ran.append(f"{job.kind} {job.name}")
        seconds = took[job.name]
        stages = {"compile": {"seconds": seconds}} if seconds is not None else {"compile begins": {}}
        return {"job": job.key, **job._asdict(), "elapsed_s": 1.0, "stages": stages, "status": "right", "text": ""}

    monkeypatch.setattr(walk, "run_one", pretend)
    assert len(walk.walk([*firsts, *rest], tmp_path, {}, LIMITS, None, lambda text: None, profile=False)) == 7
    # what the compiler refused comes last
    assert ran[3:] == ["op b", "op a", "kernel a", "op c"]


def test_a_device_without_a_clock_of_its_own_is_survived(monkeypatch, tmp_path):
    monkeypatch.setattr(walk, "run_one", lambda *args, **more: {"text": "RuntimeError: no such instruction"})
    found = walk.time_on_device(Job("kernel", *SMALL, 0.0), LIMITS, sys.executable)
    assert found == {"said": "RuntimeError: no such instruction"}


# Refusals


@together(
    ("message", "rule"),
    [
        ("[NCC_EBVF030] The number of instructions generated exceeds the limit.", "program-size"),
        ("NCC_EVRF066: NKI kernel 'k' is configured with LNC=1, but neuronx-cc is using LNC=2", "launch-grid"),
        ("unsupported expression ListComp at gemm.py:12", "comprehension"),
        ("TypeError: nc_matmul() got an unexpected keyword argument 'accumulate'", "api-signature"),
        ("tile crosses a PSUM bank of 2048 bytes", "psum-bank"),
        ("the moon is in the wrong phase", None),
    ],
)
def test_a_refusal_is_translated_into_the_rule_that_should_have_caught_it(message, rule):
    said = refusals.translate(message, [])
    assert (said.rule, said.caught) == (rule, False)
    assert ("should have caught it and did not" if rule else "no lint rule caught it") in said.text
    if rule:
        assert refusals.translate(message, [rule]).caught


def test_every_translation_names_a_rule_there_is():
    assert {rule for _, rule in refusals.PATTERNS} <= set(RULES)


# The report


ABOUT = {
    "device": "emulated",
    "why": "",
    "target": "trn2",
    "logical_cores": 1,
    "instance": "",
    "versions": {"nki": "0.4"},
    "settings": {},
    "profiler": None,
}


def result(case, status="right", measured=10e-6, text="", kind="kernel", launches=1, **stages):
    predict = {
        "total_s": 20e-6,
        "active_s": 4e-6,
        "benchmark_s": 10e-6,
        "low_s": 15e-6,
        "high_s": 25e-6,
        "engines": {"tensor": 0.5},
        "instructions": 70,
        "launches": launches,
        "lint": [],
    }
    known = {"predict": predict, "compile": {"seconds": 3.0, "neff_bytes": 4096}, "measure": {"seconds": measured}}
    if kind != "kernel" or status in ("refused", "hung", "crashed"):
        known = {"predict": predict} if kind == "kernel" else {}
    job = {"job": f"{kind} lib.op {case}", "kind": kind, "name": "lib.op", "case": case, "cost": 1e-5, "elapsed_s": 1.0}
    return {**job, "status": status, "text": text, "stages": known | stages}


RESULTS = [
    result("right"),
    result("slow", measured=16e-6),
    result("cut", launches=3),
    result("seen", profile={"total_s": 21e-6, "engines": {"tensor": 0.5, "dma": 0.25}}),
    result("bad", "wrong", text="differs by 1e-2"),
    result("no", "refused", text="<ListComp> refused"),
    result("stuck", "hung", text="over its time"),
    result("sums", "wrong", kind="probe", text="PSUM rounds"),
]


def test_what_to_report_is_ranked_and_addressed():
    items = report.items(RESULTS)
    assert [item.kind for item in items] == ["wrong", "wrong", "hung", "refused", "slower"]
    assert "A probe of the arithmetic failed too" in items[0].text
    assert items[1].to == report.AWS
    assert "lint rule comprehension should have caught it and did not" in items[3].text
    assert "1.60 times the prediction" in items[4].text


def test_the_file_has_rows_to_calibrate_with_and_says_what_it_is_of(tmp_path):
    paths = report.write(tmp_path, ABOUT, 12, RESULTS)
    kept = json.loads(paths[0].read_text())
    assert (kept["format"], kept["stand_in"], kept["jobs"]) == ("trnsci validate 1", True, 12)
    assert [(row["case"], row["metric"]) for row in kept["measured"]] == [
        ("right", "benchmark"),
        ("slow", "benchmark"),
        ("seen", "benchmark"),
        ("seen", "total"),
    ]
    assert all(row["choices"] == {} for row in kept["measured"])
    page = paths[1].read_text()
    assert "emulated" in page.partition("<h2>")[0]
    assert "no time was measured on a Trainium" in page
    assert "&lt;ListComp&gt;" in page
    assert "50% (50%)" in page
    assert not list(tmp_path.glob("*.new"))


def test_nothing_to_report_is_said_too():
    assert "Nothing: everything that ran was right" in report.html(ABOUT, 1, RESULTS[:1])


def test_the_profilers_summary_is_read_and_its_absence_survived(monkeypatch, tmp_path):
    tool = tmp_path / "neuron-explorer"
    tool.write_text('#!/bin/sh\ncat "$7"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert profiler.tool() == str(tool)
    inspected = tmp_path / "inspected"
    inspected.mkdir()
    assert profiler.summary(inspected) is None
    said = {"total_time": 2e-5, "dma_active_time_percent": 0.5}
    said |= {f"{engine}_engine_active_time_percent": 0.25 for engine in profiler.ENGINES}
    (inspected / "a.neff").write_bytes(b"0123")
    (inspected / "a.ntff").write_text(json.dumps({"n": said}))
    assert profiler.summary(inspected)["engines"]["dma"] == 0.5
    assert profiler.neff_bytes(inspected) == 4
    (inspected / "a.ntff").write_text("{}")
    assert profiler.summary(inspected) is None


# The command


def test_without_a_device_the_command_says_what_is_missing(capsys, monkeypatch):
    monkeypatch.setattr(
        walk, "run_one", lambda *_, **__: {"stages": {"about": {"device": None, "why": "no Neuron device", "at_s": 1}}}
    )
    assert cli.main(["validate"]) == 2
    assert "device is 'no Neuron device', expected a Trainium" in capsys.readouterr().err
