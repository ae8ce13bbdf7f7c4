"""``trnsci fit``: a stranger's program, run and costed."""

import json

import pytest
import torch

from trnsci import ArgumentError
from trnsci.cli import main
from trnsci.fit import Group, OnTarget, fit

SCRIPT = """
import sys
import torch
import trnblas

assert __name__ == "__main__"
print("arguments", sys.argv[1:])
a = torch.ones(64, 96)
for _ in range(3):
    trnblas.gemm(1.0, a, a, trans_b=True)
a @ a.T
if "fail" in sys.argv:
    sys.exit(7)
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(SCRIPT)
    return path


def test_fit_groups_calls_and_predicts_every_generation(script, capsys):
    report = fit(script, ["--size", "3"])
    assert "arguments ['--size', '3']" in capsys.readouterr().out
    (group,) = report.groups
    assert (group.op, group.calls) == ("trnblas.gemm", 3)
    assert set(group.targets) == {"trn1", "trn2", "trn3"}
    assert group.nbytes == 3 * 4 * (2 * 64 * 96 + 64 * 64)
    assert ("mm", 1) in [(name, calls) for name, calls, _ in report.plain]
    assert 0 < report.in_ops < report.wall


def test_fit_leaves_argv_and_path_as_they_were(script):
    import sys

    argv, path = list(sys.argv), list(sys.path)
    fit(script, ["x"])
    assert (sys.argv, sys.path) == (argv, path)


def test_an_error_in_the_program_is_the_programs_own(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("raise RuntimeError('mine')\n")
    with pytest.raises(RuntimeError, match="mine"):
        fit(broken)
    assert not torch._C._len_torch_dispatch_stack()


def test_a_missing_script_is_named():
    with pytest.raises(ArgumentError) as caught:
        fit("nowhere.py")
    assert caught.value.got == "nowhere.py"
    assert "exists" in str(caught.value)


def test_the_command_prints_json_html_and_the_programs_status(script, tmp_path, capsys):
    page = tmp_path / "fit.html"
    assert main(["fit", "--json", "--html", str(page), str(script), "fail"]) == 7
    found = json.loads(capsys.readouterr().out)
    assert (found["ops"][0]["calls"], found["status"]) == (3, 7)
    text = page.read_text()
    assert text.startswith("<!doctype html>")
    assert all(words in text for words in ("trnblas.gemm", "predicted", "program.py"))
    assert "http" not in text


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        (10.0, "by itself"),
        (2.0, "when resident"),
        (1.2, "when fused"),
        (1.05, "do not pay for a dispatch"),
        (0.5, "its kernels alone"),
    ],
)
def test_verdicts_say_what_would_have_to_change(measured, words):
    there = OnTarget(kernel=1.0, dispatch=0.5, transfer=4.0, calls=5)
    group = Group(
        op="x", operands="", calls=5, measured=measured, nbytes=1, flops=10, targets={"trn2": there}, refusal=None
    )
    assert words in group.verdict("trn2")
