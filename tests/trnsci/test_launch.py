"""``trnsci launch``: torchrun with sensible settings, and programs that run under it."""

import subprocess
import sys

import pytest

import trnsci
from trnsci.cli import main
from trnsci.launch import command

PROGRAM = """
import torch, trnblas
from trnsci import distributed

mesh = distributed.mesh()
a = distributed.shard(torch.eye(4), mesh, 0)
total = distributed.gather(trnblas.gemm(2.0, a, a)).sum()
if mesh.get_rank() == 0:
    print("ranks", mesh.size(), "threads", torch.get_num_threads(), "sum", total.item())
distributed.leave()
"""


def test_a_program_runs_on_two_ranks(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    done = subprocess.run(command(2, 1, str(script), []), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "ranks 2 threads 1 sum 8.0" in done.stdout


def test_it_says_what_it_would_run(tmp_path, capsys):
    script = tmp_path / "program.py"
    script.write_text("")
    assert main(["launch", "-n", "3", "--threads", "2", "--dry-run", str(script), "--fast"]) == 0
    said = capsys.readouterr().out
    assert f"OMP_NUM_THREADS=2 MKL_NUM_THREADS=2 {sys.executable} -m torch.distributed.run" in said
    assert f"--nproc-per-node=3 {script} --fast" in said


def test_mistakes_end_in_a_sentence(tmp_path, capsys):
    with pytest.raises(trnsci.ArgumentError, match="at least 1"):
        command(0, None, __file__, [])
    with pytest.raises(trnsci.ArgumentError, match="at least 1"):
        command(1, 0, __file__, [])
    assert main(["launch", str(tmp_path / "missing.py")]) == 1
    assert "expected a file that exists" in capsys.readouterr().err
