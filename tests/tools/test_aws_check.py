"""The check against AWS's wheels, rehearsed in untouched processes on an imitation of them, and without any."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import aws_check

ROOT = Path(__file__).resolve().parents[2]
WHEELS = Path(__file__).with_name("wheels")


def check(output, *words, **env):
    words = [sys.executable, "-m", "tools.aws_check", "--output", str(output), *words]
    return subprocess.run(words, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, check=False)


def test_without_the_wheels_it_says_what_to_install(tmp_path):
    ended = check(tmp_path)
    assert ended.returncode == 2
    assert "pip install nki neuronx-cc" in ended.stderr
    assert not list(tmp_path.iterdir())


def test_every_kernel_that_runs_alone_is_checked():
    found = aws_check.kernels()
    assert len({op for op, _ in found}) >= 50
    assert len(found) == len(set(found))


@pytest.mark.slow
def test_a_kernel_is_compared_compiled_and_written_down(tmp_path):
    ended = check(tmp_path, "--only", "trnblas.axpy", PYTHONPATH=str(WHEELS))
    assert ended.returncode == 0, ended.stderr + ended.stdout
    results = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [(r["what"], r["target"], aws_check.judge(r)) for r in results] == [
        ("simulate", "trn2", "same bits"),
        ("compile", "trn2", "compiled"),
        ("compile", "trn3", "compiled"),
    ]
    stages = results[1]["stages"]
    assert stages["compiled"]["neff_bytes"] == 64 * stages["counted"]["instructions"]
    page = (tmp_path / "page.md").read_text()
    assert "nki 0.7.0" in page
    assert "no Neuron device is here" in page
    # a second run finds everything done
    assert check(tmp_path, "--only", "trnblas.axpy", PYTHONPATH=str(WHEELS)).stdout == ""


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "found"), [("refused", "not compiled"), ("wrong", "apart")])
def test_what_fails_is_shown(tmp_path, fault, found):
    ended = check(tmp_path, "--only", "trnblas.axpy", PYTHONPATH=str(WHEELS), WHEELS_FAULT=fault)
    assert ended.returncode == 1
    assert found in ended.stdout
    page = (tmp_path / "page.md").read_text()
    assert found in page
    assert ("NCC_EXAMPLE" in page) == (fault == "refused")


def test_a_check_that_hangs_is_ended():
    result = aws_check.run_limited("simulate", "trnblas.axpy", "none", "trn2", 0.01)
    assert result["ended"] == "over its 0 s"
    assert aws_check.judge(result) == "refused by trnsim"


def test_compile_time_is_split_into_a_fixed_part_and_one_of_each_instruction():
    results = [
        {
            "what": "compile",
            "stages": {"counted": {"instructions": n}, "compiled": {"neff_bytes": 1, "seconds": 2 + n / 500}},
        }
        for n in (100, 1000, 5000)
    ]
    assert aws_check.fit_compile_time(results) == pytest.approx((2.0, 0.002))
    assert aws_check.fit_compile_time(results[:1]) is None
