"""Programs nobody here wrote, or would have written otherwise, run unmodified through ``trnsci run``."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"

# what each must call through us, and how far its numbers may move: rounding of its own dtype, along its steps
CASES = {
    "gaussian_process": ("gpytorch", {"torch.linalg_cholesky_ex", "torch.cholesky_solve"}, 2e-4),
    "spherical_harmonics": ("torch_harmonics", {"torch._fft_r2c", "torch._fft_c2r", "torch.bmm"}, 1e-5),
    "fourier_operator": ("neuralop", {"torch._fft_r2c", "torch._fft_c2r"}, 1e-4),
    "sparse_poisson": ("scipy", {"scipy.sparse.linalg.cg"}, 1e-8),
    "spectral_flow": ("numpy", {"numpy.fft.fft", "numpy.fft.ifft"}, 1e-6),
    "correlation_energy": ("pyscf", set(), 1e-9),
}


def run(*words):
    done = subprocess.run([sys.executable, "-W", "ignore", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["pytorch", "simulator"])
@pytest.mark.parametrize("name", CASES)
def test_a_program_answers_as_it_does_alone(name, backend):
    package, wanted, tolerance = CASES[name]
    pytest.importorskip(package, reason=f"needs {package}, of the extra programs")
    program = str(PROGRAMS / f"{name}.py")
    alone = json.loads(run(program).stdout)
    done = run("-m", "trnsci.cli", "run", "--json", "--min-size", "0", "--backend", backend, program)
    report = json.loads(done.stdout)
    ours = json.loads(next(line for line in done.stderr.splitlines() if line.startswith("[")))
    # rounding is relative to a field as a whole, and its elements are of order one
    assert ours == pytest.approx(alone, rel=tolerance, abs=tolerance)
    assert wanted <= {call["called"] for call in report["substituted"]}
    assert report["status"] == 0
