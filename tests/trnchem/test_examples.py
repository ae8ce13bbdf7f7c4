"""Every program under examples/quantum_chemistry runs, on PyTorch and on the simulator, and checks its own answer."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "quantum_chemistry"


def run(program, *arguments):
    command = [sys.executable, str(FOLDER / program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_every_program_is_tried_here():
    assert {path.name for path in FOLDER.glob("*.py")} == {"df_mp2.py", "df_mp2_synthetic.py"}


@pytest.mark.sim
@pytest.mark.parametrize("backend", ["pytorch", "simulator"])
def test_the_pattern_runs_without_pyscf(backend):
    done = run("df_mp2_synthetic.py", "--backend", backend)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "screening keeps" in done.stdout
    assert "pyscf" not in (FOLDER / "df_mp2_synthetic.py").read_text().replace("PySCF", "")


@pytest.mark.sim
@pytest.mark.parametrize("backend", ["pytorch", "simulator"])
def test_water_is_within_its_bound(backend):
    done = run("df_mp2.py", "--backend", backend, "--precision", "fp32")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "E(corr) = -0.203977 Ha, opposite spin -0.152389, same spin -0.051588" in done.stdout
    assert "metric: Cholesky; 116 of 116 vectors kept" in done.stdout
